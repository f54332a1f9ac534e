"""Binds SELECT: from clauses to a plan, with WITH, and UNION, INTERSECT and EXCEPT between SELECTs.

Windows that count rows need results in one order, whatever the cut, the order of arrival and the
engine are. Windows and groups are given in the order of their keys. A group that has several keys
to complete it waits for the first of them, and rows made DISTINCT wait as the groups that they are.
The row windows of several partitions come as the tuples do that fill them. Items that may be
retracted fill no window by themselves, and the pairs of a join are emitted as soon as both tuples
have come, so those have no order to be counted in."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from penstock.errors import BindError, PenstockError, PlanError
from penstock.functions.aggregate_functions import AGGREGATES
from penstock.model.ticks import Domain
from penstock.model.types import BOOLEAN, INT, Field, Schema, Type, common_type, free_name
from penstock.plan.algorithms import Consistency, Following
from penstock.plan.catalog import Catalog, RunningAnswers
from penstock.plan.expressions import (
    AggregateCall,
    Call,
    Column,
    Expression,
    Literal,
    Named,
    cast_to,
)
from penstock.plan.nodes.aggregation import (
    Distinct,
    GroupAggregate,
    NamedAggregate,
    Window,
    WindowAggregate,
)
from penstock.plan.nodes.join import Difference, Join, Lookup
from penstock.plan.nodes.node import Filter, Node, Project, Stamp, Union, Unnest
from penstock.plan.nodes.over import Over
from penstock.plan.nodes.query import Late, QueryPlan
from penstock.plan.properties import reads_tables
from penstock.plan.table_values import with_table_values
from penstock.plan.window_kinds import Order, RowWindow, Session, SlideByTuple
from penstock.sql.binder.aggregates import (
    Aggregation,
    GroupBinder,
    GroupingSets,
    by_all_keys,
    has_aggregate,
    in_sets,
)
from penstock.sql.binder.changelog import (
    reads_changes,
    refuse_running,
    running_distinct,
    running_groups,
    with_running,
)
from penstock.sql.binder.distinct_on import bind_distinct_on, by_first_rows
from penstock.sql.binder.expressions import ExpressionBinder
from penstock.sql.binder.from_clause import FromBinder, Sources, bind_hints, refuse_useless
from penstock.sql.binder.literals import any_length, length_of_time, span_of, ticks
from penstock.sql.binder.operators import refuse_nested
from penstock.sql.binder.peer_windows import in_our_words
from penstock.sql.binder.relations import (
    BoundSource,
    pointing_at,
    positive,
    refuse_modifiers,
    renamed,
    unlike,
    unnested_items,
    with_columns,
)
from penstock.sql.binder.row_limits import (
    RowsBeside,
    in_windows,
    refuse_limit_of_many,
    refuse_order_alone,
)
from penstock.sql.binder.select_items import (
    WINDOW_COLUMNS,
    is_star,
    named,
    selects_window_columns,
    star_columns,
    with_window_bounds,
)
from penstock.sql.binder.table_answers import (
    answered,
    in_order,
    of_tables,
    ordered_apart,
    taken_apart,
    with_totals,
)
from penstock.sql.binder.warnings import said_at_the_end
from penstock.sql.binder.windows import (
    HOW_TO_RUN,
    BoundWindow,
    WindowBinder,
    WindowColumns,
    only_progressing,
    refuse_kept,
)
from penstock.sql.parser.tokens import MAX_COLUMNS
from penstock.sql.syntax import (
    CommonTable,
    ConsistencySyntax,
    Name,
    QuerySyntax,
    Select,
    SelectItem,
)

_Columns: TypeAlias = frozenset[Column]


def to_be_counted(node: Node, window: Window, partition: tuple[Expression, ...]) -> Node:
    """The node that gives the same rows to a window of some partition, in order if it counts them.

    before: Filter(Distinct(Project k, t))
    after:  Filter(GroupAggregate BY k, t (Project k, t))
    """
    counts = isinstance(window, RowWindow) or (
        isinstance(window, SlideByTuple) and window.every > 1
    )
    if not counts:
        return node
    return _in_order(node, frozenset(each for each in partition if isinstance(each, Column)))


def _in_order(node: Node, same: _Columns) -> Node:
    """`same` are the columns in which all rows agree that are counted together."""
    match node:
        case Filter() | Stamp():
            return replace(node, input=_in_order(node.input, same))
        case Project():
            pairs = zip(node.schema, node.columns, strict=True)
            below = [each.expression for field, each in pairs if Column.of(field) in same]
            kept = frozenset(each for each in below if isinstance(each, Column))
            return replace(node, input=_in_order(node.input, kept))
        case Lookup() | Unnest():
            own = frozenset(Column.of(field) for field in node.input.schema)
            return replace(node, input=_in_order(node.input, same & own))
        case Union():
            return replace(node, branches=tuple(_in_order(*each) for each in _branches(node, same)))
        case Distinct() if not node.signed:  # signed items come in the order of their times
            keys = tuple(Named(field.name, Column.of(field)) for field in node.schema)
            return GroupAggregate(node.input, keys, (), node.span, counted=True)
        case GroupAggregate():
            return replace(node, counted=True)
        case WindowAggregate(window=RowWindow()) if not _counted_apart(node, same):
            if node.input.signed:
                raise _no_order(node)
            return replace(node, counted=True)
        case Difference():  # whose items of one time come in the order of their left tuples
            fields = zip(node.schema, node.left.schema, strict=False)  # and changed_at
            own = frozenset(Column.of(left) for given, left in fields if Column.of(given) in same)
            return replace(node, left=_in_order(node.left, own))
        case Over():
            raise PlanError(
                "these rows have no order to be counted in: every partition of OVER and LIMIT is"
                " ready at a time of its own",
                expected="a window over one of the times",
            )
        case Join():
            raise PlanError(
                "these rows have no order to be counted in: the pairs of a join come as soon as "
                "both tuples are there",
                expected="a window over one of the times, or groups by both of them",
            )
    return node


def _branches(node: Union, same: _Columns) -> list[tuple[Node, _Columns]]:
    places = [place for place, field in enumerate(node.schema) if Column.of(field) in same]
    return [
        (branch, frozenset(Column.of(branch.schema.fields[place]) for place in places))
        for branch in node.branches
    ]


def _counted_apart(node: WindowAggregate, same: _Columns) -> bool:
    names = {column.name for column in same}
    return all(part.name in names for part in node.partition)


def _no_order(node: WindowAggregate) -> PlanError:
    shown = [
        part.expression.name if isinstance(part.expression, Column) else part.name
        for part in node.partition
    ]
    return PlanError(
        "these rows have no order to be counted in: every partition of the row windows below "
        "closes windows at a pace of its own",
        expected="a window that counts each partition apart, or windows over values below",
        hint=f"PA {shown[0] if len(shown) == 1 else '(' + ', '.join(shown) + ')'}",
    )


# WITH: names of queries that are local to a query.


def with_tables(tables: tuple[CommonTable, ...], catalog: Catalog) -> Catalog:
    """Add the tables of WITH to the catalog: each knows those before it, and hides relations of the
    same name."""
    seen: set[str] = set()
    for table in tables:
        key = table.name.text.casefold()
        if key in seen:
            raise BindError(f"two queries are called {table.name.text!r}", span=table.name.span)
        seen.add(key)
        catalog = catalog.hiding(table.name.text, _bound(table, catalog))
    return catalog


def _bound(table: CommonTable, catalog: Catalog) -> QueryPlan:

    refuse_modifiers(table.query)
    plan = bind_query(table.query, catalog)
    if not table.columns:
        return plan
    return QueryPlan(with_columns(plan.input, table.name.text, table.columns, table.span))


# UNION, INTERSECT and EXCEPT between SELECTs: rows concatenated, deduplicated, or by their sides.
#
# A row is kept in state until a column of it that progresses has been passed by a bound.


def combined(
    sources: list[BoundSource], operations: tuple[Name, ...], running: RunningAnswers | None
) -> Node:
    """Combine the SELECTs of a query to one node. INTERSECT binds tighter than the others."""
    nodes = _alike(sources)
    terms, between = [nodes[0]], list[Name]()
    for operation, node in zip(operations, nodes[1:], strict=True):
        if operation.text == "INTERSECT":
            terms[-1] = _compared(terms[-1], node, operation, running)
        else:
            terms.append(node)
            between.append(operation)
    return _united(terms, between, running)


def _alike(sources: list[BoundSource]) -> list[Node]:
    """Match columns by position, under the names of the first SELECT, and convert them to common
    types."""
    first, *others = sources
    types = [field.type for field in first.node.schema]
    for each in others:
        own = [field.type for field in each.node.schema]
        pairs = zip(types, own, strict=False)
        common = [common_type(one, other) for one, other in pairs]
        if len(own) != len(types) or None in common:
            raise unlike(first, each)
        types = [each for each in common if each is not None]
    names = first.node.schema.names
    return [_brought_to(each.node, names, types) for each in sources]


def _brought_to(node: Node, names: tuple[str, ...], types: list[Type]) -> Node:
    if [field.type for field in node.schema] == types:
        return renamed(node, names)
    columns = tuple(
        Named(name, cast_to(Column.of(field), wanted))
        for name, field, wanted in zip(names, node.schema, types, strict=True)
    )
    return Project(node, columns, node.schema.fields[0].relation)


def _united(terms: list[Node], between: list[Name], running: RunningAnswers | None) -> Node:
    """Make unions from the left; a run of UNION ALL is one union."""
    made, united = terms[0], [terms[0]]
    for operation, node in zip(between, terms[1:], strict=True):
        if operation.text == "UNION ALL":
            united.append(node)
            made = Union(tuple(united), None)
            continue
        if operation.text == "UNION":
            made = _once(Union((made, node), None), operation, running)
        else:
            made = _compared(made, node, operation, running)
        united = [made]
    return made


def _once(union: Node, operation: Name, running: RunningAnswers | None) -> Node:
    if not union.progress:
        if running is None:
            raise _endless(operation)
        return running_distinct(union, running, operation.span)
    return pointing_at(operation.span, lambda: Distinct(union, operation.span))


def _compared(left: Node, right: Node, operation: Name, running: RunningAnswers | None) -> Node:
    """
    before: a INTERSECT b
    after:  Filter min(side) < max(side) (GroupAggregate BY all columns (Union 0, a; 1, b))

    EXCEPT keeps the groups in which all rows are from the left.  NULL is a value like others here,
    as for GROUP BY.
    """
    if left.signed or right.signed:
        raise BindError(
            f"{operation.text} over a difference, whose rows come and go", span=operation.span
        )
    side = free_name("side", set(left.schema.names))
    tagged = tuple(
        Project(
            node,
            (
                *(Named(field.name, Column.of(field)) for field in node.schema),
                Named(side, Literal(number, INT)),
            ),
        )
        for number, node in enumerate((left, right))
    )
    both = Union(tagged, None)
    if not both.progress and running is None:
        raise _endless(operation)
    keys = tuple(Named(f.name, Column.of(f)) for f in both.schema if f.name != side)
    place = Column.of(both.schema.fields[-1])
    lowest, highest = (
        NamedAggregate(
            free_name(name, {*left.schema.names, side}),
            AggregateCall(AGGREGATES[name], (place,), INT),
        )
        for name in ("min", "max")
    )
    grouped: Node
    if both.progress or running is None:
        grouped = pointing_at(
            operation.span, lambda: GroupAggregate(both, keys, (lowest, highest), operation.span)
        )
    else:
        grouped = running_groups(both, keys, (lowest, highest), running, operation.span)
    ends = (Column(lowest.name, INT), Column(highest.name, INT))
    if operation.text == "INTERSECT":
        kept = Call("lt", ends, BOOLEAN)
    else:
        kept = Call("eq", (ends[1], Literal(0, INT)), BOOLEAN)
    columns = tuple(Named(key.name, Column(key.name, key.expression.type)) for key in keys)
    return Project(Filter(grouped, kept), columns)


def _endless(operation: Name) -> BindError:
    return BindError(
        f"{operation.text} between SELECTs would have to remember every row for ever",
        span=operation.span,
        expected="a column that progresses among those that are selected",
        hint=("UNION ALL, or " if operation.text == "UNION" else "") + HOW_TO_RUN,
    )


# SELECT: from clauses to a plan.

MAX_JOINED = 200  # relations; every pair of them has windows to compare
MAX_DEPTH = 100  # nodes on top of each other; queries on queries are piled up one by one


def bind_query(syntax: QuerySyntax, catalog: Catalog) -> QueryPlan:
    """Bind a query: its SELECTs, combined if there are several."""
    with said_at_the_end():
        return _bind_once(syntax, catalog)


def _bind_once(syntax: QuerySyntax, catalog: Catalog) -> QueryPlan:
    """Bind a query unless it has been bound for the same catalog already."""
    if catalog.bound is None:
        catalog = replace(catalog, bound={})
    assert catalog.bound is not None
    key = (id(syntax), catalog.running, catalog.complete)
    known, made = catalog.bound.get(key, (None, None))
    if known is not syntax or made is None:
        try:
            made = _bind(syntax, catalog)
        except PenstockError as error:
            made = error
        catalog.bound[key] = (syntax, made)
    if isinstance(made, PenstockError):
        raise made
    return made


def _bind(syntax: QuerySyntax, catalog: Catalog) -> QueryPlan:
    asked_in = catalog
    catalog = with_tables(syntax.tables, with_running(syntax, catalog))
    selects, last = taken_apart(syntax.selects)
    sources = [
        BoundSource(bind_select(select, catalog), "", None, select.span) for select in selects
    ]
    if all(reads_tables(each.node) for each in sources):
        catalog = of_tables(catalog)
        if syntax.keep_for is not None:
            raise BindError(
                "KEEP FOR forgets what no tuples come to, and tables are complete",
                span=syntax.modifiers,
                hint="EMIT CHANGES alone, or nothing",
            )
    else:
        refuse_limit_of_many(syntax.selects)
        sources = [each._replace(node=answered(each.node, nested=True)) for each in sources]
    node = combined(sources, syntax.operations, catalog.running)
    if last is not None:
        node = with_table_values(in_order(node, last, catalog))
    if catalog.complete:
        node = answered(node)
    refuse_running(node, syntax, catalog)
    if node.depth > MAX_DEPTH:
        raise BindError(
            f"the query stands on a pile of {node.depth} steps",
            span=syntax.span,
            expected=f"up to {MAX_DEPTH}",
        )
    late = Late(syntax.late.text) if syntax.late else Late.DROP
    early = length_of_time(syntax.early) if syntax.early else None
    amend_for = any_length(syntax.amend_for) if syntax.amend_for else None
    try:
        following = _consistency(syntax.consistency) if syntax.consistency else None
        changes = syntax.changes or reads_changes(syntax, asked_in)
        query = QueryPlan(node, late, early, syntax.in_order, amend_for, changes, following)
    except PenstockError as error:
        error.span = syntax.modifiers
        raise
    refuse_kept(query)
    return query


def _consistency(syntax: ConsistencySyntax) -> Consistency:
    rows = syntax.rows
    if rows is not None and ((rows.unit and not rows.is_rows) or rows.amount != int(rows.amount)):
        raise BindError(
            f"CONSISTENCY LEVEL {rows}", span=rows.span, expected="a number of rows", hint="100"
        )
    count = None if rows is None else int(rows.amount)
    return Consistency(Following(syntax.following.text), count, span=syntax.span)


def bind_select(select: Select, catalog: Catalog) -> Node:
    """Bind a SELECT; if it reads tables alone, operators that never complete over streams do."""
    binder = SelectBinder(select, catalog)
    complete = of_tables(catalog)
    if complete is not catalog and reads_tables(binder.given.node):
        binder = SelectBinder(select, complete, binder.sources)
    return with_table_values(binder.bind())


class SelectBinder:
    """Binds one SELECT: FROM and WHERE first, then aggregation or rows, then the clauses over
    rows."""

    def __init__(self, select: Select, catalog: Catalog, sources: Sources | None = None) -> None:
        """Bind FROM, or take the `sources` that have been bound already."""
        select = in_our_words(by_all_keys(unnested_items(select, catalog), catalog))
        select = in_windows(by_first_rows(select, catalog), catalog)
        self.select = select
        self.catalog = catalog
        self.hints = bind_hints(select.hint)
        binder = FromBinder(select, catalog, bound=sources)
        self.given = binder.bind(self.hints)
        self.sources = binder.bound

    def bind(self) -> Node:
        node = self.given.node
        if not self.catalog.complete:
            refuse_order_alone(self.select)
        elif self.select.distinct:
            plain, rows = ordered_apart(self.select)
            if plain is not self.select:
                made = SelectBinder(plain, self.catalog, self.sources).bind()
                return in_order(made, rows, self.catalog)
        if self.select.distinct_on:
            refuse_useless(self.hints, windows=False, joins=self.given.joins)
            return bind_distinct_on(self.select, self.given, self.catalog)
        if self._aggregates():
            node, columns = self._aggregate(node)
        else:
            node, columns = self._plain(node)
        projected = pointing_at(self.select.span, lambda: Project(node, columns))
        if not self._distinct_rows():
            return projected
        if self.select.limit is not None:
            raise BindError(
                "DISTINCT stands before LIMIT",
                span=self.select.limit.span,
                hint="FROM (SELECT DISTINCT …) LIMIT …",
            )
        if not projected.progress:
            if self.catalog.running is None:
                raise self._endless("DISTINCT", "selected columns")
            return running_distinct(projected, self.catalog.running, self.select.span)
        return pointing_at(self.select.span, lambda: Distinct(projected, self.select.span))

    # --- without aggregates ----------------------------------------------------------------------

    def _plain(self, node: Node) -> tuple[Node, tuple[Named, ...]]:
        select = self.select
        refuse_useless(self.hints, windows=False, joins=self.given.joins)
        node, columns = self._selected(node)
        if select.window is not None:
            raise BindError(
                "the window has nothing to compute",
                span=select.window.span,
                hint="an aggregate such as count(*), or SELECT DISTINCT",
            )
        if select.window_all is not None and not self.given.stays:
            raise BindError(
                "WINDOW has nothing to apply to",
                span=select.window_all.span,
                expected="a join, a difference or an aggregate",
            )
        if select.having is not None:
            raise BindError("HAVING needs an aggregate", span=span_of(select.having), hint="WHERE")
        return node, columns

    def _selected(self, node: Node) -> tuple[Node, tuple[Named, ...]]:
        """Bind the columns of a SELECT without aggregation."""
        select = self.select
        binder = ExpressionBinder(self.given.scope(), self.catalog, "this SELECT")
        beside = RowsBeside(select, binder)
        found: list[tuple[Expression, SelectItem]] = []
        for item in select.items:
            stars = star_columns(item, binder, self.given.schema)
            found += [(binder.bind(item.expression), item)] if stars is None else stars
            if len(found) > MAX_COLUMNS:
                raise BindError(f"a SELECT has up to {MAX_COLUMNS:,} columns", span=item.span)
        beside.look(found)
        return beside.above(node, ()), named(found)

    # --- with aggregates -------------------------------------------------------------------------

    def _aggregates(self) -> bool:
        select = self.select
        parts = [item.expression for item in select.items]
        if select.having is not None:
            parts.append(select.having)
        return (
            bool(select.group_by)
            or any(has_aggregate(part, self.catalog) for part in parts)
            or (select.window is not None and (select.distinct or select.window.by_start))
        )

    def _aggregate(self, node: Node) -> tuple[Node, tuple[Named, ...]]:
        select = self.select
        scope = self.given.scope()
        tuples = ExpressionBinder(scope, self.catalog, "GROUP BY")
        bound = self._window(node, tuples)
        if bound is not None:
            given, window = node, bound.window
            place = select.window.span if select.window is not None else select.span
            node = pointing_at(place, lambda: to_be_counted(given, window, bound.partition))
        keys = self._keys(tuples, bound)
        window_fields: list[Field] = []
        if bound is not None:
            shape = WindowAggregate(node, bound.window, bound.attribute, (), (), ())
            window_fields = list(shape.schema)
        sets = self._sets(keys, tuples)
        binder = GroupBinder(
            scope, self.catalog, keys, self._window_columns(window_fields, bound), sets
        )
        beside = RowsBeside(select, binder)
        found = []
        for item in select.items:
            if is_star(item) and not self._distinct_tuples():
                raise BindError("* cannot stand beside aggregates", span=item.span)
            stars = star_columns(item, tuples, self.given.schema)
            if stars is None:
                found.append((binder.bind(item.expression), item))
            else:
                found += [(binder.of_key(each), _called(shown, each)) for each, shown in stars]
        having = None
        if select.having is not None:
            having = binder.over_groups(select.having, select.items)
        beside.look(found)
        if not keys and not binder.aggregates:  # only the window is asked for: one that has tuples
            binder.bind(exp.Anonymous(this="count", expressions=[exp.Star()]))
        refuse_useless(self.hints, windows=bound is not None, joins=self.given.joins)
        grouped = self._grouped(Aggregation(node, keys, binder.aggregates, bound), sets)
        if having is not None:
            grouped = Filter(grouped, having)
        columns = named(found)
        peers = select.window is not None and select.window.by_start
        own = [] if peers else [each.field for each in grouped.progress if bound is not None]
        grouped = beside.above(grouped, own)
        if window_fields and not peers and not selects_window_columns(select.items):
            columns = with_window_bounds(columns, Schema(tuple(window_fields)))
        return grouped, columns

    def _grouped(self, given: Aggregation, sets: GroupingSets) -> Node:
        select, running = self.select, self.catalog.running
        node, keys, aggregates, bound = in_sets(given, sets, select.span)
        if bound is None:
            if any(node.promise(key.expression) for key in keys):
                return GroupAggregate(node, tuple(keys), tuple(aggregates), select.span)
            if running is not None:
                made = running_groups(node, keys, aggregates, running, select.span)
                return with_totals(made, sets) if self.catalog.complete else made
            raise self._endless("an aggregate", "GROUP BY columns")
        partition: tuple[Named, ...] = ()
        if isinstance(bound.window, RowWindow | SlideByTuple):
            partition = tuple(key for key in keys if key.expression in bound.partition)
        return pointing_at(
            select.span,
            lambda: WindowAggregate(
                node,
                bound.window,
                bound.attribute,
                partition,
                tuple(keys),
                tuple(aggregates),
                self.hints.window,
                select.span,
            ),
        )

    def _window_columns(self, fields: list[Field], bound: BoundWindow | None) -> WindowColumns:
        peers = self.select.window is not None and self.select.window.by_start
        sessions = bound is not None and isinstance(bound.window, Session)
        return WindowColumns(tuple(fields), peers, peers and sessions)

    def _window(self, node: Node, tuples: ExpressionBinder) -> BoundWindow | None:
        select = self.select
        if select.window is not None:
            if select.window_all is not None and not self.given.stays:
                raise BindError("the aggregate has two windows", span=select.window_all.span)
            return WindowBinder(select.window, node, tuples).bind()
        if select.window_all is None:
            return None
        # WINDOW d: every tuple opens a window over the last d, as in the queries of Nile.
        attribute: Expression
        times = self.given.times
        if times:
            several = len(times) > 1
            attribute = Call("greatest", times, times[0].type) if several else times[0]
        else:
            attribute = only_progressing(node, select.window_all.span, "WA")
        length = positive(select.window_all, ticks(select.window_all, Domain(attribute.type)))
        return BoundWindow(SlideByTuple(length, 1, Order.ARRIVAL), attribute, ())

    def _keys(self, tuples: ExpressionBinder, bound: BoundWindow | None) -> list[Named]:
        select = self.select
        expressions = [self._key(syntax, tuples) for syntax in select.group_by]
        expressions += bound.partition if bound else ()
        for item in select.items if self._distinct_tuples() else ():
            stars = star_columns(item, tuples, self.given.schema)
            if stars is not None:
                expressions += [each for each, _ in stars]
            elif item.text.lower() not in WINDOW_COLUMNS:
                expressions.append(tuples.bind(item.expression))
        for each in expressions:
            refuse_nested(each.type, "groups cannot be told apart by", each.span or select.span)
        return [Named(str(each), each) for each in dict.fromkeys(expressions)]

    def _sets(self, keys: list[Named], tuples: ExpressionBinder) -> GroupingSets:
        """Grouping sets as sets of positions of keys; a grouping column that is no key is a
        window."""
        select = self.select
        places = {key.expression: number for number, key in enumerate(keys)}
        sets = [
            frozenset(places[self._key(each, tuples)] for each in own if each in select.group_by)
            for own in select.grouping_sets
        ]
        return GroupingSets(tuple(keys), tuple(sets or [frozenset(range(len(keys)))]))

    def _key(self, syntax: exp.Expr, tuples: ExpressionBinder) -> Expression:
        """Bind a key: an expression, the alias of a SELECT item, or its number."""
        items = self.select.items
        if isinstance(syntax, exp.Literal) and not syntax.is_string:
            if not syntax.name.isdigit() or not 1 <= int(syntax.name) <= len(items):
                raise BindError(f"there is no column number {syntax.name}", span=span_of(syntax))
            return tuples.bind(items[int(syntax.name) - 1].expression)
        bare = isinstance(syntax, exp.Column) and not syntax.table
        if bare and not tuples.scope.matches(syntax.name, None):
            for item in items:
                if item.alias and item.alias.text.casefold() == syntax.name.casefold():
                    return tuples.bind(item.expression)
        return tuples.bind(syntax)

    def _distinct_rows(self) -> bool:
        """Whether DISTINCT is needed after aggregation: keys are distinct already."""
        return self.select.distinct and not self._distinct_tuples()

    def _distinct_tuples(self) -> bool:
        """Whether the SELECT items are the key of a window: SELECT DISTINCT k [RANGE …] FROM s."""
        select = self.select
        aggregates = any(has_aggregate(item.expression, self.catalog) for item in select.items)
        return select.distinct and select.window is not None and not aggregates

    def _endless(self, what: str, columns: str) -> BindError:
        return BindError(
            f"{what} over an endless stream never completes without a window",
            span=self.select.span,
            expected=f"a window, or a column that progresses among the {columns}",
            hint=f"[RANGE 1 MINUTE, SLIDE 1 MINUTE, WA ts] after the SELECT list; or {HOW_TO_RUN}",
        )


def _called(shown: SelectItem, column: Expression) -> SelectItem:
    """Name a column of a star by its own name, without its relation."""
    if shown.alias is not None or not isinstance(column, Column):
        return shown
    return replace(shown, expression=exp.column(column.name), text=column.name)
