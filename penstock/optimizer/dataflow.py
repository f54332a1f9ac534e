"""Dataflow expressions: the operations that a tuple of one stream passes, their cost (equation 3
of Getta and Vossough), and the translation of plans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TypeAlias

from penstock.optimizer.join_costs import ASK, RECORD, Inputs, JoinCosts, Work
from penstock.optimizer.join_statistics import (
    JoinStatistics,
    names_together,
    sample_of,
    statistics_of,
)
from penstock.optimizer.sizes import assumed_flow, flow_of, sizes_of
from penstock.plan.expressions import Column, Expression, columns_of
from penstock.plan.join_properties import conditions_of
from penstock.plan.join_trees import Joined, JoinInput, JoinTree
from penstock.plan.nodes.aggregation import Distinct, GroupAggregate, WindowAggregate
from penstock.plan.nodes.join import Difference, Join, JoinKind, Lookup
from penstock.plan.nodes.join import Sequence as SequenceJoin
from penstock.plan.nodes.node import Filter, Node, Project, Scan, Stamp, Union, Unnest
from penstock.plan.window_kinds import Sliding

EXACT = 6  # number of operations up to which all orders are compared


@dataclass(frozen=True, slots=True)
class Operation:
    """Operation of a dataflow expression.

    `window` is the window that it reads, or that it writes if it is a recorder, →; `by` are its
    columns. It takes `tau` nanoseconds for an item, and makes `factor` items of it. Operations
    that are `free` can be reordered, if the columns that they need are there.
    """

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
    """Dataflow expression δ of a stream. `rate` is the number of tuples a tick; `columns` are
    those of the stream.
    """

    stream: str
    operations: tuple[Operation, ...]
    rate: float = 0.0
    columns: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"δ_{self.stream} : " + ", ".join(map(str, self.operations))

    def time(self, item_mode: bool = False) -> float:
        """T, the nanoseconds that a tuple takes. In block mode, an operation begins when the one
        before it has processed all items; in item mode, as soon as there is one.

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
        """The expression with the fastest order of free operations: of all orders, or, if there
        are many operations, the one that makes the fewest items first.
        """
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
    """Nanoseconds of an operation without the cost of calls."""
    return replace(work, batches=0.0, calls=0.0).time


# From a plan to its dataflow expressions: one for every stream that is read, along the path from
# there to the results.

FILTER, PROJECT, _UNION, _FOLD = 8.0, 3.0, 1.0, 60.0  # nanoseconds a tuple
_LEFT, _RIGHT = 350.0, 100.0  # of a difference

_SYMBOLS = {
    JoinKind.INNER: "⋈",
    JoinKind.LEFT: "⟕",
    JoinKind.RIGHT: "⟖",
    JoinKind.FULL: "⟗",
    JoinKind.SEMI: "⋉",
    JoinKind.ANTI: "▷",
}

# choice of the tree of a join
Arrange: TypeAlias = Callable[[Join], Joined]


@dataclass(frozen=True)
class JoinPlan:
    """A join with its costs and the tree that it is executed as."""

    join: Join
    costs: JoinCosts
    tree: Joined

    def __str__(self) -> str:
        return f" {_SYMBOLS[self.join.kind]} ".join(self.names)

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.costs.statistics.inputs]


@dataclass(frozen=True)
class Translated:
    """Dataflow expressions of a plan, and its joins."""

    expressions: tuple[DataflowExpression, ...]
    joins: tuple[JoinPlan, ...]


def translate(node: Node, arrange: Arrange) -> Translated:
    """Translate a plan; every path ends with a recorder of the results."""
    translating = _Translating(arrange)
    found = translating.of(node)
    out = Operation("→", "w_out")
    made = tuple(replace(each, operations=(*each.operations, out)) for each in found)
    return Translated(made, tuple(translating.joins))


class _Translating:
    def __init__(self, arrange: Arrange) -> None:
        self._arrange = arrange
        self.joins: list[JoinPlan] = []

    def of(self, node: Node) -> list[DataflowExpression]:
        match node:
            case Scan():
                return [_of_scan(node)]
            case Filter():
                sample, before = sample_of(node), sample_of(node.input)
                part = 1.0
                if sample is not None and before is not None and before.passing:
                    part = sample.passing / before.passing
                own = Operation("σ", by=_names(node.predicate), tau=FILTER, factor=part)
            case Project():
                own = Operation("ϱ", tau=PROJECT)
            case Stamp():
                own = Operation("ϱ", by=node.column.name, tau=PROJECT)
            case Unnest():
                own = Operation("μ", by=_names(node.expression), tau=PROJECT)
            case Lookup():
                by = _names(node.condition) if node.condition is not None else ""
                table = next(each for each in node.table.walk() if isinstance(each, Scan))
                own = Operation("⋈", table.alias, by, tau=ASK)
            case WindowAggregate() | GroupAggregate():
                keys = [each.name for each in node.keys]
                own = Operation("γ", by=names_together(keys), tau=_folding_time(node))
            case Distinct():
                own = Operation("γ", by=names_together(node.schema.names), tau=_FOLD)
            case Union():
                own = Operation("∪", tau=_UNION)
            case Difference():
                return self._difference(node)
            case Join():
                return self._join(node)
            case SequenceJoin():
                meets = Operation("⋈_seq", tau=ASK)
                return self._two(node.first, node.second, meets, meets)
            case _:
                own = Operation("γ", tau=_FOLD)
        below = [each for given in node.inputs for each in self.of(given)]
        return [_with(each, own) for each in below]

    def _difference(self, node: Difference) -> list[DataflowExpression]:
        """Operations of EXCEPT ON, assuming that half of the left tuples come and go, and half of
        the right ones hide some.
        """
        by = names_together([left.name for left, _ in node.keys])
        return self._two(
            node.left,
            node.right,
            Operation(f"−left_{by}", tau=_LEFT),
            Operation(f"−right_{by}", tau=_RIGHT, factor=0.5),
        )

    def _two(
        self, one: Node, other: Node, left: Operation, right: Operation
    ) -> list[DataflowExpression]:
        ways = (self.of(one), self.of(other))
        windows = [window_name([each.stream for each in way]) for way in ways]
        made = []
        for side, own in ((0, left), (1, right)):
            record = Operation("→", windows[side], tau=RECORD)
            read = replace(own, window=windows[1 - side])
            made += [_with(each, record, read) for each in ways[side]]
        return made

    def _join(self, node: Join) -> list[DataflowExpression]:
        below = [self.of(branch) for branch in node.branches]
        statistics = statistics_of(node)
        tree = self._arrange(node)
        plan = JoinPlan(node, JoinCosts(node, statistics), tree)
        self.joins.append(plan)
        made = []
        for number, ways in enumerate(below):
            operations = operations_of(plan, number)
            own = statistics.inputs[number]
            made += [
                _with(replace(each, rate=own.rate) if len(ways) == 1 else each, *operations)
                for each in ways
            ]
        return made


def _folding_time(node: WindowAggregate | GroupAggregate) -> float:
    """Nanoseconds to fold a tuple, by the algorithm chosen for its windows."""
    if not isinstance(node, WindowAggregate) or node.choice is None:
        return _FOLD
    assert isinstance(node.window, Sliding)
    tuples, part = sizes_of(node).tuples, node.window.slide / node.window.range
    chosen = next(e for e in node.choice.estimates if e.algorithm is node.choice.algorithm)
    return chosen.time / max(1.0, tuples * min(1.0, part))


# --- joins ---------------------------------------------------------------------------------------


def operations_of(plan: JoinPlan, origin: int) -> list[Operation]:
    """Operations that a tuple of one input passes, from its leaf of the tree to the root."""
    made: list[Operation] = []
    for tree in _path(plan.tree, origin):
        sets = [frozenset(part.leaves) for part in tree.parts]
        own = next(number for number, part in enumerate(sets) if origin in part)
        others = tuple(each for each in sets if each != sets[own])
        writing = plan.costs.recording_one(sets[own], others, origin, len(sets) == 2)
        writing += _called(plan, sets, own, origin, tree.probes[own])
        if len(sets[own]) > 1:  # a row is made of the combination
            writing += plan.costs.writing(sets[own])
        made.append(Operation("→", window_of(plan, sets[own]), tau=writing.time))
        bound = sets[own]
        for number in tree.probes[own]:
            made.append(_probe(plan, bound, sets[number], origin, of_two=len(sets) == 2))
            bound |= sets[number]
    return made


def _called(
    plan: JoinPlan, sets: list[Inputs], own: int, origin: int, order: Sequence[int]
) -> Work:
    """Share of a tuple in the fixed cost of its batch: of recording it, and of each probe."""
    costs, bound = plan.costs, sets[own]
    calls = 0.0
    for number in order:
        calls += costs.some_of(bound, origin)
        bound |= sets[number]
    batch = costs.statistics.inputs[origin].batch
    return Work(batches=costs.some_of(sets[own], origin) / batch, calls=calls / batch)


def _probe(plan: JoinPlan, bound: Inputs, new: Inputs, origin: int, of_two: bool) -> Operation:
    costs = plan.costs
    asking = costs.combinations(bound, origin) or 1e-12
    work: Work = costs.extension(bound, new, origin, of_two) * (1 / asking)
    factor = costs.combinations(bound | new, origin) / asking
    by = _key_names(plan.join, bound, new)
    symbol = _SYMBOLS[plan.join.kind]
    return Operation(symbol, window_of(plan, new), by, timed(work), factor, free=True)


def _path(tree: JoinTree, origin: int) -> list[Joined]:
    """Operators on the path from an input to the root, the root last."""
    if isinstance(tree, JoinInput):
        return []
    part = next(each for each in tree.parts if origin in each.leaves)
    return [*_path(part, origin), tree]


def window_of(plan: JoinPlan, members: Inputs) -> str:
    statistics: JoinStatistics = plan.costs.statistics
    inputs = [statistics.inputs[each] for each in sorted(members)]
    return window_name([stream for each in inputs for stream in each.streams or (each.name,)])


def _key_names(join: Join, bound: Inputs, new: Inputs) -> str:
    """Names of the key columns; names that both sides share are listed once."""
    found = []
    for each in conditions_of(join).equalities:
        if each.inputs & bound and each.inputs & new:
            sides = [each.of(min(each.inputs & part)) for part in (bound, new)]
            names = [side.name if isinstance(side, Column) else str(side) for side in sides]
            found.append(names[0] if names[0] == names[1] else "=".join(names))
    return names_together(sorted(found))


def window_name(streams: Sequence[str]) -> str:
    """Name of the window of some streams.

    >>> window_name(["r", "s"]), window_name(["orders", "trades"])
    ('w_rs', 'w_orders,trades')
    """
    return f"w_{names_together(list(dict.fromkeys(streams)))}"


def _names(expression: Expression) -> str:
    return names_together(list(dict.fromkeys(column.name for column in columns_of(expression))))


def _with(expression: DataflowExpression, *more: Operation) -> DataflowExpression:
    return replace(expression, operations=(*expression.operations, *more))


def _of_scan(scan: Scan) -> DataflowExpression:
    progress = scan.stream.progress
    rate = 0.0
    if progress is not None:
        attribute = Column(progress.attribute, scan.stream.attribute.type, scan.alias)
        rate = (flow_of(scan, attribute) or assumed_flow(attribute.type)).volume
    return DataflowExpression(scan.alias, (), rate, frozenset(scan.schema.names))
