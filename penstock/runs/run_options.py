"""Options of runs: bounded or continuous, with a checkpoint or without, and adaptation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import EngineError
from penstock.io.durable_files import refuse_no_directory
from penstock.model.durations import parse_duration

AVAILABLE_NOW = "available-now"  # the trigger of a run that ends with what is there
_TIME = re.compile(r"\d+ (millisecond|second|minute|hour)s?")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run. With a `checkpoint`, a later run continues where this one ended, or was
    killed. The `trigger` is available-now, or the time between two checks for more input. A `final`
    run closes all open windows; so does one without a checkpoint when its input ends, because no
    run can continue. The `name` identifies it for others: on Spark, among the streaming queries of
    a session."""

    checkpoint: Path | None = None
    trigger: str = AVAILABLE_NOW
    final: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        if self.checkpoint is not None:
            refuse_no_directory(self.checkpoint)
        # without a pause, it would look for more and nothing else
        if not self.bounded and not (_TIME.fullmatch(self.trigger) and self.every):
            raise EngineError(
                f"{self.trigger!r} is not a trigger",
                expected=f"{AVAILABLE_NOW}, or a time between two looks for more",
                hint="'5 seconds'",
            )
        if self.final and not self.bounded:
            raise EngineError(
                "a run that goes on and on is never final",
                expected=f"final together with the trigger {AVAILABLE_NOW}",
            )

    @property
    def bounded(self) -> bool:
        """Whether the run ends with the input that is available now."""
        return self.trigger == AVAILABLE_NOW

    @property
    def every(self) -> int | None:
        """Microseconds between two checks for more input."""
        return None if self.bounded else parse_duration(self.trigger)


# Adaptation: when operators are exchanged while queries run. None of it changes an answer.

MARGIN = 1.25


@dataclass(frozen=True, slots=True)
class Adaptation:
    """When operators are exchanged: another one has to be `margin` times as fast, in `agreeing`
    checks one after the other. An operator is checked after `rows` tuples at the earliest, and
    checks take no more than a `share` of its time."""

    on: bool = True
    margin: float = MARGIN
    agreeing: int = 2
    rows: int = 10_000
    share: float = 0.02

    def __post_init__(self) -> None:
        if self.margin < 1:
            raise EngineError(
                f"a plan that is {self.margin} times as fast is not better",
                expected="adapt=True, False, or a number of 1 or more",
            )

    @staticmethod
    def never() -> Adaptation:
        return Adaptation(on=False)

    @staticmethod
    def of(told: bool | float) -> Adaptation:
        """
        >>> Adaptation.of(False).on, Adaptation.of(2).margin, Adaptation.of(True).margin
        (False, 2, 1.25)
        """
        return Adaptation(on=told) if isinstance(told, bool) else Adaptation(margin=told)
