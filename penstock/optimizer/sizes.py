"""Sizes of the input of window aggregations: tuples, groups and batches, from the source, with
assumptions for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.io.sources.source_size import extent
from penstock.kernel.bounds import to_ticks
from penstock.model.punctuation import Delay, Slack
from penstock.model.ticks import Domain
from penstock.model.types import Kind, Type
from penstock.plan.expressions import Column, Expression, rises_with
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.join import Difference, Lookup
from penstock.plan.nodes.node import Filter, Node, Project, Scan, Stamp, Union, Unnest
from penstock.plan.window_kinds import Sliding

BATCH = 65_536  # rows that sources read at a time
GROUPS = 1_000
PER_SECOND = 1_000
PER_DAY = 100_000  # of a DATE
PER_UNIT = 1  # of a number


@dataclass(frozen=True, slots=True)
class Flow:
    """Flow of tuples along one attribute: tuples a tick, rows in all (None: unbounded), disorder
    in ticks, tuples at a time; and the highest tick of every batch, if these are known.
    """

    volume: float
    rows: float | None
    disorder: float
    batch: float
    known: bool
    filtered: bool = False
    ends: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Sizes:
    """Parameters of the cost formulas besides RANGE and SLIDE. `tuples` is T, the tuples of a
    window.
    """

    tuples: float
    groups: float
    volume: float  # tuples a tick
    disorder: float  # ticks
    batch: float  # tuples that come at a time
    known: tuple[str, ...]
    assumed: tuple[str, ...]


def sizes_of(node: WindowAggregate) -> Sizes:
    assert isinstance(node.window, Sliding)
    assert node.attribute is not None
    flow = flow_of(node.input, node.attribute)
    sql_type = node.attribute.type
    if flow is None:
        flow = assumed_flow(sql_type)
    tuples = max(1.0, flow.volume * node.window.range)
    if flow.rows is not None:
        tuples = min(tuples, max(1.0, flow.rows))
    known, assumed = [], []
    if flow.known:
        before = " before the filter" if flow.filtered else ""
        known.append(f"{counted(tuples, 'tuple')} a window{before}")
    else:
        assumed.append(rate(flow.volume, sql_type))
        if flow.rows is not None:
            known.append(f"{counted(flow.rows, 'row')} in all")
    groups = 1.0
    if node.keys:
        groups = min(float(GROUPS), flow.rows or GROUPS)
        assumed.append(counted(groups, "group"))
    return Sizes(
        tuples, groups, flow.volume, flow.disorder, flow.batch, tuple(known), tuple(assumed)
    )


def flow_of(node: Node, attribute: Expression) -> Flow | None:
    """Flow of the tuples of a node along an expression; None if nothing is known."""
    columns = rises_with(attribute)
    if len(columns) != 1 or columns[0].type != attribute.type:
        return None
    column = columns[0]
    if column != attribute:  # the expression may be ahead of the column, or behind it
        flow = flow_of(node, column)
        return None if flow is None else replace(flow, ends=())
    match node:
        case Scan():
            return _of_scan(node, column)
        case Stamp():
            return flow_of(node.input, column)
        case Filter() | Lookup() | Unnest():
            flow = flow_of(node.input, column)
            return None if flow is None else replace(flow, filtered=True)
        case Project():
            named = (each for each in node.columns if each.name == column.name)
            found = next(named, None)
            return None if found is None else flow_of(node.input, found.expression)
        case Difference():
            place = column.position(node.schema)
            fields = node.left.schema.fields
            of = Column.of(fields[place]) if place < len(fields) else node.attributes[0]
            flow = flow_of(node.left, of)
            return None if flow is None else replace(flow, filtered=True, ends=())
        case Union():
            place = column.position(node.schema)
            flows = [flow_of(each, Column.of(each.schema.fields[place])) for each in node.branches]
            return _together([flow for flow in flows if flow is not None], len(flows))
    return None


def _of_scan(node: Scan, column: Column) -> Flow | None:
    stream = node.stream
    if stream.progress is None or stream.progress.attribute != column.name:
        return None
    volume, rows, batch, known = _assumed_volume(column.type), None, float(BATCH), False
    found, ends = None, ()
    if stream.source is not None and not stream.made:
        found = extent(stream.source, stream.input_schema, column.name)
    if found is not None:
        rows = float(found.rows)
        batch = max(1.0, min(batch, rows / (found.batches or 1)))
        if found.bounds is not None:
            low, high = to_ticks(found.bounds, column.type).tolist()
            volume, known = rows / (high - low + 1), True
        if found.ends is not None:
            ends = tuple(to_ticks(found.ends, column.type).tolist())
    match stream.progress.policy.rule:
        case Delay(ticks):
            disorder = float(ticks)
        case Slack(overtaking):
            disorder = overtaking / volume
        case _:
            disorder = 0.0
    return Flow(volume, rows, disorder, batch, known, ends=ends)


def _together(flows: list[Flow], expected: int) -> Flow | None:
    if not flows or len(flows) < expected:
        return None
    ends = [flow.rows for flow in flows if flow.rows is not None]
    return Flow(
        sum(flow.volume for flow in flows),
        sum(ends) if len(ends) == expected else None,
        max(flow.disorder for flow in flows),
        max(flow.batch for flow in flows),
        all(flow.known for flow in flows),
        any(flow.filtered for flow in flows),
    )


def assumed_flow(sql_type: Type) -> Flow:
    """Assumed flow where nothing is known."""
    return Flow(_assumed_volume(sql_type), None, 0.0, BATCH, known=False)


def _assumed_volume(sql_type: Type) -> float:
    """Tuples a tick."""
    match sql_type.kind:
        case Kind.TIMESTAMP:
            return PER_SECOND / 1_000_000
        case Kind.DATE:
            return PER_DAY
        case _:
            return PER_UNIT / Domain(sql_type).tick(1)


def rate(volume: float, sql_type: Type) -> str:
    """Format a rate for display.

    >>> from penstock.model.types import BIGINT
    >>> [rate(volume, BIGINT) for volume in (0.3333, 1, 1.25, 12345)]
    ['0.33 tuples a unit', '1 tuple a unit', '1.2 tuples a unit', '12,000 tuples a unit']
    """
    match sql_type.kind:
        case Kind.TIMESTAMP:
            number, unit = volume * 1_000_000, "second"
        case Kind.DATE:
            number, unit = volume, "day"
        case _:
            number, unit = volume * Domain(sql_type).tick(1), "unit"
    if number >= 10:
        return f"{counted(number, 'tuple')} a {unit}"
    few = float(f"{number:.2g}")
    return f"{few:g} tuple{'s' * (few != 1)} a {unit}"


def counted(amount: float, what: str) -> str:
    whole = max(1, round(float(f"{amount:.2g}")))
    return f"{whole:,} {what}" + ("" if whole == 1 else "s")
