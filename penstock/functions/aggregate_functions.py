"""The catalogue of aggregate functions, the interface of those written in Python, and statistics
over pairs of numbers.

All of them ignore NULLs except count(*), and all but count give NULL over no rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from penstock.functions.signatures import Family, Signature
from penstock.model.types import BIGINT, DOUBLE, STRING, Kind, Type, array_of, decimal_type


@runtime_checkable
class PythonAggregate(Protocol):
    """User-defined aggregate.

    A state is any value; `accumulate` gets Arrow columns, one per argument, with at least one row.
    `merge` may change `state`, but not `other`; merging a state from `init` with another gives the
    other one.

    Optional are `subtract(state, other)`, which removes `other`, and `save(state) -> bytes` with
    `load(bytes)`, for checkpoints that hold states instead of the tuples they are computed from.
    """

    def init(self) -> Any: ...
    def accumulate(self, state: Any, *columns: pa.Array) -> Any: ...
    def merge(self, state: Any, other: Any) -> Any: ...
    def finish(self, state: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """Entry of the catalogue of aggregate functions."""

    name: str
    signature: Signature
    returns: Callable[[tuple[Type, ...]], Type] = field(compare=False)
    about: str
    constants: int = 0  # how many of the last arguments must be literals
    implementation: PythonAggregate | None = None


def _sum_type(arguments: tuple[Type, ...]) -> Type:
    match arguments[0].kind:
        case Kind.INT | Kind.BIGINT:
            return BIGINT
        case Kind.DECIMAL:
            return decimal_type(38, arguments[0].scale)
        case _:
            return arguments[0]


def _like_first(arguments: tuple[Type, ...]) -> Type:
    return arguments[0]


def _always(sql_type: Type) -> Callable[[tuple[Type, ...]], Type]:
    return lambda _: sql_type


_F = Family
_ONE_ANY = Signature((_F.ANY,))
_ONE_ORDERED = Signature((_F.ORDERED,))
_ONE_DOUBLE = Signature((_F.DOUBLE,))
_BESIDE = Signature((_F.ANY, _F.ORDERED))
_SHARE = Signature((_F.ANY, _F.DOUBLE))
_AT = Signature((_F.DOUBLE, _F.DOUBLE))

_ONE_BOOLEAN = Signature((_F.BOOLEAN,))
_ONE_INTEGER = Signature((_F.INTEGER,))

_ALL = [
    AggregateFunction(
        "count", Signature((_F.ANY,), optional=1, variadic=True), _always(BIGINT), "how many"
    ),
    AggregateFunction("sum", Signature((_F.NUMBER,)), _sum_type, "the total"),
    AggregateFunction("min", _ONE_ORDERED, _like_first, "the smallest"),
    AggregateFunction("max", _ONE_ORDERED, _like_first, "the largest"),
    AggregateFunction("avg", Signature((_F.NUMBER,)), _always(DOUBLE), "the mean"),
    AggregateFunction("var_samp", _ONE_DOUBLE, _always(DOUBLE), "variance of a sample"),
    AggregateFunction("var_pop", _ONE_DOUBLE, _always(DOUBLE), "variance of all there is"),
    AggregateFunction("stddev_samp", _ONE_DOUBLE, _always(DOUBLE), "deviation of a sample"),
    AggregateFunction("stddev_pop", _ONE_DOUBLE, _always(DOUBLE), "deviation of all there is"),
    AggregateFunction(
        "first", _ONE_ANY, _like_first, "the value at the lowest position; of equals, the smallest"
    ),
    AggregateFunction(
        "last", _ONE_ANY, _like_first, "the value at the highest position; of equals, the largest"
    ),
    AggregateFunction(
        "min_by", _BESIDE, _like_first, "the value beside the smallest; of equals, the smallest"
    ),
    AggregateFunction(
        "max_by", _BESIDE, _like_first, "the value beside the largest; of equals, the largest"
    ),
    AggregateFunction("median", _ONE_DOUBLE, _always(DOUBLE), "the middle, interpolated"),
    AggregateFunction("quantile", _AT, _always(DOUBLE), "the value at a share, interpolated", 1),
    AggregateFunction(
        "quantile_disc",
        Signature((_F.ORDERED, _F.DOUBLE)),
        _like_first,
        "the least value up to which a share of all are",
        1,
    ),
    AggregateFunction("mode", _ONE_ORDERED, _like_first, "the most frequent; of equals, the least"),
    AggregateFunction(
        "top_k",
        Signature((_F.ANY, _F.INTEGER)),
        _always(STRING),
        "the k most frequent values with their counts, as JSON",
        1,
    ),
    AggregateFunction(
        "heavy_hitters",
        _SHARE,
        _always(STRING),
        "the values that make up at least a share of all, with their counts, as JSON",
        1,
    ),
    AggregateFunction(
        "array_agg",
        Signature((_F.ANY,), variadic=True),
        lambda arguments: array_of(arguments[0]),
        "the values, in an ARRAY, by position and then by value, or ORDER BY something else",
    ),
    AggregateFunction("bit_and", _ONE_INTEGER, _always(BIGINT), "the bits that all have"),
    AggregateFunction("bit_or", _ONE_INTEGER, _always(BIGINT), "the bits that one has"),
    AggregateFunction("bit_xor", _ONE_INTEGER, _always(BIGINT), "the bits of an odd number"),
    *[
        AggregateFunction(name, _AT, _always(DOUBLE), about)
        for name, about in (
            ("corr", "correlation"),
            ("covar_pop", "covariance of all there is"),
            ("covar_samp", "covariance of a sample"),
            ("regr_avgx", "the mean of x, the second argument"),
            ("regr_avgy", "the mean of y, the first argument"),
            ("regr_sxx", "the squares of the distances of x from its mean, added up"),
            ("regr_syy", "the same for y"),
            ("regr_sxy", "the products of the distances of both, added up"),
            ("regr_slope", "the slope of the line through the points"),
            ("regr_intercept", "where that line meets x = 0"),
            ("regr_r2", "the square of the correlation"),
        )
    ],
    AggregateFunction("any_value", _ONE_ORDERED, _like_first, "one of them: the smallest"),
    AggregateFunction("bool_and", _ONE_BOOLEAN, _like_first, "whether all are true"),
    AggregateFunction("bool_or", _ONE_BOOLEAN, _like_first, "whether one is true"),
    AggregateFunction(
        "string_agg",
        Signature((_F.STRING, _F.STRING)),
        _always(STRING),
        "all texts, from the least to the greatest, with a separator between them",
        1,
    ),
    AggregateFunction(
        "histogram", _ONE_ANY, _always(STRING), "all values with their counts, by value, as JSON"
    ),
    AggregateFunction("approx_count_distinct", _ONE_ANY, _always(BIGINT), "about how many kinds"),
    AggregateFunction("approx_quantile", _AT, _always(DOUBLE), "about the value at a share", 1),
    AggregateFunction(
        "approx_top_k",
        Signature((_F.ANY, _F.INTEGER)),
        _always(STRING),
        "the k values that are about the most frequent, with their counts, as JSON",
        1,
    ),
    AggregateFunction(
        "approx_heavy_hitters",
        _SHARE,
        _always(STRING),
        "the values that make up about a share of all, with their counts, as JSON",
        1,
    ),
]

AGGREGATES: dict[str, AggregateFunction] = {function.name: function for function in _ALL}
ALIASES: dict[str, str] = {
    "mean": "avg",
    "average": "avg",
    "variance": "var_samp",
    "var": "var_samp",
    "stddev": "stddev_samp",
    "stdev": "stddev_samp",
    "std": "stddev_samp",
    "percentile": "quantile",
    "quantile_cont": "quantile",
    "percentile_cont": "quantile",
    "percentile_disc": "quantile_disc",
    "every": "bool_and",
    "listagg": "string_agg",
    "group_concat": "string_agg",
    "collect_list": "array_agg",
    "list": "array_agg",
    "first_value": "first",
    "last_value": "last",
    "arg_min": "min_by",
    "argmin": "min_by",
    "arg_max": "max_by",
    "argmax": "max_by",
    "approx_distinct": "approx_count_distinct",
    "approx_topk": "approx_top_k",
}
COUNT_IF = ("count_if", "countif")  # count(*) FILTER (WHERE …)
REWRITTEN: dict[str, str] = {  # the functions that the binder rewrites them to
    **dict.fromkeys((*COUNT_IF, "regr_count"), "count"),
    **dict.fromkeys(("collect_set", "topk", "topkdistinct"), "array_agg"),
}


def aggregate(name: str) -> AggregateFunction | None:
    lower = name.lower()
    return AGGREGATES.get(ALIASES.get(lower, lower))


# Correlation, covariance and regression, from exact sums over pairs of numbers; rounded once.

_ROOT_BITS = 1200  # binary places


class PairTotals(NamedTuple):
    """Number of pairs, with the sums of their values, squares and products."""

    pairs: int
    y: Fraction
    x: Fraction
    yy: Fraction
    xx: Fraction
    yx: Fraction

    @property
    def spread_y(self) -> Fraction:
        return self.yy - self.y**2 / self.pairs

    @property
    def spread_x(self) -> Fraction:
        return self.xx - self.x**2 / self.pairs

    @property
    def together(self) -> Fraction:
        return self.yx - self.y * self.x / self.pairs


def _corr(of: PairTotals) -> float | None:
    if not of.spread_x or not of.spread_y:
        return None
    root = _root(of.together**2 / (of.spread_x * of.spread_y))
    return root if of.together >= 0 else -root


def _slope(of: PairTotals) -> Fraction | None:
    return of.together / of.spread_x if of.spread_x else None


def _intercept(of: PairTotals) -> Fraction | None:
    slope = _slope(of)
    return None if slope is None else (of.y - slope * of.x) / of.pairs


def _r2(of: PairTotals) -> Fraction | None:
    if not of.spread_x:
        return None
    return of.together**2 / (of.spread_x * of.spread_y) if of.spread_y else Fraction(1)


# The arguments are y and x, in this order, as in the SQL standard.
PAIR_STATISTICS: dict[str, Callable[[PairTotals], Fraction | float | None]] = {
    "corr": _corr,
    "covar_pop": lambda of: of.together / of.pairs,
    "covar_samp": lambda of: of.together / (of.pairs - 1) if of.pairs > 1 else None,
    "regr_avgx": lambda of: of.x / of.pairs,
    "regr_avgy": lambda of: of.y / of.pairs,
    "regr_sxx": lambda of: of.spread_x,
    "regr_syy": lambda of: of.spread_y,
    "regr_sxy": lambda of: of.together,
    "regr_slope": _slope,
    "regr_intercept": _intercept,
    "regr_r2": _r2,
}


def pair_statistic(name: str, totals: PairTotals) -> float | None:
    """Compute a statistic from the totals.

    >>> exact = [Fraction(each) for each in (6, 6, 14, 14, 14)]
    >>> pair_statistic("corr", PairTotals(3, *exact))
    1.0
    """
    found = PAIR_STATISTICS[name](totals)
    return _rounded(found) if isinstance(found, Fraction) else found


def _rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _root(exact: Fraction) -> float:
    """Square root, rounded once: computed to more bits than a double has, plus a sticky bit for
    the rest.
    """
    scaled = exact * 4**_ROOT_BITS
    root = math.isqrt(math.floor(scaled))
    return _rounded(Fraction(2 * root + (root**2 != scaled), 2 * 2**_ROOT_BITS))
