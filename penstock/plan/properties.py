"""Properties of plans: expressions rewritten over the inputs of nodes, sources, times of windows,
lineage, the columns of late tuples, and what stays open or is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from penstock.model.types import BIGINT, BOOLEAN, Schema, Type, late_names
from penstock.plan.expressions import Call, Case, Cast, Column, Expression, columns_of
from penstock.plan.nodes.aggregation import Distinct, DistinctOn, GroupAggregate, WindowAggregate
from penstock.plan.nodes.join import Difference, Join, Lookup, RunningJoin, Sequence
from penstock.plan.nodes.node import Filter, Node, Project, Scan, Stamp, Union, Unnest
from penstock.plan.nodes.over import Over, RowsOver, RunningOver
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.window_kinds import Sliding


def below(expression: Expression, project: Project) -> Expression:
    """Rewrite an expression over the columns of a projection as one over the columns of its input.

    before: q.u + 1, over Project t * 2 AS u
    after:  s.t * 2 + 1
    """

    def made(column: Column) -> Expression:
        return project.columns[column.position(project.schema)].expression

    return substituted(expression, made)


def substituted(expression: Expression, by: Callable[[Column], Expression]) -> Expression:
    """Replace the columns of an expression."""
    if isinstance(expression, Column):
        return by(expression)
    return with_children(expression, lambda each: substituted(each, by))


def with_children(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Replace the operands of an expression."""
    match expression:
        case Call():
            return replace(expression, arguments=tuple(map(change, expression.arguments)))
        case Cast():
            return replace(expression, operand=change(expression.operand))
        case Case():
            branches = tuple((change(when), change(then)) for when, then in expression.branches)
            return replace(expression, branches=branches, otherwise=change(expression.otherwise))
    return expression


# The streams and tables that a plan reads.


def scans_of(node: Node) -> Iterator[Scan]:
    """Iterate over all scans, including those of tables, and of the plans over tables that answer
    sub-queries.
    """
    for each in node.walk():
        if isinstance(each, Scan):
            yield each
            if each.stream.answer is not None:
                yield from scans_of(each.stream.answer)
        elif isinstance(each, Lookup):
            yield from scans_of(each.table)


def reads_tables(node: Node) -> bool:
    """Whether only tables are read, so that all input is complete when a run begins."""
    return all(_is_of_table(each) for each in node.walk() if isinstance(each, Scan))


def _is_of_table(scan: Scan) -> bool:
    return scan.stream.is_table or scan.stream.of_table is not None


# Columns that are the start or the end of a window: the distance between them is known.

_START, _END = 1, 2  # the places of window_start and window_end


class TimeOfWindow(NamedTuple):
    """Column that is always `ticks` after the beginning of the windows of a node."""

    node: WindowAggregate | DistinctOn
    window: Sliding
    ticks: int


def ticks_between(node: Node, one: Column, other: Column) -> int | None:
    """Constant distance from `one` to `other` in ticks, if both are times of the same window;
    otherwise None.
    """
    first, second = time_of_window(node, one), time_of_window(node, other)
    if first is None or second is None or first.node is not second.node:
        return None
    return second.ticks - first.ticks


def time_of_window(node: Node, column: Expression) -> TimeOfWindow | None:
    """Resolve a column to the start or the end of a window, under any name; None if it is
    neither.
    """
    if not isinstance(column, Column):
        return None
    match node:
        case Filter():
            return time_of_window(node.input, column)
        case Project():
            made = node.columns[column.position(node.schema)]
            return time_of_window(node.input, made.expression)
        case GroupAggregate():
            place = column.position(node.schema)
            if place < len(node.keys):
                return time_of_window(node.input, node.keys[place].expression)
        case WindowAggregate() | DistinctOn():
            window, place = node.window, column.position(node.schema)
            if isinstance(window, Sliding) and place in (_START, _END):
                return TimeOfWindow(node, window, window.range if place == _END else 0)
    return None


# The lineage of signed items.
#
# A negative item retracts a positive one of the same lineage: the tuples that both are made of.


def lineage_parts(node: Node) -> int:
    """Maximum number of tuples that an item of a node is made of."""
    if not node.signed:  # a tuple or a result is one, whatever that is made of
        return 1
    match node:
        case Join():
            return sum(map(lineage_parts, node.branches))
        case Union():
            return max(map(lineage_parts, node.branches))
        case Lookup():
            return lineage_parts(node.input) + (0 if node.kind.left_alone else 1)
        case Filter() | Project() | Stamp():
            return lineage_parts(node.input)
    return 1


def steady_columns(node: Node) -> frozenset[Column]:
    """Columns in which all items of one lineage agree. The others say when items come and go, or
    are computed from that.

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, [{"k": 2, "t": 3}], progress=ps.progress("t", delay=5))
    >>> columns = "k, changed_at, t + 1 AS u, changed_at % 7 AS d"
    >>> query = db.sql(f"SELECT {columns} FROM a EXCEPT ON (k) b")
    >>> sorted(column.name for column in steady_columns(query.plan.input))
    ['k', 'u']
    """
    columns = [Column.of(field) for field in node.schema]
    if not node.signed:
        return frozenset(columns)
    match node:
        case Difference():
            return frozenset(columns[:-1])
        case Distinct():
            return frozenset(columns) - {columns[node.when]}
        case Stamp():
            return steady_columns(node.input) - {node.column}
        case Filter():
            return steady_columns(node.input)
        case Project():
            below = steady_columns(node.input)
            needs = [columns_of(each.expression) for each in node.columns]
            pairs = zip(columns, needs, strict=True)
            return frozenset(column for column, needed in pairs if below.issuperset(needed))
        case Lookup():
            return frozenset(columns) - (_all(node.input) - steady_columns(node.input))
        case Union():
            places = [_steady_places(branch) for branch in node.branches]
            return frozenset(columns[place] for place in set.intersection(*places))
        case Join():
            return frozenset().union(*map(steady_columns, node.branches))
    return frozenset()


def _all(node: Node) -> frozenset[Column]:
    return frozenset(Column.of(field) for field in node.schema)


def _steady_places(node: Node) -> set[int]:
    steady = steady_columns(node)
    return {place for place, field in enumerate(node.schema) if Column.of(field) in steady}


# The columns of late tuples.


def late_columns(query: QueryPlan) -> pa.Schema:
    """Columns of late tuples of the first operator, from the sources on, that can find a tuple
    late.
    """
    found = late_schemas(query)
    return found[0] if found else pa.schema([])


def late_schemas(query: QueryPlan) -> list[pa.Schema]:
    """Columns of late tuples of all operators that can find some, from the sources on."""
    amends = query.amend_for is not None
    return [_with_late_columns(*each, amends) for each in _all_finding_late(query)]


def late_layouts(query: QueryPlan) -> dict[tuple[str, ...], pa.Schema]:
    """Columns of late tuples in results, by their internal names."""
    amends = query.amend_for is not None
    found: dict[tuple[str, ...], pa.Schema] = {}
    for schema, bound, ids in _all_finding_late(query):
        outside = _with_late_columns(schema, bound, ids, amends)
        inside = schema.arrow.names
        added = late_names(inside)[: len(outside) - len(inside)]
        found.setdefault((*inside, *added), outside)
    return found


def plain_names(query: QueryPlan) -> dict[tuple[str, ...], list[str]]:
    """Names of columns in results, by their internal names, which may be qualified by a relation;
    unqualified where that is unambiguous.
    """
    schemas = [schema for schema, _, _ in _all_finding_late(query)]
    return {tuple(schema.arrow.names): _plain(schema) for schema in schemas}


def _plain(schema: Schema) -> list[str]:
    names = schema.names
    return list(names) if len(set(names)) == len(names) else schema.arrow.names


def _with_late_columns(schema: Schema, bound: Type, ids: Type, amends: bool) -> pa.Schema:
    types = [each.type.arrow for each in schema]
    added = [bound.arrow, ids.arrow, ids.arrow, *([BOOLEAN.arrow] if amends else [])]
    late = late_names(schema.arrow.names)[: len(added)]
    return pa.schema(list(zip([*_plain(schema), *late], [*types, *added], strict=True)))


def _all_finding_late(query: QueryPlan) -> list[tuple[Schema, Type, Type]]:
    found = list(_finding_late(query.input))
    if query.in_order and has_tuples(query.input):
        found.append((query.schema, query.progress[0].field.type, BIGINT))
    return found


def has_tuples(node: Node) -> bool:
    """Whether tuples of a stream come out of it, not only results, which are never late."""
    if isinstance(node, Filter | Project | Stamp | Union | Lookup | Unnest):
        return any(has_tuples(each) for each in node.inputs)
    return isinstance(node, Scan)


def _finding_late(node: Node) -> Iterator[tuple[Schema, Type, Type]]:
    """Inputs at which an operator can find tuples late. Results are never late, so only inputs
    with tuples count.
    """
    if isinstance(node, Join | Difference | Sequence):
        attributes = tuple((each,) for each in node.attributes)
        times = node.times if isinstance(node, Join) else attributes
        for given, own in zip(node.inputs, times, strict=True):
            yield from _finding_late(given)
            if has_tuples(given):
                yield from ((given.schema, each.type, BIGINT) for each in own)
        return
    for given in node.inputs:
        yield from _finding_late(given)
    if not any(map(has_tuples, node.inputs)):
        return
    match node:
        case WindowAggregate():
            id_type = node.schema.fields[0].type
            attribute = node.attribute
            bound_type = attribute.type if attribute is not None else id_type
            yield node.input.schema, bound_type, id_type
        case DistinctOn():
            yield node.input.schema, node.attribute.type, BIGINT
        case Over():
            for time in node.times:
                yield node.input.schema, time.type, BIGINT
        case GroupAggregate() | Distinct() if node.progress:
            for each in node.progress:
                yield node.input.schema, each.field.type, BIGINT


# The word for results that are open or missed: not all are windows.


def has_windows(query: Node) -> bool:
    """Whether tuples may be late for windows."""
    return any(isinstance(node, WindowAggregate | DistinctOn | Join) for node in query.walk())


def what_waits(query: Node) -> str:
    """Word for what is counted as open.

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 2, "t": 3}], progress=ps.progress("t", delay=5))
    >>> what_waits(db.sql("SELECT k, row_number() OVER (ORDER BY t) AS n FROM s").plan)
    'row'
    """
    found = {word for node in query.walk() if (word := _of(node))}
    return found.pop() if len(found) == 1 else "result"


def _of(node: Node) -> str | None:
    match node:
        case WindowAggregate() | DistinctOn():
            return "window"
        case GroupAggregate() | Distinct():
            return "group"
        case RowsOver() | Sequence() | Difference():
            return "row"
        case Join() if any(node.kind.keeps):
            return "row"
    return None


# State of a running query that grows without bound.


def kept_for_ever(query: Node) -> str:
    """Sentence about state that grows for ever; empty if there is none.

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 2, "t": 3}], progress=ps.progress("t", delay=5))
    >>> kept_for_ever(db.sql("SELECT k, count(*) AS n FROM s GROUP BY k EMIT CHANGES").plan)
    'all groups are kept for ever; KEEP FOR would let go of them'
    """
    nodes = list(query.walk())
    groups = any(isinstance(node, GroupAggregate) and node.runs and node.keys for node in nodes)
    tuples = any(isinstance(node, RunningJoin) for node in nodes)
    orders = [node for node in nodes if isinstance(node, RunningOver)]
    rows = any(not node.forgets for node in orders)
    first = any(node.forgets and node.partition for node in orders)
    kept = ["groups"] * groups + ["tuples of the join"] * tuples + ["rows of OVER or LIMIT"] * rows
    said = [f"all {' and '.join(kept)} are kept for ever"] if kept else []
    said += ["the first rows of every key are kept for ever"] * first
    remedy = "; KEEP FOR would let go of them" if said and not orders else ""
    return "; ".join(said) + remedy
