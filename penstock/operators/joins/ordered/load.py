"""How busy a join is: c·|w|·λ1·λ2 of the Nile paper, by what is measured.

A tuple of a stream takes c·|w|·λ of the other stream to be joined, so the product is the time that
a tuple takes, times the rate at which such tuples come: the same for both streams.  Here it is the
mean of both, by how many tuples were joined.
"""

from __future__ import annotations

_ENOUGH = 32  # tuples that have to be joined before anything can be said
_NEW = 0.25  # how much a new measurement counts

SECOND = 1_000_000_000  # nanoseconds


class JoinLoad:
    """Times are in nanoseconds, by a timer of whoever measures."""

    def __init__(self) -> None:
        self.load: float | None = None  # nothing is known yet
        self.rates = [0.0, 0.0]  # tuples a second, of both inputs
        self.costs = [0.0, 0.0]  # nanoseconds for a tuple
        self._began: int | None = None
        self._came = [0, 0]
        self._joined = [0, 0]
        self._busy = [0, 0]

    def came(self, port: int, tuples: int, now: int) -> None:
        if self._began is None:
            self._began = now
        self._came[port] += tuples

    def joined(self, port: int, tuples: int, took: int) -> None:
        self._joined[port] += tuples
        self._busy[port] += took

    def measure(self, now: int) -> float | None:
        """What is known by now."""
        joined = sum(self._joined)
        if self._began is None or joined < _ENOUGH or now <= self._began:
            return self.load
        seconds = (now - self._began) / SECOND
        found = 0.0
        for port in range(2):
            self.rates[port] = self._came[port] / seconds
            if self._joined[port]:
                self.costs[port] = self._busy[port] / self._joined[port]
                own = self.costs[port] / SECOND * self.rates[port]
                found += own * self._joined[port] / joined
        self.load = found if self.load is None else self.load + _NEW * (found - self.load)
        self._began, self._came, self._joined, self._busy = now, [0, 0], [0, 0], [0, 0]
        return self.load
