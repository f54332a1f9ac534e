"""Session windows: tuples are folded into the sessions of their group as they come.

A batch is cut into sessions of its own, and these are merged with the open ones that they touch.  A
session leaves when the bound has passed its end.  Where MAX cuts sessions, every cut depends on the
one before it, so tuples wait until the bound has passed them, and then come in order.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.model.punctuation import BEGINNING, Bound
from penstock.model.types import INT64_MAX
from penstock.operators.batch import Batch
from penstock.operators.folding.folder import Folder
from penstock.operators.folding.key_expiry import DeadKeys
from penstock.operators.groups.grouped import InTime, as_batch
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.ticks import from_ticks
from penstock.operators.windows.counted.partitions import Waiting
from penstock.operators.windows.sessions.open_sessions import OpenSessions
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.state.chunks import ChunkStore
from penstock.windows.session import Session


class SessionOperator(Base):
    def __init__(self, node: WindowAggregate) -> None:
        assert isinstance(node.window, Session)
        assert node.attribute is not None
        self.node = node
        self._id_type = node.schema.fields[0].type
        self._in_time = InTime([node.attribute], node.input)
        self.folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self.sessions = OpenSessions(self.folder, node.window)
        self._waiting = Waiting() if node.window.longest is not None else None
        self._dead = DeadKeys(self.folder)
        self.high: Bound = BEGINNING  # the latest end of a session that has left

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        given, (ticks,), late = self._in_time.split(batch, self._id_type)
        yield from late
        if given.num_rows == 0:
            return
        if self._waiting is not None:
            self._waiting.add(given, ticks)
        else:
            self.sessions.take_in(self.folder.rows(given, ticks))

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        (bound,) = self._in_time.promised(progress)
        if self._waiting is not None:
            passed = self._waiting.below(bound)
            if passed is not None:
                self.sessions.follow(self.folder.rows(*passed))
        if bound >= self.sessions.lowest:
            yield from self._release(self.sessions.ended(bound))
        yield promised(bound, self.high, progress.ended)

    def _release(self, numbers: Ints) -> Iterator[Item]:
        if len(numbers):
            self.high = max(self.high, int(self.sessions.ends(numbers).max()))
            in_order = numbers[self.sessions.leaving(numbers)]
            yield Batch(session_rows(self.node, self.sessions, in_order))
            self.sessions.drop(numbers)
            self.sessions.tidy()
            self._dead.forget(self.sessions.mark, self._renumber)

    def rows_held(self) -> int:
        return 0 if self._waiting is None else self._waiting.rows

    def open_results(self) -> OpenResults:
        """Tuples that wait are in sessions that nobody has counted yet."""
        return OpenResults(others=len(self.sessions) + self.rows_held())

    def _renumber(self, codes: Codes, place: Codes) -> None:  # noqa: ARG002
        self.sessions.renumber(place)

    def save(self, store: ChunkStore) -> None:
        self.folder.keys.save(store)
        self.sessions.save(store)
        if self._waiting is not None:
            self._waiting.save(store)
        store.put("run", {"high": self.high})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self.folder.keys.load(store)
        self.sessions.load(store)
        if self._waiting is not None:
            self._waiting.load(store)
        self.high = saved["high"]


def session_rows(node: WindowAggregate, sessions: OpenSessions, numbers: Ints) -> pa.RecordBatch:
    """The results of some sessions."""
    bounds = sessions.starts[numbers], sessions.ends(numbers)
    start, end = (from_ticks(each, node.bound_type) for each in bounds)
    return as_batch([start, start, end, *sessions.results(numbers)], node.schema.arrow)


def promised(bound: Bound, high: Bound, ended: bool) -> Progress:
    """What results promise: what has not left ends above the bound."""
    reached: dict[str, Bound] = {} if high == BEGINNING else {"window_end": high}
    if ended or bound == BEGINNING:
        return Progress({}, reached, ended)
    return Progress({"window_end": min(int(bound) + 1, INT64_MAX)}, reached)
