"""Windows as other systems write them, translated to the window columns of Penstock: `GROUP BY
TUMBLE(ts, …)`, `HOP`, Spark's `window(ts, …)`, and window functions in FROM that are grouped by
their window.

They are aligned by their start, as in those systems, and only the columns that are selected are
emitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TypeAlias

from sqlglot import exp

from penstock.errors import BindError, PenstockError, Span
from penstock.model.durations import parse_duration
from penstock.sql.binder.literals import span_of
from penstock.sql.syntax import (
    Attribute,
    JoinChain,
    Name,
    Quantity,
    Select,
    SelectItem,
    WindowClause,
    WindowedRelation,
)

_LENGTHS = {  # at least, at most
    "TUMBLE": (1, 2),
    "HOP": (2, 3),
    "WINDOW": (1, 3),
    "SESSION": (1, 1),
    "SESSION_WINDOW": (1, 1),
}
_SESSIONS = ("SESSION", "SESSION_WINDOW")
_VALUES = ("WINDOW", "SESSION_WINDOW")  # of Spark, which have fields
_BOUNDS = {
    **{f"{kind}_START": "window_start" for kind in ("TUMBLE", "HOP", "SESSION")},
    **{f"{kind}_END": "window_end" for kind in ("TUMBLE", "HOP", "SESSION")},
    **{f"{kind}_ROWTIME": "window_time" for kind in ("TUMBLE", "HOP", "SESSION")},
}
_FIELDS = {"start": "window_start", "end": "window_end"}
_Column: TypeAlias = Callable[[exp.Expr], exp.Expr | None]  # ours, where something stands for one
_COLUMNS = ("window_start", "window_end", "window_time")


def in_our_words(select: Select) -> Select:
    """
    before: SELECT TUMBLE_END(ts, INTERVAL '1' HOUR), count(*) FROM s
            GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)
    after:  SELECT window_end, count(*) [RANGE 1 HOUR, SLIDE 1 HOUR, WA ts, aligned by start] FROM s
    """
    select = _with_named_windows(select)
    grouped = _grouped_function(select.group_by)
    if grouped is not None:
        _refuse_two(select, grouped)
        clause = window_of(str(grouped.name).upper(), grouped.expressions, span_of(grouped))
        others = tuple(each for each in select.group_by if each is not grouped)
        made = replace(select, window=clause, group_by=others)
        return _with_columns(made, lambda syntax: _bound(syntax, grouped))
    return _from_a_window_function(select)


def _with_named_windows(select: Select) -> Select:
    """
    before: SELECT window(ts, '1 hour') AS w, count(*) FROM s GROUP BY w
    after:  SELECT window(ts, '1 hour') AS w, count(*) FROM s GROUP BY window(ts, '1 hour')
    """
    named = {
        each.alias.text.casefold(): each.expression
        for each in select.items
        if each.alias is not None and is_window_call(each.expression)
    }
    if not named:
        return select
    keys = tuple(
        named.get(each.name.casefold(), each)
        if isinstance(each, exp.Column) and not each.table
        else each
        for each in select.group_by
    )
    return replace(select, group_by=keys)


def is_window_call(syntax: exp.Expr) -> bool:
    """Whether a call is a window of Spark, which is a value."""
    return isinstance(syntax, exp.Anonymous) and str(syntax.name).upper() in _VALUES


def window_of(kind: str, arguments: Sequence[exp.Expr], span: Span | None) -> WindowClause:
    """Make the window of a call from a time and lengths."""
    given = span or Span(0, 0)
    time, *lengths = arguments
    least, most = _LENGTHS[kind]
    if not least <= len(lengths) <= most:
        raise BindError(
            f"{kind} does not take {len(lengths)} lengths of time",
            span=span,
            hint={
                "TUMBLE": "TUMBLE(ts, INTERVAL '10' MINUTE)",
                "HOP": "HOP(ts, INTERVAL '1' MINUTE, INTERVAL '10' MINUTE): SLIDE before RANGE",
                "WINDOW": "window(ts, '10 minutes', '1 minute')",
                "SESSION": "SESSION(ts, INTERVAL '5' MINUTE)",
                "SESSION_WINDOW": "session_window(ts, '5 minutes')",
            }[kind],
        )
    found = [length_of(each) for each in lengths]
    at = Attribute(time, False, span_of(time) or given)
    if kind in _SESSIONS:
        return WindowClause(given, gap=found[0], attribute=at, by_start=True)
    if kind == "HOP":  # the slide stands first
        found[:2] = found[1], found[0]
    elif kind == "TUMBLE":
        found.insert(1, found[0])
    length, slide = found[0], found[1] if len(found) > 1 else found[0]
    return WindowClause(
        given,
        range=length,
        slide=slide,
        attribute=at,
        offset=found[2] if len(found) > 2 else None,
        by_start=True,
    )


def length_of(syntax: exp.Expr) -> Quantity:
    """Bind a length: an interval, a text as Spark takes it, or a number where windows are over
    numbers."""
    span = span_of(syntax)
    place = span or Span(0, 0)
    try:
        match syntax:
            case exp.Interval() if syntax.args.get("unit") is not None:
                unit = syntax.args["unit"].name
                return Quantity(Decimal(syntax.this.name), unit.upper(), place)
            case exp.Interval():
                return Quantity(Decimal(parse_duration(syntax.this.name)), "MICROSECONDS", place)
            case exp.Cast(this=exp.Literal() | exp.Interval() as inner):  # '5 minutes'::interval
                return length_of(inner)
            case exp.Literal() if syntax.is_string:
                length = parse_duration(syntax.name.removeprefix("interval "))
                return Quantity(Decimal(length), "MICROSECONDS", place)
            case exp.Literal():
                return Quantity(Decimal(syntax.name), None, place)
    except PenstockError as error:
        error.span = span
        raise
    raise BindError("the length of a window is a constant", span=span, hint="INTERVAL '1' MINUTE")


def _grouped_function(group_by: tuple[exp.Expr, ...]) -> exp.Anonymous | None:
    for each in group_by:
        if isinstance(each, exp.Anonymous) and str(each.name).upper() in _LENGTHS:
            if not each.expressions:
                raise BindError(f"{each.name} takes a time and lengths of time", span=span_of(each))
            return each
    return None


def _refuse_two(select: Select, grouped: exp.Anonymous) -> None:
    if select.window is not None or select.window_all is not None:
        raise BindError("the aggregate has two windows", span=span_of(grouped))
    calls = [each for each in select.group_by if _grouped_function((each,)) is not None]
    if len(calls) > 1:
        raise BindError("the aggregate has two windows", span=span_of(calls[1]))


def _with_columns(select: Select, column: _Column) -> Select:
    """Replace expressions of other systems by window columns, in SELECT and HAVING."""
    items = tuple(_item(each, column) for each in select.items)
    having = None if select.having is None else _translated(select.having, column)
    return replace(select, items=items, having=having)


def _item(item: SelectItem, column: _Column) -> SelectItem:
    made, alias = _translated(item.expression, column), item.alias
    if made is item.expression:
        return item
    if alias is None and isinstance(item.expression, exp.Column | exp.Dot):
        # window.start is called start
        alias = Name(item.expression.name, item.span)
    return replace(item, expression=made, alias=alias)


def _translated(syntax: exp.Expr, column: _Column) -> exp.Expr:
    found = [(each, made) for each in syntax.walk() if (made := column(each))]
    if not found:
        return syntax
    if found[0][0] is syntax:
        return found[0][1]
    copied = syntax.copy()
    for each in list(copied.walk()):
        made = column(each)
        if made is not None:
            each.replace(made)
    return copied


def _bound(syntax: exp.Expr, grouped: exp.Anonymous) -> exp.Expr | None:
    """Return the window column for an expression of another system that stands for it:
    TUMBLE_START(…), `window.start`, `window`, or the window as written behind GROUP BY."""
    kind, column = str(grouped.name).upper(), None
    match syntax:
        case exp.Anonymous() if kind in _VALUES and syntax == grouped:
            return _value(syntax)
        case exp.Anonymous():
            column = _BOUNDS.get(str(syntax.name).upper())
        case exp.Dot() if kind in _VALUES and syntax.this == grouped:
            column = _FIELDS.get(syntax.expression.name.lower())
        case exp.Column() if kind in _VALUES and syntax.table.upper() == kind:
            column = _FIELDS.get(syntax.name.lower())
        case exp.Column() if kind in _VALUES and not syntax.table and syntax.name.upper() == kind:
            return _value(syntax)
    return None if column is None else _column(syntax, column)


def _value(syntax: exp.Expr) -> exp.Expr:
    """
    before: window
    after:  {'start': window_start, 'end': window_end}
    """
    pairs = [
        exp.PropertyEQ(this=exp.to_identifier(field), expression=_column(syntax, column))
        for field, column in _FIELDS.items()
    ]
    made = exp.Struct(expressions=pairs)
    made.meta.update(syntax.meta)
    return made


def _column(syntax: exp.Expr, name: str) -> exp.Column:
    made = exp.column(name)
    span = span_of(syntax)
    if span is not None:
        made.meta.update(start=span.start, end=span.end - 1, sql=span.text)
    return made


# Window functions in FROM.


def _from_a_window_function(select: Select) -> Select:
    """Grouped by its window, the relation need not be multiplied.

    before: SELECT window_end, count(*) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), …))
            GROUP BY window_start, window_end
    after:  SELECT window_end, count(*) [RANGE …, SLIDE …, WA ts, aligned by start] FROM s
    """
    match select.chains:
        case (JoinChain(WindowedRelation() as windowed, ()),):
            pass
        case _:
            return select
    keys = [each for each in select.group_by if _is_window_column(each, windowed)]
    if windowed.kind == "SESSION":
        _check_sessions(select, windowed, keys)
    where = select.where.walk() if select.where is not None else ()
    looks = any(_is_window_column(each, windowed) for each in where)
    if not keys or looks or windowed.kind == "CUMULATE" or select.window is not None:
        return select
    clause = clause_of(windowed)
    alias = windowed.alias or windowed.relation.alias
    inner = replace(windowed.relation, alias=alias, window=None)
    made = replace(
        select,
        window=clause,
        chains=(JoinChain(inner, ()),),
        group_by=tuple(each for each in select.group_by if each not in keys),
    )
    return _with_columns(made, lambda syntax: _unqualified(syntax, windowed))


def _check_sessions(select: Select, windowed: WindowedRelation, keys: list[exp.Expr]) -> None:
    """Refuse sessions without groups, whose end no tuple can know, and groups that are not the
    partition of the sessions."""
    if not keys:
        raise BindError(
            "where a session ends is known when it has, so its tuples have no window_end",
            span=windowed.span,
            expected="GROUP BY window_start, window_end",
        )
    others = {each.name.casefold() for each in select.group_by if each not in keys}
    parts = {each.name.casefold() for each in windowed.partition}
    if others != parts:
        raise BindError(
            "every group has sessions of its own, so they are partitioned by what is grouped by",
            span=windowed.span,
            expected=f"PARTITION BY {', '.join(sorted(others))}" if others else "no PARTITION BY",
        )


def clause_of(windowed: WindowedRelation) -> WindowClause:
    """Return the window of a relation, which its function makes, or which is given in brackets."""
    if windowed.kind == "WINDOWED":
        clause = windowed.relation.window
        assert clause is not None
        return clause
    return window_of(windowed.kind, (windowed.time, *windowed.lengths), windowed.span)


def _unqualified(syntax: exp.Expr, windowed: WindowedRelation) -> exp.Expr | None:
    if not _is_window_column(syntax, windowed):
        return None
    return _column(syntax, syntax.name.lower())


def _is_window_column(syntax: exp.Expr, windowed: WindowedRelation) -> bool:
    if not isinstance(syntax, exp.Column) or syntax.name.lower() not in _COLUMNS:
        return False
    return not syntax.table or syntax.table.casefold() == windowed.called.casefold()
