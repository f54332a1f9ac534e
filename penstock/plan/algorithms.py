"""Levels of CONSISTENCY (SERIAL, LEVEL k, WEAK), and the algorithms of sliding windows and joins:
the choice between them, with its reasons and estimates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from penstock.errors import PlanError, Span


class Following(Enum):
    """Level of consistency: the points at which the emitted rows must agree with the input."""

    SERIAL = "SERIAL"  # after every tuple
    LEVEL = "LEVEL"  # at the latest after k rows
    WEAK = "WEAK"  # at the end


@dataclass(frozen=True, slots=True)
class Consistency:
    """Level of consistency of a query: the points at which the rows emitted so far are those that
    tuple-by-tuple processing would have emitted. With LEVEL, fewer than `rows` rows are emitted
    between such a point and the tuple that brings about the next one.

    >>> str(Consistency(Following.LEVEL, 100)), Consistency(Following.SERIAL).at_most
    ('CONSISTENCY LEVEL 100', 1)
    """

    following: Following
    rows: int | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if (self.rows is not None) is not (self.following is Following.LEVEL):
            raise PlanError("a number of rows belongs to LEVEL")
        if self.rows is not None and self.rows < 1:
            raise PlanError(f"CONSISTENCY LEVEL {self.rows}", expected="1 row or more")

    @property
    def at_most(self) -> int | None:
        """Number of rows after which they have to agree; None: only at the end."""
        return 1 if self.following is Following.SERIAL else self.rows

    def __str__(self) -> str:
        words = f"CONSISTENCY {self.following.value}"
        return words if self.rows is None else f"{words} {self.rows}"


# Algorithms of sliding windows and joins, and the choice between those of windows.


class Algorithm(Enum):
    """Algorithms of sliding windows (Paned, WID, AdaptWID and others); all give the same
    results.
    """

    PANED = "panes that windows share"
    WID = "a partial result for every open window"
    ADAPTIVE = "partial results for dense groups, tuples for sparse ones"
    TWO_LEVEL = "a small table below, exact results above"
    BUFFERING = "tuples, kept until their windows close"


class JoinAlgorithm(Enum):
    """Algorithms of joins of streams; all give the same pairs."""

    OA = "as tuples arrive, in any order"
    MULTIWAY = "as tuples arrive, all inputs at once"
    OPOB = "as tuples arrive, and results are put in order"
    OPIB = "tuples are put in order before they are joined"
    SYNC_FILTER = "both inputs in step"
    FILTER_ORDER = "as tuples arrive, and results wait for the slower input"
    ADAPTIVE_JOIN = "SYNC_FILTER or FILTER_ORDER, whichever answers sooner"


class Reason(Enum):
    """Reason for the choice of an algorithm, as EXPLAIN shows it."""

    HINT = "by a hint"
    TIME = "the least time"
    BUDGET = "the least time within the budget"
    STATE = "the least state, as none is within the budget"
    REVISIONS = "the one that revises results"
    ANY_ORDER = "the least time, as no order is asked for"
    USUAL = "seldom far from the best, and little is known"
    NEAR = "about the least time"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated cost of an algorithm: nanoseconds a window, and bytes of state."""

    algorithm: Algorithm
    time: float
    state: float


@dataclass(frozen=True, slots=True)
class Choice:
    """Chosen algorithm with its reason and the numbers behind it; estimates are in the order of
    time.

    >>> fast = Estimate(Algorithm.PANED, 1.25e6, 4e9)
    >>> small = Estimate(Algorithm.BUFFERING, 2e7, 3e6)
    >>> choice = Choice(Algorithm.PANED, Reason.TIME, (fast, small), 8e9, (), ("1,000 groups",))
    >>> print(*choice.lines(), sep=chr(10))
    algorithm: PANED (panes that windows share), 1.2 ms a window; BUFFERING 20 ms
    assumed: 1,000 groups
    >>> choice = Choice(Algorithm.BUFFERING, Reason.BUDGET, (fast, small), 1e9, ("1 group",), ())
    >>> print(*choice.lines(), sep=chr(10))
    algorithm: BUFFERING (tuples, kept until their windows close), 20 ms a window; PANED 1.2 ms
    state: 3 MB, the least time within the budget of 1 GB; PANED 4 GB
    known: 1 group
    """

    algorithm: Algorithm
    reason: Reason
    estimates: tuple[Estimate, ...]
    budget: float
    known: tuple[str, ...]
    assumed: tuple[str, ...]

    def lines(self) -> list[str]:
        """Lines for EXPLAIN. State is shown where it decided."""
        chosen = next(each for each in self.estimates if each.algorithm is self.algorithm)
        others = [each for each in self.estimates if each is not chosen]
        why = "" if self.reason in (Reason.TIME, Reason.BUDGET, Reason.STATE) else self.reason.value
        title = f"{self.algorithm.name} ({self.algorithm.value})" + (f", {why}" if why else "")
        times = ", ".join(f"{each.algorithm.name} {duration(each.time)}" for each in others)
        lines = [f"algorithm: {title}, {duration(chosen.time)} a window; {times}"]
        if self.reason in (Reason.BUDGET, Reason.STATE):
            limit = f"{self.reason.value} of {size_text(self.budget)}"
            sizes = ", ".join(f"{each.algorithm.name} {size_text(each.state)}" for each in others)
            lines.append(f"state: {size_text(chosen.state)}, {limit}; {sizes}")
        if self.known:
            lines.append(f"known: {', '.join(self.known)}")
        if self.assumed:
            lines.append(f"assumed: {', '.join(self.assumed)}")
        return lines


def duration(nanoseconds: float) -> str:
    """Format nanoseconds for display."""
    return _scaled(nanoseconds, ("ns", "µs", "ms", "s"))


def size_text(size: float) -> str:
    return _scaled(size, ("B", "kB", "MB", "GB", "TB"))


def _scaled(amount: float, units: tuple[str, ...]) -> str:
    """Format with two digits: more than estimates deserve, and enough to compare them.

    >>> [_scaled(amount, ("g", "kg")) for amount in (7, 999.4, 999.6, 1234, 98765, 4.5e7)]
    ['7 g', '1 kg', '1 kg', '1.2 kg', '99 kg', '45,000 kg']
    """
    rounded = float(f"{amount:.2g}")
    power = 0
    while rounded >= 1000 and power < len(units) - 1:
        rounded, power = rounded / 1000, power + 1
    return f"{rounded:,.{1 if rounded < 10 and rounded % 1 else 0}f} {units[power]}"


# The choice between algorithms for a join of two streams.


@dataclass(frozen=True, slots=True)
class JoinEstimate:
    """Estimated cost of an algorithm: nanoseconds a tuple, and bytes of state."""

    algorithm: JoinAlgorithm
    time: float
    state: float


@dataclass(frozen=True, slots=True)
class JoinChoice:
    """Chosen algorithm with its reason and the numbers behind it; estimates are in the order of
    time.

    >>> soon = JoinEstimate(JoinAlgorithm.OPOB, 250.0, 4e6)
    >>> small = JoinEstimate(JoinAlgorithm.OPIB, 400.0, 1e6)
    >>> print(*JoinChoice(JoinAlgorithm.OPOB, Reason.TIME, (soon, small)).lines(), sep=chr(10))
    algorithm: OPOB (as tuples arrive, and results are put in order), the least time
      OPOB: 250 ns a tuple, 4 MB
      OPIB: 400 ns a tuple, 1 MB
    """

    algorithm: JoinAlgorithm
    reason: Reason
    estimates: tuple[JoinEstimate, ...]

    @property
    def chosen(self) -> JoinEstimate:
        return next(each for each in self.estimates if each.algorithm is self.algorithm)

    def lines(self) -> list[str]:
        """Lines for EXPLAIN."""
        named = f"{self.algorithm.name} ({self.algorithm.value})"
        return [
            f"algorithm: {named}, {self.reason.value}",
            *(
                f"  {each.algorithm.name}: {duration(each.time)} a tuple, {size_text(each.state)}"
                for each in self.estimates
            ),
        ]
