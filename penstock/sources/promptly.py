"""Rows that a program makes as it likes: many at once, one by one, or none for a long time.

They are handed on in batches: a full one, or what there is when it takes long.  A row that was
waited for does not wait for the next one, which may take as long.  An iterator stays in the thread
that reads it, so whoever asks it for a row is held up until there is one; rows of a burst that are
in hand by then are handed on by another thread, if the reader can be given something meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from time import perf_counter_ns

from penstock.sources.bell import Bell
from penstock.sources.live import Attention, Meanwhile
from penstock.sources.rows import BATCH, RowChunks
from penstock.sources.source import Chunk

PATIENCE = 10_000_000  # nanoseconds that rows may have to wait for others; no answer depends on it
AWAITED = 300_000  # nanoseconds that a row takes which somebody waits for: longer than to handle it
_SECOND = 1_000_000_000


class Promptly:
    """If making rows fails, those that there are come first."""

    def __init__(self, rest: Iterator[object], chunks: RowChunks) -> None:
        self._rest = rest
        self._made = chunks
        self._in_hand: list[object] = []
        self._since = 0  # when the first of them came
        self._rounds = 0  # how often somebody has begun to ask for rows
        self._asked = perf_counter_ns()  # for the first row, which a look ahead may wait for
        self._failure: Exception | None = None
        self._turn = threading.Lock()  # to hand something on

    def chunks(self, attention: Attention) -> Iterator[Chunk]:
        if attention.meanwhile is None:
            yield from self._all(lambda: None)
            return
        with self._second_hand(attention.meanwhile, attention.bell) as wake:
            yield from self._all(wake)

    def _all(self, wake: Callable[[], None]) -> Iterator[Chunk]:
        while self._asks(wake):
            with self._turn:
                chunk = self._take()
            if chunk is not None:
                yield chunk

    def _asks(self, wake: Callable[[], None]) -> bool:
        """Whether there were more rows.  They are in hand now, or have been handed on meanwhile;
        `wake` is called when the first of them may have to wait for others."""
        if self._failure is not None:
            raise self._failure
        self._rounds += 1
        put, more = self._in_hand.append, islice(self._rest, BATCH)
        begun, self._asked = self._asked or perf_counter_ns(), 0
        try:
            for row in more:
                put(row)
                self._since = last = perf_counter_ns()
                if last - begun > AWAITED:
                    return True
                wake()
                break
            else:
                return False
            begun = last
            for row in more:
                put(row)
                now = perf_counter_ns()
                if now - last > AWAITED or now - begun > PATIENCE:
                    if len(self._in_hand) == 1:
                        self._since = now
                    break
                last = now
        except Exception as error:
            self._failure = error
        return True

    def _take(self) -> Chunk | None:
        """What is in hand; none of it may fit the stream."""
        count = len(self._in_hand)
        rows = self._in_hand[:count]
        del self._in_hand[:count]  # another thread may put one more there
        arrived, self._since = self._since, perf_counter_ns()
        chunk = self._made.of(rows) if rows else None
        if chunk is not None:
            chunk.arrived = arrived
        return chunk

    @contextmanager
    def _second_hand(
        self, meanwhile: Meanwhile, reader: Bell
    ) -> Generator[Callable[[], None], None, None]:
        """A thread that hands on what is left in hand; it sleeps until it is woken."""
        bell = Bell()
        thread = threading.Thread(
            target=self._hand_on,
            args=(meanwhile, bell),
            name=f"{threading.current_thread().name}, second hand",
            daemon=True,
        )
        thread.start()
        try:
            with reader.closing(bell.close):
                yield bell.ring
        finally:
            bell.close()
            thread.join()

    def _hand_on(self, meanwhile: Meanwhile, bell: Bell) -> None:
        while bell.wait(None) and not bell.closed:
            while self._in_hand:
                rounds = self._rounds
                if bell.pause(PATIENCE / _SECOND):
                    return
                if self._rounds == rounds:
                    with self._turn:
                        meanwhile(self._take)
