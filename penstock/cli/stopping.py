"""Ctrl-C while queries run: reading stops, and what has been released is written."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from penstock.running import Running

INTERRUPTED = 130


class StoppedError(Exception):
    """The run was stopped and has put its things in order; the message says what was done."""


@contextmanager
def stopped_by_interrupts(running: Running) -> Iterator[None]:
    """The first interrupt stops the run between two chunks; a second one ends it at once."""
    if not running.can_stop or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if running.stopped:
            raise KeyboardInterrupt
        running.stop()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
