"""The order in which the results of a join leave, and how far it is known."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.room import ticks_of
from penstock.operators.operator import Progress
from penstock.operators.ticks import to_ticks
from penstock.plan.expressions import Column
from penstock.plan.nodes.joins import Join
from penstock.windows.joins import JoinWindow


class ResultOrder:
    """By the latest of some times that results have: of one input (the thesis puts results in the
    order of the first), or of all (the Nile paper).  An input that is a join has several times."""

    def __init__(self, node: Join, columns: Sequence[Column]) -> None:
        self._columns = tuple(columns)
        self.places = tuple(each.position(node.schema) for each in columns)
        width = len(node.branches[0].schema)
        self._by_port = tuple(
            tuple(
                _name(node, column)
                for column, place in zip(columns, self.places, strict=True)
                if (place >= width) is bool(port)
            )
            for port in range(2)
        )
        self.ports = tuple(port for port, names in enumerate(self._by_port) if names)
        window = node.window.between(0, 1)
        assert window is not None
        left, right = (_name(node, each) for each in node.attributes)
        self._attributes = (left, right)
        self._pairs: list[tuple[str, str, JoinWindow]] = [(left, right, window)]
        for each in node.also:
            self._pairs.append((_name(node, each.left), _name(node, each.right), each.window))
        times = dict.fromkeys(name for one, other, _ in self._pairs for name in (one, other))
        fields = {each.qualified: each for each in node.schema}
        self._times = [(name, ticks_of(fields[name].type)) for name in times]

    def ticks(self, rows: pa.RecordBatch) -> Ints:
        """When results have their turn."""
        pairs = zip(self._columns, self.places, strict=True)
        return reduce(np.maximum, [to_ticks(rows.column(p), c.type) for c, p in pairs])

    def complete(self, given: Sequence[Progress]) -> Bound:
        """The tick below which no result is to come any more, by what the inputs have promised: a
        later one has a later tuple of one of them."""
        return min(self._later(port, given) for port in range(2))

    def _later(self, port: int, given: Sequence[Progress]) -> Bound:
        """The lowest turn of a result with a later tuple of a port."""
        own = self._by_port[port]
        if own:
            return max(_bound(given[port], name) for name in own)
        attribute = self._attributes[port]
        bound = _bound(given[port], attribute)
        return max(self._lowest(name, attribute, bound) for name in self._by_port[1 - port])

    def promised(self, last: Bound) -> dict[str, Bound]:
        """Bounds on the times of results whose turn comes after a tick, by name."""
        names = [name for names in self._by_port for name in names]
        found: dict[str, Bound] = {}
        for name, room in self._times:
            bound = min(self._by_way(name, other, last) for other in names)
            if bound >= room.low:
                found[name] = min(bound, room.high)
        return found

    def _by_way(self, name: str, other: str, bound: Bound) -> Bound:
        """The lowest of a time where another is at or above a bound, if need be by way of a time of
        the other input."""
        found = self._lowest(name, other, bound)
        for one, two, _ in self._pairs:
            between = {one, two} - {other}
            if len(between) == 1:
                (way,) = between
                found = max(found, self._lowest(name, way, self._lowest(way, other, bound)))
        return found

    def _lowest(self, name: str, other: str, bound: Bound) -> Bound:
        """The lowest of a time that fits one of the other input at or above a bound."""
        if name == other or bound in (BEGINNING, END):
            return bound
        found: Bound = BEGINNING
        for left, right, window in self._pairs:
            if (left, right) == (name, other):
                found = max(found, window.partner_bounds_of_right(int(bound))[0])
            elif (left, right) == (other, name):
                found = max(found, window.partner_bounds(int(bound))[0])
        return found


def _bound(given: Progress, name: str) -> Bound:
    return END if given.ended else given.bounds.get(name, BEGINNING)


def _name(node: Join, column: Column) -> str:
    return node.schema.fields[column.position(node.schema)].qualified
