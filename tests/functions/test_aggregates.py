"""The catalogue of aggregates: the reference engine knows them all, by all their names."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from penstock.functions.aggregate_functions import (
    AGGREGATES,
    ALIASES,
    PAIR_STATISTICS,
    PythonAggregate,
    aggregate,
)
from penstock.functions.signatures import Family

BESIDE = {"min_by": "t", "max_by": "t", **dict.fromkeys(PAIR_STATISTICS, "x")}  # a second column
CONSTANTS = {
    "quantile": "0.5",
    "quantile_disc": "0.5",
    "approx_quantile": "0.5",
    "heavy_hitters": "0.5",
    "approx_heavy_hitters": "0.5",
    "top_k": "1",
    "approx_top_k": "1",
    "string_agg": "','",
}
OF_TEXTS = ("string_agg",)
OF_CONDITIONS = ("bool_and", "bool_or")


def call(name: str, canonical: str | None = None, column: str = "x") -> str:
    second = {**CONSTANTS, **BESIDE}.get(canonical or name)
    if (canonical or name) in OF_TEXTS:
        column = f"CAST({column} AS STRING)"
    if (canonical or name) in OF_CONDITIONS:
        column = f"{column} > 1"
    return f"{name}({column}, {second})" if second else f"{name}({column})"


def answer(expression: str) -> Any:
    """Over 2, NULL, 1, 2."""
    db = ps.connect("reference")
    query = db.sql(
        "CREATE STREAM s (t INT, x BIGINT, n BIGINT) FROM VALUES"
        " (0, 2, NULL), (1, NULL, NULL), (2, 1, NULL), (3, 2, NULL) PROGRESS ON t ORDERED;"
        f"SELECT {expression} AS answer [RANGE 10, SLIDE 10, WA t] FROM s"
    )
    assert isinstance(query, ps.Query)
    rows = query.collect()
    assert rows.schema == query.schema
    return rows.to_pylist()[0]["answer"]


EXPECTED = {
    "count": 3,
    "sum": 5,
    "min": 1,
    "max": 2,
    "avg": 5 / 3,
    "var_samp": 1 / 3,
    "var_pop": 2 / 9,
    "stddev_samp": (1 / 3) ** 0.5,
    "stddev_pop": (2 / 9) ** 0.5,
    "first": 2,
    "last": 2,
    "min_by": 2,
    "max_by": 2,
    "median": 2.0,
    "quantile": 2.0,
    "quantile_disc": 2,
    "mode": 2,
    "any_value": 1,
    "bool_and": False,
    "bool_or": True,
    "string_agg": "1,2,2",
    "histogram": "[[1, 1], [2, 2]]",
    "array_agg": [2, 1, 2],
    "bit_and": 0,
    "bit_or": 3,
    "bit_xor": 1,
    "corr": 1.0,
    "covar_pop": 2 / 9,
    "covar_samp": 1 / 3,
    "regr_avgx": 5 / 3,
    "regr_avgy": 5 / 3,
    **dict.fromkeys(("regr_sxx", "regr_syy", "regr_sxy"), 2 / 3),
    "regr_slope": 1.0,
    "regr_intercept": 0.0,
    "regr_r2": 1.0,
    "top_k": "[[2, 2]]",
    "heavy_hitters": "[[2, 2]]",
    "approx_count_distinct": 2,
    "approx_quantile": 2.0,
    "approx_top_k": "[[2, 2]]",
    "approx_heavy_hitters": "[[2, 2]]",
}


@pytest.mark.parametrize("name", AGGREGATES)
def test_every_aggregate_is_implemented(name: str) -> None:
    expected = EXPECTED[name]
    if isinstance(expected, float):
        expected = pytest.approx(expected, rel=1e-15)
    assert answer(call(name)) == expected


@pytest.mark.parametrize("name", AGGREGATES)
def test_over_nothing(name: str) -> None:
    assert answer(call(name, column="n")) == (0 if name == "count" else None)


def test_only_counting_rows_counts_nulls() -> None:
    assert answer("count(*)") == 4
    assert answer("count(n)") == 0


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases_are_other_names_of_aggregates(alias: str) -> None:
    assert ALIASES[alias] in AGGREGATES
    assert alias not in AGGREGATES
    assert aggregate(alias.upper()) is AGGREGATES[ALIASES[alias]]
    assert answer(call(alias, ALIASES[alias])) == answer(call(ALIASES[alias]))


def test_without_more_words_it_is_of_a_sample() -> None:
    for alias in ("stddev", "stdev", "std"):
        assert ALIASES[alias] == "stddev_samp"
    for alias in ("variance", "var"):
        assert ALIASES[alias] == "var_samp"


@pytest.mark.parametrize("name", AGGREGATES)
def test_the_catalogue_is_consistent(name: str) -> None:
    function = AGGREGATES[name]
    assert function.name == name == name.lower()
    assert function.about
    assert (name in CONSTANTS) == (function.constants == 1)
    assert function.constants < len(function.signature.families)
    assert function.signature.families[0] in Family
    assert aggregate("nobody") is None


def test_what_a_python_aggregate_is() -> None:
    class Complete:
        def init(self) -> int: ...
        def accumulate(self, state: int, *columns: Any) -> int: ...
        def merge(self, state: int, other: int) -> int: ...
        def finish(self, state: int) -> int: ...

    class Incomplete:
        def init(self) -> int: ...

    assert isinstance(Complete(), PythonAggregate)
    assert not isinstance(Incomplete(), PythonAggregate)
