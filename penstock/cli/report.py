"""What the command says on standard error: errors, and where the tuples went."""

from __future__ import annotations

import typer

from penstock.database import Query
from penstock.errors import PenstockError
from penstock.plan.query import Late

_SHOWN = 3


def report_error(error: PenstockError) -> None:
    typer.echo(f"{typer.style('error:', fg='red', bold=True)} {error}", err=True)


def report_account(query: Query) -> None:
    """A line about the tuples that did not take part; nothing if all did."""
    account = query.account
    if account.late:
        words = {
            Late.DROP: "left out of the windows they missed",
            Late.SIDE: "kept aside",
            Late.AMEND: "counted all the same",
        }
        typer.echo(
            f"{_count(account.late, 'late tuple')} of {account.read:,} {words[query.plan.late]}",
            err=True,
        )
    if account.rejected:
        typer.echo(f"{_count(account.rejected, 'row')} kept aside:", err=True)
        rejected = query.rejected
        for row in rejected.slice(0, _SHOWN).to_pylist():
            place = f"{row['source']}, row {row['row']}" if row["source"] else f"row {row['row']}"
            column = f", column {row['column']}" if row["column"] else ""
            typer.echo(f"  {row['stream']}: {place}{column}: {row['reason']}", err=True)
        if account.rejected > _SHOWN:
            typer.echo(f"  … and {account.rejected - _SHOWN:,} more (--rejected FILE)", err=True)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
