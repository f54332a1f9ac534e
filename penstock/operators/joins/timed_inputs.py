"""What operators with several timed inputs share: which tuples are in time, and how far each input
has come.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.room import ticks_of
from penstock.model.types import Type
from penstock.operators.batch import Batch
from penstock.operators.operator import LateRows, Names, Progress, by_name, by_origin
from penstock.operators.revising.amendment import in_time_of
from penstock.physical.asked import Asked
from penstock.plan.expressions import Column
from penstock.plan.nodes.node import Node
from penstock.state.chunks import Tree


class TimedInputs:
    """`bounds` say below what the tuples of each input are complete: where late tuples are amended,
    that is so much behind what was promised."""

    def __init__(
        self, nodes: Sequence[Node], attributes: Sequence[Column], asked: Asked | None
    ) -> None:
        self._in_time = [
            in_time_of([attribute], node, asked)
            for node, attribute in zip(nodes, attributes, strict=True)
        ]
        self.bounds: list[Bound] = [BEGINNING for _ in nodes]
        self.high: dict[str, Bound] = {}

    @property
    def ended(self) -> bool:
        return all(bound == END for bound in self.bounds)

    def split(self, port: int, batch: Batch) -> tuple[Batch, Ints, list[LateRows]]:
        """The tuples that count, their ticks, and the late ones."""
        given, ticks, late = self._in_time[port].split_signed(batch)
        return given, ticks[0], late

    def pass_(self, port: int, progress: Progress) -> None:
        (bound,) = self._in_time[port].final(progress)
        self.bounds[port] = max(bound, self.bounds[port])
        for name, high in progress.high.items():
            self.high[name] = max(high, self.high.get(name, BEGINNING))

    def save(self, origins: Names) -> Tree:
        return {"bounds": self.bounds, "high": by_origin(self.high, origins)}

    def load(self, saved: Tree, origins: Names) -> None:
        self.bounds, self.high = saved["bounds"], by_name(saved["high"], origins)


def promised_on(name: str, bound: Bound, sql_type: Type) -> dict[str, Bound]:
    """What a bound says about a column: nothing below the values of its type, and no more than the
    highest of them."""
    room = ticks_of(sql_type)
    return {name: min(bound, room.high)} if bound > room.low else {}
