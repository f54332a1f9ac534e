"""Clocks: one that tells the time, one that does what it is told."""

from __future__ import annotations

import time

import pytest

from penstock.model.clock import Clock, ManualClock, SystemClock


def test_system_clock_counts_microseconds_since_1970() -> None:
    before = time.time_ns() // 1000
    now = SystemClock().now()
    after = time.time_ns() // 1000
    assert before <= now <= after


def test_manual_clock_stands_still() -> None:
    clock = ManualClock(at=5)
    assert [clock.now(), clock.now()] == [5, 5]


def test_manual_clock_moves_when_told_and_at_every_reading() -> None:
    clock: Clock = ManualClock(at=100, step=10)
    assert isinstance(clock, ManualClock)
    assert clock.now() == 100
    clock.advance(1_000)
    assert [clock.now(), clock.now()] == [1_110, 1_120]


def test_manual_clock_does_not_go_back() -> None:
    clock = ManualClock(at=5)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)
    assert clock.now() == 5
