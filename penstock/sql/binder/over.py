"""OVER: frames (ROWS, RANGE, GROUPS), and calls that share a partition and an order as one node."""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from penstock.errors import BindError, Span, nearest
from penstock.expressions.evaluation import evaluator
from penstock.model.ticks import Domain
from penstock.model.types import Schema, Type, free_name
from penstock.plan.expressions import Column, Expression, Named, columns_of
from penstock.plan.nodes.node import Node, Project
from penstock.plan.nodes.over import (
    TIMES,
    Excluded,
    FramedAggregate,
    FrameUnit,
    NamedOver,
    Neighbour,
    Numbering,
    NumberKind,
    OrderKey,
    OverCall,
    RowFrame,
    Standing,
    StandingKind,
    ValueAt,
    frames_of,
)
from penstock.sql.binder.aggregates import aggregate_call, called_over
from penstock.sql.binder.changelog import OverParts, over_rows
from penstock.sql.binder.expressions import ExpressionBinder
from penstock.sql.binder.literals import alike, span_of, ticks
from penstock.sql.binder.peer_windows import length_of

_TRY = "ROWS BETWEEN 5 PRECEDING AND CURRENT ROW"


def default_frame(ordered: bool) -> RowFrame:
    """Frame without a clause: up to the row and its peers; without an order, the whole
    partition."""
    return RowFrame(FrameUnit.RANGE, None, 0) if ordered else RowFrame(FrameUnit.ROWS, None, None)


def frame_of(spec: exp.WindowSpec, order: Type | None, span: Span | None) -> RowFrame:
    """Bind the written frame; `order` is the type of the first column of the order."""
    unit = FrameUnit(str(spec.args.get("kind")).upper())
    if order is None and unit is not FrameUnit.ROWS:
        raise BindError(
            f"{unit.value} is measured on what ORDER BY names", span=span, hint="ORDER BY ts"
        )
    lengths = any(isinstance(spec.args.get(end), exp.Expr) for end in ("start", "end"))
    if unit is FrameUnit.RANGE and lengths and order is not None and order.kind not in TIMES:
        raise BindError(
            f"RANGE is measured on times and exact numbers, and this is {order.a}",
            span=span,
            hint="ROWS, or ORDER BY a CAST to DECIMAL(18,6)",
        )
    first = _offset(spec, "start", unit, order, span)
    last = 0 if spec.args.get("end") is None else _offset(spec, "end", unit, order, span)
    if first is not None and last is not None and first > last:
        raise BindError("the frame ends before it begins", span=span, hint=_TRY)
    excluded = spec.args.get("exclude")
    return RowFrame(unit, first, last, Excluded(str(excluded).upper() if excluded else "NO OTHERS"))


def _offset(
    spec: exp.WindowSpec, end: str, unit: FrameUnit, order: Type | None, span: Span | None
) -> int | None:
    value, side = spec.args.get(end), str(spec.args.get(f"{end}_side") or "").upper()
    if value == "CURRENT ROW":
        return 0
    if value == "UNBOUNDED":
        if side != ("PRECEDING" if end == "start" else "FOLLOWING"):
            raise BindError(
                f"a frame does not {'begin' if end == 'start' else 'end'} with UNBOUNDED {side}",
                span=span,
                hint=_TRY,
            )
        return None
    if not isinstance(value, exp.Expr) or side not in ("PRECEDING", "FOLLOWING"):
        raise BindError(
            "a frame begins and ends with PRECEDING, CURRENT ROW or FOLLOWING", span=span, hint=_TRY
        )
    length = _length(value, unit, order)
    if length < 0:
        raise BindError("a frame is measured from its row on", span=span_of(value), hint=_TRY)
    return -length if side == "PRECEDING" else length


def _length(value: exp.Expr, unit: FrameUnit, order: Type | None) -> int:
    quantity = length_of(value)
    if unit is FrameUnit.RANGE:
        assert order is not None
        return ticks(quantity, Domain(order))
    if quantity.unit is not None or quantity.amount != int(quantity.amount):
        what = "rows" if unit is FrameUnit.ROWS else "groups of equal rows"
        raise BindError(f"{unit.value} counts {what}", span=span_of(value), hint=_TRY)
    return int(quantity.amount)


# From syntax to nodes: one node for all calls with the same partition and order.

_NUMBERINGS = {kind.value: kind for kind in NumberKind}
_NEIGHBOURS = {"lag": -1, "lead": 1}
_PLACES = {"first_value": 1, "first": 1, "last_value": -1, "last": -1, "nth_value": 2}
_SHARES = {kind.value: kind for kind in StandingKind}


class _Group(NamedTuple):
    """Calls that one node computes. Those that wait for later rows have a node of their own, so
    that results of the others need not be kept."""

    partition: tuple[Expression, ...]
    order: tuple[OrderKey, ...]
    ahead: bool


class _Call(NamedTuple):
    named: NamedOver
    span: Span | None


class OverCalls:
    """The OVER calls of a SELECT. Each becomes a column of the node that computes it."""

    def __init__(self, binder: ExpressionBinder, windows: tuple[exp.Window, ...]) -> None:
        self._binder = binder
        self._windows = {str(each.name).casefold(): each for each in windows}
        if len(self._windows) < len(windows):
            raise BindError("two windows have the same name", span=span_of(windows[-1]))
        self._groups: dict[_Group, list[_Call]] = {}
        self._named: dict[str, OverCall] = {}
        binder.rows_beside = self._bind

    def __bool__(self) -> bool:
        return bool(self._groups)

    def check_unused(self) -> None:
        """Check the named windows that no call refers to."""
        binder = self._binder
        known, binder.rows_beside = binder.rows_beside, None
        try:
            for each in self._windows.values():
                window = self._resolved(each)
                for part in window.args.get("partition_by") or ():
                    binder.bind(part)
                for key in _ordered(window):
                    self._order_key(key)
        finally:
            binder.rows_beside = known

    def looked_at(self, found: list[Expression]) -> tuple[Column, ...]:
        """Columns that expressions use, from left to right: those below OVER."""
        columns: dict[Column, None] = {}
        for column in (each for expression in found for each in columns_of(expression)):
            call = self._named.get(column.name) if column.relation is None else None
            if call is None:
                columns[column] = None
            else:
                inside = [each for part in call.expressions for each in columns_of(part)]
                columns |= dict.fromkeys(inside)
        return tuple(columns)

    def above(self, node: Node, ties: tuple[Column, ...]) -> Node:
        """Put nodes that compute all calls above the node; rows of equal order come in that of
        `ties`."""
        node, keys = with_key_columns(node, [key for group in self._groups for key in group[0]])
        for group, calls in sorted(self._groups.items(), key=lambda each: each[0].ahead):
            partition = tuple(keys.get(each, each) for each in group.partition)
            node = self._answered(node, group._replace(partition=partition), calls, ties)
        return node

    def _answered(
        self, node: Node, group: _Group, calls: list[_Call], ties: tuple[Column, ...]
    ) -> Node:
        named = tuple(each.named for each in calls)
        span = calls[0].span
        parts = OverParts(node, group.partition, group.order, ties, named, None, span)
        return over_rows(parts, self._binder.catalog.running)

    # --- a call ----------------------------------------------------------------------------------

    def _bind(self, syntax: exp.Window) -> Expression:
        binder, span = self._binder, span_of(syntax)
        binder.rows_beside, clause, binder.clause = None, binder.clause, "another OVER"
        try:
            window = self._resolved(syntax)
            partition = tuple(binder.bind(each) for each in window.args.get("partition_by") or ())
            order = tuple(self._order_key(each) for each in _ordered(window))
            call = self._call(syntax, window, order)
        finally:
            binder.rows_beside, binder.clause = self._bind, clause
        ahead = any((each.last or 0) > 0 for each in frames_of((NamedOver("", call),)))
        group = _Group(tuple(dict.fromkeys(partition)), order, ahead)
        calls = self._groups.setdefault(group, [])
        for known in calls:
            if known.named.call == call:
                return Column(known.named.name, call.type, span=span)
        taken = {*self._named, *(field.name for field in binder.scope.schema)}
        name = free_name(f"{call} OVER", taken)
        calls.append(_Call(NamedOver(name, call), span))
        self._named[name] = call
        return Column(name, call.type, span=span)

    def _resolved(self, syntax: exp.Window) -> exp.Window:
        """Merge a window with the named one that it refers to: OVER w, or OVER (w …)."""
        name = syntax.args.get("alias")
        if name is None:
            return syntax
        base = self._windows.get(str(name.name).casefold())
        if base is None:
            close = nearest(str(name.name), [str(each.name) for each in self._windows.values()])
            raise BindError(
                f"there is no window called {str(name.name)!r}",
                span=span_of(name) or span_of(syntax),
                expected="WINDOW w AS (…) behind the other clauses",
                hint=close[0] if close else None,
            )
        base = self._resolved(base)
        made = syntax.copy()
        made.set("alias", None)
        for part in ("partition_by", "order", "spec"):
            if base.args.get(part) and made.args.get(part) and part != "spec":
                raise BindError(
                    f"the window {name.name} says already how rows are"
                    f" {'partitioned' if part == 'partition_by' else 'put in order'}",
                    span=span_of(syntax),
                )
            if not made.args.get(part):
                made.set(part, base.args.get(part))
        return made

    def _order_key(self, syntax: exp.Ordered) -> OrderKey:
        descending = bool(syntax.args.get("desc"))
        expression = self._binder.bind(syntax.this)
        return OrderKey(expression, descending, bool(syntax.args.get("nulls_first")))

    def _call(
        self, syntax: exp.Window, window: exp.Window, order: tuple[OrderKey, ...]
    ) -> OverCall:
        syntax, known = _without_nulls(syntax)
        called, span = called_over(syntax), span_of(syntax)
        if not isinstance(called, exp.Anonymous) or isinstance(syntax.this, exp.WithinGroup):
            raise BindError("this cannot stand before OVER", span=span, expected="a function")
        name = str(called.name).lower()
        spec = window.args.get("spec")
        if known and name not in (*_NEIGHBOURS, *_PLACES):
            raise BindError(
                f"IGNORE NULLS says nothing of {name}",
                span=span,
                expected="one of " + ", ".join([*_NEIGHBOURS, *_PLACES]),
                hint="FILTER (WHERE x IS NOT NULL)" if self._is_aggregate(name) else None,
            )
        if name in _NUMBERINGS:
            return self._numbering(name, called, order, syntax)
        if name in _SHARES:
            return self._share(name, called, order, syntax)
        if name in _NEIGHBOURS:
            return self._neighbour(name, called, order, known)
        if spec is not None:
            frame = frame_of(spec, order[0].expression.type if order else None, span)
        else:
            frame = default_frame(bool(order))
        if name in _PLACES:
            return self._value_at(name, called, frame, order, known)
        function = self._binder.catalog.aggregate(name)
        if function is None:
            raise self._unknown(name, span)
        where = None
        if isinstance(syntax.this, exp.Filter):
            where = self._binder.condition(syntax.this.expression.this, "FILTER")
        return FramedAggregate(aggregate_call(function, called, where, self._binder), frame)

    def _numbering(
        self, name: str, called: exp.Anonymous, order: tuple[OrderKey, ...], syntax: exp.Window
    ) -> Numbering:
        if called.expressions:
            raise BindError(f"{name} takes no arguments", span=span_of(called))
        if name != "row_number" and not order:
            raise BindError(f"{name} needs an order", span=span_of(syntax), hint="ORDER BY …")
        return Numbering(_NUMBERINGS[name])

    def _is_aggregate(self, name: str) -> bool:
        return self._binder.catalog.aggregate(name) is not None

    def _share(
        self, name: str, called: exp.Anonymous, order: tuple[OrderKey, ...], syntax: exp.Window
    ) -> Standing:
        given, parts = called.expressions, None
        if name == "ntile":
            if len(given) != 1:
                raise BindError("ntile takes a number of parts", span=span_of(called))
            parts = self._whole(given[0], name, least=1, what="parts")
        elif given:
            raise BindError(f"{name} takes no arguments", span=span_of(called))
        if not order:
            raise BindError(f"{name} needs an order", span=span_of(syntax), hint="ORDER BY …")
        return Standing(_SHARES[name], parts)

    def _neighbour(
        self, name: str, called: exp.Anonymous, order: tuple[OrderKey, ...], known: bool
    ) -> Neighbour:
        given, span = called.expressions, span_of(called)
        if not 1 <= len(given) <= 3:
            raise BindError(
                f"{name} takes a value, a number of rows and a value where there is none", span=span
            )
        if not order:
            raise BindError(f"{name} needs an order", span=span, hint="ORDER BY …")
        value = self._binder.bind(given[0])
        rows = 1 if len(given) < 2 else self._whole(given[1], name, least=1 if known else 0)
        default = None
        if len(given) > 2:
            value, default = alike([value, self._binder.bind(given[2])], "give")
        return Neighbour(value, rows * _NEIGHBOURS[name], default, known)

    def _value_at(
        self,
        name: str,
        called: exp.Anonymous,
        frame: RowFrame,
        order: tuple[OrderKey, ...],
        known: bool,
    ) -> ValueAt:
        given, span = called.expressions, span_of(called)
        if name != "nth_value" and len(given) == 2 and isinstance(given[1], exp.Boolean):
            given, known = given[:1], known or bool(given[1].this)  # as Spark writes it
        if len(given) != 1 + (name == "nth_value"):
            wanted = "a value and a number" if name == "nth_value" else "a value"
            raise BindError(f"{name} takes {wanted}", span=span)
        if not order:
            raise BindError(f"{name} needs an order", span=span, hint="ORDER BY …")
        place = self._whole(given[1], name, least=1) if name == "nth_value" else _PLACES[name]
        return ValueAt(self._binder.bind(given[0]), place, frame, known)

    def _whole(self, syntax: exp.Expr, name: str, least: int, what: str = "rows") -> int:
        found = self._binder.bind(syntax)
        constant = found.type.is_integer and not columns_of(found)
        value = evaluator(found, Schema(()))(()) if constant else None
        if value is None or value < least:
            raise BindError(
                f"{name} takes a constant number of {what}, from {least} on", span=span_of(syntax)
            )
        return int(value)

    def _unknown(self, name: str, span: Span | None) -> BindError:
        own = [*_NUMBERINGS, *_SHARES, *_NEIGHBOURS, *_PLACES]
        close = nearest(name, [*own, *self._binder.catalog.aggregate_names])
        return BindError(
            f"there is no function called {name!r} to stand before OVER",
            span=span,
            expected="an aggregate, or one of " + ", ".join(own),
            hint=" or ".join(close) or None,
        )


def with_key_columns(
    node: Node, keys: list[Expression]
) -> tuple[Node, dict[Expression, Expression]]:
    """Add a column for every key that is computed from a time. Returns the node and these columns
    by key, so that the nodes above know that they progress, too."""
    made = [
        each
        for each in dict.fromkeys(keys)
        if not isinstance(each, Column) and node.promise(each) is not None
    ]
    relations = {field.relation for field in node.schema}
    if not made or len(relations) != 1:  # columns of several relations may have one name
        return node, {}
    (relation,) = relations
    given = [Named(field.name, Column.of(field)) for field in node.schema]
    taken = [each.name for each in given]
    named = [Named(free_name(str(each), taken), each) for each in made]
    columns = {each.expression: Column(each.name, each.expression.type, relation) for each in named}
    return Project(node, (*given, *named), relation), dict(columns)


def _ordered(window: exp.Window) -> list[exp.Ordered]:
    order = window.args.get("order")
    return [] if order is None else list(order.expressions)


def _without_nulls(syntax: exp.Window) -> tuple[exp.Window, bool]:
    """Strip IGNORE NULLS or RESPECT NULLS, which are behind the call or in it. Returns the call,
    and whether NULLs are skipped."""
    made = syntax.copy()
    said = list(made.this.find_all(exp.IgnoreNulls, exp.RespectNulls))
    for each in said:
        each.replace(each.this)
    return made, any(isinstance(each, exp.IgnoreNulls) for each in said)
