"""A run on Spark with a checkpoint that ends finally gives what a run without one gives."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, assume, given, settings

import penstock as ps
from tests.final_runs import (
    CASES,
    ISSUED,
    LOCAL,
    Case,
    on_a_checkpoint,
    refused,
    without_checkpoint,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check(spark: SparkSession, case: Case) -> None:
    expected = without_checkpoint(case, LOCAL)
    found = on_a_checkpoint(case, partial(ps.connect, spark, buckets=2))
    if isinstance(expected, str):
        assert isinstance(found, str), found
    else:
        assert found == expected


IN_ONE = [case for case in ISSUED if not case.cuts]


@pytest.mark.parametrize(
    "case",
    [*IN_ONE[:2], *(pytest.param(each, marks=pytest.mark.slow) for each in ISSUED if each.cuts)],
)
def test_what_once_was_lost(spark: SparkSession, case: Case) -> None:
    check(spark, case)


@pytest.mark.slow
@given(CASES)
@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
def test_any_query(spark: SparkSession, case: Case) -> None:
    assume(not refused(case))
    check(spark, case)
