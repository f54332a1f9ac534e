"""What tests of more than one folder share: the one Spark session of a test run."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from penstock.spark.session.session import session
from tests.promises_kept import check_all_operators

os.environ.setdefault("PENSTOCK_ENGINE", "local")  # a Spark session for every command is slow
os.environ["POLARS_MAX_THREADS"] = "1"  # what benchmarks are compared with; read at import

# `make test` tries the same examples every time; `make check` looks for others.  How long one may
# take depends on what else the machine does.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("others", deadline=None)
settings.load_profile("others")

# What a thousand short queries run is hardly ever run often enough to be worth compiling well, and
# there is little garbage.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# in every test that runs operators in this process, nothing may break what they have promised
check_all_operators()

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Started by the first test that needs it, which takes some seconds."""
    # a task that fails on purpose fails twice, not four times
    started = session("local[2, 2]", {"spark.driver.extraJavaOptions": JAVA})
    yield started
    started.stop()


def pytest_collection_finish() -> None:
    """What has been made so far stays to the end: twelve thousand tests and all that they import.
    The garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests on Spark go to one process, so that one session serves them all."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
