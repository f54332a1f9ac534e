"""Aggregates over the values of an extent, exact and independent of the order.

Sums, means and variances are taken over fractions, so no order of arrival can change a digit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import and_, or_, xor
from typing import Any, NamedTuple

from penstock.errors import RunError
from penstock.functions.aggregate_functions import PAIR_STATISTICS, PairTotals, pair_statistic
from penstock.functions.casts import fits
from penstock.functions.user_functions import run_python_aggregate
from penstock.model.ordering import canonical, exact_key, shown, sort_key
from penstock.model.types import EXACT, INT64_MAX, INT64_MIN, Kind, Type
from penstock.model.value_limits import check_size, size_of
from penstock.model.values import frequencies_json, to_arrow
from penstock.plan.expressions import AggregateCall, Literal

_ROOT_BITS = 1200  # behind the point; the deviation of doubles is 0, or above 2**-1100


class Input(NamedTuple):
    """The arguments of one tuple, and its position in the window."""

    arguments: tuple[Any, ...]
    position: int


def aggregate(call: AggregateCall, inputs: Sequence[Input]) -> Any:
    value = _aggregate(call, inputs)
    if call.function.name in ("array_agg", "string_agg", "histogram"):
        check_size(size_of(value, call.type))
    return value


def _aggregate(call: AggregateCall, inputs: Sequence[Input]) -> Any:
    if not call.arguments and call.function.implementation is None:
        return len(inputs)
    given = [
        Input(tuple(map(shown, each.arguments)), each.position)
        for each in inputs
        if None not in each.arguments
    ]
    if call.distinct and call.function.name not in ("first", "last"):
        given = _distinct(given)
    name = call.function.name
    if call.function.implementation is not None:
        return _python(call, given)
    if name == "count":
        return len(given)
    if not given:
        return None
    if name == "array_agg":
        return _array(given, call)
    if name in PAIR_STATISTICS:
        return _of_pairs(name, given)
    if name in ("first", "last"):
        order = [(each.position, sort_key(each.arguments[0]), each) for each in given]
        chosen = min(order, key=_order) if name == "first" else max(order, key=_order)
        return chosen[2].arguments[0]
    if name in ("min_by", "max_by"):
        choose = min if name == "min_by" else max
        beside = choose(given, key=lambda each: [sort_key(a) for a in each.arguments[::-1]])
        return beside.arguments[0]
    return _AGGREGATES[name]([each.arguments[0] for each in given], call)


def _order(entry: tuple[int, Any, Input]) -> tuple[int, Any]:
    return entry[:2]


def _distinct(given: Sequence[Input]) -> list[Input]:
    seen: dict[Hashable, Input] = {}
    for each in given:
        seen.setdefault(tuple(map(canonical, each.arguments)), each)
    return list(seen.values())


# Exact arithmetic.


def _infinite(values: list[Any]) -> float | None:
    """Sum where infinities or NaN take part; None where all are finite."""
    if all(not isinstance(value, float) or math.isfinite(value) for value in values):
        return None
    return float(sum(value for value in values if not math.isfinite(value)))


def _total(values: Iterable[Any]) -> Fraction:
    return sum(map(Fraction, values), Fraction(0))


def _float(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _sum(values: list[Any], call: AggregateCall) -> Any:
    special = _infinite(values)
    if special is not None:
        return special
    return _as(_total(values), call.type)


def _as(exact: Fraction, wanted: Type) -> Any:
    match wanted.kind:
        case Kind.DOUBLE:
            return _float(exact)
        case Kind.DECIMAL:
            value = EXACT.scaleb(Decimal(int(exact * 10**wanted.scale)), -wanted.scale)
            if not fits(value, wanted):
                raise RunError(f"the sum {value} is too large for {wanted}")
            return value
        case _:
            if not INT64_MIN <= exact <= INT64_MAX:
                raise RunError(f"the sum {exact} is too large for {wanted}")
            return int(exact)


def _avg(values: list[Any]) -> float:
    special = _infinite(values)
    if special is not None:
        return special
    return _float(_total(values) / len(values))


def _variance(values: list[Any], sample: bool) -> float | None:
    return _of_variance(values, sample, _float)


def _deviation(values: list[Any], sample: bool) -> float | None:
    return _of_variance(values, sample, _root)


def _of_variance(
    values: list[Any], sample: bool, rounded: Callable[[Fraction], float]
) -> float | None:
    count = len(values) - sample
    if count < 1:
        return None
    if _infinite(values) is not None:
        return math.nan
    mean = _total(values) / len(values)
    return rounded(_total([(Fraction(value) - mean) ** 2 for value in values]) / count)


def _root(exact: Fraction) -> float:
    """Square root, rounded once: computed with far more bits than a double has, and one that tells
    whether others follow."""
    scaled = exact * 4**_ROOT_BITS
    root = math.isqrt(math.floor(scaled))
    return _float(Fraction(2 * root + (root**2 != scaled), 2 * 2**_ROOT_BITS))


def _quantile_of_these(values: list[Any], share: float) -> Any:
    """Least value up to which a share of all values are."""
    wanted = math.ceil(as_written(share) * len(values))
    return sorted(values, key=sort_key)[max(wanted, 1) - 1]


def _quantile(values: list[float], share: float) -> float:
    """Interpolate between the two nearest values."""
    ordered = sorted(values, key=sort_key)
    exact = as_written(share) * (len(ordered) - 1)
    low, part = ordered[math.floor(exact)], exact - math.floor(exact)
    if part == 0:
        return low
    high = ordered[math.floor(exact) + 1]
    if low == high or not (math.isfinite(low) and math.isfinite(high)):
        return low if low == high else low + (high - low) * float(part)
    return _float(Fraction(low) + (Fraction(high) - Fraction(low)) * part)


def as_written(share: float) -> Fraction:
    """The share as written: a tenth for 0.1, though no double is exactly that."""
    return Fraction(repr(share))


# Frequencies.


def _frequencies(values: list[Any]) -> list[tuple[Any, int]]:
    """Values with their counts, the most frequent first, the smaller first among equals."""
    counts = Counter(map(canonical, values))
    kept = {canonical(value): value for value in values}
    pairs = [(kept[key], count) for key, count in counts.items()]
    return sorted(pairs, key=lambda pair: (-pair[1], sort_key(pair[0])))


def _top_k(values: list[Any], call: AggregateCall) -> str:
    return frequencies_json(_frequencies(values)[: _constant(call)], call.arguments[0].type)


def _heavy_hitters(values: list[Any], call: AggregateCall) -> str:
    least = as_written(_constant(call)) * len(values)
    heavy = [(value, count) for value, count in _frequencies(values) if count >= least]
    return frequencies_json(heavy, call.arguments[0].type)


def _constant(call: AggregateCall) -> Any:
    """Value of the last argument, which the binder has checked to be a literal."""
    argument = call.arguments[-1]
    assert isinstance(argument, Literal)
    return argument.value


def _python(call: AggregateCall, given: Sequence[Input]) -> Any:
    assert call.function.implementation is not None
    columns = [
        to_arrow([each.arguments[i] for each in given], argument.type)
        for i, argument in enumerate(call.arguments)
    ]
    return run_python_aggregate(
        call.function.name, call.function.implementation, columns, len(given), call.type
    )


def _joined(values: list[Any], call: AggregateCall) -> str:
    return str(_constant(call)).join(sorted(values, key=sort_key))


def _array(given: list[Input], call: AggregateCall) -> tuple[Any, ...]:
    """Order by the keys of the call, then by position, then by value."""
    places = (0 if call.distinct else each.position for each in given)
    keyed = sorted(zip(places, given, strict=True), key=lambda pair: (pair[0], _value_key(pair[1])))
    rows = [each for _, each in keyed]
    directions = _constant(call) if len(call.arguments) > 1 else ""
    for place, direction in reversed(list(enumerate(directions, start=1))):
        keys = {id(row): sort_key(row.arguments[place]) for row in rows}
        rows.sort(key=lambda row: keys[id(row)], reverse=direction == "d")
    return tuple(row.arguments[0] for row in rows)


def _value_key(row: Input) -> Any:
    return exact_key(row.arguments[0])


def _of_pairs(name: str, given: list[Input]) -> float | None:
    pairs = [each.arguments for each in given]
    if any(not math.isfinite(value) for pair in pairs for value in pair):
        return math.nan if len(pairs) > 1 or name != "covar_samp" else None
    exact = [(Fraction(y), Fraction(x)) for y, x in pairs]
    products = [(y, x, y * y, x * x, y * x) for y, x in exact]
    return pair_statistic(name, PairTotals(len(exact), *map(_total, zip(*products, strict=True))))


def _histogram(values: list[Any], call: AggregateCall) -> str:
    pairs = sorted(_frequencies(values), key=lambda pair: sort_key(pair[0]))
    return frequencies_json(pairs, call.arguments[0].type)


_AGGREGATES: dict[str, Callable[[list[Any], AggregateCall], Any]] = {
    "sum": _sum,
    "avg": lambda values, _: _avg(values),
    "min": lambda values, _: min(values, key=sort_key),
    "max": lambda values, _: max(values, key=sort_key),
    "var_samp": lambda values, _: _variance(values, sample=True),
    "var_pop": lambda values, _: _variance(values, sample=False),
    "stddev_samp": lambda values, _: _deviation(values, sample=True),
    "stddev_pop": lambda values, _: _deviation(values, sample=False),
    "median": lambda values, _: _quantile(values, 0.5),
    "quantile": lambda values, call: _quantile(values, _constant(call)),
    "quantile_disc": lambda values, call: _quantile_of_these(values, _constant(call)),
    "mode": lambda values, _: _frequencies(values)[0][0],
    "any_value": lambda values, _: min(values, key=sort_key),
    "bool_and": lambda values, _: all(values),
    "bool_or": lambda values, _: any(values),
    "string_agg": _joined,
    "bit_and": lambda values, _: reduce(and_, values),
    "bit_or": lambda values, _: reduce(or_, values),
    "bit_xor": lambda values, _: reduce(xor, values),
    "histogram": _histogram,
    "top_k": _top_k,
    "heavy_hitters": _heavy_hitters,
    "approx_count_distinct": lambda values, _: len(set(map(canonical, values))),
    "approx_quantile": lambda values, call: _quantile(values, _constant(call)),
    "approx_top_k": _top_k,
    "approx_heavy_hitters": _heavy_hitters,
}
