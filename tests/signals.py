"""Signals that the tests themselves are told to ignore, and what they start is not."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_ORDERS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


@contextmanager
def heard() -> Iterator[None]:
    """What a shell starts in the background ignores Ctrl-C, with nohup a hang-up as well.  That is
    inherited, while a signal with a handler is back to its default in a new process."""
    ignored = [number for number in _ORDERS if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
