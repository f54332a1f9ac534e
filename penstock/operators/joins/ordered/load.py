"""How busy a join is: c·|w|·λ1·λ2 of the Nile paper, by what is measured.

A tuple of a stream takes c·|w|·λ of the other stream to be joined, so the product is the time that
a tuple takes, times the rate at which such tuples come: the same for both streams.  Here it is the
mean of both, by how many tuples were joined, over the last seconds.
"""

from __future__ import annotations

from math import exp

SECOND = 1_000_000_000  # nanoseconds
_ENOUGH = 32  # tuples that have to be joined before anything can be said
_BEGINNING = SECOND  # in which nothing can be said either
_MEMORY = 20 * SECOND  # what is so long ago counts a third of what is now


class JoinLoad:
    """Times are in nanoseconds, by a timer of whoever measures."""

    def __init__(self) -> None:
        self.load: float | None = None  # nothing is known yet
        self._last: int | None = None  # when it was looked at
        self._time = 0.0  # this and all that follow: what is longer ago counts less
        self._came = [0.0, 0.0]
        self._joined = [0.0, 0.0]
        self._busy = [0.0, 0.0]

    def came(self, port: int, tuples: int, now: int) -> None:
        self._go_on(now)
        self._came[port] += tuples

    def joined(self, port: int, tuples: int, took: int) -> None:
        self._joined[port] += tuples
        self._busy[port] += took

    def _go_on(self, now: int) -> None:
        passed = 0 if self._last is None else now - self._last
        self._last = now
        if passed > 0:
            left = exp(-passed / _MEMORY)
            self._time = self._time * left + passed
            for several in (self._came, self._joined, self._busy):
                several[:] = (each * left for each in several)

    @property
    def rates(self) -> list[float]:
        """Tuples a second, of both inputs."""
        return [each * SECOND / self._time if self._time else 0.0 for each in self._came]

    @property
    def costs(self) -> list[float]:
        """Nanoseconds that a tuple takes, of both inputs."""
        pairs = zip(self._busy, self._joined, strict=True)
        return [busy / joined if joined else 0.0 for busy, joined in pairs]

    def measure(self, now: int) -> float | None:
        """What is known by now."""
        self._go_on(now)
        joined = sum(self._joined)
        known = self.load is not None or (joined >= _ENOUGH and self._time >= _BEGINNING)
        if known and joined > 0:
            each = zip(self.rates, self.costs, self._joined, strict=True)
            self.load = sum(rate * cost * own for rate, cost, own in each) / joined / SECOND
        return self.load
