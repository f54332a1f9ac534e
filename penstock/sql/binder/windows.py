"""Binds windows: of aggregates, of relations, and the columns that a query may ask of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.errors import BindError, PenstockError, Span
from penstock.model.ticks import Domain
from penstock.model.types import BIGINT, BOOLEAN, INTERVAL, TIMESTAMP, Field, Kind, Type
from penstock.plan.algorithms import Algorithm
from penstock.plan.expressions import Call, Column, Expression, Literal, Named, cast_to
from penstock.plan.nodes.aggregation import DistinctOn, Window, WindowAggregate, type_of_bounds
from penstock.plan.nodes.node import Filter, Node, Project, Scan, Union
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties import scans_of
from penstock.plan.window_kinds import (
    MOST_KEPT,
    MOST_WINDOWS,
    Landmark,
    Order,
    RowWindow,
    Session,
    SlideByTuple,
    Sliding,
    per_tuple,
)
from penstock.sql.binder.expressions import ExpressionBinder
from penstock.sql.binder.literals import constant_as, span_of, ticks, whole_rows
from penstock.sql.binder.peer_windows import clause_of, length_of
from penstock.sql.syntax import Attribute, Quantity, WindowClause, WindowedRelation

_MILLISECOND = 1_000  # in microseconds


@dataclass(frozen=True)
class WindowColumns:
    """Columns of windows. Windows written as in other systems have a `window_time` as well, and
    sessions among these a `window_end` that is a tick before their own (`tick_back`): they end a
    gap after their last tuple, and a tuple at that time still belongs to them."""

    fields: tuple[Field, ...] = ()
    peers: bool = False
    tick_back: bool = False

    def bind(self, name: str, span: Span | None) -> Expression | None:
        """Bind a column of that name; None if windows have none."""
        if name == "window_time" and self.peers:
            end = self.bind("window_end", span)
            return None if end is None or not has_last_moment(end.type) else last_moment(end)
        field = next((each for each in self.fields if each.name == name), None)
        if field is None:
            return None
        column = Column.of(field, span)
        if name != "window_end" or not self.tick_back:
            return column
        tick = Literal(-1, INTERVAL if column.type.kind is Kind.TIMESTAMP else BIGINT)
        return Call("add", (column, tick), column.type, span=span)


def has_last_moment(bounds: Type) -> bool:
    return bounds.kind is Kind.TIMESTAMP or bounds.is_integer


def last_moment(end: Expression) -> Call:
    """Time of a window that is itself a tuple of another window: the last millisecond before its
    end, or the last number."""
    times = end.type.kind is Kind.TIMESTAMP
    back = Literal(-_MILLISECOND, INTERVAL) if times else Literal(-1, BIGINT)
    return Call("add", (end, back), end.type, span=end.span)


# Windows of aggregates: the kind that the brackets mean, the attribute, and lengths in ticks.

HOW_TO_RUN = "EMIT CHANGES at the end, for an answer that changes"
HOW_TO_PROGRESS = (
    "PROGRESS ON … when the stream is created; in Python, "
    'progress=ps.progress("ts", delay="5 seconds")'
)


class BoundWindow(NamedTuple):
    """A window with the attribute it is over and the keys that partition it."""

    window: Window
    attribute: Expression | None
    partition: tuple[Expression, ...]


class WindowBinder:
    """Binds the brackets of a window to its kind, its attribute and its lengths in ticks."""

    def __init__(self, clause: WindowClause, input_: Node, expressions: ExpressionBinder) -> None:
        self.clause = clause
        self.input = input_
        self.expressions = expressions

    def bind(self) -> BoundWindow:
        clause = self.clause
        if clause.range is None and not clause.range_all and clause.gap is None:
            raise BindError("the window has no RANGE", span=clause.span, hint="RANGE 10 MINUTES")
        lengths = (
            ("RANGE", clause.range),
            ("SLIDE", clause.slide),
            ("GAP", clause.gap),
            ("MAX", clause.longest),
        )
        for name, length in lengths:
            if length is not None and length.amount <= 0:
                raise BindError(f"{name} is {length}", span=length.span, expected="more than zero")
        partition = tuple(self.expressions.bind(part) for part in clause.partition)
        try:
            return self._kind()._replace(partition=partition)
        except PenstockError as error:
            if error.span is None:
                error.span = clause.span
            raise

    def _kind(self) -> BoundWindow:
        clause = self.clause
        if clause.gap is not None:
            return self._session(clause.gap)
        if clause.longest is not None:
            raise BindError(
                "MAX is how long a session may be",
                span=clause.longest.span,
                hint="SESSION GAP 5 MINUTES, MAX 1 HOUR",
            )
        by_tuple = clause.range_attribute is not None or clause.slide_attribute is not None
        slides_rows = clause.slide is not None and clause.slide.is_rows
        ranges_rows = clause.range is not None and clause.range.is_rows
        counts = clause.attribute is not None and (
            clause.attribute.ranked or clause.attribute.column is None
        )
        if by_tuple or (slides_rows and not ranges_rows and not counts and not clause.range_all):
            return self._slide_by_tuple()
        if counts or ranges_rows or slides_rows:
            return self._rows()
        return self._values()

    # --- the kinds -------------------------------------------------------------------------------

    def _values(self) -> BoundWindow:
        """[RANGE 10 MINUTES, SLIDE 1 MINUTE, WA ts], and RANGE ALL for a landmark window"""
        clause = self.clause
        attribute = self._progressing(clause.attribute, "WA")
        domain = Domain(attribute.type)
        origin = self._origin(domain)
        if clause.range_all:
            return BoundWindow(Landmark(ticks(self._slide(), domain), origin), attribute, ())
        assert clause.range is not None
        length = ticks(clause.range, domain)
        slide = length if clause.tumbling and clause.slide is None else None
        if slide is None:
            slide = ticks(self._slide(), domain)
        if clause.tumbling and slide != length:
            raise BindError("a TUMBLING window slides by its RANGE", span=clause.span)
        window = Sliding(length, slide, origin)
        _refuse_many(window, clause.span)
        return BoundWindow(window, attribute, ())

    def _rows(self) -> BoundWindow:
        """[RANGE 1000 ROWS, SLIDE 10 ROWS, WA row-num], or WA rank(ts)"""
        clause = self.clause
        if clause.origin is not None:
            raise BindError("rows are counted from 0, without ORIGIN", span=span_of(clause.origin))
        given = clause.attribute
        if given is not None and not given.ranked and given.column is not None:
            raise BindError(
                "a window in ROWS is over the number of the row",
                span=given.span,
                hint="WA row-num, or WA rank(ts)",
            )
        length = None if clause.range is None else whole_rows(clause.range)
        slide = length if clause.tumbling and clause.slide is None else None
        if slide is None:
            slide = whole_rows(self._slide())
        if clause.tumbling and slide != length:
            raise BindError("a TUMBLING window slides by its RANGE", span=clause.span)
        partitioned = bool(clause.partition)
        _refuse_many(RowWindow(length, slide), clause.span)
        if clause.attribute is None or not clause.attribute.ranked:
            window = RowWindow(length, slide, Order.ARRIVAL, partitioned)
            return BoundWindow(window, None, ())
        attribute = self._progressing(clause.attribute, "WA")
        return BoundWindow(RowWindow(length, slide, Order.RANK, partitioned), attribute, ())

    def _slide_by_tuple(self) -> BoundWindow:
        """[RANGE 5 MINUTES, RATTR ts, SLIDE 1 ROW, SATTR row-num], or SATTR rank(ts)"""
        clause = self.clause
        if clause.range is None:
            raise BindError("a window that slides by tuple has a RANGE of values", span=clause.span)
        if clause.range_attribute is not None and clause.attribute is not None:
            raise BindError("the window has both WA and RATTR", span=clause.attribute.span)
        counted = clause.range_attribute
        if clause.range.is_rows and counted is not None and counted.column is None:
            raise BindError(
                "a window of a number of rows slides by a number of rows, and both are counted by"
                " one attribute",
                span=clause.span,
                expected="WA for both, and a SLIDE in ROWS",
                hint=f"[RANGE {clause.range}, SLIDE {clause.range}, WA row-num]",
            )
        if clause.origin is not None:
            raise BindError(
                "a window that slides by tuples begins with a tuple, without ORIGIN",
                span=span_of(clause.origin),
            )
        if clause.tumbling:
            raise BindError(
                "a window that slides by tuples does not tumble", span=clause.range.span
            )
        attribute = self._progressing(clause.range_attribute or clause.attribute, "RATTR")
        order = Order.ARRIVAL
        slide = clause.slide_attribute
        if slide is not None and slide.column is not None:
            ranked = self.expressions.bind(slide.column)
            if not slide.ranked or ranked != attribute:
                raise BindError(
                    "the window slides over something else than it ranges over",
                    span=slide.span,
                    expected=f"SATTR row-num or SATTR rank({attribute})",
                )
            order = Order.RANK
        every = whole_rows(self._slide())
        length = ticks(clause.range, Domain(attribute.type))
        window = SlideByTuple(length, every, order, bool(clause.partition))
        return BoundWindow(window, attribute, ())

    def _session(self, gap: Quantity) -> BoundWindow:
        """[SESSION GAP 5 MINUTES, WA ts], and MAX 1 HOUR for the longest"""
        clause = self.clause
        if clause.partition:
            raise BindError(
                "every group has sessions of its own, without PA",
                span=span_of(clause.partition[0]),
                hint=f"GROUP BY {clause.partition[0].sql()}",
            )
        others = (clause.range, clause.slide, clause.range_attribute, clause.slide_attribute)
        found = [each.span for each in others if each is not None]
        if clause.origin is not None:
            found.append(span_of(clause.origin) or clause.span)
        if found or clause.range_all:
            raise BindError(
                "a session begins with a tuple and ends GAP after its last",
                span=found[0] if found else clause.span,
                expected="SESSION GAP, MAX and WA alone",
                hint=f"[SESSION GAP {gap}, WA ts]",
            )
        if self.input.signed:
            raise BindError(
                "sessions over items that may be taken back would fall apart again",
                span=clause.span,
                expected="a stream, or results that stay",
            )
        for length in (gap, clause.longest):
            if length is not None and length.is_rows:
                raise BindError(
                    "the GAP of a session is in values of its attribute, not in rows",
                    span=length.span,
                    hint="SESSION GAP 5 MINUTES",
                )
        attribute = self._progressing(clause.attribute, "WA")
        domain = Domain(attribute.type)
        longest = None if clause.longest is None else ticks(clause.longest, domain)
        if clause.by_start and domain.type.kind is Kind.DECIMAL:
            raise BindError(
                "sessions as others write them are over times and whole numbers",
                span=clause.span,
                hint=f"[SESSION GAP {gap}, WA {attribute}]",
            )
        # those of peers go on with a tuple that comes exactly a gap later
        reach = ticks(gap, domain) + clause.by_start
        return BoundWindow(Session(reach, longest), attribute, ())

    # --- the parts -------------------------------------------------------------------------------

    def _slide(self) -> Quantity:
        if self.clause.slide is None:
            given = self.clause.range
            raise BindError(
                "the window has a RANGE but no SLIDE",
                span=self.clause.span,
                expected="how often an answer is wanted",
                hint=f"SLIDE {given} for windows that do not overlap"
                if given
                else "SLIDE 1 MINUTE",
            )
        return self.clause.slide

    def _origin(self, domain: Domain) -> int:
        clause = self.clause
        if clause.by_start:  # the end of a window is where its start is, plus its length
            assert clause.range is not None
            moved = 0 if clause.offset is None else ticks(clause.offset, domain)
            slide = ticks(self._slide(), domain)
            return (moved + ticks(clause.range, domain)) % slide
        if self.clause.origin is None:
            return 0
        value = constant_as(self.clause.origin, domain.type)
        if value is None:
            raise BindError("ORIGIN is NULL", span=span_of(self.clause.origin))
        return domain.tick(value)

    def _progressing(self, attribute: Attribute | None, word: str) -> Expression:
        if attribute is None:
            return only_progressing(self.input, self.clause.span, word)
        if attribute.column is None:
            raise BindError(
                "row-num counts rows, but the RANGE is not in ROWS",
                span=attribute.span,
                hint="RANGE 1000 ROWS",
            )
        return check_progress(self.input, self.expressions.bind(attribute.column), attribute.span)


def _refuse_many(window: Sliding | RowWindow, span: Span | None) -> None:
    """Refuse a relation in which every tuple would be emitted in too many windows."""
    if per_tuple(window) > MOST_WINDOWS:
        raise BindError(
            f"a tuple would be in {per_tuple(window):,} windows",
            span=span,
            expected=f"at most {MOST_WINDOWS:,}",
            hint="a longer SLIDE, or a shorter RANGE",
        )


def refuse_kept(query: QueryPlan) -> None:
    """Refuse windows that overlap too often where each open window keeps its own state."""
    for node in query.walk():
        if not isinstance(node, WindowAggregate | DistinctOn):
            continue
        if not isinstance(node.window, Sliding):
            continue
        why, windows = _why_kept(node, query.revises), per_tuple(node.window)
        if why is not None and windows > MOST_KEPT:
            raise BindError(
                f"a tuple would be in {windows:,} windows, each of which {why} keeps",
                span=node.span,
                expected=f"at most {MOST_KEPT:,}",
                hint="a longer SLIDE, or a shorter RANGE",
            )


def _why_kept(node: WindowAggregate | DistinctOn, revises: bool) -> str | None:
    if isinstance(node, DistinctOn):
        return "DISTINCT ON"
    if revises:
        return "LATE AMEND or EMIT EARLY"
    if node.hint not in (None, Algorithm.PANED, Algorithm.TWO_LEVEL):
        assert node.hint is not None
        return node.hint.name
    scans = (each.stream.progress for each in node.walk() if isinstance(each, Scan))
    grouped = any(each is not None and each.group_punctuation is not None for each in scans)
    return "PUNCTUATED … FOR" if grouped else None


def how_to_progress(input_: Node) -> str:
    """Hint for an input without progress."""
    return how_to_progress_by_name(input_) or HOW_TO_PROGRESS


def how_to_progress_by_name(input_: Node) -> str | None:
    """Hint for a view of a Spark session without progress; None if there is none."""
    scans = [scan for scan in scans_of(input_) if scan.stream.progress is None]
    views = [scan.stream for scan in scans if scan.stream.of_session]
    if not views:
        return None
    times = [field.name for field in views[0].schema if field.type.kind is Kind.TIMESTAMP]
    on = f'"{times[0] if times else "ts"}"'
    said = f'db.stream("{views[0].name}", progress=ps.progress({on}, delay="5 seconds"))'
    return said if views[0].is_table else f'{said}, or withWatermark({on}, "5 seconds") in Spark'


def check_progress(input_: Node, attribute: Expression, span: Span | None) -> Expression:
    """Check that the attribute progresses; otherwise no window over it would ever close."""
    if input_.promise(attribute) is None:
        known = [progressing.field.qualified for progressing in input_.progress]
        raise BindError(
            f"{attribute} does not progress, so a window over it would never close",
            span=span,
            expected=f"one of {', '.join(known)}" if known else None,
            hint=None if known else how_to_progress(input_),
        )
    return attribute


def only_progressing(input_: Node, span: Span | None, word: str) -> Column:
    """Attribute of a window that names none: the only column that progresses."""
    progressing = input_.progress
    if not progressing:
        name = next((field.relation for field in input_.schema if field.relation), None)
        if any(scan.stream.is_table for scan in scans_of(input_)):
            name = f"table {name}"
        raise BindError(
            f"{name or 'the input'} does not progress, so no window over it would ever close",
            span=span,
            hint=how_to_progress(input_),
        )
    if len(progressing) != 1:
        known = ", ".join(each.field.qualified for each in progressing)
        raise BindError(
            f"the window does not say which column it is over ({word})",
            span=span,
            expected=f"one of {known}",
            hint=f"{word} {progressing[0].field.qualified}",
        )
    return Column.of(progressing[0].field)


# Windows as relations: every tuple with `window_start` and `window_end`, once for each of its
# windows.

MOST_COPIES = 100  # of a tuple


def with_windows(
    node: Node, relation: WindowedRelation, time: Expression, expressions: ExpressionBinder
) -> Node:
    """The relation, its columns under the alias, and the window columns behind them.

    before: HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)
    after:  Union of s with the window that began last, and s with the one before it
    """
    for name in ("window_start", "window_end", *["window_time"] * relation.described):
        if name in {field.name.casefold() for field in node.schema}:
            raise BindError(f"the relation has a column {name} already", span=relation.span)
    if time.type.kind not in (Kind.TIMESTAMP, Kind.DATE, Kind.INT, Kind.BIGINT):
        raise BindError(
            "window functions are over times and whole numbers",
            span=relation.span,
            expected=f"a TIMESTAMP, DATE, INT or BIGINT, not {time.type.a}",
        )
    made = _Copies(node, relation, time)
    if relation.kind == "CUMULATE":
        return made.cumulating()
    return made.hopping(clause_of(relation), expressions)


class _Copies:
    def __init__(self, node: Node, relation: WindowedRelation, time: Expression) -> None:
        self.node, self.relation, self.alias = node, relation, relation.called
        self.whole = time.type.is_integer
        self.bounds: Type = BIGINT if self.whole else TIMESTAMP
        self.time = cast_to(time, self.bounds)
        self.shown = type_of_bounds(time.type)
        self.domain = Domain(self.bounds)

    def hopping(self, clause: WindowClause, expressions: ExpressionBinder) -> Node:
        window = WindowBinder(clause, self.node, expressions).bind().window
        if not isinstance(window, Sliding):
            raise BindError(
                "tuples get the columns of windows over values",
                span=clause.span,
                hint="[RANGE 10 MINUTES, SLIDE 1 MINUTE, WA ts]",
            )
        length, slide = window.range, window.slide
        offset = window.origin - length  # ours are counted by their ends
        self._check(length, slide)
        last, most = self._bucket(slide, offset), -(-length // slide)
        earliest = self._moved(last, (1 - most) * slide)
        copies: list[Node] = []
        for number in range(most):
            start = self._later(self._moved(last, -number * slide), earliest)
            end = self._later(
                self._moved(last, length - number * slide), self._moved(earliest, length)
            )
            inside = (number + 1) * slide <= length  # whatever the time is
            copies.append(self._copy(start, end, None if inside else self._before(end)))
        return self._united(copies)

    def cumulating(self) -> Node:
        """Make the copies for windows that begin together, each a step longer than the one before
        it."""
        if len(self.relation.lengths) not in (2, 3):
            raise BindError(
                "CUMULATE takes a step and the longest length, and an offset if there is one",
                span=self.relation.span,
                hint="CUMULATE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)",
            )
        step, length, *more = (
            ticks(length_of(each), self.domain) for each in self.relation.lengths
        )
        offset = more[0] if more else 0
        self._check(length, step)
        if length % step:
            raise BindError(
                "the longest window is not a multiple of the step", span=self.relation.span
            )
        start, last = self._bucket(length, offset), self._bucket(step, offset)
        longest = self._moved(start, length)
        earliest = self._moved(last, step)
        copies: list[Node] = []
        for number in range(length // step):
            end = self._later(self._moved(last, (number + 1) * step), earliest)
            fits = Call("le", (end, longest), BOOLEAN) if number else None
            copies.append(self._copy(start, end, fits))
        return self._united(copies)

    def _check(self, length: int, slide: int) -> None:
        if length <= 0 or slide <= 0:
            raise BindError("the length of a window is more than zero", span=self.relation.span)
        if -(-length // slide) > MOST_COPIES:
            raise BindError(
                f"a tuple would come in {-(-length // slide):,} windows",
                span=self.relation.span,
                expected=f"at most {MOST_COPIES}",
                hint="GROUP BY window_start, window_end, which does not multiply them, or a"
                " longer slide",
            )

    def _bucket(self, width: int, offset: int) -> Expression:
        name = "number_bucket" if self.whole else "time_bucket"
        arguments = (self._length(width), self.time, Literal(offset % width, self.bounds))
        return Call(name, arguments, self.bounds)

    def _length(self, amount: int) -> Literal:
        return Literal(amount, BIGINT if self.whole else INTERVAL)

    def _moved(self, value: Expression, by: int) -> Expression:
        return Call("add", (value, self._length(by)), self.bounds) if by else value

    def _later(self, value: Expression, earliest: Expression) -> Expression:
        """Bound of a later window, whose progress is no higher than that of the earliest one."""
        if value == earliest:
            return value
        return Call("promised_as", (value, earliest), self.bounds)

    def _before(self, end: Expression) -> Expression:
        return Call("lt", (self.time, end), BOOLEAN)

    def _copy(self, start: Expression, end: Expression, kept: Expression | None) -> Node:
        given = self.node if kept is None else Filter(self.node, kept)
        columns = [Named(field.name, Column.of(field)) for field in self.node.schema]
        columns.append(Named("window_start", cast_to(start, self.shown)))
        columns.append(Named("window_end", cast_to(end, self.shown)))
        if self.relation.described and has_last_moment(self.shown):
            columns.append(Named("window_time", last_moment(cast_to(end, self.shown))))
        return Project(given, tuple(columns), self.alias or None)

    def _united(self, copies: list[Node]) -> Node:
        return copies[0] if len(copies) == 1 else Union(tuple(copies), self.alias or None)
