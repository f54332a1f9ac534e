"""Ctrl-C, or an order to end, while queries run: what has been released is written."""

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
    """The run was stopped and has put its things in order; the message says what was done."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class EndingError(KeyboardInterrupt):
    """An order to end, which is no Ctrl-C: whoever forgets what he does and goes on when he hears
    that one must leave now."""


class Stopped:
    """Which signal has stopped the command."""

    number = signal.SIGINT

    @property
    def code(self) -> int:
        """What a shell expects of a program that the signal has ended."""
        return 128 + self.number


@contextmanager
def interrupted_by_signals() -> Iterator[Stopped]:
    """While nothing runs yet, an order to end is an interrupt, as Ctrl-C is."""
    told = Stopped()

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        told.number = signal.Signals(number)
        raise KeyboardInterrupt if number == signal.SIGINT else EndingError

    logging.root.addFilter(_is_not_of_py4j)
    try:
        with _heeding(interrupt):
            yield told
    finally:
        logging.root.removeFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """It logs a trace when a call to Java is interrupted, and raises the interrupt all the same."""
    return Path(record.pathname).parent.name != "py4j"


@contextmanager
def stopped_by_signals(
    running: Running, say: Callable[[str], None] | None = None
) -> Iterator[Stopped]:
    """The first signal stops the run between two chunks; one that comes later ends it at once.
    (Some programs send an interrupt twice.)  What takes a while, `say` is told."""
    told = Stopped()
    if not running.can_stop:
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
            if say is not None and running.stops_slowly:
                say(STOPPING)

    with _heeding(stop):
        yield told


@contextmanager
def orders_kept(tell: Callable[[], None]) -> Iterator[None]:
    """An order to end that comes meanwhile is told of, and raised afterwards.  What a signal
    handler raises is lost where Python happens to be tidying up: a prompt would just go on."""
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
        with _heeding(keep):
            yield
    finally:
        if kept:
            raise kept[0]


@contextmanager
def _heeding(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Signals that whoever started the command lets it ignore (nohup does) are ignored."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        heeded = [each for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        before = {number: signal.signal(number, handler) for number in heeded}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
