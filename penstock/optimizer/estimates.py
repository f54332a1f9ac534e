"""Estimates of the rows, times and state of the operators of a plan before it runs, as far as the
sources are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.optimizer.dataflow import FILTER, PROJECT
from penstock.optimizer.join_costs import JoinCosts
from penstock.optimizer.join_search import Search
from penstock.optimizer.join_statistics import sample_of, statistics_of
from penstock.optimizer.rewrite import with_inputs
from penstock.optimizer.sizes import flow_of, sizes_of
from penstock.optimizer.window_choice import predict
from penstock.plan.algorithms import JoinChoice
from penstock.plan.expressions import Column
from penstock.plan.join_trees import Joined, JoinInput, JoinTree, flat
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.join import Join, JoinKind
from penstock.plan.nodes.node import Filter, Node, Project, Scan, Stamp, Union
from penstock.plan.physical import PhysicalNode
from penstock.plan.streams import StreamDefinition
from penstock.plan.window_kinds import Sliding


@dataclass(frozen=True, slots=True)
class ExpectedWork:
    """Estimates for an operator: input and output rows, output rows for each input row,
    nanoseconds for each, and tuples and bytes of state. None where they are unknown.
    """

    rows_in: float | None = None
    rows_out: float | None = None
    factor: float | None = None
    time: float | None = None
    kept: float | None = None
    size: float | None = None


def expected_work(
    root: PhysicalNode, streams: Mapping[str, StreamDefinition] | None = None
) -> dict[int, ExpectedWork]:
    """Estimates for all nodes of a plan, by their identity. Plans executed on Spark have no
    sources, so `streams` give them, by name. Times are those of one process.
    """
    found: dict[int, ExpectedWork] = {}
    if streams is None:
        _expect(root, found)
        return found
    sourced = _with_sources(root, streams)
    of_sourced: dict[int, ExpectedWork] = {}
    _expect(sourced, of_sourced)
    pairs = zip(root.walk(), sourced.walk(), strict=True)
    return {id(node): of_sourced[id(like)] for node, like in pairs}


def _with_sources(node: PhysicalNode, streams: Mapping[str, StreamDefinition]) -> PhysicalNode:
    def sourced(logical: Node) -> Node:
        if isinstance(logical, Scan):
            source = streams[logical.stream.name].source
            return replace(logical, stream=replace(logical.stream, source=source))
        return with_inputs(logical, sourced)

    ports = (replace(port, input=_with_sources(port.input, streams)) for port in node.ports)
    return replace(node, logical=sourced(node.logical), ports=tuple(ports))


def _expect(node: PhysicalNode, found: dict[int, ExpectedWork]) -> float | None:
    """Number of output rows; also fills in the estimates of the node."""
    below = [_expect(each, found) for each in node.inputs]
    known = [each for each in below if each is not None]
    rows = sum(known) if len(known) == len(below) else None
    if isinstance(node.logical, Scan):
        rows = _rows_of(node.logical)
        made = ExpectedWork(rows, rows)
    else:
        made = _with_rows(_per_tuple(node), rows)
    found[id(node)] = made
    return made.rows_out


def _with_rows(work: ExpectedWork, rows: float | None) -> ExpectedWork:
    out = None if rows is None or work.factor is None else rows * work.factor
    return ExpectedWork(rows, out, work.factor, work.time, work.kept, work.size)


def _rows_of(scan: Scan) -> float | None:
    progress = scan.stream.progress
    if progress is None:
        return None
    column = Column(progress.attribute, scan.stream.attribute.type, scan.alias)
    flow = flow_of(scan, column)
    return None if flow is None else flow.rows


def _per_tuple(node: PhysicalNode) -> ExpectedWork:
    logical = node.logical
    match logical:
        case Filter():
            after, before = sample_of(logical), sample_of(logical.input)
            if after is None or before is None or not before.passing:
                return ExpectedWork(time=FILTER)
            return ExpectedWork(factor=after.passing / before.passing, time=FILTER)
        case Project() | Stamp():
            return ExpectedWork(factor=1.0, time=PROJECT)
        case Union():
            return ExpectedWork(factor=1.0)
        case WindowAggregate(window=Sliding()) if not logical.input.signed:
            return _of_windows(logical)
        case Join(kind=JoinKind.INNER):
            return _of_join(logical, node.join_choice)
    return ExpectedWork()


def _of_windows(node: WindowAggregate) -> ExpectedWork:
    assert isinstance(node.window, Sliding)
    sizes = sizes_of(node)
    estimates = predict(node, sizes) if node.choice is None else node.choice.estimates
    chosen = next(each for each in estimates if each.algorithm is node.algorithm)
    entering = max(1.0, sizes.tuples * min(1.0, node.window.slide / node.window.range))
    groups = min(sizes.groups, sizes.tuples)
    return ExpectedWork(factor=groups / entering, time=chosen.time / entering, size=chosen.state)


def _of_join(join: Join, choice: JoinChoice | None) -> ExpectedWork:
    costs = JoinCosts(join, statistics_of(join))
    tree, all_inputs = join.tree or flat(len(join.branches)), frozenset(range(len(join.branches)))
    tuples = sum(map(costs.rate, all_inputs))
    results = sum(costs.rate(each) * costs.combinations(all_inputs, each) for each in all_inputs)
    return ExpectedWork(
        factor=results / tuples,
        time=Search(costs).time(tree) / tuples if choice is None else choice.chosen.time,
        kept=sum(costs.kept(frozenset(part)) for part in _kept_parts(tree)),
        size=None if choice is None else choice.chosen.state,
    )


def _kept_parts(tree: Joined) -> list[tuple[int, ...]]:
    """Parts of which tuples or combinations are kept. With containers, the tuples of all inputs
    are kept once more, so that other plans can resume from them.
    """
    parts: list[tuple[int, ...]] = []

    def look(each: JoinTree) -> None:
        if isinstance(each, JoinInput):
            parts.append(each.leaves)
            return
        for part in each.parts:
            look(part)
            if isinstance(part, Joined):
                parts.append(part.leaves)

    look(tree)
    return parts if tree.is_flat else [*parts, *((leaf,) for leaf in tree.leaves)]
