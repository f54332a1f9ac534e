"""Signals while queries run: Ctrl-C or a request to end stops them, and results released so far are
written."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from penstock.api.execution import Running
from penstock.model.clock import SystemClock

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TWICE = 1_000_000  # microseconds within which signals are one


STOPPING = (
    "stopping: the micro-batch that Spark works on comes to its end, or is given up after"
    " 10 seconds; Ctrl-C again ends at once"
)


class StoppedError(Exception):
    """The run was stopped in an orderly way; the message says what was done."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class EndingError(KeyboardInterrupt):
    """A signal to end the process, other than Ctrl-C: a handler that discards the current input and
    continues on an interrupt must end now."""


class Stopped:
    """The signal that has stopped the command."""

    number = signal.SIGINT

    @property
    def code(self) -> int:
        """Exit code that shells expect of a program ended by the signal."""
        return 128 + self.number


@contextmanager
def interrupted_by_signals() -> Iterator[Stopped]:
    """Turn signals into interrupts, as Ctrl-C is one, while no run has begun."""
    received = Stopped()

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        received.number = signal.Signals(number)
        raise KeyboardInterrupt if number == signal.SIGINT else EndingError

    logging.root.addFilter(_is_not_of_py4j)
    try:
        with _handling(interrupt):
            yield received
    finally:
        logging.root.removeFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Filter out the log of py4j, which logs a trace when a call to Java is interrupted, and raises
    the interrupt all the same."""
    return Path(record.pathname).parent.name != "py4j"


@contextmanager
def stopped_by_signals(
    running: Running, say: Callable[[str], None] | None = None
) -> Iterator[Stopped]:
    """Stop the run between two chunks at the first signal, and at once at a later one. (Some
    programs send an interrupt twice.) `say` gets a message if stopping takes a while."""
    received = Stopped()
    if not running.can_stop:
        yield received
        return
    clock = SystemClock()
    first: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if first and clock.now() - first[0] > _TWICE:
            raise KeyboardInterrupt
        if not first:
            first.append(clock.now())
            received.number = signal.Signals(number)
            running.stop()
            if say is not None and running.stops_slowly:
                say(STOPPING)

    with _handling(stop):
        yield received


@contextmanager
def orders_kept(tell: Callable[[], None]) -> Iterator[None]:
    """Delay a signal to end until the end of the block: call `tell` when it comes, and raise it
    afterwards. An exception of a signal handler is lost where Python happens to finalize objects: a
    prompt would just continue."""
    kept: list[EndingError] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def keep(number: int, frame: FrameType | None) -> None:
        handler = before[signal.Signals(number)]
        try:
            if callable(handler):
                handler(number, frame)
        except EndingError as error:
            kept.append(error)
            tell()

    try:
        with _handling(keep):
            yield
    finally:
        if kept:
            raise kept[0]


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle signals with `handler`. Signals that the command was started to ignore (nohup does)
    stay ignored."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        heeded = [each for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        before = {number: signal.signal(number, handler) for number in heeded}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
