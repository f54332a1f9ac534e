"""`penstock demo`: the packets of its links, and all of it in one go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pytest

from penstock.cli.demo.packets import BEGIN, LINKS, SCHEMA, Link, portions

SECONDS, EVERY = 200.0, 10.0


class Outcome(Protocol):
    code: int
    out: str
    err: str


def _seconds(packets: pa.Table) -> np.ndarray:
    stamps = packets.column("ts").cast(pa.int64()).to_numpy()
    return stamps / 1e6 - BEGIN


def test_links_send_what_they_should() -> None:
    packets = pa.concat_tables(portions(LINKS, SECONDS, EVERY))
    assert packets.schema == SCHEMA
    counts = {row["link"]: row["n"] for row in _counted(packets)}
    for link in LINKS:
        begin, end = link.silent or (0.0, 0.0)
        assert counts[link.name] == pytest.approx(link.rate * (SECONDS - end + begin), rel=0.05)


def _counted(packets: pa.Table) -> list[dict[str, object]]:
    grouped = packets.group_by("link").aggregate([([], "count_all")])
    return grouped.rename_columns({"count_all": "n"}).to_pylist()


def test_a_silent_link_says_nothing() -> None:
    link = Link("only", 100, lag=1.0, disorder=2.0, silent=(50, 120))
    seconds = _seconds(pa.concat_tables(portions([link], SECONDS, EVERY)))
    assert not ((seconds > 51) & (seconds < 119)).any()
    assert (seconds <= 51).any()
    assert (seconds >= 119).any()


def test_packets_are_out_of_order_but_no_more_than_the_link_says() -> None:
    link = Link("only", 100, lag=3.0, disorder=2.0)
    seconds = _seconds(pa.concat_tables(portions([link], SECONDS, EVERY)))
    behind = np.maximum.accumulate(seconds) - seconds
    assert 0 < behind.max() <= link.disorder


def test_portions_are_cut_by_arrival() -> None:
    link = Link("only", 100, lag=3.0, disorder=0.0)
    cut = portions([link], SECONDS, EVERY)
    assert len(cut) == 21  # the last packets are three seconds on their way
    seconds = _seconds(pa.concat_tables(cut))
    assert [part.num_rows for part in cut[:2]] == [
        int((seconds < 7).sum()),
        int(((seconds >= 7) & (seconds < 17)).sum()),
    ]


def test_the_same_packets_every_time() -> None:
    once, again = (pa.concat_tables(portions(LINKS, 20, 5)) for _ in range(2))
    assert once.equals(again)
    assert not once.equals(pa.concat_tables(portions(LINKS, 20, 5, seed=2)))


def test_without_java(
    penstock: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    outcome = penstock("demo")
    assert outcome.code == 1
    assert outcome.out == ""
    assert "needs Java 17 or newer" in outcome.err
    assert "--engine local" in outcome.err


def test_an_engine_without_a_demo(penstock: Callable[..., Outcome]) -> None:
    outcome = penstock("demo", "--engine", "reference")
    assert (outcome.code, outcome.out) == (1, "")
    assert "spark or local" in outcome.err


@pytest.mark.slow
def test_all_of_it(penstock: Callable[..., Outcome], here: Path) -> None:
    picture = here / "out" / "demo.png"
    outcome = penstock("demo", "--picture", str(picture))
    assert outcome.code == 0, outcome.err
    assert "\x1b" not in outcome.out  # no terminal, so plain lines
    assert "traffic: " in outcome.out
    for words in ("Traffic per link", "Top talkers", "harbour", "10.0.0.0"):
        assert words in outcome.out
    assert picture.stat().st_size > 10_000
    (closing,) = [line for line in outcome.out.splitlines() if line.startswith("Spark's own")]
    assert "gives the same" in closing
    assert "Traceback" not in outcome.err
