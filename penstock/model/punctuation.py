"""Signs of items, punctuations, and the progress policies of streams.

A negative item retracts an equal positive one, because a window expired or a revision replaced a
row. A punctuation bounds all later tuples of a stream; a progress policy derives such bounds tuple
by tuple.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from penstock.errors import PlanError
from penstock.model.types import HIDDEN, free_name

SIGN = f"{HIDDEN}sign"  # internal name; `sign_name` gives the one in results


def sign_name(names: Iterable[str]) -> str:
    """Name of the column of signs next to the columns of a result."""
    return free_name("_sign", names)


# Punctuations: bounds on all later tuples of a stream.
#
# A bound `v` on an attribute says that every later tuple has a value `>= v`; it completes
# everything that lies wholly below `v`.  Bounds are ticks of the attribute's domain (see
# `ticks.py`).

Bound: TypeAlias = int | float
"""A tick, or one of the two ends below; Python compares the three exactly."""

BEGINNING: Final = float("-inf")  # nothing is promised yet
END: Final = float("inf")  # nothing comes any more


@dataclass(frozen=True, slots=True)
class Punctuation:
    """Linear: every later tuple has `attribute >= bound`."""

    attribute: str
    bound: Bound

    def completes(self, end: Bound) -> bool:
        """Whether everything strictly below `end` is complete."""
        return self.bound >= end


@dataclass(frozen=True, slots=True)
class GroupPunctuation:
    """Group-wise: every later tuple of `group` has `attribute >= bound`; others are free."""

    attribute: str
    bound: Bound
    group: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class JointPunctuation:
    """Joint: no later tuple lies below both bounds at once.

    >>> promise = JointPunctuation(("a", "b"), (3, 7))
    >>> promise.completes((3, 7)), promise.completes((3, 8)), promise.completes((2, 1))
    (True, False, True)
    >>> promise.on(("b", "a"))
    JointPunctuation(attributes=('b', 'a'), bounds=(7, 3))
    """

    attributes: tuple[str, str]
    bounds: tuple[Bound, Bound]

    @staticmethod
    def of(bounds: Mapping[str, Bound]) -> JointPunctuation:
        (first, one), (second, other) = bounds.items()
        return JointPunctuation((first, second), (one, other))

    @property
    def pair(self) -> tuple[tuple[str, str], tuple[Bound, Bound]]:
        return self.attributes, self.bounds

    def is_on(self, attributes: tuple[str, str]) -> bool:
        return set(self.attributes) == set(attributes)

    def on(self, attributes: tuple[str, str]) -> JointPunctuation:
        """This punctuation with its attributes in the given order."""
        if self.attributes == attributes:
            return self
        return JointPunctuation(attributes, (self.bounds[1], self.bounds[0]))

    def renamed(self, names: Mapping[str, str]) -> JointPunctuation:
        first, second = self.attributes
        return JointPunctuation((names[first], names[second]), self.bounds)

    def completes(self, ends: tuple[Bound, Bound]) -> bool:
        """Whether the box below both `ends` is complete."""
        return self.bounds[0] >= ends[0] and self.bounds[1] >= ends[1]


# Progress policies: the bounds that a source promises, tuple by tuple.
#
# The bound before a tuple follows from the tuples before it alone, so lateness is a function of the
# data.  `RunningBound` is that function for one (sub-)source; `LowWatermark` combines several.


class TimestampKind(Enum):
    """Origin of the timestamps of a stream."""

    EXTERNAL = "EXTERNAL"  # a column of the input
    INTERNAL = "INTERNAL"  # stamped when the tuple enters
    LATENT = "LATENT"  # stamped by the operator that needs it


@dataclass(frozen=True, slots=True)
class Ordered:
    """Values never decrease: the bound is the highest value so far."""


@dataclass(frozen=True, slots=True)
class Delay:
    """No tuple is later than `ticks`: the bound is the highest value so far minus that."""

    ticks: int

    def __post_init__(self) -> None:
        if self.ticks < 0:
            raise PlanError("DELAY must not be negative")


@dataclass(frozen=True, slots=True)
class Slack:
    """No tuple is overtaken by more than `rows`: the bound is the highest value without the last
    `rows`.
    """

    rows: int

    def __post_init__(self) -> None:
        if self.rows < 0:
            raise PlanError("SLACK must not be negative")


@dataclass(frozen=True, slots=True)
class Punctuated:
    """The input itself carries the bounds, in rows that are not data."""


Rule: TypeAlias = Ordered | Delay | Slack | Punctuated


@dataclass(frozen=True, slots=True)
class ProgressPolicy:
    """Progress policy of a stream. The column, the sub-sources and the rows that punctuate are
    expressions, and stand in the stream's definition; lengths here are ticks.
    """

    rule: Rule
    timestamps: TimestampKind = TimestampKind.EXTERNAL
    idle_after: int | None = None
    future_limit: int | None = None
    skew: int | None = None

    def __post_init__(self) -> None:
        stamped = self.timestamps is not TimestampKind.EXTERNAL
        if stamped and not isinstance(self.rule, Ordered):
            raise PlanError(f"{self.timestamps.value} timestamps are always ORDERED")
        if stamped and self.skew is not None:
            raise PlanError(f"{self.timestamps.value} timestamps have no SKEW")
        for name, length in (("IDLE AFTER", self.idle_after), ("FUTURE LIMIT", self.future_limit)):
            if length is not None and length <= 0:
                raise PlanError(f"{name} must be longer than zero")


class RunningBound:
    """The bound of one (sub-)source, tuple by tuple.

    >>> running = RunningBound(Delay(5))
    >>> [running.observe(value) for value in (10, 12, 3)]
    [-inf, 5, 7]
    >>> running.bound
    7
    """

    def __init__(self, rule: Rule, start: Bound = BEGINNING) -> None:
        self._rule = rule
        self._recent: deque[int] = deque()  # the last rows that SLACK leaves out
        self.highest: Bound = BEGINNING
        self.bound: Bound = start

    def observe(self, value: int) -> Bound:
        """Fold in a tuple; return the bound that held before it."""
        before = self.bound
        self.highest = max(self.highest, value)
        match self._rule:
            case Ordered():
                self.raise_to(value)
            case Delay(ticks):
                self.raise_to(value - ticks)
            case Slack(rows):
                self._recent.append(value)
                if len(self._recent) > rows:
                    self.raise_to(self._recent.popleft())
            case Punctuated():
                pass
        return before

    def raise_to(self, bound: Bound) -> None:
        """Apply a punctuation from the input or an enabling timestamp; bounds never move back."""
        self.bound = max(self.bound, bound)

    def enabling_timestamp(self, elapsed: int) -> Bound:
        """Bound that a source silent for `elapsed` ticks may promise: highest value + elapsed −
        delay (the enabling timestamp, ETS, that Stream Mill generates on demand).
        """
        delay = self._rule.ticks if isinstance(self._rule, Delay) else 0
        return self.highest + elapsed - delay
