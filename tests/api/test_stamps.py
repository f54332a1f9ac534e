"""Stamps of the clock are in order whatever becomes of it: within a run, across restarts, and in a
live engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from tests.waiting import LONGEST

SECOND = 1_000_000
NOON = 1_769_860_800 * SECOND
COUNTS = "SELECT count(*) AS n [RANGE 10 SECONDS, SLIDE 10 SECONDS, WA ts] FROM s LATE SIDE"
KINDS = pytest.mark.parametrize("kind", ["INTERNAL", "LATENT"])


def counting(
    clock: Any, rows: list[Any], kind: str, engine: str = "local", limit: str | None = None
) -> Any:
    db = ps.connect(engine, clock=clock)
    progress = ps.progress("ts", timestamps=kind, future_limit=limit)
    db.stream("s", rows, schema="n INT, ts TIMESTAMP", progress=progress)
    return db.sql(COUNTS)


class Back:
    """A clock that is set back behind so many readings."""

    def __init__(self, after: int) -> None:
        self._left = after

    def now(self) -> int:
        self._left -= 1
        return NOON if self._left >= 0 else NOON - 3600 * SECOND


@pytest.mark.parametrize(
    ("kind", "limit"), [("INTERNAL", None), ("INTERNAL", "1 minute"), ("LATENT", None)]
)
@pytest.mark.parametrize("engine", ["local", "reference"])
def test_a_clock_that_is_set_back(kind: str, limit: str | None, engine: str) -> None:
    counted = counting(Back(5), [(n,) for n in range(9)], kind, engine, limit)
    assert counted.collect().column("n").to_pylist() == [9]
    assert counted.account == ps.Account(9, 0, 0)


@KINDS
def test_a_clock_that_was_set_back_between_runs(kind: str, tmp_path: Path) -> None:
    rows = [(n,) for n in range(200)]
    found: list[Any] = []
    first = counting(ps.ManualClock(at=NOON, step=SECOND), rows[:100], kind)
    assert first.run(found.append, checkpoint=tmp_path / "kept") == ps.Account(100, 0, 0)
    earlier = ps.ManualClock(at=NOON - 3600 * SECOND, step=SECOND)
    again = counting(earlier, rows, kind)
    account = again.run(found.append, checkpoint=tmp_path / "kept", final=True)
    assert account == ps.Account(100, 0, 0)
    assert sum(n for table in found for n in table.column("n").to_pylist()) == 200


@KINDS
def test_a_live_engine_whose_clock_was_set_back(kind: str, tmp_path: Path) -> None:
    clock = ps.ManualClock(at=NOON, step=SECOND)
    stream = f"CREATE STREAM s (n INT, ts TIMESTAMP) FROM FILES 's.jsonl' PROGRESS ON ts {kind}"
    for upto in (30, 60):
        with (tmp_path / "s.jsonl").open("a") as file:
            file.writelines(f'{{"n": {n}}}\n' for n in range(upto - 30, upto))
        live = ps.connect(base=tmp_path, clock=clock).live(checkpoint=tmp_path / "kept")
        if upto == 30:
            live.sql(f"{stream}; CREATE QUERY q AS {COUNTS} INTO 'out.jsonl'")
        assert live.wait(timeout=LONGEST)
        (status,) = live.status()
        assert (status.account.read, status.account.late) == (upto, 0)
        live.stop(final=upto == 60)
        clock.at = NOON - 3600 * SECOND
    counted = [json.loads(line)["n"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sum(counted) == 60
