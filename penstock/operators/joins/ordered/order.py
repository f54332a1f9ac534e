"""The order in which the results of a join leave, and how far it is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.room import ticks_of
from penstock.operators.ticks import to_ticks
from penstock.plan.expressions import Column
from penstock.plan.nodes.joins import Join


class ResultOrder:
    """By the latest of the times that results have of some inputs: of one (the thesis puts results
    in the order of the first), or of both (the Nile paper)."""

    def __init__(self, node: Join, ports: tuple[int, ...]) -> None:
        window = node.window.between(0, 1)
        assert window is not None
        self.ports = ports
        self._window = window
        self._types = [attribute.type for attribute in node.attributes]
        self._places = [attribute.position(node.schema) for attribute in node.attributes]
        self._names = [_name(node, attribute) for attribute in node.attributes]

    def ticks(self, rows: pa.RecordBatch) -> Ints:
        """When results have their turn."""
        times = [to_ticks(rows.column(self._places[p]), self._types[p]) for p in self.ports]
        return times[0] if len(times) == 1 else np.maximum(*times)

    def complete(self, bounds: Sequence[Bound]) -> Bound:
        """The tick below which no result is to come any more, by the bounds on the inputs: a later
        one has a later tuple of one of them."""
        if len(self.ports) == 2:
            return min(bounds)
        (port,) = self.ports
        return min(bounds[port], self._lowest(port, bounds[1 - port]))

    def promised(self, last: Bound) -> dict[str, Bound]:
        """Bounds on the times of results whose turn comes after a tick, by name."""
        found: dict[str, Bound] = {}
        for port, name in enumerate(self._names):
            with_other = self._lowest(port, last)
            if len(self.ports) == 2:
                bound = min(last, with_other)
            else:
                bound = last if port in self.ports else with_other
            room = ticks_of(self._types[port])
            if bound >= room.low:
                found[name] = min(bound, room.high)
        return found

    def _lowest(self, port: int, bound: Bound) -> Bound:
        """The lowest time at a port that fits one at or above a bound at the other."""
        if bound in (BEGINNING, END):
            return bound
        if port == 0:
            return self._window.partner_bounds_of_right(int(bound))[0]
        return self._window.partner_bounds(int(bound))[0]


def _name(node: Join, column: Column) -> str:
    return node.schema.fields[column.position(node.schema)].qualified
