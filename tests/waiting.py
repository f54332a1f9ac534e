"""Waiting for what a test needs: as long as a busy machine may take, but not for ever."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

LONGEST = 200.0  # seconds; `make test` ends a test after 300


class _Process(Protocol):
    def poll(self) -> int | None: ...


def wait_for(
    holds: Callable[[], object], started: _Process | None = None, seconds: float = LONGEST
) -> None:
    """Until something holds, which a process does that was `started`; if that ends before, it will
    never hold."""
    until = time.monotonic() + seconds
    while not holds():
        code = None if started is None else started.poll()
        assert code is None or holds(), f"the process ended before, with {code}"
        assert time.monotonic() < until, f"it did not come about in {seconds:.0f} s"
        time.sleep(0.005)


def join(thread: threading.Thread, seconds: float = LONGEST) -> None:
    thread.join(seconds)
    assert not thread.is_alive(), f"a thread has not ended in {seconds:.0f} s"


@contextmanager
def ended_in_time(started: subprocess.Popen[Any], seconds: float = LONGEST) -> Iterator[None]:
    """A process that is killed when it takes too long, so that nobody waits for it, or for what it
    says, for ever; and when the test ends before it does."""
    late = threading.Event()

    def kill() -> None:
        late.set()
        started.kill()

    timer = threading.Timer(seconds, kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if started.poll() is None:
            started.kill()
        with suppress(subprocess.TimeoutExpired):
            started.wait(10)
        for pipe in (started.stdin, started.stdout, started.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        assert not late.is_set(), f"killed after {seconds:.0f} s: {started.args}"
