"""Build the logic that computes an aggregate call of the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.functions.aggregate_functions import PAIR_STATISTICS
from penstock.functions.user_functions import Guarded
from penstock.kernel.aggregates.aggregate import Aggregate
from penstock.kernel.aggregates.extremes import Extreme, ExtremeBy
from penstock.kernel.aggregates.frequencies import (
    CountDistinct,
    DistinctValues,
    Frequent,
    Mode,
    Quantile,
    QuantileOfThese,
)
from penstock.kernel.aggregates.lists import Histogram, Listed, ListedTexts, OverDistinct
from penstock.kernel.aggregates.python_states import OfPython
from penstock.kernel.aggregates.sketches import (
    ApproximateDistinct,
    ApproximateFrequent,
    ApproximateQuantile,
)
from penstock.kernel.aggregates.sums import Average, Count, OfBits, OfPairs, Sum, Variance
from penstock.plan.expressions import AggregateCall, Literal


def build(call: AggregateCall) -> Aggregate[Any]:
    if call.function.implementation is not None:
        user = Guarded(call.function.name, call.function.implementation, call.type)
        inner: Aggregate[Any] = OfPython(user)
    elif not call.arguments:
        return Count()
    else:
        inner = _BUILDERS[call.function.name](call)
    return _distinct(call, inner) if call.distinct else inner


def _distinct(call: AggregateCall, inner: Aggregate[Any]) -> Aggregate[Any]:
    if isinstance(inner, Count) and len(call.arguments) == 1:
        return CountDistinct(call.arguments[0].type)
    if isinstance(inner, Extreme | ExtremeBy | ApproximateDistinct):
        return inner  # how often a value occurs makes no difference to them
    if len(call.arguments) - call.function.constants == 1:
        return DistinctValues(call.arguments[0].type, inner)
    return OverDistinct(inner)


def _constant(call: AggregateCall) -> Any:
    last = call.arguments[-1]
    assert isinstance(last, Literal)
    return last.value


def _sums(kind: Callable[..., Aggregate[Any]]) -> Callable[[AggregateCall], Aggregate[Any]]:
    return lambda call: kind(call.arguments[0].type, call.type)


def _variance(sample: bool, root: bool) -> Callable[[AggregateCall], Aggregate[Any]]:
    return lambda call: Variance(call.arguments[0].type, call.type, sample, root)


def _extreme(largest: bool, by_position: bool) -> Callable[[AggregateCall], Aggregate[Any]]:
    return lambda call: Extreme(call.arguments[0].type, largest, by_position)


def _extreme_by(largest: bool) -> Callable[[AggregateCall], Aggregate[Any]]:
    return lambda call: ExtremeBy(call.arguments[0].type, call.arguments[1].type, largest)


def _directions(call: AggregateCall) -> str:
    return str(_constant(call)) if len(call.arguments) > 1 else ""


def _bits(name: str) -> Callable[[AggregateCall], Aggregate[Any]]:
    return lambda _: OfBits(name)


def _pairs(name: str) -> Callable[[AggregateCall], Aggregate[Any]]:
    return lambda _: OfPairs(name)


_BUILDERS: dict[str, Callable[[AggregateCall], Aggregate[Any]]] = {
    "count": lambda _: Count(),
    "sum": _sums(Sum),
    "avg": _sums(Average),
    "var_samp": _variance(sample=True, root=False),
    "var_pop": _variance(sample=False, root=False),
    "stddev_samp": _variance(sample=True, root=True),
    "stddev_pop": _variance(sample=False, root=True),
    "min": _extreme(largest=False, by_position=False),
    "max": _extreme(largest=True, by_position=False),
    "first": _extreme(largest=False, by_position=True),
    "last": _extreme(largest=True, by_position=True),
    "min_by": _extreme_by(largest=False),
    "max_by": _extreme_by(largest=True),
    "any_value": _extreme(largest=False, by_position=False),
    "bool_and": _extreme(largest=False, by_position=False),
    "bool_or": _extreme(largest=True, by_position=False),
    "string_agg": lambda call: ListedTexts(_constant(call)),
    "histogram": lambda call: Histogram(call.arguments[0].type),
    "array_agg": lambda call: Listed(call.type, _directions(call)),
    **{name: _bits(name) for name in ("bit_and", "bit_or", "bit_xor")},
    **{name: _pairs(name) for name in PAIR_STATISTICS},
    "median": lambda call: Quantile(call.arguments[0].type, 0.5),
    "quantile": lambda call: Quantile(call.arguments[0].type, _constant(call)),
    "quantile_disc": lambda call: QuantileOfThese(call.arguments[0].type, _constant(call)),
    "mode": lambda call: Mode(call.arguments[0].type),
    "top_k": lambda call: Frequent(call.arguments[0].type, k=_constant(call)),
    "heavy_hitters": lambda call: Frequent(call.arguments[0].type, share=_constant(call)),
    "approx_count_distinct": lambda call: ApproximateDistinct(call.arguments[0].type),
    "approx_quantile": lambda call: ApproximateQuantile(call.arguments[0].type, _constant(call)),
    "approx_top_k": lambda call: ApproximateFrequent(call.arguments[0].type, k=_constant(call)),
    "approx_heavy_hitters": lambda call: ApproximateFrequent(
        call.arguments[0].type, share=_constant(call)
    ),
}
