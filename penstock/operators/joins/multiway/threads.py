"""Threads for expressions that do not get in each other's way: Arrow and NumPy let go of Python's
lock while they work on columns."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), thread_name_prefix="penstock-expression")


def side_by_side(work: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
    """What comes of some parts, in their order, however long each takes; not many more are worked
    on than somebody has taken."""
    running: deque[Future[R]] = deque()
    try:
        for part in parts:
            running.append(_pool().submit(work, part))
            if len(running) > cores():
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for each in running:
            each.cancel()
