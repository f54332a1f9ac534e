"""Rules about distribution: where tuples that belong together meet, and what is done before."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from penstock.io.sources.source_size import rows_expected
from penstock.kernel.aggregates.build import build
from penstock.optimizer.rewrite import Settings
from penstock.plan.expressions import Column, columns_of
from penstock.plan.join_windows import BandJoin, SlidingJoin, TumblingJoin
from penstock.plan.nodes.aggregation import Distinct, DistinctOn, WindowAggregate
from penstock.plan.nodes.join import Join, JoinKind, Lookup, Sequence, SequenceMode, equal_keys
from penstock.plan.nodes.node import Node, Scan
from penstock.plan.nodes.query import Late
from penstock.plan.physical import OperatorKind, PhysicalNode, PhysicalPlan, TimeSlices
from penstock.plan.properties import scans_of, steady_columns

# Collect results that are counted in one place, where several places would have no common order.


def count_in_one_place(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:  # noqa: ARG001
    """Collect results that are counted in one place. Results of several places have an order in
    each. Windows and groups can be merged by their keys; pairs of tuples, unchanged tuples, and
    row windows that are filled in one partition or another cannot.

    before: Rows (Recent, tuples meet by a.k and b.k (Read a, Read b))
    after:  Rows (Recent, all tuples meet in one place (Read a, Read b))

    >>> import penstock as ps
    >>> from penstock.optimizer.lowering import lower
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, [{"k": 2, "t": 4}], progress=ps.progress("t", delay=5))
    >>> pairs = "SEQUENCE(a THEN b MODE RECENT ON a.k = b.k)"
    >>> query = db.sql(f"SELECT count(*) AS n [RANGE 3 ROWS, SLIDE 2 ROWS] FROM {pairs}").plan
    >>> plan = count_in_one_place(lower(query, Settings()), Settings())
    >>> [len(port.keys) for node in plan.root.walk() if len(node.ports) == 2 for port in node.ports]
    [0, 0]
    """
    return replace(plan, root=_in_one_place(plan.root))


def _in_one_place(node: PhysicalNode) -> PhysicalNode:
    ports = tuple(replace(port, input=_in_one_place(port.input)) for port in node.ports)
    if node.stateful and node.whole_windows and _no_order_between_places(node):
        ports = tuple(replace(port, keys=()) for port in ports)
    return replace(node, ports=ports) if ports != node.ports else node


def _no_order_between_places(node: PhysicalNode) -> bool:
    match node.logical:
        case WindowAggregate(counted=True) | Distinct() | DistinctOn():
            return True
    return len(node.ports) > 1


# Pre-aggregation: fold tuples into panes before the shuffle, so that less is sent and kept.


def pre_aggregate(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:  # noqa: ARG001
    """Fold tuples into panes before the shuffle.

    before: Paned, tuples meet by s.k (Read s)
    after:  Paned, tuples meet by s.k, folded into panes before (Read s)

    Late tuples that are delivered have to arrive unchanged, an aggregate that keeps its tuples
    gains nothing, and where single groups are punctuated, panes would have to be separate for each.
    Results of joins are never late, and may be many; those of other operators are few already.

    >>> import penstock as ps
    >>> from penstock.optimizer.lowering import lower
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 2, "t": 4}], progress=ps.progress("t", delay=5))
    >>> def folded(aggregate):
    ...     text = f"SELECT {aggregate} AS x [RANGE 9, SLIDE 9, WA t] FROM s GROUP BY k"
    ...     plan = pre_aggregate(lower(db.sql(text).plan, Settings()), Settings())
    ...     return [port.pre_aggregated for node in plan.root.walk() for port in node.ports]
    >>> folded("count(*)"), folded("median(k)")
    ([False, True], [False, False])
    """
    return replace(plan, root=_folded(plan.root, plan.query.late is Late.DROP))


def _folded(node: PhysicalNode, drops: bool) -> PhysicalNode:
    """Set the flags of all ports; `drops` says that late tuples are only counted."""
    gains = _gains(node)
    ports = tuple(
        replace(
            port,
            input=_folded(port.input, drops),
            pre_aggregated=gains and _can_be_folded(port.input, drops),
        )
        for port in node.ports
    )
    return replace(node, ports=ports) if ports != node.ports else node


def _gains(node: PhysicalNode) -> bool:
    return (
        node.operator is OperatorKind.PANED
        and isinstance(node.logical, WindowAggregate)
        and not any(build(each.call).holistic for each in node.logical.aggregates)
    )


def _can_be_folded(node: PhysicalNode, drops: bool) -> bool:
    found = list(_foldable_paths(node, drops))
    return bool(found) and all(found)


def _foldable_paths(node: PhysicalNode, drops: bool) -> Iterator[bool]:
    """For every path on which many rows may come: whether they can be folded."""
    logical = node.logical
    if isinstance(logical, Scan):
        progress = logical.stream.progress
        yield drops and (progress is None or progress.group_punctuation is None)
    elif isinstance(logical, Join | Sequence):
        yield not logical.signed
    elif not node.stateful:
        for each in node.inputs:
            yield from _foldable_paths(each, drops)


# Shuffle large tables by key instead of broadcasting them.


def shuffle_tables(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:
    """Shuffle large tables by key instead of broadcasting them.

    before: Lookup (Read s)
    after:  Lookup, tuples meet by s.k (Read s)

    A table of at most `broadcast_rows` rows, as far as that is known without reading it, is
    broadcast.  A larger one is split by its equality keys, except where rows are counted, because
    tuples stay in arrival order there.

    >>> import penstock as ps
    >>> from penstock.optimizer.lowering import lower
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 2}])
    >>> db.table("r", [{"k": 2}] * 9)
    >>> query = db.sql("SELECT s.k FROM s JOIN r ON s.k = r.k").plan
    >>> def looking_up(rows):
    ...     plan = shuffle_tables(lower(query, Settings()), Settings(broadcast_rows=rows))
    ...     return [port.keys for node in plan.root.walk() if node.operator.value == "Lookup"
    ...             for port in node.ports]
    >>> looking_up(9), [list(map(str, keys)) for keys in looking_up(8)]
    ([None], [['s.k']])
    """
    sources = {scan.stream.name: scan.stream.source for scan in scans_of(plan.query.input)}

    def is_large(lookup: Lookup) -> bool:
        rows = 0
        for scan in scans_of(lookup.table):
            source = sources.get(scan.stream.name)
            rows += (rows_expected(source, scan.stream.schema) or 0) if source is not None else 0
        return rows > settings.broadcast_rows

    able = _able(plan.root)
    return shuffled(plan, [number for number, lookup in able if is_large(lookup)])


def shuffled(plan: PhysicalPlan, which: Collection[int]) -> PhysicalPlan:
    """Split some tables by keys, given by their numbers in the plan, and no others."""
    numbers = {id(lookup): number for number, lookup in _able(plan.root)}
    return replace(plan, root=_shuffled(plan.root, numbers, which))


def are_shuffled(plan: PhysicalPlan) -> list[int]:
    """Numbers of the tables that are split by keys."""
    split = {id(node.logical) for node in plan.root.walk() if node.stateful}
    return [number for number, lookup in _able(plan.root) if id(lookup) in split]


def _able(node: PhysicalNode, counted: bool = False) -> Iterator[tuple[int, Lookup]]:
    """Tables that can be split by keys, numbered."""
    return enumerate(_looking_up(node, counted))


def _looking_up(node: PhysicalNode, counted: bool) -> Iterator[Lookup]:
    logical = node.logical
    if isinstance(logical, Lookup):
        keys, _ = equal_keys(logical.input.schema, logical.table.schema, logical.condition)
        steady = steady_columns(logical.input)  # by which items meet the items that they retract
        stays = all(steady.issuperset(columns_of(own)) for own, _ in keys)
        if keys and stays and not counted:
            yield logical
    elif node.stateful:
        counted = isinstance(logical, WindowAggregate) and logical.counts_rows
    for each in node.inputs:
        yield from _looking_up(each, counted)


def _shuffled(node: PhysicalNode, numbers: dict[int, int], which: Collection[int]) -> PhysicalNode:
    ports = tuple(replace(port, input=_shuffled(port.input, numbers, which)) for port in node.ports)
    logical = node.logical
    if isinstance(logical, Lookup):
        keys = None
        if numbers.get(id(logical)) in which:
            pairs, _ = equal_keys(logical.input.schema, logical.table.schema, logical.condition)
            keys = tuple(own for own, _ in pairs)
        ports = (replace(ports[0], keys=keys),)
    return replace(node, ports=ports) if ports != node.ports else node


# Distribute joins by time alone over slices of time, instead of one place.

_TIMES = 4  # width of slices in widths of the band: a fourth of one input is sent twice
_FAR = 1 << 60  # ticks; a band that reaches further counts as unbounded


def slice_bands(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:  # noqa: ARG001
    """Distribute joins by time alone over slices of time.

    before: OaJoin, all tuples meet in one place (Read a, Read b)
    after:  OaJoin, tuples meet in slices of time (Read a, Read b)

    Tuples of one input go to one slice.  All of their partners go there, too, so it may be the
    input whose tuples come without a partner, or once.  A FULL join has two such inputs: its tuples
    meet in one place.  Pairs of signed items have to come from one place, too, so that they can be
    retracted there: plain tuples go to one slice, and two inputs with signed items meet in one
    place.  So do those of a CHRONICLE sequence, where a tuple that one slice consumes would be
    missing in the next, of a RECENT one without WITHIN, which reaches back without bound, and of
    one that keeps first tuples without a partner.

    >>> import penstock as ps
    >>> from penstock.optimizer.lowering import lower
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, [{"x": 2, "t": 4}], progress=ps.progress("t", delay=5))
    >>> query = db.sql("SELECT a.x FROM a, b WHERE b.t BETWEEN a.t - 2 AND a.t + 3").plan
    >>> plan = slice_bands(lower(query, Settings()), Settings())
    >>> [str(port.slices) for port in plan.root.inputs[0].ports]
    ['slices of 20 of a.t', 'slices of 20 of b.t in which they may have partners']
    """
    return replace(plan, root=_sliced(plan.root))


def _sliced(node: PhysicalNode) -> PhysicalNode:
    ports = tuple(replace(port, input=_sliced(port.input)) for port in node.ports)
    by_time = len(ports) == 2 and all(port.keys == () for port in ports)
    if by_time and not node.whole_windows:  # whose results are counted
        slices = _slices(node.logical)
        if slices is not None:
            pairs = zip(ports, slices, strict=True)
            ports = tuple(replace(port, slices=each) for port, each in pairs)
    return replace(node, ports=ports) if ports != node.ports else node


def _slices(node: Node) -> tuple[TimeSlices, TimeSlices] | None:
    """Slices of both inputs; None if there can be only one."""
    match node:
        case Join(branches=(one, other)) if one.signed and other.signed:
            return None
        case Join(branches=(_, _), attributes=(left, right)):
            window = node.window.between(0, 1)
            if isinstance(window, TumblingJoin):
                width, origin = window.range, window.origin
                return TimeSlices(left, width, origin=origin), TimeSlices(
                    right, width, origin=origin
                )
            band = window.band if isinstance(window, SlidingJoin) else window
            if band is None or node.kind is JoinKind.FULL:
                return None
            once_right = node.kind is JoinKind.RIGHT or node.branches[0].signed
            return _of_band(left, right, band, left_once=not once_right)
        case Sequence(mode=SequenceMode.RECENT, within=int(within), keeps=(False, _)):
            first, second = node.attributes
            return _of_band(first, second, BandJoin(0, within), left_once=False)
    return None


def _of_band(
    left: Column, right: Column, band: BandJoin, left_once: bool
) -> tuple[TimeSlices, TimeSlices] | None:
    if max(abs(band.low), abs(band.high)) > _FAR:
        return None
    width = _TIMES * max(1, band.high - band.low)
    if left_once:  # a right tuple has partners from `high` before it to `low` before it
        return TimeSlices(left, width), TimeSlices(right, width, -band.high, -band.low)
    return TimeSlices(left, width, band.low, band.high), TimeSlices(right, width)
