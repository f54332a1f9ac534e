"""The filters behind a wide fork: rows come only to those that may let them through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.engine.graph.buffer import Reader
from penstock.model.arrays import Ints
from penstock.operators.batch import Batch
from penstock.operators.measured import Measured
from penstock.operators.stateless.filter import FilterOperator
from penstock.operators.stateless.many_filters import ManyFilters

_Names = tuple[tuple[str, str], ...]


class Share(NamedTuple):
    """A reader, and the rows of a batch that are for it; None: all of them."""

    reader: Reader
    rows: Ints | None

    def of(self, batch: Batch) -> Batch:
        return batch if self.rows is None else batch.take(self.rows)


class _Filter(NamedTuple):
    reader: Reader
    measured: Measured
    operator: FilterOperator


class Sieve:
    """Of the readers of one buffer, as they are now."""

    def __init__(self, readers: Iterable[Reader]) -> None:
        self._others: list[Share] = []  # whoever is no filter, or says nothing of what it needs
        self._rows = 0  # that have come here
        self._taken: dict[Reader, int] = {}  # how many of them filters have counted themselves
        self._filters: list[_Filter] = []
        alike: dict[_Names, list[_Filter]] = {}  # filters that know columns by the same names
        for reader in readers:
            found = _filter(reader)
            if found is None:
                self._others.append(Share(reader, None))
            else:
                alike.setdefault(tuple((reader.names or {}).items()), []).append(found)
                self._filters.append(found)
                self._taken[reader] = 0
        self._alike = [(own, _many(own)) for own in alike.values()]

    def sift(self, batch: Batch) -> list[Share]:
        """Readers that some rows may be for."""
        self._rows += batch.num_rows
        found = list(self._others)
        for own, many in self._alike:
            rows = own[0].reader.known(batch).rows
            found += [Share(own[place].reader, some) for place, some in many.choose(rows)]
        return found

    def took(self, share: Share, batch: Batch) -> None:
        """What a filter was given, it counts itself."""
        if share.reader in self._taken:
            self._taken[share.reader] += batch.num_rows

    def settle(self) -> None:
        """Let filters count the rows that they have not been bothered with."""
        for reader, measured, _ in self._filters:
            measured.pass_over(self._rows - self._taken[reader])
            self._taken[reader] = 0
        self._rows = 0


def _filter(reader: Reader) -> _Filter | None:
    measured = reader.measured
    if measured is None or not isinstance(measured.operator, FilterOperator):
        return None
    operator = measured.operator
    return None if operator.needed is None else _Filter(reader, measured, operator)


def _many(filters: Sequence[_Filter]) -> ManyFilters:
    needed = [each.operator.needed for each in filters if each.operator.needed is not None]
    return ManyFilters(needed, filters[0].operator.schema)
