"""Ctrl-C, or an order to end, while queries run: what has been released is written."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from penstock.api.running import Running
from penstock.model.clock import SystemClock

INTERRUPTED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TWICE = 1_000_000  # microseconds within which signals are one


class StoppedError(Exception):
    """The run was stopped and has put its things in order; the message says what was done."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.code = 128 + number  # what a shell expects of a program that a signal has ended


class Stopped:
    """Which signal has stopped a run."""

    number = signal.SIGINT


@contextmanager
def stopped_by_signals(running: Running) -> Iterator[Stopped]:
    """The first signal stops the run between two chunks; one that comes later ends it at once.
    (Some programs send an interrupt twice.)"""
    told = Stopped()
    if not running.can_stop or threading.current_thread() is not threading.main_thread():
        yield told
        return
    clock = SystemClock()
    first: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if first and clock.now() - first[0] > _TWICE:
            raise KeyboardInterrupt
        if not first:
            first.append(clock.now())
            told.number = signal.Signals(number)
            running.stop()

    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
