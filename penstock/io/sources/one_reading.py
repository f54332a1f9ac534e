"""Iterators that can be read once, and functions that make one for every reading.

Rows are not kept after they are emitted: reading an endless stream must not fill the memory.

A function does not show whether it gives the same rows whenever it is called, or takes them from a
queue, where a second reading would take rows away from the first one. So one reading of it goes on
at a time, unless it is declared to be replayable."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Generic, NoReturn, TypeVar

import pyarrow as pa

from penstock.errors import PenstockError, SourceError

T = TypeVar("T")
AGAIN = "a list or a table can be read again, and so can the function that makes the iterator"
REPLAYABLE = (
    "db.stream(…, replayable=True) if every call gives the same rows; replayable=False, or an"
    " iterator, if they come once: then all queries share one reading"
)


class OneReading:
    """Allows one reading of a function's rows at a time."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._under_way = False

    @contextmanager
    def of(self, stream: str) -> Iterator[None]:
        with self._turn:
            if self._under_way:
                raise SourceError(
                    f"stream {stream} is being read, and a second reading may take rows away from"
                    " the first one",
                    expected="one reading of a function at a time",
                    hint=REPLAYABLE,
                )
            self._under_way = True
        try:
            yield
        finally:
            self._under_way = False


class Once(Generic[T]):
    """An iterator that is read once, as far as its reader asks. Items that a look ahead has read
    are the first reader's.

    >>> numbers = Once(iter([1, 2, 3]))
    >>> numbers.peek(2), list(numbers.reading("s"))
    ([1, 2], [1, 2, 3])
    """

    once = True
    exclusive = False  # a second reading is refused anyway

    def __init__(self, items: Iterable[T]) -> None:
        self._rest: Iterator[T] | None = iter(items)
        self._ahead: deque[T] = deque()
        self._failure: tuple[int, Exception] | None = None  # after how many items
        self._turn = threading.Lock()  # one reader only, from whichever thread

    @contextmanager
    def opened(self, stream: str) -> Iterator[Once[T]]:  # noqa: ARG002
        yield self

    def peek(self, count: int) -> list[T]:
        """Return the first items, fewer if there are no more."""
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
        """Yield all items. Leaving early closes the iterator."""
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
    """Calls a function for every reading. The result of a look ahead is the first reader's.

    >>> numbers = Made(lambda: iter([1, 2, 3]))
    >>> numbers.peek(2), list(numbers.open().reading("s")), list(numbers.open().reading("s"))
    ([1, 2], [1, 2, 3], [1, 2, 3])
    """

    once = False

    def __init__(self, make: Callable[[], Iterable[T]], replayable: bool = False) -> None:
        """Wrap a function; one that is not `replayable` is read by one reader at a time."""
        self._make = make
        self.exclusive = not replayable
        self._one = OneReading()
        self._last: Iterator[T] | None = None
        self._looked_at: Once[T] | None = None
        self._turn = threading.Lock()

    @contextmanager
    def opened(self, stream: str) -> Iterator[Once[T]]:
        """Open one reading; another at the same time is refused if it could take rows away from the
        first."""
        with self._one.of(stream) if self.exclusive else nullcontext():
            yield self.open()

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


def items_of(make: Callable[[], Iterable[T]], replayable: bool | None) -> Once[T] | Made[T]:
    """Wrap a function that makes items: it is called for every reading, or once if it is not
    `replayable`."""
    if replayable is False:
        return Once(_when_asked(make))
    return Made(make, bool(replayable))


def items_in(data: Iterable[T], replayable: bool | None) -> Once[T] | Made[T]:
    """Wrap data: an iterator can be read once, any other iterable makes a new one every time. A
    collection is known to have the same items then."""
    if not isinstance(data, Iterator):
        known = True if isinstance(data, Collection) else None
        return items_of(lambda: data, known if replayable is None else replayable)
    if replayable:
        raise SourceError(
            f"a {type(data).__name__} can be read once, so it is not replayable", hint=AGAIN
        )
    return Once(data)


def _when_asked(make: Callable[[], Iterable[T]]) -> Generator[T, None, None]:
    yield from make()
