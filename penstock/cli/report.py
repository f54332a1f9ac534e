"""What the command says on standard error: errors, and where the tuples went."""

from __future__ import annotations

import typer

from penstock.errors import PenstockError
from penstock.optimizer.optimize import executed_query
from penstock.optimizer.settings import Settings
from penstock.plan.nodes.query import Late, QueryPlan
from penstock.plan.properties.kept_for_ever import kept_for_ever
from penstock.runs.answer import Account
from penstock.runs.targets import Outcome


def readable(text: str) -> str:
    """What a terminal would take as an order, and what is no text at all, is spelled out.

    >>> readable("no column \\x1b[2J\\n  expected: k")
    'no column \\\\x1b[2J\\n  expected: k'
    """
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )


def report_error(error: PenstockError) -> None:
    typer.echo(f"{typer.style('error:', fg='red', bold=True)} {readable(str(error))}", err=True)


def report_outcome(outcome: Outcome, query: QueryPlan) -> None:
    """A line about the tuples that did not take part; nothing if all did."""
    account = outcome.account
    if account.late:
        words = {
            Late.DROP: "left out of the windows they missed",
            Late.SIDE: "kept aside",
            Late.AMEND: "counted all the same",
        }
        what = words[query.late]
        if query.amend_for is not None:
            what += f", up to {query.amend_for} behind"
        typer.echo(f"{count(account.late, 'late tuple')} of {account.read:,} {what}", err=True)
    if kept := kept_for_ever(executed_query(query, Settings())):
        typer.echo(kept, err=True)
    if account.rejected:
        typer.echo(f"{count(account.rejected, 'row')} kept aside:", err=True)
        for reject in outcome.first_rejects:
            shown = readable(str(reject)).removeprefix("stream ").removeprefix("table ")
            typer.echo(f"  {shown}", err=True)
        more = account.rejected - len(outcome.first_rejects)
        if more:
            typer.echo(f"  … and {more:,} more (--rejected FILE)", err=True)
    if outcome.total is not None:
        typer.echo(_about_the_checkpoint(outcome, outcome.total), err=True)


def _about_the_checkpoint(outcome: Outcome, total: Account) -> str:
    """What this run has read, what all of them have, and what waits for the next."""
    words = f"{count(outcome.account.read, 'row')} read, {total.read:,} by all runs"
    if outcome.open_windows:
        verb = "is" if outcome.open_windows == 1 else "are"
        words += f"; {count(outcome.open_windows, 'window')} {verb} still open; --final closes"
        words += " it" if outcome.open_windows == 1 else " them"
    return words


def count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
