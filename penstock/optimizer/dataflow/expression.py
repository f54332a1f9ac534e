"""Dataflow expressions: what a tuple of one stream goes through, operation by operation, and what
that takes (equation 3 of Getta and Vossough).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations

from penstock.optimizer.dataflow.work import Work

EXACT = 6  # operations whose orders are all looked at


@dataclass(frozen=True, slots=True)
class Operation:
    """`window` is what it reads, or writes if it is a recorder, →; `by` are the columns that it
    goes by.  It takes `tau` nanoseconds for an item, and makes `factor` items of it.  Operations
    that are `free` may change places with others, if there are the columns that they need."""

    symbol: str
    window: str = ""
    by: str = ""
    tau: float = 0.0
    factor: float = 1.0
    free: bool = False
    needs: frozenset[str] = frozenset()
    gives: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """
        >>> str(Operation("⋈", "w_s", "b")), str(Operation("→", "w_out")), str(Operation("σ"))
        ('⋈_b(w_s)', '→(w_out)', 'σ')
        """
        by = f"_{self.by}" if self.by else ""
        return f"{self.symbol}{by}" + (f"({self.window})" if self.window else "")


@dataclass(frozen=True, slots=True)
class DataflowExpression:
    """`rate` is how many tuples of the stream come a tick; `columns` are those that it has."""

    stream: str
    operations: tuple[Operation, ...]
    rate: float = 0.0
    columns: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"δ_{self.stream} : " + ", ".join(map(str, self.operations))

    def time(self, item_mode: bool = False) -> float:
        """T, the nanoseconds that a tuple takes.  In blocks, an operation begins when the one
        before it is done with all items; in item mode, as soon as there is one.

        >>> steps = (Operation("→", "w", tau=5), Operation("⋈", "v", tau=2, factor=3))
        >>> expression = DataflowExpression("s", (*steps, Operation("→", "w_out", tau=1)))
        >>> expression.time(), expression.time(item_mode=True)
        (10.0, 9.0)
        """
        total, made = 0.0, 1.0
        for place, each in enumerate(self.operations):
            items = (1 + made) / 2 if item_mode and place else made
            total += items * each.tau
            made *= each.factor
        return total

    def reordered(self) -> DataflowExpression:
        """The order of free operations that takes the least time: of all orders, or, if there are
        many operations, the one that makes the fewest items first."""
        places = [place for place, each in enumerate(self.operations) if each.free]
        given = [self.operations[place] for place in places]
        if len(given) > EXACT:
            return self._placed(places, self._greedy(given))
        ways = (self._placed(places, order) for order in permutations(given))
        return min((each for each in ways if each._has_columns()), key=lambda way: way.time())

    def _placed(self, places: list[int], order: tuple[Operation, ...]) -> DataflowExpression:
        operations = list(self.operations)
        for place, each in zip(places, order, strict=True):
            operations[place] = each
        return replace(self, operations=tuple(operations))

    def _greedy(self, left: list[Operation]) -> tuple[Operation, ...]:
        left, order, known = list(left), [], self.columns
        while left:
            ready = [each for each in left if each.needs <= known] or left
            found = min(ready, key=lambda each: (each.factor, each.tau))
            order.append(found)
            left.remove(found)
            known |= found.gives
        return tuple(order)

    def _has_columns(self) -> bool:
        known = self.columns
        for each in self.operations:
            if not each.needs <= known:
                return False
            known |= each.gives
        return True


def timed(work: Work) -> float:
    """The nanoseconds of an operation without those of being called."""
    return replace(work, batches=0.0, calls=0.0).time
