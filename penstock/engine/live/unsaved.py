"""What has happened to the queries of a live engine since they were saved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from penstock.engine.graph.placed_query import PlacedQuery
from penstock.runs.answer import Account
from penstock.runs.isolated import IsolatedOutlet


class CountedSoFar(NamedTuple):
    """What a query has counted, and how many rows it has given out.  `read` is relative to what its
    sources have read in all: so it stays the same, whatever comes."""

    read: int
    late: int
    rejected: int
    written: int

    @staticmethod
    def of(account: Account, written: int, read: int) -> CountedSoFar:
        return CountedSoFar(account.read - read, account.late, account.rejected, written)

    def account(self, read: int) -> Account:
        return Account(self.read + read, self.late, self.rejected)


@dataclass
class Unsaved:
    """Queries are known by their numbers; `outlets` are those that have got something."""

    outlets: dict[IsolatedOutlet, int] = field(default_factory=dict)
    records: set[int] = field(default_factory=set)
    over: set[int] = field(default_factory=set)  # restored, and nothing comes of them any more
    gone: list[int] = field(default_factory=list)
    came: list[PlacedQuery] = field(default_factory=list)
    left: list[PlacedQuery] = field(default_factory=list)

    def come(self, number: int, outlet: IsolatedOutlet, placed: PlacedQuery | None) -> None:
        """A query is there, or stands elsewhere; if it is not new to the store, it is not
        `placed`."""
        outlet.noted = partial(self.outlets.__setitem__, outlet, number)
        outlet.noted()
        self.records.add(number)
        if placed is not None:
            self.came.append(placed)

    def leave(self, number: int, placed: PlacedQuery) -> None:
        """With what it has given out, which nobody adds to any more."""
        outlet = placed.outlet
        assert isinstance(outlet, IsolatedOutlet)
        self.outlets[outlet] = number
        self.records.add(number)
        self.left.append(placed)

    @property
    def counting(self) -> Iterator[int]:
        """The queries that have counted something, or are gone."""
        yield from (*self.outlets.values(), *self.over, *self.gone)

    def clear(self) -> None:
        self.outlets.clear()
        self.records.clear()
        self.over.clear()
        self.gone.clear()
        self.came.clear()
        self.left.clear()
