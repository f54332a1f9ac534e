"""The last stamp of a stream whose tuples get their times here: tasks know nothing of those before
them, so every micro-batch goes on from what is written beside the feed of the stream.
"""

from __future__ import annotations

from pathlib import Path

from penstock.model.clock import Clock, SteadyClock, SystemClock
from penstock.plan.streams import StreamDefinition

_NAME = "stamped"


def write_stamp(feed: Path, last: int) -> None:
    written = feed / f".{_NAME}"
    written.write_text(str(last), encoding="utf-8")
    written.replace(feed / _NAME)


def task_clock(stream: StreamDefinition, feed: str | None) -> Clock:
    """The clock of a task: for stamps, one that does not go back behind the last of them."""
    if not stream.stamped:
        return SystemClock()
    path = None if feed is None else Path(feed) / _NAME
    last = int(path.read_text("utf-8")) if path is not None and path.exists() else None
    return SteadyClock(SystemClock(), last)


def last_stamp(clock: Clock) -> int | None:
    return clock.last if isinstance(clock, SteadyClock) else None
