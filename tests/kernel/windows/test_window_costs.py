from math import gcd

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.windows import window_costs

COST = st.floats(0.1, 10)
COUNT = st.integers(1, 10**4)


@given(COUNT, COUNT, st.integers(1, 500), st.integers(1, 500), COST, COST, COST)
def test_panes_pay_where_section_6_2_3_says(
    tuples: int, groups: int, range_: int, slide: int, a: float, b: float, c: float
) -> None:
    """Blocks never merge more often than every window from its panes; what is subtracted is merged
    less often still."""
    panes = range_ // gcd(range_, slide)
    per_slide = window_costs.panes_per_slide(range_, slide)
    blocks = window_costs.time_p_blocks(tuples, panes, groups, a, b, c, per_slide)
    sliding = window_costs.time_p_d(tuples, panes, groups, a, b, c, per_slide)
    assert sliding < blocks
    if per_slide == 1 and panes >= 5:
        assert blocks <= window_costs.time_p_nd(tuples, panes, groups, a, b, c) * (1 + 1e-9)


@given(COST, COST, COST, st.floats(1, 100), st.integers(1, 10))
def test_condition_6_9_compares_6_5_with_6_6(
    aggr: float, tup: float, vol: float, wed: float, slide: int
) -> None:
    eager, lazy = window_costs.mc_eager(aggr, wed, slide), window_costs.mc_lazy(tup, vol, wed)
    if abs(eager - lazy) > 1e-9 * lazy:
        assert window_costs.prefers_eager(vol * wed, aggr, tup, wed, slide) == (eager < lazy)


def test_lagging_sources_have_fewer_tuples_in_the_buffer() -> None:
    """Figure 6-16: B lags 2 behind A, C lags 5."""
    volumes, offsets = [3.0, 2.0, 1.0], [0.0, 2.0, 5.0]
    assert window_costs.num_tuples(6, 10, volumes, offsets) == 3 * 10 + 2 * 8 + 1 * 5
    assert window_costs.skew(volumes, offsets) == 9
    with pytest.raises(ValueError, match="shorter"):
        window_costs.skew([1.0, 2.0], [0.0])
