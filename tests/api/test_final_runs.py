"""A run with a checkpoint that ends finally, in one run or several over growing input, gives what a
run without one gives."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.final_runs import (
    CASES,
    ISSUED,
    LOCAL,
    Case,
    on_a_checkpoint,
    refused,
    without_checkpoint,
)

any_case = settings(deadline=None, suppress_health_check=list(HealthCheck))


def check(case: Case) -> None:
    expected, found = without_checkpoint(case, LOCAL), on_a_checkpoint(case, LOCAL)
    if isinstance(expected, str):
        assert isinstance(found, str), found
    else:
        assert found == expected


@pytest.mark.parametrize("case", ISSUED)
def test_what_once_was_lost(case: Case) -> None:
    check(case)


@given(CASES)
@settings(any_case, max_examples=60)
def test_any_query(case: Case) -> None:
    assume(not refused(case))
    check(case)


@pytest.mark.slow
@given(CASES)
@settings(any_case, max_examples=2000)
def test_many_queries(case: Case) -> None:
    assume(not refused(case))
    check(case)
