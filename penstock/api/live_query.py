"""A SELECT on a live engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import PenstockError, RunError
from penstock.runs.answer import Account
from penstock.sinks.callback import rows_of
from penstock.sinks.kept import Kept

if TYPE_CHECKING:
    from penstock.api.live import Live


class LiveQuery:
    """A SELECT at work beside the program."""

    def __init__(self, live: Live, name: str, kept: Kept) -> None:
        self._live = live
        self._kept = kept
        self.name = name

    def wait(self, timeout: float | None = None) -> bool:
        """Until its streams end, and its sink has got everything; whether it is so within so many
        seconds."""
        over = self._live.wait(self.name, timeout)
        self._raise_if_failed(self._live.error(self.name))
        return over

    def explain_stall(self) -> str:
        """Which source holds back its oldest window that is still open."""
        return self._live.explain_stall(self.name)

    def stop(self, *, drain: bool = True) -> Account:
        """It leaves; whoever has not waited for it hears here that it has failed.  What waits for
        its sink is handed over first, unless `drain` is false: then it is gone."""
        error = self._live.error(self.name)
        account = self._live.drop(self.name, drain=drain)
        self._raise_if_failed(error)
        return account

    def _raise_if_failed(self, error: BaseException | None) -> None:
        if error is not None:
            kind = "" if isinstance(error, PenstockError) else f"{type(error).__name__}: "
            raise RunError(f"query {self.name} has failed: {kind}{error}") from error

    @property
    def table(self) -> pa.Table:
        """The rows so far, if no sink takes them: the first 10,000."""
        return self._kept.table

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows so far.  A time that `datetime` cannot hold is an ISO 8601 text."""
        return (row for batch in self.table.to_batches() for row in rows_of(batch))
