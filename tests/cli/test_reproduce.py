"""`penstock reproduce`: tables on the terminal, numbers and pictures in a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import main
from penstock.experiments.experiment_clock import Conduct
from penstock.experiments.figure import Expectation, Figure

FIGURE = Figure(
    "figure-7",
    "Latencies",
    "A is above C",
    [{"way": "A", "ms": 13956.0}, {"way": "C", "ms": 0.185}],
    [Expectation("A above C", "75,438 ×", True), Expectation("C above A", "no", False)],
    [lambda axis: axis.plot([1, 2], label="A")],
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Conduct]:
    """How experiments were to be conducted."""
    conducts: list[Conduct] = []

    def experiment(conduct: Conduct) -> Figure:
        conducts.append(conduct)
        return FIGURE

    monkeypatch.setattr(main, "EXPERIMENTS", {"figure-7": experiment})
    return conducts


def test_a_figure(penstock: Callable[..., Any], asked: list[Conduct]) -> None:
    done = penstock("reproduce", "figure-7", "--real-time", "--out", "found")
    assert done.code == 0
    assert asked == [Conduct(real_time=True)]
    for told in ("Latencies", "13,956", "0.185", "The paper: A is above C.", "holds", "missed"):
        assert told in done.out
    assert Path("found/figure-7.csv").read_text().splitlines() == ["way,ms", "A,13956.0", "C,0.185"]
    assert Path("found/figure-7.png").stat().st_size > 1_000


def test_all_of_them_without_matplotlib(
    penstock: Callable[..., Any], asked: list[Conduct], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "find_spec", lambda _: None)
    done = penstock("reproduce", "all", "--quick")
    assert asked == [Conduct(quick=True)]
    assert done.code == 1
    assert done.err == "error: not as expected: figure-7: C above A\n"
    assert "no pictures: they need matplotlib (pip install 'penstock[plots]')" in done.out
    assert [each.name for each in Path("out/reproduce").iterdir()] == ["figure-7.csv"]


def test_quick_and_in_real_time(penstock: Callable[..., Any], asked: list[Conduct]) -> None:
    done = penstock("reproduce", "figure-7", "--quick", "--real-time")
    assert (done.code, asked) == (1, [])
    assert done.err.startswith("error: --quick is for the simulated clock")


def test_a_name_that_is_none(penstock: Callable[..., Any]) -> None:
    done = penstock("reproduce", "figure-17")
    assert done.code == 1
    assert "there is no experiment called 'figure-17'" in done.err
    assert "figure-16" in done.err
