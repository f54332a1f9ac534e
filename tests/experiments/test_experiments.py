"""The papers' experiments on the simulated clock: their shapes, and what is asked of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.experiments.catalogue import EXPERIMENTS
from penstock.experiments.experiment_clock import Conduct, simulated
from penstock.experiments.idle_waiting import IN_ORDER, STREAMS, WITHOUT_STAMPS
from penstock.experiments.trial import SECOND, Costs, Trial, passing, poisson

SMALL = Conduct(quick=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_is_expected_holds(name: str, tmp_path: Path) -> None:
    figure = EXPERIMENTS[name](SMALL)
    assert figure.name == name
    assert [each.what for each in figure.expected if not each.holds] == []
    figure.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_a_run_is_the_same_every_time() -> None:
    arrivals = poisson((50, 1), 4)
    trial = Trial(IN_ORDER, STREAMS)
    first, second = (simulated(trial, arrivals, Costs(10, 5, 1)) for _ in range(2))
    assert (first.left == second.left).all()
    assert len(first.numbers) == passing(len(arrivals)).sum()


def test_what_a_tuple_takes_is_what_its_operators_take() -> None:
    arrivals = poisson((10, 0.1), 4)
    costs = Costs(entry=1_000, tuple=100, progress=10)
    latent = simulated(Trial(WITHOUT_STAMPS, STREAMS, stamps=None), arrivals, costs)
    assert set(latent.latencies) == {1_000 + 3 * 100}  # a filter, a projection and the union
    on_demand = simulated(Trial(IN_ORDER, STREAMS), arrivals, costs)
    assert set(on_demand.latencies) == {1_000 + 3 * 100 + 2 * 10}  # of its own stream, of the other
    assert on_demand.idle == 0


def test_without_enabling_timestamps_the_union_waits_idly() -> None:
    arrivals = poisson((20, 0.5), 10)
    none = simulated(Trial(IN_ORDER, STREAMS, "none"), arrivals, Costs())
    often = simulated(Trial(IN_ORDER, STREAMS, "100 ms"), arrivals, Costs())
    on_demand = simulated(Trial(IN_ORDER, STREAMS), arrivals, Costs())
    assert none.idle_share > often.idle_share > on_demand.idle_share == 0
    assert none.median > often.median > on_demand.median
    assert none.peak > often.peak > on_demand.peak
    assert set(on_demand.numbers) >= set(often.numbers) >= set(none.numbers)


@pytest.mark.parametrize(("strategy", "times"), [("dfs 1", 10 + 1), ("bfs 1", 1.5 * 10 + 0.5)])
def test_formulas_of_figure_14(strategy: str, times: float) -> None:
    arrivals = poisson((100, 0.5), 2, (10, 1))
    trial = Trial(WITHOUT_STAMPS, STREAMS, strategy=strategy, stamps=None)
    costs = Costs(0, 10, 0, frozenset({"Project"}))
    assert simulated(trial, arrivals, costs).mean == pytest.approx(times * 0.01, rel=0.2)


def test_going_back_to_an_empty_source_lets_a_tuple_through_before_the_next_one_comes() -> None:
    """Depth-first, a tuple of a burst does not wait for the others of its burst."""
    arrivals = poisson((50, 0.001), 2, (10, 1))
    costs = Costs(0, 10, 0, frozenset({"Project"}))
    means = {
        strategy: simulated(Trial(IN_ORDER, STREAMS, strategy=strategy), arrivals, costs).mean
        for strategy in ("dfs 1", "bfs 1")
    }
    assert means["dfs 1"] == pytest.approx(0.11, rel=0.1)  # as with latent timestamps
    assert means["bfs 1"] == pytest.approx(0.20, rel=0.1)


def test_arrivals_are_in_order_and_of_the_rates() -> None:
    arrivals = poisson((100, 1), 20, (5, 1))
    assert (arrivals.times[1:] >= arrivals.times[:-1]).all()
    assert arrivals.duration == 20 * SECOND
    assert 1_800 < (arrivals.streams == 0).sum() < 2_200
