"""Binds the times of joins: which conditions bound how far apart two times are (`b.ts BETWEEN a.ts
- x AND a.ts + y`), and so how long tuples are kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from penstock.errors import BindError, Span
from penstock.model.types import Kind
from penstock.plan.expressions import Call, Cast, Column, Expression, Literal
from penstock.plan.join_properties import band_between, bands_from, is_finer, width
from penstock.plan.join_windows import BandJoin, SlidingJoin, TumblingJoin
from penstock.plan.nodes import join
from penstock.plan.nodes.join import Bands, Difference, JoinWindow, Ranges, TimeCondition, Tumbling
from penstock.plan.nodes.node import Node
from penstock.plan.properties import ticks_between
from penstock.sql.binder.relations import BoundSource
from penstock.sql.binder.windows import HOW_TO_RUN

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}
_SHIFTED = (Kind.TIMESTAMP, Kind.INT, Kind.BIGINT)  # where a constant is a number of ticks
_Places: TypeAlias = Mapping[Column, int]


class Limits(NamedTuple):
    """The range of ticks in which the difference of two times lies; None where it is unbounded."""

    low: int | None = None
    high: int | None = None

    def meet(self, other: Limits) -> Limits:
        lows = [each for each in (self.low, other.low) if each is not None]
        highs = [each for each in (self.high, other.high) if each is not None]
        return Limits(max(lows, default=None), min(highs, default=None))

    @property
    def band(self) -> BandJoin | None:
        """The band, if both ends are known. An empty range comes from a condition that holds for no
        pair; any narrow band is right then, and lets tuples be purged early.

        >>> Limits(2, 5).band, Limits(5, -5).band
        (BandJoin(low=2, high=5), BandJoin(low=0, high=0))
        """
        if self.low is None or self.high is None:
            return None
        if self.low > self.high:
            nearest = min(max(0, self.high), self.low)
            return BandJoin(nearest, nearest)
        return BandJoin(self.low, self.high)


def find_limits(
    times: Sequence[Column], predicates: Sequence[Expression]
) -> dict[tuple[int, int], Limits]:
    """Limits that the conditions set for `j − i`, by pairs of times i < j."""
    places = {column: place for place, column in enumerate(times)}
    found: dict[tuple[int, int], Limits] = {}
    for predicate in predicates:
        for pair, limits in _limits(predicate, places):
            found[pair] = found.get(pair, Limits()).meet(limits)
    return found


def _limits(predicate: Expression, places: _Places) -> list[tuple[tuple[int, int], Limits]]:
    """Limits that one comparison sets for (later − earlier time), if any."""
    if not isinstance(predicate, Call):
        return []
    if predicate.function == "and":
        return [each for part in predicate.arguments for each in _limits(part, places)]
    if predicate.function not in _FLIPPED:
        return []
    left = _offset(predicate.arguments[0], places)
    right = _offset(predicate.arguments[1], places)
    if left is None or right is None or left[0] == right[0]:
        return []
    (i, plus_left), (j, plus_right) = left, right
    # t_i + plus_left  <op>  t_j + plus_right   ⇔   t_j − t_i  <flipped op>  plus_left − plus_right
    operator, limit = _FLIPPED[predicate.function], plus_left - plus_right
    if i > j:  # turn it round, so that the difference is always (later − earlier)
        i, j, operator, limit = j, i, _FLIPPED[operator], -limit
    low = {"ge": limit, "gt": limit + 1, "eq": limit}.get(operator)
    high = {"le": limit, "lt": limit - 1, "eq": limit}.get(operator)
    return [((i, j), Limits(low, high))]


def _offset(expression: Expression, places: _Places) -> tuple[int, int] | None:
    """Split `ts + constant` into (number of the time, constant in ticks)."""
    match expression:
        case Column():
            return (places[expression], 0) if expression in places else None
        case Cast(operand, wanted) if operand.type.is_integer and wanted.is_integer:
            return _offset(operand, places)
        case Call("add", (inner, Literal() as by)) | Call("add", (Literal() as by, inner)):
            return _shift(_offset(inner, places), inner, by, 1)
        case Call("subtract", (inner, Literal() as by)):
            return _shift(_offset(inner, places), inner, by, -1)
        case Call("subtract" | "add", (inner, Cast(Literal() as by))):
            sign = 1 if expression.function == "add" else -1
            return _shift(_offset(inner, places), inner, by, sign)
        case _:
            return None


def _shift(
    found: tuple[int, int] | None, time: Expression, by: Literal, sign: int
) -> tuple[int, int] | None:
    whole = (Kind.INT, Kind.BIGINT, Kind.INTERVAL)
    if found is None or by.value is None or by.type.kind not in whole:
        return None
    if time.type.kind not in _SHIFTED:
        return None
    return (found[0], found[1] + sign * by.value)


# What keeps the tuples of a join close together: windows on its inputs, or bands in its condition.
#
# Every input has one time or several.  One of each is the windowing attribute; where an input is a
# join itself, its other times have to fit as well.


class Time(NamedTuple):
    """A time of an input: its column, its relation, and how long its window lets tuples stay."""

    column: Column
    source: BoundSource
    stay: int | None = None


class Chosen(NamedTuple):
    """The bound of a join that was chosen: its window, and the times that its inputs have in it."""

    attributes: tuple[Column, ...]
    window: JoinWindow
    also: tuple[TimeCondition, ...]
    times: tuple[tuple[Time, ...], ...]
    late_by: tuple[tuple[Column, ...], ...] = ()  # if other times than the attributes count, too

    def between(self, i: int, j: int) -> Limits | None:
        """Limits of how far the windowing attribute of one input is behind that of another."""
        window = self.window.between(min(i, j), max(i, j))
        if window is None or isinstance(window, TumblingJoin):
            return None
        band = window.band if isinstance(window, SlidingJoin) else window
        return Limits(band.low, band.high) if i < j else Limits(-band.high, -band.low)


class Timed(NamedTuple):
    """An input with its times. They are `alternatives` as long as no window or condition says which
    one is meant; otherwise all of them count. A join is made of `parts`, of which some were
    `chosen`."""

    node: Node
    times: tuple[Time, ...]
    alternatives: bool = False
    parts: tuple[Timed, ...] = ()
    chosen: Chosen | None = None

    @property
    def progressing(self) -> list[Time]:
        return [each for each in self.times if self.node.promise(each.column) is not None]

    def apart(self, one: Column, other: Column) -> Limits | None:
        """Limits of how far one time of this input is behind another, by its own joins, or by the
        windows that the input is made of."""
        if one == other:
            return Limits(0, 0)
        if self.chosen is None:
            ticks = ticks_between(self.node, one, other)
            return None if ticks is None else Limits(ticks, ticks)
        i, j = self._part(one), self._part(other)
        if i is None or j is None:
            return None
        if i == j:
            return self.parts[i].apart(one, other)
        steps = (
            self.parts[i].apart(one, self.chosen.attributes[i]),
            self.chosen.between(i, j),
            self.parts[j].apart(self.chosen.attributes[j], other),
        )
        return added(steps)

    def _part(self, column: Column) -> int | None:
        times = self.chosen.times if self.chosen is not None else ()
        places = (i for i, own in enumerate(times) if any(each.column == column for each in own))
        return next(places, None)


def added(steps: Sequence[Limits | None]) -> Limits | None:
    """Sum the limits of consecutive differences.

    >>> added([Limits(0, 2), Limits(-1, None)])
    Limits(low=-1, high=None)
    """
    low: int | None = 0
    high: int | None = 0
    for step in steps:
        if step is None:
            return None
        low = None if low is None or step.low is None else low + step.low
        high = None if high is None or step.high is None else high + step.high
    return Limits(low, high)


def tumbling(inputs: Sequence[Timed], length: int) -> Chosen:
    """Bind a join in which all times fall into the same tumbling window."""
    window = TumblingJoin(length)
    times = [_with_first(each, each.progressing[0]) for each in inputs]
    also = [TimeCondition(i.column, j.column, window) for i, j in _other_pairs(times)]
    return _chosen(times, Tumbling(window), also)


def bounded(inputs: Sequence[Timed], predicates: Sequence[Expression], span: Span) -> Chosen:
    """Choose what bounds the join: windows where two times have them, conditions elsewhere."""
    found = bounded_if_any(inputs, predicates)
    if found is None:
        pairs = _Pairs(inputs, predicates)
        pairs.connected()
        raise pairs.unbounded(span)
    return found


def bounded_if_any(inputs: Sequence[Timed], predicates: Sequence[Expression]) -> Chosen | None:
    """Choose what bounds the join, as `bounded` does; None if nothing does."""
    if not all(each.progressing for each in inputs):
        return None
    if all(len(each.times) == 1 and each.times[0].stay is not None for each in inputs):
        times = [each.times for each in inputs]
        return _chosen(times, Ranges(tuple(each[0].stay or 0 for each in times)), [])
    pairs = _Pairs(inputs, predicates)
    chosen = pairs.connected()
    if chosen is None:
        return None
    times = [_with_first(each, time) for each, time in zip(inputs, chosen, strict=True)]
    also = [
        TimeCondition(i.column, j.column, SlidingJoin(i.stay, j.stay))
        for i, j in _other_pairs(times)
        if i.stay is not None and j.stay is not None
    ]
    if all(each.stay is not None for each in chosen):
        return _chosen(times, Ranges(tuple(each.stay or 0 for each in chosen)), also)
    bands = Bands(tuple(pairs.bands(chosen)))
    as_close = pairs.as_close(chosen, bands)
    return as_close.counted(_chosen(times, bands, also))


class _AsClose(NamedTuple):
    """Times that the condition keeps as close to those of other inputs as the attributes are. They
    count like these: which of them are the attributes, or whether a part of the condition follows
    from the others, changes neither which tuples are late nor what progresses. Where an attribute
    is finer, it alone decides which tuples are late."""

    inputs: Sequence[Timed]
    attributes: Sequence[Column]
    said: Sequence[tuple[tuple[int, Column], tuple[int, Column], BandJoin]]

    def counted(self, chosen: Chosen) -> Chosen:
        """Return the choice with all these times; those that are bounded to every other input
        progress."""
        others = [each for each in self._nodes if each[1] not in self.attributes]
        also, times = list(chosen.also), [list(each) for each in chosen.times]
        late_by = [[attribute] for attribute in self.attributes]
        for here, column in others:
            if not is_finer(self.inputs[here].node, self.attributes[here], column):
                late_by[here].append(column)
            partners = self._partners(here, column)
            if len(partners) < len(self.inputs) - 1:
                continue
            if all(each.column != column for each in times[here]):
                times[here] += [each for each in self.inputs[here].times if each.column == column]
            for there, (other, band) in partners.items():
                pair = (column, other) if here < there else (other, column)
                turned = band if here < there else BandJoin(-band.high, -band.low)
                condition = TimeCondition(*pair, turned)
                also += [] if condition in also else [condition]
        if not others:
            return chosen
        made = _chosen(list(map(tuple, times)), chosen.window, also)
        more = any(len(each) > 1 for each in late_by)
        return made._replace(late_by=tuple(map(tuple, late_by))) if more else made

    @property
    def _nodes(self) -> list[tuple[int, Column]]:
        return list(dict.fromkeys(each for *pair, _ in self.said for each in pair))

    def _partners(self, here: int, column: Column) -> dict[int, tuple[Column, BandJoin]]:
        """Nearest time of each other input, as far as the condition leads to one."""
        nodes = self._nodes
        numbered = [(nodes.index(one), nodes.index(other), band) for one, other, band in self.said]
        found = bands_from(Bands(tuple(numbered)), nodes.index((here, column)))
        nearest: dict[int, tuple[Column, BandJoin]] = {}
        for number, band in found.items():  # the nearest first
            there, other = nodes[number]
            if there != here:
                nearest.setdefault(there, (other, band))
        return nearest


class _Pairs:
    """Bounds between the times of the inputs of one join."""

    def __init__(self, inputs: Sequence[Timed], predicates: Sequence[Expression]) -> None:
        self._inputs = inputs
        owned = [(time.column, place) for place, each in enumerate(inputs) for time in each.times]
        self._owners = dict(owned)  # of columns: the places of their inputs
        self._stated: dict[tuple[int, int], list[tuple[Column, Column, Limits]]] = defaultdict(list)
        for (i, j), limits in find_limits([column for column, _ in owned], predicates).items():
            (one, earlier), (other, later) = owned[i], owned[j]
            self._stated[earlier, later].append((one, other, limits))
        self._progressing = [each.progressing for each in inputs]

    def limits(self, one: Time, other: Time) -> Limits:
        """Limits of `other − one`, where `one` is of an earlier input: from conditions on these
        times, or on others that are near them within their inputs."""
        i, j = self._owners[one.column], self._owners[other.column]
        found = Limits()
        for near, far, limits in self._stated.get((i, j), ()):
            before = self._inputs[i].apart(one.column, near)
            after = self._inputs[j].apart(far, other.column)
            found = found.meet(added((before, limits, after)) or Limits())
        return found

    def band(self, one: Time, other: Time) -> BandJoin | None:
        if one.stay is not None and other.stay is not None:
            return SlidingJoin(one.stay, other.stay).band
        return self.limits(one, other).band

    def connected(self) -> list[Time] | None:
        """Choose a time of every input, so that bands connect each of them to all others; of
        several choices, that with the narrowest bands, and of these the finest times: a tuple that
        is late by others is late by them."""
        tried = [self._connected_times(first) for first in self._progressing[0]]
        most, (narrowest, _) = min((-len(times), width) for times, width in tried)
        as_good = [each for each in tried if (-len(each[0]), each[1][0]) == (most, narrowest)]
        finest = [
            each
            for number, each in enumerate(as_good)
            if not any(
                self._finer(other[0], each[0])
                and (before < number or not self._finer(each[0], other[0]))
                for before, other in enumerate(as_good)
                if other is not each
            )
        ]
        best, _ = min(finest, key=lambda each: each[1])
        self._best = best
        return [best[i] for i in range(len(best))] if len(best) == len(self._inputs) else None

    def _finer(self, some: dict[int, Time], others: dict[int, Time]) -> bool:
        return some.keys() == others.keys() and all(
            is_finer(self._inputs[i].node, some[i].column, others[i].column) for i in some
        )

    def _connected_times(self, first: Time) -> tuple[dict[int, Time], tuple[int, int]]:
        """Follow bands from a time of the first input. Returns the time chosen of each input that
        is reached, the total width of the bands, and how many of them only follow from conditions
        on other times."""
        reached, waiting, width, followed = {0: first}, [(0, first)], 0, 0
        while waiting:
            i, one = waiting.pop()
            for j, others in enumerate(self._progressing):
                if j in reached:
                    continue
                pairs = [(one, other) if i < j else (other, one) for other in others]
                bands = [self.band(*pair) for pair in pairs]
                found = [
                    (band.high - band.low, not self._bounds_directly(*pairs[place], band), place)
                    for place, band in enumerate(bands)
                    if band is not None
                ]
                if found:
                    narrowest, follows, place = min(found)
                    reached[j], width = others[place], width + narrowest
                    followed += follows
                    waiting.append((j, others[place]))
        return reached, (width, followed)

    def _bounds_directly(self, one: Time, other: Time, band: BandJoin) -> bool:
        """Whether windows or the condition bound these times themselves by the band."""
        if one.stay is not None and other.stay is not None:
            return True
        said = self._stated.get((self._owners[one.column], self._owners[other.column]), ())
        own = (limits for near, far, limits in said if (near, far) == (one.column, other.column))
        return any(limits.band == band for limits in own)

    def as_close(self, chosen: Sequence[Time], bands: Bands) -> _AsClose:
        """Collect the pairs of times whose band is no wider than that of the attributes."""
        progressing = [{each.column for each in times} for times in self._progressing]
        found = []
        for (i, j), said in sorted(self._stated.items(), key=lambda each: each[0]):
            widest = width(band_between(bands, i, j))
            for one, other, limits in said:
                band = limits.band
                comparable = one in progressing[i] and other in progressing[j]
                if band is not None and comparable and width(band) <= widest:
                    found.append(((i, one), (j, other), band))
        return _AsClose(self._inputs, [each.column for each in chosen], found)

    def bands(self, chosen: list[Time]) -> list[tuple[int, int, BandJoin]]:
        found = []
        for j, other in enumerate(chosen):
            for i, one in enumerate(chosen[:j]):
                band = self.band(one, other)
                if band is not None:
                    found.append((i, j, band))
        return sorted(found, key=lambda each: each[:2])

    def unbounded(self, span: Span) -> BindError:
        """Make the error for a join whose state would grow without bound: which stream, and what to
        add."""
        far = next(i for i in range(len(self._inputs)) if i not in self._best)
        near = next(iter(self._best), 0)
        one, other = self._progressing[near][0], self._progressing[far][0]
        windowed = [each for each in (one, other) if each.stay is not None]
        if len(windowed) == 1:
            return _windowless(other if one.stay is not None else one)
        if near > far:
            one, other = other, one
        limits = self.limits(one, other)
        if limits.low is not None:
            what = f"how much later {other.column} can be than {one.column}"
            kept = f"tuples of {_name(one)}"
        elif limits.high is not None:
            what = f"how much later {one.column} can be than {other.column}"
            kept = f"tuples of {_name(other)}"
        else:
            what = f"how far apart {one.column} and {other.column} can be"
            kept = f"tuples of {_name(one)} and {_name(other)}"
        length = _some_length(one)
        some = f"INTERVAL {length}" if one.column.type.kind is Kind.TIMESTAMP else length
        return BindError(
            f"nothing says {what}, so {kept} would be kept for ever",
            span=span,
            expected="a window on each input, or a condition on both times",
            hint=f"{_name(one)} [RANGE {length}, WA {one.column.name}], or {other.column} BETWEEN "
            f"{one.column} AND {one.column} + {some}; or {HOW_TO_RUN}",
        )


def _windowless(time: Time) -> BindError:
    window = f"[RANGE {_some_length(time)}, WA {time.column.name}]"
    nameless = isinstance(time.source.node, Difference | join.Sequence)  # and takes no window
    zero = "0 MINUTES" if time.column.type.kind is Kind.TIMESTAMP else "0"
    nothing = "" if nameless else f", or [RANGE {zero}] if its tuples need none that come later"
    return BindError(
        f"{_name(time)} has no window, so its tuples would be kept for ever",
        span=time.source.span,
        expected="how much later the tuples may be that it is joined with",
        hint=(f"(SELECT * FROM …) AS q {window}" if nameless else window) + nothing,
    )


def _some_length(time: Time) -> str:
    return "1 MINUTE" if time.column.type.kind is Kind.TIMESTAMP else "10"


def _name(time: Time) -> str:
    return time.source.alias or "the sub-query"


def _with_first(given: Timed, chosen: Time) -> tuple[Time, ...]:
    """The windowing attribute, then the other times that count."""
    if given.alternatives:
        return (chosen,)
    return (chosen, *(each for each in given.times if each is not chosen))


def _other_pairs(times: Sequence[tuple[Time, ...]]) -> list[tuple[Time, Time]]:
    """The pairs of times of different inputs that are not both windowing attributes."""
    if all(len(each) == 1 for each in times):
        return []
    return [
        (one, other)
        for j, later in enumerate(times)
        for earlier in times[:j]
        for one in earlier
        for other in later
        if one is not earlier[0] or other is not later[0]
    ]


def _chosen(
    times: Sequence[tuple[Time, ...]], window: JoinWindow, also: Sequence[TimeCondition]
) -> Chosen:
    return Chosen(tuple(each[0].column for each in times), window, tuple(also), tuple(times))
