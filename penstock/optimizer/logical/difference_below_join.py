"""Take away from one input of a join, before it is joined, what is taken away from its pairs."""

from __future__ import annotations

from dataclasses import replace

from penstock.optimizer.dataflow.differences import pays_before_joins
from penstock.optimizer.logical.removable_rows import is_about, results_may_be_removed
from penstock.optimizer.rewrite import with_inputs
from penstock.optimizer.settings import Settings
from penstock.plan.expressions import Column, Named
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.plan.nodes.difference import Difference
from penstock.plan.nodes.joins import Join, JoinKind, TimeCondition
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Filter, Project, Union
from penstock.plan.properties.pairwise_windows import PairWindow, between
from penstock.plan.substitution import below
from penstock.windows.joins import BandJoin, SlidingJoin
from penstock.windows.sliding import Sliding


def difference_below_join(query: QueryPlan, settings: Settings) -> QueryPlan:
    """Whether a pair is there depends on one of its tuples alone, if that has the columns that are
    compared and the time at which the pair comes: so what comes and goes is the tuple, and it takes
    its pairs along.  Not below what goes by the order of items that come at one time.  It is done
    where it takes less time by equation 3: if a tuple has several partners, say.  A run that goes
    on does what it began with.

    before: Difference ON (q.c) (Project s.c, s.t (Join r.b = s.b (Scan r, Scan s)), Scan u)
    after:  Project s.c, s.t, s.changed_at
            (Join r.b = s.b (Scan r, Difference ON (c) (Scan s, Scan u)))

    >>> import pyarrow as pa
    >>> import penstock as ps
    >>> db = ps.connect()
    >>> rows = pa.Table.from_pylist([{"b": t % 2, "c": t % 3, "t": t} for t in range(999)])
    >>> for name in "rsu":
    ...     db.stream(name, rows, progress=ps.progress("t", delay=5))
    >>> pairs = "SELECT s.c, s.t FROM r [RANGE 20], s [RANGE 20] WHERE r.b = s.b"
    >>> query = db.sql(f"SELECT c, changed_at FROM ({pairs}) q [RANGE 9, WA t] EXCEPT ON (c) u")
    >>> [type(each).__name__ for each in difference_below_join(query.plan, Settings()).walk()]
    ['QueryPlan', 'Project', 'Project', 'Join', 'Scan', 'Difference', 'Scan', 'Scan']
    """
    if not results_may_be_removed(query):
        return query
    made = with_inputs(query, _moved)
    return made if made is query or settings.as_begun or pays_before_joins(query, made) else query


def _moved(node: Node) -> Node:
    match node:
        case Difference():
            found = _below_join(node)
            return node if found is None else found
        case Filter() | Project() | Union() | WindowAggregate(window=Sliding()):
            return with_inputs(node, _moved)
    return node


def _below_join(node: Difference) -> Node | None:
    project = node.left
    if not isinstance(project, Project) or not isinstance(project.input, Join):
        return None
    join, stay = project.input, node.ranges[0]
    if join.kind is not JoinKind.INNER or join.signed or len(join.branches) != 2 or stay is None:
        return None
    if join.late_by:  # of what comes and goes, only the time at which it does progresses
        return None
    attribute = below(node.attributes[0], project)
    if attribute not in join.attributes:
        return None
    side = join.attributes.index(attribute)
    given, keys = join.branches[side], [below(left, project) for left, _ in node.keys]
    relations = {field.relation for field in given.schema}
    (relation,) = relations if len(relations) == 1 else (None,)
    if relation is None or "changed_at" in given.schema.names:
        return None
    columns = [each for each in keys if isinstance(each, Column) and is_about(each, given)]
    if len(columns) < len(keys):
        return None
    assert isinstance(attribute, Column)
    items = replace(
        node,
        left=given,
        keys=tuple((own, right) for own, (_, right) in zip(columns, node.keys, strict=True)),
        attributes=(attribute, node.attributes[1]),
        alias=relation,
        progresses_twice=True,
    )
    changed = Column.of(items.schema.fields[-1])
    made = _joined(join, side, items, changed, stay)
    return Project(made, (*project.columns, Named("changed_at", changed)), node.alias)


def _joined(join: Join, side: int, items: Difference, changed: Column, stay: int) -> Join:
    """The partners of an item are those of its tuple.  It comes when the tuple does, or afterwards,
    as long as that stays."""
    branches, times = list(join.branches), list(join.attributes)
    branches[side], times[side] = items, changed
    low, high = _apart(between(join, 0, 1))
    band = BandJoin(low, high + stay + 1) if side else BandJoin(low - stay - 1, high)
    left, right = times
    also = (*join.also, TimeCondition(left, right, band))
    return replace(join, branches=tuple(branches), also=also, hint=None)


def _apart(window: PairWindow) -> tuple[int, int]:
    """How far the right time may be above the left one."""
    match window:
        case SlidingJoin():
            return window.band.low, window.band.high
        case BandJoin():
            return window.low, window.high
    return 1 - window.range, window.range - 1
