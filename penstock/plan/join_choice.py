"""How a join of two streams is computed, and by which numbers that was chosen."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.algorithms import JoinAlgorithm, Reason, duration, size_text


@dataclass(frozen=True, slots=True)
class JoinEstimate:
    """What an algorithm is expected to take: nanoseconds a tuple, and bytes of state."""

    algorithm: JoinAlgorithm
    time: float
    state: float


@dataclass(frozen=True, slots=True)
class JoinChoice:
    """An algorithm, why, and by which numbers; estimates are in the order of time.

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
        """For EXPLAIN."""
        named = f"{self.algorithm.name} ({self.algorithm.value})"
        return [
            f"algorithm: {named}, {self.reason.value}",
            *(
                f"  {each.algorithm.name}: {duration(each.time)} a tuple, {size_text(each.state)}"
                for each in self.estimates
            ),
        ]
