"""Band joins: finding `a.ts BETWEEN b.ts - INTERVAL 2 MINUTES AND b.ts + INTERVAL 2 MINUTES`.

A condition that keeps the times of two inputs within fixed bounds of each other bounds the state
of their join as a window does.
"""

from __future__ import annotations

from penstock.model.domain import Domain
from penstock.model.types import Kind
from penstock.plan.expressions import Call, Cast, Column, Expression, Literal
from penstock.windows.joins import BandJoin

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


def find_bands(
    attributes: list[Column], predicates: list[Expression]
) -> list[tuple[int, int, BandJoin]]:
    """For each pair of inputs i < j, the interval that the conditions leave for `j − i`."""
    lows: dict[tuple[int, int], int] = {}
    highs: dict[tuple[int, int], int] = {}
    for predicate in predicates:
        for low, high, pair in _limits(predicate, attributes):
            if low is not None:
                lows[pair] = max(low, lows.get(pair, low))
            if high is not None:
                highs[pair] = min(high, highs.get(pair, high))
    return [
        (*pair, BandJoin(lows[pair], highs[pair]))
        for pair in sorted(lows)
        if pair in highs and lows[pair] <= highs[pair]
    ]


def connected(count: int, bands: list[tuple[int, int, BandJoin]]) -> bool:
    """Whether every input is held, through some chain of bands, to every other."""
    reached, frontier = {0}, [0]
    while frontier:
        here = frontier.pop()
        for i, j, _ in bands:
            for one, other in ((i, j), (j, i)):
                if one == here and other not in reached:
                    reached.add(other)
                    frontier.append(other)
    return len(reached) == count


def _limits(
    predicate: Expression, attributes: list[Column]
) -> list[tuple[int | None, int | None, tuple[int, int]]]:
    """The limits on (later − earlier input) that one comparison sets, if it sets any."""
    if not isinstance(predicate, Call):
        return []
    if predicate.function == "and":
        return [each for part in predicate.arguments for each in _limits(part, attributes)]
    if predicate.function not in _FLIPPED:
        return []
    left = _offset(predicate.arguments[0], attributes)
    right = _offset(predicate.arguments[1], attributes)
    if left is None or right is None or left[0] == right[0]:
        return []
    (i, plus_left), (j, plus_right) = left, right
    # t_i + plus_left  <op>  t_j + plus_right   ⇔   t_j − t_i  <flipped op>  plus_left − plus_right
    operator, limit = _FLIPPED[predicate.function], plus_left - plus_right
    if i > j:  # turn it round, so that the difference is always (later − earlier)
        i, j, operator, limit = j, i, _FLIPPED[operator], -limit
    low = {"ge": limit, "gt": limit + 1, "eq": limit}.get(operator)
    high = {"le": limit, "lt": limit - 1, "eq": limit}.get(operator)
    return [(low, high, (i, j))]


def _offset(expression: Expression, attributes: list[Column]) -> tuple[int, int] | None:
    """`ts + constant` as (number of the input, constant in ticks)."""
    match expression:
        case Column():
            return (attributes.index(expression), 0) if expression in attributes else None
        case Cast(operand, wanted) if operand.type.is_integer and wanted.is_integer:
            return _offset(operand, attributes)
        case Call("add", (inner, Literal() as by)) | Call("add", (Literal() as by, inner)):
            return _shift(_offset(inner, attributes), by, 1)
        case Call("subtract", (inner, Literal() as by)):
            return _shift(_offset(inner, attributes), by, -1)
        case Call("subtract" | "add", (inner, Cast(Literal() as by))):
            sign = 1 if expression.function == "add" else -1
            return _shift(_offset(inner, attributes), by, sign)
        case _:
            return None


def _shift(found: tuple[int, int] | None, by: Literal, sign: int) -> tuple[int, int] | None:
    whole = (Kind.INT, Kind.BIGINT, Kind.INTERVAL)
    if found is None or by.value is None or by.type.kind not in whole:
        return None
    return (found[0], found[1] + sign * by.value)


def bandable(attribute: Column) -> bool:
    """Bands are found in whole ticks: times and whole numbers."""
    return Domain(attribute.type).type.kind in (Kind.TIMESTAMP, Kind.INT, Kind.BIGINT)
