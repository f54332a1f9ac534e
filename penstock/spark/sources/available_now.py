"""Streaming DataFrames with timers, under the trigger availableNow.

Spark runs micro-batches for timers as long as a query runs.  So the query is stopped when it has
read all its input.  Open results stay open in its checkpoint.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AVAILABLE_NOW = "AvailableNowTrigger"
_ENOUGH = 2  # micro-batches without input: watermarks of the user's own steps want one
_listeners: dict[str, _Ending] = {}  # by application


def stop_when_read(spark: SparkSession, metrics: str) -> None:
    """Stop queries with these metrics, if their trigger is availableNow, when all has been read."""
    application = spark.sparkContext.applicationId
    listener = _listeners.get(application)
    if listener is None:
        listener = _listeners[application] = _Ending(spark)
        spark.streams.addListener(listener)
    listener.metrics.add(metrics)


class _Ending(StreamingQueryListener):
    def __init__(self, spark: SparkSession) -> None:
        self.metrics: set[str] = set()
        self._spark = spark
        self._idle: Counter[str] = Counter()  # micro-batches without input in a row, by run

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self._idle.pop(str(event.runId), None)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = event.progress
        if self.metrics.isdisjoint(progress.observedMetrics):
            return
        run = str(progress.runId)
        if any(each.startOffset != each.endOffset for each in progress.sources):
            del self._idle[run]
            return
        self._idle[run] += 1
        if self._idle[run] == _ENOUGH:
            # not in this thread, which reports on the query until it has ended
            threading.Thread(target=self._stop, args=(str(progress.id),), daemon=True).start()

    def _stop(self, query: str) -> None:
        with suppress(Exception):  # it has ended by itself, or the session has
            found = self._spark.streams.get(query)
            if found is not None and _AVAILABLE_NOW in _trigger(found):
                found.stop()


def _trigger(query: Any) -> str:
    return str(query._jsq.streamingQuery().trigger().toString())
