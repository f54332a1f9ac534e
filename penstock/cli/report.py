"""What the command says on standard error: errors, and where the tuples went."""

from __future__ import annotations

from pathlib import Path

import typer

from penstock.errors import EngineError, PenstockError
from penstock.optimizer.optimize import executed_query
from penstock.optimizer.settings import Settings
from penstock.plan.nodes.query import Late, QueryPlan
from penstock.plan.properties.in_words import has_windows, what_waits
from penstock.plan.properties.kept_for_ever import kept_for_ever
from penstock.runs.advice import advice_on_late, advice_on_rejects
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


def out_of_memory(error: MemoryError) -> EngineError:
    """Whatever asked for it: Python, NumPy or Arrow."""
    what = str(error).partition("\n")[0]
    return EngineError(
        "there is not enough memory" + (f": {what}" if what else ""),
        hint="smaller values, windows or groups; or a machine with more memory",
    )


def report_outcome(outcome: Outcome, query: QueryPlan, rejected: Path | None = None) -> None:
    """A line about the tuples that did not take part; nothing if all did.  All rows that were
    `rejected` may be in a file."""
    account = outcome.account
    if account.late:
        them = "it" if account.late == 1 else "they"
        words = {
            Late.DROP: "left out" + f" of the windows {them} missed" * has_windows(query),
            Late.SIDE: "kept aside",
            Late.AMEND: "counted all the same",
        }
        what = words[query.late]
        if query.amend_for is not None:
            what += f", up to {query.amend_for} behind"
        among = f"among {count(account.read, 'row')}"  # some of them may be no tuples
        typer.echo(f"{count(account.late, 'late tuple')} {among}, {what}", err=True)
        if advice := advice_on_late(account, query):
            typer.echo(readable(advice), err=True)
    if kept := kept_for_ever(executed_query(query, Settings())):
        typer.echo(kept, err=True)
    if account.rejected:
        typer.echo(f"{count(account.rejected, 'row')} kept aside:", err=True)
        for reject in outcome.first_rejects:
            shown = readable(str(reject)).removeprefix("stream ").removeprefix("table ")
            typer.echo(f"  {shown}", err=True)
        more = account.rejected - len(outcome.first_rejects)
        if more:
            where = "--rejected FILE" if rejected is None else f"all are in {rejected}"
            typer.echo(readable(f"  … and {more:,} more ({where})"), err=True)
        if advice := advice_on_rejects(account, outcome.first_rejects):
            typer.echo(readable(advice), err=True)
    if outcome.total is not None:
        typer.echo(_about_the_checkpoint(outcome, outcome.total, what_waits(query)), err=True)


def _about_the_checkpoint(outcome: Outcome, total: Account, waiting: str) -> str:
    """What this run has read, what all of them have, and what waits for the next."""
    words = f"{count(outcome.account.read, 'row')} read, {total.read:,} by all runs"
    if number := outcome.open_windows:
        one = number == 1
        them = "it" if one else "them"
        if waiting == "window":
            state, remedy = f"{'is' if one else 'are'} still open", f"closes {them}"
        else:
            state, remedy = f"still {'waits' if one else 'wait'}", f"gives {them} out"
        words += f"; {count(number, waiting)} {state}; --final {remedy}"
    return words


def count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
