import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators import costs

COST = st.floats(0.1, 10)
COUNT = st.integers(1, 10**4)


@given(COUNT, COUNT, st.integers(1, 500), st.integers(1, 500), st.booleans(), COST, COST)
def test_the_choice_is_the_cheapest(
    tuples: int, groups: int, range_: int, slide: int, differential: bool, a: float, b: float
) -> None:
    choice = costs.choose(
        tuples,
        groups,
        range_=range_,
        slide=slide,
        differential=differential,
        a=a,
        a_prime=a,
        b=b,
        c=b,
    )
    times = dict(choice.times)
    assert times[choice.algorithm] == min(times.values())
    assert set(times) == {"paned", "wid", "buffering"}
    assert str(choice).startswith(choice.algorithm)


def test_panes_do_not_pay_for_many_groups_or_single_panes() -> None:
    """The two cases of section 6.2.3."""
    unit = {"a": 1.0, "a_prime": 1.0, "b": 1.0, "c": 1.0}
    few = costs.choose(1000, 10, range_=10, slide=1, differential=False, **unit)
    many = costs.choose(1000, 100, range_=10, slide=1, differential=False, **unit)
    single = costs.choose(1000, 10, range_=10, slide=10, differential=False, **unit)
    assert [each.algorithm for each in (few, many, single)] == ["paned", "wid", "wid"]


@given(COST, COST, COST, st.floats(1, 100), st.integers(1, 10))
def test_condition_6_9_compares_6_5_with_6_6(
    aggr: float, tup: float, vol: float, wed: float, slide: int
) -> None:
    eager, lazy = costs.mc_eager(aggr, wed, slide), costs.mc_lazy(tup, vol, wed)
    if abs(eager - lazy) > 1e-9 * lazy:
        assert costs.prefers_eager(vol * wed, aggr, tup, wed, slide) == (eager < lazy)


def test_lagging_sources_have_fewer_tuples_in_the_buffer() -> None:
    """Figure 6-16: B lags 2 behind A, C lags 5."""
    volumes, offsets = [3.0, 2.0, 1.0], [0.0, 2.0, 5.0]
    assert costs.num_tuples(6, 10, volumes, offsets) == 3 * 10 + 2 * 8 + 1 * 5
    assert costs.skew(volumes, offsets) == 9
    with pytest.raises(ValueError, match="shorter"):
        costs.skew([1.0, 2.0], [0.0])
