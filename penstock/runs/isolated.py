"""An outlet whose failure is that of its query alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock.operators.batch import Batch
from penstock.runs.outlet import Outlet
from penstock.sinks.subscribers import Backlog
from penstock.sources.rejects import Reject


class IsolatedOutlet(Outlet):
    """A sink that fails is given nothing more.  Who runs the query asks for the `failure`."""

    failure: BaseException | None = None
    told: Callable[[IsolatedOutlet], None] | None = None  # whoever wants to know of it at once
    noted: Callable[[], None] | None = None  # called when something comes, if that is saved
    backlog: Backlog | None = None  # of its subscribers

    @property
    def waiting(self) -> int:
        return 0 if self.backlog is None else self.backlog.waiting

    @property
    def dropped(self) -> int:
        return 0 if self.backlog is None else self.backlog.dropped

    def on_rows(self, batch: Batch) -> None:
        self._note()
        self._try(lambda: super(IsolatedOutlet, self).on_rows(batch))

    def on_late(self, batch: pa.RecordBatch) -> None:
        self._note()
        self._try(lambda: super(IsolatedOutlet, self).on_late(batch))

    def on_rejects(self, rejects: Sequence[Reject]) -> None:
        self._note()
        self._try(lambda: super(IsolatedOutlet, self).on_rejects(rejects))

    def flush(self) -> None:
        self._try(super().flush)

    def prepare(self, epoch: int) -> None:
        self._try(lambda: super(IsolatedOutlet, self).prepare(epoch))

    def commit(self, epoch: int) -> None:
        self._try(lambda: super(IsolatedOutlet, self).commit(epoch))

    def end(self) -> None:
        self._try(super().end)

    def _note(self) -> None:
        if self.noted is not None:
            self.noted()

    def _try(self, hand_over: Callable[[], None]) -> None:
        if self.failure is not None:
            return
        try:
            hand_over()
        except BaseException as error:  # the threads of an engine are not the program's to leave
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Nothing more is given to its sinks; from any thread."""
        self.failure = error
        if self.told is not None:
            self.told(self)
