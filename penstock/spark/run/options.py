"""How a query is run on Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.errors import EngineError
from penstock.runs.adapting.adaptation import Adaptation
from penstock.runs.options import RunOptions
from penstock.spark.session.session import BUCKETS


@dataclass(frozen=True, slots=True)
class Options(RunOptions):
    """`buckets` counts when a query first starts; `portions` is into how many micro-batches
    Penstock's own sources are cut; `adaptation` is when operators are exchanged."""

    buckets: int = BUCKETS
    portions: int | None = None
    adaptation: Adaptation = field(default_factory=Adaptation)

    def __post_init__(self) -> None:
        RunOptions.__post_init__(self)
        if self.buckets < 1:
            raise EngineError(f"{self.buckets} buckets", expected="at least one")

    def spark_trigger(self) -> dict[str, Any]:
        return {"availableNow": True} if self.bounded else {"processingTime": self.trigger}
