"""Options of the query graph: strategy, enabling timestamps, progress arcs.  None changes an
answer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from penstock.errors import EngineError, PenstockError, nearest
from penstock.local.strategies import Strategy
from penstock.model.durations import parse_duration
from penstock.runs.run_options import Adaptation


class Carriage(Enum):
    """The way that progress travels: along progress arcs from register to register (the enhanced
    query graph, EQG), or as punctuation items through buffers and all operators."""

    ARCS = "arcs"
    PUNCTUATIONS = "punctuations"


@dataclass(frozen=True, slots=True)
class Enabling:
    """The moments at which an idle source makes enabling timestamps (ETS): `on_demand`, when rows
    wait for its progress, or `every` so many microseconds; neither: never."""

    on_demand: bool = True
    every: int | None = None

    @staticmethod
    def of(text: str) -> Enabling:
        """
        >>> Enabling.of("none"), Enabling.of("10 milliseconds")
        (Enabling(on_demand=False, every=None), Enabling(on_demand=False, every=10000))
        """
        normalized = text.strip().lower()
        if normalized == "on demand":
            return Enabling()
        if normalized == "none":
            return Enabling(on_demand=False)
        every = 0
        with suppress(PenstockError):
            every = parse_duration(normalized)
        if every <= 0:  # no time between two timestamps
            raise EngineError(
                f"{text!r} does not say when enabling timestamps are made",
                expected="'on demand', 'none', or a time between two of them",
                hint="'10 milliseconds'",
            )
        return Enabling(on_demand=False, every=every)

    def __str__(self) -> str:
        if self.every is not None:
            return f"every {self.every:,} µs"
        return "on demand" if self.on_demand else "none"


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Options of scheduling.  `strategy` is that of all nodes, until a part of the graph gets
    another."""

    strategy: Strategy = field(default_factory=Strategy)
    enabling: Enabling = field(default_factory=Enabling)
    carriage: Carriage = Carriage.ARCS
    adaptation: Adaptation = field(default_factory=Adaptation)

    @staticmethod
    def of(
        strategy: str | None = None,
        ets: str | None = None,
        carriage: str | None = None,
        adapt: bool | float | None = None,
    ) -> Scheduling:
        """Parse the options as users give them; None is the default."""
        names = [each.value for each in Carriage]
        if carriage is not None and carriage not in names:
            close = nearest(carriage, names)
            raise EngineError(
                f"progress is not carried by {carriage!r}",
                expected=" or ".join(names),
                hint=close[0] if close else None,
            )
        return Scheduling(
            Strategy() if strategy is None else Strategy.of(strategy),
            Enabling() if ets is None else Enabling.of(ets),
            Carriage.ARCS if carriage is None else Carriage(carriage),
            Adaptation() if adapt is None else Adaptation.of(adapt),
        )
