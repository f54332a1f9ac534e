"""Every aggregate, plain, DISTINCT and with FILTER, over NULL, NaN and infinities: in windows that
slide by subtracting, in windows that are merged from blocks, and after restarts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.functions.aggregate_functions import AGGREGATES
from penstock.kernel.aggregates.build import build
from penstock.kernel.windows.paned import Paned
from penstock.plan.nodes.aggregation import WindowAggregate
from tests.kernel.driving import PROMISE, Stream, check, planned

DOUBLES = [None, 0.0, -0.0, 1.0, 0.1, 1e16, -1e16, 1e308, math.nan, math.inf, -math.inf]
ROWS = st.lists(
    st.tuples(
        st.sampled_from("dddp"),
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, *range(-2, 4), 2**31 - 1]),
        st.sampled_from(DOUBLES),
        st.integers(-15, 25),
    ),
    min_size=1,
    max_size=30,
)
OF_PAIRS = {name for name in AGGREGATES if name.startswith(("regr_", "covar_", "corr"))}
CONSTANTS = {
    "min_by": ", k",
    "max_by": ", x",
    "quantile": ", 0.3",
    "quantile_disc": ", 0.3",
    "approx_quantile": ", 0.3",
    "top_k": ", 2",
    "string_agg": ", '+'",
    "approx_top_k": ", 2",
    "heavy_hitters": ", 0.3",
    "approx_heavy_hitters": ", 0.3",
}
BLOCKED = {
    *("min", "max", "first", "last", "min_by", "max_by", "any_value", "bool_and", "bool_or"),
    *("bit_and", "bit_or", "array_agg"),
    *(name for name in AGGREGATES if name.startswith("approx_")),
}
SLIDING = set(AGGREGATES) - BLOCKED


def calls(name: str) -> list[str]:
    constant = CONSTANTS.get(name, "")
    x, i = ("x > 1", "i > 1") if name.startswith("bool_") else ("x", "i")
    if name.startswith("bit_"):
        x = "i"
    if name == "string_agg":
        x, i = "CAST(x AS STRING)", "CAST(i AS STRING)"
    if name in OF_PAIRS:  # these slide unless they are DISTINCT
        return [f"{name}(x, i) AS of_{name}", f"{name}(i, x) FILTER (WHERE i > 0) AS of_{name}_2"]
    return [
        f"{name}({x}{constant}) AS of_{name}",
        f"{name}(DISTINCT {x}{constant}) AS of_{name}_distinct",
        f"{name}({x}{constant}) FILTER (WHERE i > 0) AS of_{name}_filter",
        f"{name}(DISTINCT {i}{constant}) FILTER (WHERE x < 5) AS of_{name}_both",
    ]


def query(names: set[str], window: str = "RANGE 12, SLIDE 5", keys: str = "") -> str:
    called = ", ".join(call for name in sorted(names) for call in calls(name))
    by = f" GROUP BY {keys}" if keys else ""
    return f"SELECT {called} [{window}, WA t] FROM s{by}"


@pytest.mark.parametrize("names", [SLIDING, set(AGGREGATES)], ids=["sliding", "blocks"])
def test_which_aggregates_slide(names: set[str]) -> None:
    node = planned(query(names), Stream([("d", "a", 1, 1.0, 1)], {"delay": 4}), 1).input
    while not isinstance(node, WindowAggregate):
        node = node.inputs[0]
    slides = all(build(each.call).differential for each in node.aggregates)
    assert slides == (names == SLIDING)


@pytest.mark.parametrize("names", [SLIDING, set(AGGREGATES)], ids=["sliding", "blocks"])
@pytest.mark.parametrize("keys", ["", "k"])
@settings(deadline=None, max_examples=4)
@given(
    rows=ROWS,
    promise=PROMISE,
    window=st.sampled_from(["RANGE 12, SLIDE 5", "RANGE 9, SLIDE 1", "RANGE 4, SLIDE 6"]),
)
def test_every_aggregate(
    names: set[str], keys: str, rows: list, promise: dict, window: str
) -> None:
    check(query(names, window, keys), Stream(rows, promise), {WindowAggregate: Paned})


@pytest.mark.parametrize("calls", ["", ", min(i) AS low"], ids=["sliding", "blocks"])
def test_a_window_slides_over_a_large_number_and_back(calls: str) -> None:
    """What comes after it has all its digits."""
    values = [0.1, 0.2, 0.3, 1e16, -1e308, math.inf, 1e16, 0.1, 0.7, 0.2, 0.3, 1e-30, 0.4, math.nan]
    values += [0.1] * 9
    rows = [("d", "a", 1, value, t) for t, value in enumerate(values)]
    sql = (
        "SELECT sum(x) AS s, avg(x) AS a, var_pop(x) AS v, stddev_samp(x) AS d, median(x) AS m,"
        f" quantile(x, 0.1) AS q, sum(DISTINCT x) AS sd{calls} [RANGE 4, SLIDE 1, WA t] FROM s"
    )
    check(sql, Stream(rows, {"delay": 2}), {WindowAggregate: Paned})
