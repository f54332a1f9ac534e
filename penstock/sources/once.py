"""Iterators that can be read once, and functions that make one for every reading.

Nothing that was handed out is kept: who reads a stream that does not end must not fill the memory.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Generic, NoReturn, TypeVar

import pyarrow as pa

from penstock.errors import PenstockError, SourceError

T = TypeVar("T")
AGAIN = "a list or a table can be read again, and so can the function that makes the iterator"


class Once(Generic[T]):
    """Reads on only as far as somebody asks.  What a look ahead has seen is the first reader's.

    >>> numbers = Once(iter([1, 2, 3]))
    >>> numbers.peek(2), list(numbers.reading("s"))
    ([1, 2], [1, 2, 3])
    """

    once = True

    def __init__(self, items: Iterable[T]) -> None:
        self._rest: Iterator[T] | None = iter(items)
        self._ahead: deque[T] = deque()
        self._failure: tuple[int, Exception] | None = None  # after how many items
        self._turn = threading.Lock()  # one reader only, from whichever thread

    def open(self) -> Once[T]:
        return self

    def peek(self, count: int) -> list[T]:
        """The first items, fewer if there are no more."""
        while self._rest is not None and len(self._ahead) < count:
            try:
                self._ahead.append(next(self._rest))
            except StopIteration:
                break
            except Exception as error:
                self._failure = (len(self._ahead), error)
                self._break_off()
        return list(islice(self._ahead, count))

    def reading(self, stream: str) -> Generator[T, None, None]:
        """All items.  Whoever leaves early closes the iterator."""
        with self._turn:
            rest, self._rest = self._rest, None
        if self._failure is not None:  # it would look as if it had ended when asked again
            self._break_off()
        if rest is None:
            raise SourceError(
                f"stream {stream} has been read already, and its data can be read only once",
                hint=AGAIN,
            )
        given = 0
        try:
            while self._ahead:
                given += 1
                yield self._ahead.popleft()
            while True:
                try:
                    item = next(rest)
                except StopIteration:
                    return
                except Exception as error:
                    self._failure = (given, error)
                    self._break_off()
                given += 1
                yield item
                del item  # whoever asks for the next one has done with this one
        finally:
            if isinstance(rest, Generator | pa.RecordBatchReader):
                rest.close()

    def _break_off(self) -> NoReturn:
        assert self._failure is not None
        given, error = self._failure
        raise SourceError(
            f"the data broke off after item {given}: {type(error).__name__}: {error}"
        ) from error


class Made(Generic[T]):
    """Calls a function for every reading.  What a look ahead was made for is the first reader's.

    >>> numbers = Made(lambda: iter([1, 2, 3]))
    >>> numbers.peek(2), list(numbers.open().reading("s")), list(numbers.open().reading("s"))
    ([1, 2], [1, 2, 3], [1, 2, 3])
    """

    once = False

    def __init__(self, make: Callable[[], Iterable[T]]) -> None:
        self._make = make
        self._last: Iterator[T] | None = None
        self._looked_at: Once[T] | None = None
        self._turn = threading.Lock()

    def open(self) -> Once[T]:
        with self._turn:
            made, self._looked_at = self._looked_at or self._new(), None
        return made

    def peek(self, count: int) -> list[T]:
        with self._turn:
            self._looked_at = self._looked_at or self._new()
        return self._looked_at.peek(count)

    def _new(self) -> Once[T]:
        try:
            made = iter(self._make())
        except PenstockError:
            raise
        except Exception as error:
            raise SourceError(
                f"the data cannot be read: {type(error).__name__}: {error}",
                expected="an iterable, or a function without arguments that makes one",
            ) from error
        if made is self._last:
            raise SourceError("the data gives out the same iterator a second time", hint=AGAIN)
        self._last = made
        return Once(made)


def items_of(data: Iterable[T]) -> Once[T] | Made[T]:
    """An iterator can be read once; whatever else is iterable makes a new one every time."""
    return Once(data) if isinstance(data, Iterator) else Made(lambda: data)
