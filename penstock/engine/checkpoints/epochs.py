"""A run that is saved again and again: its outputs first, then its state, all of an epoch or none.

Whatever the moment of a crash, the state of the last epoch is there, and every output knows how
long it was then.  Without a store only outputs that appear epoch by epoch have a use for it.
"""

from __future__ import annotations

from penstock.engine.checkpoints.checkpoint import Checkpoints
from penstock.engine.checkpoints.resuming import load_run, save_run
from penstock.engine.run import LocalRun
from penstock.model.clock import Clock
from penstock.sources.source import Chunk

EVERY = 1_000_000  # microseconds between two epochs
_ROWS = 1 << 20  # that may wait to be written


class Epochs:
    def __init__(
        self, run: LocalRun, store: Checkpoints | None, clock: Clock, every: int = EVERY
    ) -> None:
        self._run = run
        self._store = store
        self._clock = clock
        self._every = every
        self._last = clock.now()
        self._written = 0  # rows, at the last epoch
        self._changed = False
        self.count = 0  # of epochs, in this run
        if store is not None:
            load_run(run, store)

    def fed(self, chunk: Chunk) -> None:
        """Something has come, or time has passed; an epoch that has lasted long enough ends."""
        waiting = self._all_written - self._written
        self._changed |= bool(chunk.num_rows or chunk.seen or waiting)
        long_enough = self._clock.now() - self._last >= self._every
        if self._changed and (long_enough or waiting >= _ROWS):
            self.commit()

    def commit(self) -> None:
        """Everything that has come is in the outputs and in the state, or nothing of it is."""
        number = self._store.epoch + 1 if self._store is not None else self.count
        for outlet in self._run.outlets:
            outlet.commit(number)
        if self._store is not None:
            save_run(self._run, self._store)
            self._store.commit()
        self.count += 1
        self._last = self._clock.now()
        self._written = self._all_written
        self._changed = False

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    @property
    def keeps(self) -> bool:
        """Whether a later run can go on from here."""
        return self._store is not None

    @property
    def state_bytes(self) -> int:
        return self._store.size if self._store is not None else 0

    @property
    def _all_written(self) -> int:
        return sum(outlet.written for outlet in self._run.outlets)
