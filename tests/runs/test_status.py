"""What a run says about itself when it is printed."""

from __future__ import annotations

import pytest

from penstock.model.punctuation import BEGINNING
from penstock.runs.status import RunProgress, SourceStatus


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (
            SourceStatus("s", 7, 12, False, ['"d0"', "7", "null", '"d 3"'], "7", "12"),
            "s up to 7, highest 12, waits for d0, 7, NULL and 1 more",
        ),
        (
            SourceStatus("s", BEGINNING, BEGINNING, False, []),
            "s has promised nothing yet",
        ),
        (
            SourceStatus("s", BEGINNING, 4, False, ["a.csv"], None, "4"),
            "s has promised nothing yet, highest 4, waits for a.csv",
        ),
        (SourceStatus("s", 7, 12, True, [], "7", "12"), "s has ended"),
        (SourceStatus("s", 7, 12, False, ['"odd', '"'], "7"), 's up to 7, waits for "odd, "'),
    ],
)
def test_sources(status: SourceStatus, text: str) -> None:
    assert str(status) == text
    assert repr(status) == f"<penstock.SourceStatus {text}>"


def test_progress_says_its_sources() -> None:
    source = SourceStatus("s", 7, 12, False, [], "7", "12")
    told = RunProgress(3, 1234, 56.7, 1, 0, 89, 2_500_000, None, [source])
    assert str(told) == (
        "1,234 read at 57/s, 89 rows given, 1 late, 0 rejected, state 2.5 MB; s up to 7, highest 12"
    )
