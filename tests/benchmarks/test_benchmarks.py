"""Benchmarks compute what they measure: all contenders answer alike, at tiny sizes."""

import gc
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.catalogue import BENCHMARKS
from benchmarks.driving import ALGORITHMS
from benchmarks.measuring import agree, measured
from benchmarks.result import Bar

FIGURES_OF_ALL = {"figure_6_10", "figure_6_11", "figure_6_12", "figure_6_15"}


@pytest.fixture(autouse=True)
def _no_tidying_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks collect garbage before every run, for times that nobody looks at here: in a
    process that has imported all tests, that takes longer than the runs."""
    monkeypatch.setattr(gc, "collect", lambda: 0)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_quick_mode_runs_and_contenders_agree(name: str, tmp_path: Path) -> None:
    result = BENCHMARKS[name](True)
    assert result.name == name
    assert len(result.agreed) >= 2
    assert all(result.agreed.values())  # an empty answer agrees with anything empty
    if name in FIGURES_OF_ALL:
        assert {who.rpartition(": ")[2] for who in result.agreed} == set(ALGORITHMS)
    assert len({tuple(row) for row in result.rows}) == 1  # the same columns
    result.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.csv", f"{name}.png"}


def test_a_wrong_answer_is_noticed() -> None:
    right, wrong = pa.table({"w": [1, 2], "n": [3, 4]}), pa.table({"w": [1, 2], "n": [3, 5]})
    assert agree({"one": right, "other": right.take([1, 0])}) == {"one": 2, "other": 2}
    with pytest.raises(AssertionError, match="other and one answer differently"):
        agree({"one": right, "other": wrong})


def test_contenders_take_turns() -> None:
    turns: list[str] = []
    times, answers = measured({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, 2)
    assert "".join(turns) == "aabbaabb"
    assert times.keys() == answers.keys() == {"a", "b"}


def test_bars_are_upper_limits() -> None:
    assert Bar("", 2, 2.0).holds
    assert not Bar("", 2, 2.1).holds
