"""Iterables that can be read only once, remembered so that they can be read again."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from penstock.errors import SourceError

T = TypeVar("T")


class Replay(Generic[T]):
    """Reads on only as far as somebody asks; every reader starts at the first item.

    >>> numbers = Replay(iter([1, 2, 3]))
    >>> next(iter(numbers)), list(numbers), list(numbers)
    (1, [1, 2, 3], [1, 2, 3])
    """

    def __init__(self, items: Iterable[T]) -> None:
        self._rest = iter(items)
        self._seen: list[T] = []
        self._failure: Exception | None = None
        self._turn = threading.Lock()  # a generator runs in one thread at a time

    def __iter__(self) -> Iterator[T]:
        position = 0
        while position < len(self._seen) or self._reach(position):
            yield self._seen[position]
            position += 1

    def _reach(self, position: int) -> bool:
        """Whether there is an item at the position, which is the next one to come or known."""
        with self._turn:
            if position < len(self._seen):
                return True
            if self._failure is None:
                try:
                    self._seen.append(next(self._rest))
                    return True
                except StopIteration:
                    return False
                except Exception as error:
                    self._failure = error
            # An iterator that has failed would look as if it had ended when asked again.
            raise SourceError(
                f"the data broke off after item {len(self._seen)}:"
                f" {type(self._failure).__name__}: {self._failure}"
            ) from self._failure


def rereadable(items: Iterable[T]) -> Iterable[T]:
    """The items themselves, or remembered if they can be had only once."""
    first, second = iter(items), iter(items)
    return Replay(first) if first is second else items
