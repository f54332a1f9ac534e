"""Nodes that fold many tuples into one: aggregation by window, aggregation by key, distinct."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, TypeAlias

from penstock.errors import PlanError, Span
from penstock.model.ticks import Domain
from penstock.model.types import BIGINT, Field, Kind, Schema, Type, decimal_type
from penstock.plan.algorithms import Algorithm, Choice, Reason
from penstock.plan.expressions import AggregateCall, Column, Expression, Named, rises_with
from penstock.plan.nodes.node import Node, Progressing, Unary
from penstock.plan.window_kinds import Landmark, Order, RowWindow, Session, SlideByTuple, Sliding

Window: TypeAlias = Sliding | Landmark | RowWindow | SlideByTuple | Session


@dataclass(frozen=True, slots=True)
class NamedAggregate:
    """An aggregate with the name of its output column."""

    name: str
    call: AggregateCall

    def __str__(self) -> str:
        return str(self.call) if str(self.call) == self.name else f"{self.call} AS {self.name}"


@dataclass(frozen=True)
class WindowAggregate(Unary):
    """Aggregation by window: for every window, a row per group of its extent, with window_id,
    window_start, window_end, the keys and the aggregates. `partition` splits the stream before the
    windows are laid (PA).
    """

    stateful: ClassVar[bool] = True
    input: Node
    window: Window
    attribute: Expression | None
    partition: tuple[Named, ...]
    keys: tuple[Named, ...]
    aggregates: tuple[NamedAggregate, ...]
    hint: Algorithm | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    choice: Choice | None = field(default=None, compare=False, repr=False)
    written: tuple[int, ...] = field(default=(), compare=False, repr=False)  # see `key_order`
    counted: bool = False  # a node above counts rows, so all partitions share one order

    def __post_init__(self) -> None:
        if (self.hint or self.choice) is not None and not isinstance(self.window, Sliding):
            raise PlanError("algorithms can be chosen for windows over values")
        by_arrival = isinstance(self.window, RowWindow) and self.window.order is Order.ARRIVAL
        if (self.attribute is None) != by_arrival:
            raise PlanError("every window but one over arrivals needs a windowing attribute")
        if self.attribute is not None and self.input.promise(self.attribute) is None:
            raise PlanError(f"{self.attribute} does not progress")
        if self.partition and not self.counts_rows:
            raise PlanError("only windows that count rows are partitioned; others group")
        if isinstance(self.window, Session) and self.input.signed:
            raise PlanError(
                "sessions over items that may be taken back would fall apart again",
                expected="a stream, or results that stay",
            )

    @property
    def signed(self) -> bool:
        return False  # retracted items are not counted

    @property
    def algorithm(self) -> Algorithm:
        """Algorithm of sliding windows: the chosen one, or panes if none was chosen."""
        if self.choice is not None:
            return self.choice.algorithm
        return self.hint or Algorithm.PANED

    @property
    def key_order(self) -> tuple[int, ...]:
        """Places of the keys in the order in which they were written, by which groups leave."""
        return self.written or tuple(range(len(self.keys)))

    @property
    def partition_order(self) -> tuple[int, ...]:
        """Places of the expressions of the partition, all of which are keys, in the order of
        `key_order`.
        """
        places = {self.keys[place].name: number for number, place in enumerate(self.key_order)}
        return tuple(
            sorted(range(len(self.partition)), key=lambda p: places[self.partition[p].name])
        )

    @property
    def counts_rows(self) -> bool:
        return isinstance(self.window, (RowWindow, SlideByTuple))

    @property
    def domain(self) -> Domain:
        """Domain of window_start and window_end."""
        if isinstance(self.window, RowWindow):
            return Domain(BIGINT)
        assert self.attribute is not None
        return Domain(self.attribute.type)

    @cached_property
    def bound_type(self) -> Type:
        return type_of_bounds(self.domain.type)

    @cached_property
    def schema(self) -> Schema:
        by_value = isinstance(self.window, SlideByTuple | Session)
        id_type = self.bound_type if by_value else BIGINT
        return Schema(
            (
                Field("window_id", id_type),
                Field("window_start", self.bound_type),
                Field("window_end", self.bound_type),
                *(Field(key.name, key.expression.type) for key in self.keys),
                *(Field(aggregate.name, aggregate.call.type) for aggregate in self.aggregates),
            )
        )

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        if self.partition:
            return ()  # each partition has its own numbers
        if isinstance(self.window, Session):  # one may have begun long before it ends
            return (Progressing(self.schema.fields[2], "closed windows"),)
        has_start = not isinstance(self.window, Landmark) and self.window.range is not None
        names = [*(["window_start"] if has_start else []), "window_end", "window_id"]
        return tuple(
            Progressing(self.schema.fields[self.schema.index(name)], "closed windows")
            for name in names
        )

    def details(self) -> list[str]:
        lines = [
            "WindowAggregate " + ", ".join(map(str, self.aggregates)),
            f"window: {self.describe_window()}",
            f"category: {self.window.category.value}",
        ]
        if self.choice is not None:
            lines += self.choice.lines()
        elif self.hint is not None:
            lines.append(f"algorithm: {self.hint.name} ({self.hint.value}), {Reason.HINT.value}")
        if self.keys:
            lines.append("group by: " + ", ".join(map(str, self.keys)))
        return lines

    def describe_window(self, text: Callable[[Expression], str] = str) -> str:
        """The window as written in SQL, with expressions formatted by `text`."""
        length = self.domain.format_length
        by = "row-num" if self.attribute is None else text(self.attribute)
        match self.window:
            case Sliding() as sliding:
                words = describe_sliding(sliding, by, self.domain)
            case Landmark(slide, origin):
                words = ["RANGE ALL", f"SLIDE {length(slide)}", f"WA {by}"]
                if origin:
                    words.append(f"ORIGIN {self.domain.format(origin)}")
            case RowWindow(span, slide, order):
                wide = "ALL" if span is None else f"{span} ROWS"
                order_by = "row-num" if order is Order.ARRIVAL else f"rank({by})"
                words = [f"RANGE {wide}", f"SLIDE {slide} ROWS", f"WA {order_by}"]
            case SlideByTuple(span, every, order):
                order_by = "row-num" if order is Order.ARRIVAL else f"rank({by})"
                words = [f"RANGE {length(span)}", f"RATTR {by}"]
                words += [f"SLIDE {every} ROWS", f"SATTR {order_by}"]
            case Session(gap, longest):
                most = [] if longest is None else [f"MAX {length(longest)}"]
                words = [f"SESSION GAP {length(gap)}", *most, f"WA {by}"]
        if self.partition:
            words.append("PA " + ", ".join(text(part.expression) for part in self.partition))
        return "[" + ", ".join(words) + "]"


def type_of_bounds(attribute: Type) -> Type:
    """Windows reach beyond the values in them, so their bounds get the wider type."""
    match attribute.kind:
        case Kind.INT:
            return BIGINT
        case Kind.DECIMAL:
            return decimal_type(38, attribute.scale)
        case _:
            return attribute


def describe_sliding(window: Sliding, by: str, domain: Domain) -> list[str]:
    """Parts of a sliding window as written in SQL."""
    length = domain.format_length
    words = [f"RANGE {length(window.range)}", f"SLIDE {length(window.slide)}", f"WA {by}"]
    return [*words, *([f"ORIGIN {domain.format(window.origin)}"] if window.origin else [])]


@dataclass(frozen=True)
class GroupAggregate(Unary):
    """Aggregation by key: a row per group, complete when the bound has passed a progressing key.
    If it `runs`, a group is never complete, and its row changes whenever a tuple comes to it (EMIT
    CHANGES).
    """

    stateful: ClassVar[bool] = True
    input: Node
    keys: tuple[Named, ...]
    aggregates: tuple[NamedAggregate, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    written: tuple[int, ...] = field(default=(), compare=False, repr=False)
    counted: bool = False  # a node above counts rows, so groups leave in order
    runs: bool = False

    def __post_init__(self) -> None:
        if not self.runs and not self.progress:
            raise PlanError("one of the keys has to progress")
        if self.input.running and not self.runs:
            raise PlanError("groups of rows that may be taken back are never complete")

    @property
    def signed(self) -> bool:
        return False

    @property
    def running(self) -> bool:
        return self.runs

    @property
    def takes_back(self) -> bool:
        return self.runs and (bool(self.aggregates) or self.input.takes_back)

    @property
    def key_order(self) -> tuple[int, ...]:
        return self.written or tuple(range(len(self.keys)))

    @property
    def completing(self) -> tuple[Expression, ...]:
        """Keys that complete groups, each alone; where the order of groups matters, only the first
        counts.
        """
        names = {each.field.name for each in self.progress}
        return tuple(key.expression for key in self.keys if key.name in names)

    @property
    def time(self) -> Column | None:
        """Position for first and last in a running query: the first column that progresses, if one
        does.
        """
        times = self.input.progress
        return Column.of(times[0].field) if times else None

    @property
    def position(self) -> Expression:
        """Position for first and last where a key progresses: the column that it rises with."""
        name = self.progress[0].field.name
        key = next(key for key in self.keys if key.name == name)
        return rises_with(key.expression)[0]

    @cached_property
    def schema(self) -> Schema:
        return Schema(
            (
                *(Field(key.name, key.expression.type) for key in self.keys),
                *(Field(aggregate.name, aggregate.call.type) for aggregate in self.aggregates),
            )
        )

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        if self.runs:
            return ()
        passed = []
        for key, output in zip(self.keys, self.schema, strict=False):
            if self.input.promise(key.expression) is not None:
                passed.append(Progressing(output, "closed groups"))
        return tuple(passed)

    def details(self) -> list[str]:
        calls = ", ".join(map(str, self.aggregates))
        if not self.runs:
            return [f"GroupAggregate {calls}", "group by: " + ", ".join(map(str, self.keys))]
        lines = [f"RunningAggregate {calls}".rstrip()]
        if self.keys:
            lines.append("group by: " + ", ".join(map(str, self.keys)))
        what = "every group" if self.keys else "one group"
        return [*lines, f"keeps: {what}, for ever" + ("" if self.keys else ", which is one row")]


@dataclass(frozen=True)
class Distinct(Unary):
    """DISTINCT: every different tuple once, until the bound on a progressing column lets it
    expire.

    Of signed items, every different row while at least one tuple with its values is there.
    """

    stateful: ClassVar[bool] = True
    input: Node
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.input.progress:
            raise PlanError("DISTINCT needs a column that progresses")
        for each in self.input.schema:
            if each.type.is_nested:
                raise PlanError(
                    f"rows cannot be told apart by {each.name}, {each.type.a}",
                    hint=f"CAST({each.name} AS STRING)",
                )
        if self.input.signed and len(self.input.progress) > 1:
            names = ", ".join(each.field.qualified for each in self.input.progress)
            raise PlanError(
                f"DISTINCT over a difference, in which {names} say when items come and go",
                expected="one such column",
            )

    @property
    def when(self) -> int:
        """Place of the column that says when signed items come and go. Rows are distinct by all
        others: one is there while a tuple with its values is.
        """
        field_ = self.input.progress[0].field
        return self.schema.index(field_.name, field_.relation)

    def details(self) -> list[str]:
        return ["Distinct"]


# One row of every key from each window: the first, or the last.


@dataclass(frozen=True)
class DistinctOn(Unary):
    """DISTINCT ON: for every window, and every key among its tuples, the `columns` of the first
    tuple, or of the last. Of those at one time it is the least, or the greatest, by these columns
    from left to right, so that the result does not depend on the order of arrival.
    """

    stateful: ClassVar[bool] = True
    input: Node
    window: Sliding
    attribute: Expression
    keys: tuple[Expression, ...]
    columns: tuple[Column, ...]
    last: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.input.promise(self.attribute) is None:
            raise PlanError(f"{self.attribute} does not progress")
        for key in self.keys:
            if key.type.is_nested:
                raise PlanError(f"rows cannot be told apart by {key}, {key.type.a}")
        if self.input.signed:
            raise PlanError("DISTINCT ON over a difference has no meaning")

    @property
    def bound_type(self) -> Type:
        return type_of_bounds(self.attribute.type)

    @cached_property
    def schema(self) -> Schema:
        bounds = self.bound_type
        return Schema(
            (
                Field("window_id", BIGINT),
                Field("window_start", bounds),
                Field("window_end", bounds),
                *(Field(each.name, each.type, each.relation) for each in self.columns),
            )
        )

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        names = ("window_start", "window_end", "window_id")
        return tuple(
            Progressing(self.schema.fields[self.schema.index(name)], "closed windows")
            for name in names
        )

    def details(self) -> list[str]:
        shown = describe_sliding(self.window, str(self.attribute), Domain(self.attribute.type))
        return [
            f"DistinctOn {', '.join(map(str, self.keys))}",
            f"window: [{', '.join(shown)}]",
            f"row: the {'last' if self.last else 'first'} by {self.attribute}",
        ]


# Aggregations of several queries over one stream: tuples are folded into panes once, and every
# query computes its own windows from them.


@dataclass(frozen=True)
class SharedPanes(Unary):
    """Panes that several queries share: the tuples of a stream folded by groups and pieces of
    time. The nodes above determine which tuples, which aggregates and how long the panes are. The
    output is only the tuples that are late, because these missed different windows of every query.
    """

    stateful: ClassVar[bool] = True
    input: Node
    attribute: Expression
    keys: tuple[Named, ...]
    key_order: tuple[int, ...]
    origin: int

    def details(self) -> list[str]:
        by = ", ".join(str(key.expression) for key in self.keys)
        return [f"SharedPanes over {self.attribute}" + (f" by {by}" if by else "")]


@dataclass(frozen=True)
class WindowsOfPanes(Unary):
    """Window aggregation over some of the tuples, computed from panes that other queries use as
    well.
    """

    stateful: ClassVar[bool] = True
    input: SharedPanes
    aggregate: WindowAggregate
    predicate: Expression | None

    @cached_property
    def schema(self) -> Schema:
        return self.aggregate.schema

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        return self.aggregate.progress

    def details(self) -> list[str]:
        where = [] if self.predicate is None else [f"where: {self.predicate}"]
        return [*self.aggregate.details(), *where]
