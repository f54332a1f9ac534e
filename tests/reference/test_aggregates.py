"""Aggregates by example: over nothing, over NULLs, over one row, with FILTER and DISTINCT."""

from __future__ import annotations

import json
import math
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.functions.aggregate_functions import AGGREGATES, ALIASES, PAIR_STATISTICS
from tests.local.helpers import locally
from tests.reference.helpers import Stream, ask, examples, plain

NAN, INF = float("nan"), float("inf")


def over(call: str, values: list[Any], sql_type: str = "INT") -> Any:
    """An aggregate over one window; the values stand at positions 0, 1, 2, …"""
    rows = [(x, t) for t, x in enumerate(values)]
    query = ask(
        f"SELECT {call} AS y, count(*) AS n [RANGE 100, SLIDE 100, WA t] FROM s",
        s=Stream(f"x {sql_type}, t INT", rows, ps.progress("t", ordered=True)),
    )
    return plain(query.collect().column("y"))[0]


def call_of(name: str) -> str:
    constant = {"quantile": ", 0.5", "approx_quantile": ", 0.5", "top_k": ", 2"}
    constant["quantile_disc"] = constant["percentile_disc"] = ", 0.5"
    constant["heavy_hitters"] = constant["approx_heavy_hitters"] = ", 0.5"
    constant["approx_top_k"] = constant["approx_topk"] = ", 2"
    constant["min_by"] = constant["max_by"] = ", x"
    constant["string_agg"] = ", '; '"
    constant |= dict.fromkeys(PAIR_STATISTICS, ", x")
    known = ALIASES.get(name, name)
    own = {"bool_and": "x > 1", "bool_or": "x > 1", "string_agg": "CAST(x AS STRING)"}
    return f"{name}({own.get(known, 'x')}{constant.get(known, '')})"


ONE_ROW = {  # over the single value 3
    "count": 1,
    "sum": 3,
    "min": 3,
    "max": 3,
    "avg": 3.0,
    "var_samp": None,
    "var_pop": 0.0,
    "stddev_samp": None,
    "stddev_pop": 0.0,
    "first": 3,
    "last": 3,
    "median": 3.0,
    "quantile": 3.0,
    "quantile_disc": 3,
    "mode": 3,
    "top_k": "[[3, 1]]",
    "heavy_hitters": "[[3, 1]]",
    "approx_top_k": "[[3, 1]]",
    "approx_heavy_hitters": "[[3, 1]]",
    "approx_count_distinct": 1,
    "approx_quantile": 3.0,
    "min_by": 3,
    "max_by": 3,
    "any_value": 3,
    "bool_and": True,
    "bool_or": True,
    "string_agg": "3",
    "histogram": "[[3, 1]]",
    "array_agg": [3],
    "bit_and": 3,
    "bit_or": 3,
    "bit_xor": 3,
    **dict.fromkeys(("corr", "covar_samp", "regr_slope", "regr_intercept", "regr_r2")),
    **dict.fromkeys(("covar_pop", "regr_sxx", "regr_syy", "regr_sxy"), 0.0),
    **dict.fromkeys(("regr_avgx", "regr_avgy"), 3.0),
}


@pytest.mark.parametrize("name", AGGREGATES)
def test_one_row(name: str) -> None:
    found = over(call_of(name), [3])
    assert (type(found), found) == (type(ONE_ROW[name]), ONE_ROW[name])
    assert over(call_of(name), [None, 3, None]) == ONE_ROW[name]


@pytest.mark.parametrize("name", AGGREGATES)
def test_nulls_only(name: str) -> None:
    nothing = 0 if name == "count" else None
    assert over(call_of(name), [None, None]) == nothing
    assert over(f"{call_of(name)} FILTER (WHERE x > 5)", [1, 2]) == nothing


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases(alias: str) -> None:
    values = [5, 1, 3, 3]
    assert over(call_of(alias), values) == over(call_of(ALIASES[alias]), values)


def test_a_window_without_rows_has_no_result() -> None:
    query = ask(
        "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s WHERE t > 100",
        s=Stream("t INT", [(1,)], ps.progress("t", ordered=True)),
    )
    assert query.collect().num_rows == 0
    assert query.collect().column_names == ["window_start", "window_end", "n"]


EXAMPLES: list[tuple[str, str, list[Any], Any]] = [
    ("count(*)", "INT", [1, None, 1], 3),
    ("count(x)", "INT", [1, None, 1], 2),
    ("count(DISTINCT x)", "INT", [1, None, 1], 1),
    ("count(DISTINCT x)", "DOUBLE", [0.0, -0.0, NAN, NAN], 2),
    ("sum(x)", "INT", [2**31 - 1, 1], 2**31),
    ("sum(DISTINCT x)", "INT", [3, 3, 4], 7),
    ("sum(x)", "DECIMAL(5,2)", [Decimal("0.10"), Decimal("0.20")], Decimal("0.30")),
    ("sum(x)", "DOUBLE", [0.5, 0.25], 0.75),
    ("avg(x)", "INT", [1, 2], 1.5),
    ("avg(DISTINCT x)", "INT", [1, 1, 1, 3], 2.0),
    ("avg(x)", "DECIMAL(5,2)", [Decimal("0.10"), Decimal("0.20")], 0.15),
    ("min(x)", "STRING", ["b", "a", None], "a"),
    ("max(x)", "STRING", ["é", "z"], "é"),
    ("max(x)", "BOOLEAN", [False, True], True),
    ("min(x)", "TIMESTAMP", [5, -5], -5),
    ("max(x)", "DATE", [5, -5], 5),
    ("max(x)", "DECIMAL(5,2)", [Decimal("-1.50"), Decimal("-2.50")], Decimal("-1.50")),
    ("max(x)", "DOUBLE", [INF, NAN, 1.0], NAN),
    ("min(x)", "DOUBLE", [-INF, NAN, 1.0], -INF),
    ("var_samp(x)", "INT", [1, 2, 3, 4], 5 / 3),
    ("var_pop(x)", "INT", [1, 2, 3, 4], 1.25),
    ("stddev_samp(x)", "INT", [1, 3], math.sqrt(2)),
    ("stddev_pop(x)", "INT", [1, 3], 1.0),
    ("stddev_pop(x)", "DOUBLE", [1e200, -1e200], 1e200),  # though the variance is no double
    ("stddev_pop(x)", "DOUBLE", [5e-324, 1.5e-323], 5e-324),
    ("stddev_samp(x)", "DOUBLE", [1.7e308, -1.7e308], INF),
    ("var_pop(x)", "DOUBLE", [INF, 1.0], NAN),
    ("first(x)", "INT", [None, 7, 3], 7),
    ("last(x)", "INT", [7, 3, None], 3),
    ("first(x)", "STRING", ["b", "a"], "b"),
    ("last(x)", "BINARY", [b"a", b"b"], b"b"),
    ("median(x)", "INT", [9, 1, 2], 2.0),
    ("median(x)", "INT", [4, 1, 2, 3], 2.5),
    ("quantile(x, 0)", "INT", [4, 1, 2], 1.0),
    ("quantile(x, 1)", "INT", [4, 1, 2], 4.0),
    ("quantile(x, 0.25)", "INT", [0, 10, 20], 5.0),
    ("quantile(x, 0.75)", "INT", [0, 10], 7.5),
    ("quantile_disc(x, 0)", "INT", [4, 1, 2], 1),
    ("quantile_disc(x, 1)", "INT", [4, 1, 2], 4),
    ("quantile_disc(x, 0.5)", "INT", [10, 0], 0),
    ("quantile_disc(x, 0.1)", "INT", [9, 8, 7, 6, 5, 4, 3, 2, 1, 0], 0),
    ("percentile_disc(x, 0.75)", "STRING", ["b", "c", "a", None], "c"),
    ("mode(x)", "INT", [3, 1, 3, 1, 2], 1),
    ("mode(x)", "STRING", ["b", "a", "b"], "b"),
    ("top_k(x, 2)", "STRING", ["b", "a", "b", "c", "é", "é"], '[["b", 2], ["é", 2]]'),
    ("top_k(x, 9)", "INT", [2, 1, 2], "[[2, 2], [1, 1]]"),
    ("top_k(x, 1)", "DECIMAL(5,2)", [Decimal("1.50")], "[[1.50, 1]]"),
    ("top_k(x, 1)", "DATE", [0], '[["1970-01-01", 1]]'),
    ("top_k(x, 1)", "BINARY", [b"\xff"], '[["ff", 1]]'),
    ("top_k(x, 1)", "BOOLEAN", [True], "[[true, 1]]"),
    ("heavy_hitters(x, 0.5)", "INT", [1, 1, 2, 3], "[[1, 2]]"),
    ("heavy_hitters(x, 0.25)", "INT", [1, 1, 2, 3], "[[1, 2], [2, 1], [3, 1]]"),
    ("heavy_hitters(x, 1)", "INT", [1, 2], "[]"),
    ("approx_count_distinct(x)", "INT", [1, 2, 1], 2),
    ("approx_quantile(x, 0.5)", "INT", [1, 2, 9], 2.0),
    ("count(*) FILTER (WHERE x > 1)", "INT", [1, 2, None], 1),
    ("sum(x) FILTER (WHERE x > 1)", "INT", [1, 2, 3], 5),
    ("sum(DISTINCT x) FILTER (WHERE x > 1)", "INT", [1, 2, 2, 3], 5),
    ("sum(x) + count(*) * 10", "INT", [1, 2], 23),
    ("sum(x * x)", "INT", [1, 2], 5),
    ("max(upper(x))", "STRING", ["a", "b"], "B"),
    ("count(DISTINCT x % 2)", "INT", [1, 2, 3], 2),
    ("CASE WHEN count(*) > 1 THEN 'many' ELSE 'one' END", "INT", [1, 2], "many"),
]


@pytest.mark.parametrize(("call", "sql_type", "values", "expected"), EXAMPLES)
def test_examples(call: str, sql_type: str, values: list[Any], expected: Any) -> None:
    found = over(call, values, sql_type)
    if isinstance(expected, float) and math.isnan(expected):
        assert math.isnan(found)
    else:
        assert (type(found), found) == (type(expected), expected)


def test_frequencies_are_json() -> None:
    assert json.loads(over("top_k(x, 2)", [1.5, 1.5, INF], "DOUBLE")) == [[1.5, 2], ["Infinity", 1]]
    awkward = 'a"b\\é\n'
    assert json.loads(over("top_k(x, 1)", [awkward], "STRING")) == [[awkward, 1]]


def test_ties_of_position_go_by_value() -> None:
    rows = [("b", 3), ("a", 3), ("c", 3), ("z", 2)]
    query = ask(
        "SELECT first(x) AS f, last(x) AS l [RANGE 3, SLIDE 3, WA t] FROM s WHERE t = 3",
        s=Stream("x STRING, t INT", rows, ps.progress("t", delay=9)),
    )
    assert query.collect().to_pylist() == [
        {"window_start": 3, "window_end": 6, "f": "a", "l": "c"},
    ]


def test_positions_in_row_windows_are_row_numbers() -> None:
    """By arrival 3 comes first, by rank 1 does."""
    rows = [(3, 30), (1, 10), (2, 20)]
    for order, expected in (("row-num", (3, 2)), ("rank(t)", (1, 3))):
        query = ask(
            f"SELECT first(x) AS f, last(x) AS l [RANGE 3 ROWS, SLIDE 3 ROWS, WA {order}] FROM s",
            s=Stream("x INT, t INT", rows, ps.progress("t", delay=99)),
        )
        (row,) = query.collect().to_pylist()
        assert (row["f"], row["l"]) == expected


def test_group_keys() -> None:
    """NULL is a group, all NaNs are one, and −0.0 is 0.0."""
    values = [None, NAN, 0.0, -0.0, NAN, None, 1.0]
    query = ask(
        "SELECT x, count(*) AS n [RANGE 9, SLIDE 9, WA t] FROM s GROUP BY x",
        s=Stream("x DOUBLE, t INT", [(x, 0) for x in values], ps.progress("t", ordered=True)),
    )
    found = [(repr(row["x"]), row["n"]) for row in query.collect().to_pylist()]
    assert found == [("0.0", 2), ("1.0", 1), ("nan", 2), ("None", 2)]


# --- what does not fit ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql_type", "values"),
    [
        ("BIGINT", [2**63 - 1, 1]),
        ("BIGINT", [-(2**63), -1]),
        ("DECIMAL(38,0)", [Decimal("9" * 38), Decimal(1)]),
    ],
)
def test_a_sum_that_overflows_is_an_error(sql_type: str, values: list[Any]) -> None:
    with pytest.raises(ps.RunError):
        over("sum(x)", values, sql_type)


def test_a_sum_may_overflow_on_the_way() -> None:
    assert over("sum(x)", [2**63 - 1, 1, -1], "BIGINT") == 2**63 - 1


def test_long_decimals_are_exact() -> None:
    values = [Decimal("12345678901234567890123456789012345.678"), Decimal("0.001")]
    total = Decimal("12345678901234567890123456789012345.679")
    assert over("sum(x)", values, "DECIMAL(38,3)") == total


def test_the_largest_decimal_fits() -> None:
    assert over("sum(x)", [Decimal("9" * 38)], "DECIMAL(38,0)") == Decimal("9" * 38)


def test_a_tenth_is_a_tenth() -> None:
    """The double nearest to 0.1 is a little more than that."""
    assert len(json.loads(over("heavy_hitters(x, 0.1)", list(range(10))))) == 10


@pytest.mark.parametrize(
    "call",
    [
        "sum('a')",
        "sum(DISTINCT *)",
        "sum(*)",
        "count()",
        "quantile(x, 2)",
        "quantile(x, x)",
        "quantile(x)",
        "top_k(x, 0)",
        "sum(count(*))",
        "upper(x) FILTER (WHERE x > 1)",
        "count(*) OVER ()",
    ],
)
def test_refused(call: str) -> None:
    with pytest.raises(ps.PenstockError):
        over(call, [1])


# --- aggregates written in Python ----------------------------------------------------------------


class GeometricMean:
    """The state is (sum of logarithms, count)."""

    def init(self) -> tuple[float, int]:
        return (0.0, 0)

    def accumulate(self, state: tuple[float, int], column: pa.Array) -> tuple[float, int]:
        logs = [math.log(x) for x in column.to_pylist()]
        return (state[0] + sum(logs), state[1] + len(logs))

    def merge(self, state: tuple[float, int], other: tuple[float, int]) -> tuple[float, int]:
        return (state[0] + other[0], state[1] + other[1])

    def finish(self, state: tuple[float, int]) -> float | None:
        return math.exp(state[0] / state[1]) if state[1] else None


class Constant(GeometricMean):
    """Returns what it was made with, whatever it is given."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def accumulate(self, state: Any, *columns: pa.Array) -> Any:
        self.given = [column.to_pylist() for column in columns]
        return state

    def finish(self, state: Any) -> Any:
        return self.result


def registered(
    implementation: Any, returns: str, call: str = "f(x)", arguments: tuple[str, ...] = ("DOUBLE",)
) -> list[Any]:
    db = ps.connect("reference")
    db.aggregate("f", implementation, returns=returns, arguments=arguments)
    rows = [(2.0, 1, 0), (None, 1, 0), (8.0, None, 1)]
    db.stream("s", rows, schema="x DOUBLE, k INT, t INT", progress=ps.progress("t", ordered=True))
    query = db.sql(f"SELECT {call} AS y [RANGE 9, SLIDE 9, WA t] FROM s")
    return plain(query.collect().column("y"))


def test_a_registered_aggregate() -> None:
    """NULLs do not reach it, FILTER and expressions do work with it, case does not matter."""
    assert registered(GeometricMean(), "DOUBLE") == [pytest.approx(4.0)]
    assert registered(GeometricMean(), "DOUBLE", "F(x * 2) + 1") == [pytest.approx(9.0)]
    assert registered(GeometricMean(), "DOUBLE", "f(x) FILTER (WHERE t = 0)") == [
        pytest.approx(2.0)
    ]
    assert registered(GeometricMean(), "DOUBLE", "f(x) FILTER (WHERE t > 5)") == [None]


def test_registered_aggregates_get_columns() -> None:
    """Rows with a NULL in any argument are left out; arguments are converted."""
    spy = Constant(1)
    registered(spy, "BIGINT", "f(x, k)", ("DOUBLE", "BIGINT"))
    assert spy.given == [[2.0], [1]]
    registered(spy, "BIGINT", "f(k, k)", ("DOUBLE", "BIGINT"))
    assert spy.given == [[1.0, 1.0], [1, 1]]


@pytest.mark.parametrize(
    ("result", "returns"),
    [
        (7, "BIGINT"),
        (7, "INT"),
        (7.5, "DOUBLE"),
        ("a", "STRING"),
        (True, "BOOLEAN"),
        (Decimal("1.50"), "DECIMAL(9,2)"),
        (b"a", "BINARY"),
        (None, "BIGINT"),
        (7, "TIMESTAMP"),
        (7, "DATE"),
    ],
)
def test_types_of_registered_aggregates(result: Any, returns: str) -> None:
    assert registered(Constant(result), returns) == [result]


@pytest.mark.parametrize(
    ("result", "returns"),
    [
        ("a", "BIGINT"),
        (1, "STRING"),
        (2**40, "INT"),
        (object(), "DOUBLE"),
        (2**70, "BIGINT"),
        (1.5, "BIGINT"),
    ],
)
def test_results_of_another_type_are_errors(result: Any, returns: str) -> None:
    with pytest.raises(ps.RunError):
        registered(Constant(result), returns)


def test_registering() -> None:
    db = ps.connect("reference")
    with pytest.raises(ps.BindError):
        db.aggregate("sum", GeometricMean(), returns="DOUBLE")
    with pytest.raises(ps.BindError):
        db.aggregate("f", object(), returns="DOUBLE")  # type: ignore[arg-type]


@examples
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=6), st.booleans())
def test_a_deviation_is_rounded_once(values: list[float], sample: bool) -> None:
    call = "stddev_samp" if sample else "stddev_pop"
    with localcontext(prec=2000):  # more digits than any of these sums has
        exact = list(map(Decimal, values))
        mean = sum(exact) / len(exact)
        variance = sum((each - mean) ** 2 for each in exact) / (len(exact) - sample)
        expected = float(variance.sqrt())
    rows = Stream("x DOUBLE, t INT", [(x, 1) for x in values], ps.progress("t", ordered=True))
    sql = f"SELECT {call}(x) AS d [RANGE 5, SLIDE 5, WA t] FROM s"
    assert plain(ask(sql, s=rows).collect().column("d")) == [expected]
    assert plain(locally(sql, s=rows).table.column("d")) == [expected]
