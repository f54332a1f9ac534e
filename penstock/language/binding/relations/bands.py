"""Conditions that bound how far apart two times are: `b.ts BETWEEN a.ts - x AND a.ts + y`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from penstock.model.types import Kind
from penstock.plan.expressions import Call, Cast, Column, Expression, Literal
from penstock.windows.joins import BandJoin

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}
_SHIFTED = (Kind.TIMESTAMP, Kind.INT, Kind.BIGINT)  # where a constant is a number of ticks
_Places: TypeAlias = Mapping[Column, int]


class Limits(NamedTuple):
    """Between which numbers of ticks the difference of two times lies, as far as it is bounded."""

    low: int | None = None
    high: int | None = None

    def meet(self, other: Limits) -> Limits:
        lows = [each for each in (self.low, other.low) if each is not None]
        highs = [each for each in (self.high, other.high) if each is not None]
        return Limits(max(lows, default=None), min(highs, default=None))

    @property
    def band(self) -> BandJoin | None:
        """The band, if both ends are there.  Where nothing lies between them the condition, which
        says so, holds for no pair; any narrow band does then, and nobody waits long.

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
    """For pairs of times i < j, what the conditions leave for `j − i`."""
    places = {column: place for place, column in enumerate(times)}
    found: dict[tuple[int, int], Limits] = {}
    for predicate in predicates:
        for pair, limits in _limits(predicate, places):
            found[pair] = found.get(pair, Limits()).meet(limits)
    return found


def _limits(predicate: Expression, places: _Places) -> list[tuple[tuple[int, int], Limits]]:
    """The limits on (later − earlier time) that one comparison sets, if it sets any."""
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
    """`ts + constant` as (number of the time, constant in ticks)."""
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
