"""A window as a relation: every tuple with `window_start` and `window_end`, once for each of its
windows."""

from __future__ import annotations

from penstock.errors import BindError
from penstock.language.binding.scalars.expressions import ExpressionBinder
from penstock.language.binding.scalars.literals import ticks
from penstock.language.binding.windows.peer_windows import clause_of, length_of
from penstock.language.binding.windows.window_columns import has_last_moment, last_moment
from penstock.language.binding.windows.windows import WindowBinder
from penstock.language.syntax.relations import WindowedRelation
from penstock.language.syntax.windows import WindowClause
from penstock.model.domain import Domain
from penstock.model.types import BIGINT, BOOLEAN, INTERVAL, TIMESTAMP, Kind, Type
from penstock.plan.expressions import Call, Column, Expression, Literal, Named, cast_to
from penstock.plan.nodes.aggregates import type_of_bounds
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.stateless import Filter, Project, Union
from penstock.windows.sliding import Sliding

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
        """Windows that begin together, each a step longer than the one before it."""
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
        """The bound of a later window, which promises no more than the earliest one does."""
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
