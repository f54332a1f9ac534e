"""Drivers and workers that are killed: the files in the end are those of an undisturbed run."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from penstock.spark.run.job_results import read_totals
from tests.queries import FOLDER
from tests.spark.processes import (
    DISTURBED,
    EXCHANGED,
    Differences,
    Driver,
    assert_reference,
    cluster,
    differences,
    write_disturbed,
)
from tests.spark.test_fixtures import NAMES

PORTIONS = 6


SINKS = ("directory", "file")


def run_killed(directory: Path, seed: int, kills: int, sinks: str, asked: str = "windows") -> None:
    """Kill the driver at random moments, and let the last one come to its end."""
    moments = random.Random(seed)
    query = write_disturbed(directory / "query", seed, asked)
    output = directory / "output"
    # enough to look at operators between two kills
    portions = 2 * PORTIONS if asked == EXCHANGED else PORTIONS
    for _ in range(kills):
        driver = Driver("local[2]", portions, output, query, sinks=sinks)
        driver.hear("started")
        if moments.random() < 0.5:
            driver.hear("committed")
        time.sleep(moments.uniform(0, 1.5))
        driver.kill()
    Driver("local[2]", portions, output, query, sinks=sinks).wait()
    found = differences(query, output)
    told = f"{kills} kills, {found.lost} lost, {found.doubled} doubled"
    print(f"{asked}, {sinks}, seed {seed}: {told}")
    assert found == Differences(lost=0, doubled=0)
    if asked == EXCHANGED:
        (books,) = read_totals(output / query.stem / "checkpoint" / "penstock", 1)
        assert books.all.decisions


def test_a_driver_that_is_killed(tmp_path: Path) -> None:
    run_killed(tmp_path, seed=0, kills=1, sinks="directory")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 2 + len(SINKS) * len(DISTURBED)))
def test_drivers_that_are_killed(tmp_path: Path, seed: int) -> None:
    """100 kills in all, five of every query and kind of output."""
    asked = list(DISTURBED)[seed // len(SINKS) % len(DISTURBED)]
    run_killed(tmp_path, seed, 5, SINKS[seed % len(SINKS)], asked)


@pytest.mark.slow
def test_a_worker_of_a_cluster_is_killed(tmp_path: Path) -> None:
    query = write_disturbed(tmp_path / "query", seed=0)
    output = tmp_path / "output"
    with cluster(tmp_path / "cluster") as started:
        driver = Driver(started.master, PORTIONS, output, query)
        assert driver.hear("committed 2")
        started.kill_worker()
        driver.wait()
    assert_reference(query, output)


@pytest.mark.slow
def test_fixture_queries_on_a_cluster(tmp_path: Path) -> None:
    queries = [FOLDER / f"{name}.sql" for name in NAMES]
    with cluster(tmp_path / "cluster") as started:
        driver = Driver(started.master, 3, tmp_path / "output", *queries)
        driver.wait()
    for query in queries:
        assert_reference(query, tmp_path / "output")
