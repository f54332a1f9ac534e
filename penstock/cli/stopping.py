"""Ctrl-C while queries run: reading stops, and what has been released is written."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from penstock.model.clock import SystemClock
from penstock.running import Running

INTERRUPTED = 130
_TWICE = 1_000_000  # microseconds within which interrupts are one


class StoppedError(Exception):
    """The run was stopped and has put its things in order; the message says what was done."""


@contextmanager
def stopped_by_interrupts(running: Running) -> Iterator[None]:
    """The first interrupt stops the run between two chunks; one that comes later ends it at once.
    (Some programs send an interrupt twice.)"""
    if not running.can_stop or threading.current_thread() is not threading.main_thread():
        yield
        return
    clock = SystemClock()
    first: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if first and clock.now() - first[0] > _TWICE:
            raise KeyboardInterrupt
        if not first:
            first.append(clock.now())
            running.stop()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
