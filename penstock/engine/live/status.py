"""How the queries of a live engine are doing."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.runs.answer import Account


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """`state` is running, ended (its streams have come to their end) or failed, with the `error`
    that has stopped it.  `written` are rows of its result; of all that it has given out, so many
    rows are `waiting` to be handed to subscribers, and others were `dropped` because there was no
    room for them."""

    name: str
    state: str
    error: str | None
    account: Account
    written: int
    open_windows: int
    waiting: int = 0
    dropped: int = 0
