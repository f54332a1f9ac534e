"""The stateful step of a Spark job: buckets of a stage in the tasks of `transformWithState`.

When Spark plans a query, it starts a Python process only to ask which states its steps have.  So
that nobody waits there for the kernel to be imported, this file imports nothing large, and what a
step works with is unpickled when its first row comes.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from penstock.spark.tasks.worker_errors import said_shortly

if TYPE_CHECKING:
    import pandas as pd

    from penstock.spark.stateful.stepping import Stepping

_NAME = StructType([StructField("name", StringType())])
_PACKED = StructType([StructField("packed", BinaryType())])


class StageStep(StatefulProcessor):
    def __init__(self, stepping: Stepping) -> None:
        self._pickled: bytes = cloudpickle.dumps(stepping)  # type: ignore[no-untyped-call]

    @cached_property
    def _stepping(self) -> Stepping:
        stepping: Stepping = pickle.loads(self._pickled)  # what __init__ made of it
        return stepping

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        # types, not their texts, which Spark would be asked to parse again and again
        self._chunks = handle.getMapState("chunks", _NAME, _PACKED)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        now = timerValues.getCurrentProcessingTimeInMs()
        with said_shortly():
            yield from self._stepping.on_rows(key[0], rows, now, self._chunks, self._handle)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        now = timerValues.getCurrentProcessingTimeInMs()
        with said_shortly():
            yield from self._stepping.on_timer(key[0], now, self._chunks, self._handle)

    def close(self) -> None:
        pass
