"""The fixture queries under the reference engine.

The expected rows were worked out from the definitions, apart from any engine: a small script that
steps through windows, pairs and ticks one by one, and the comment at the top of each file.
"""

from __future__ import annotations

import pytest

from tests.queries import FOLDER, NAMES, bound, expected, lines

WITH_LATE = sorted(path.name.removesuffix(".late.jsonl") for path in FOLDER.glob("*.late.jsonl"))


def test_no_file_is_left_over() -> None:
    stems = {path.name.split(".")[0] for path in FOLDER.iterdir()}
    assert stems == set(NAMES)
    assert len(NAMES) >= 25


@pytest.mark.parametrize("name", NAMES)
def test_rows(name: str) -> None:
    assert lines(bound(name).collect()) == expected(name)


@pytest.mark.parametrize("name", WITH_LATE)
def test_late_tuples(name: str) -> None:
    query = bound(name)
    assert lines(query.late) == expected(f"{name}.late")
    assert query.account.late == expected(f"{name}.late").total()


def test_in_order_means_in_the_order_of_the_windows() -> None:
    starts = bound("emit_in_order").collect()["window_start"].to_pylist()
    assert starts == sorted(starts)
    assert len(set(starts)) > 3


def test_a_tuple_without_a_time_is_kept_aside() -> None:
    account = bound("null_time").account
    assert (account.read, account.rejected) == (4, 1)
