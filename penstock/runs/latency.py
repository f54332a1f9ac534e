"""How long results took: a histogram with fixed buckets, so that it costs the same for any number.

Eight buckets for every doubling: what it tells of a time is right within 7 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_FINE = 3  # bits: eight buckets for a doubling
_LEAST = 10  # below 2^10 ns, about a microsecond, nobody tells the difference
_MOST = 45  # 2^45 ns are almost ten hours
_BUCKETS = (_MOST - _LEAST) << _FINE
_MICROSECOND = 1_000
_WIDTHS = np.repeat(2.0 ** np.arange(_LEAST, _MOST), 1 << _FINE) / (1 << _FINE)
_MIDDLES = np.cumsum(_WIDTHS) - _WIDTHS / 2 + 2.0**_LEAST


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """In microseconds, of so many results; None of none."""

    results: int = 0
    mean: float | None = None
    median: float | None = None
    p99: float | None = None
    highest: float | None = None

    def __str__(self) -> str:
        if self.median is None or self.p99 is None:
            return "no results yet"
        return f"median {time_text(self.median)}, p99 {time_text(self.p99)}"


class Latencies:
    """Of results, from the arrival of what let them leave.

    >>> found = Latencies()
    >>> found.add(50_000, 99)
    >>> found.add(8_000_000, 1)
    >>> print(found.summary())
    median 51 µs, p99 51 µs
    """

    __slots__ = ("counts", "highest", "results", "total")

    def __init__(self) -> None:
        self.counts = [0] * _BUCKETS
        self.results = 0
        self.total = 0  # nanoseconds of all of them
        self.highest = 0

    def add(self, nanoseconds: int, results: int) -> None:
        """Some results that all took so long."""
        if nanoseconds > self.highest:
            self.highest = nanoseconds
        self.results += results
        self.total += nanoseconds * results
        octave = nanoseconds.bit_length() - 1 - _LEAST
        if octave < 0:
            self.counts[0] += results
        elif octave >= _MOST - _LEAST:
            self.counts[-1] += results
        else:
            within = (nanoseconds >> (octave + _LEAST - _FINE)) & ((1 << _FINE) - 1)
            self.counts[(octave << _FINE) | within] += results

    def quantile(self, share: float) -> float | None:
        """The time, in microseconds, that this share of the results did not exceed."""
        upto = np.cumsum(self.counts)
        if not upto[-1]:
            return None
        bucket = int(np.searchsorted(upto, share * upto[-1]))
        return min(float(_MIDDLES[bucket]), self.highest) / _MICROSECOND

    def summary(self) -> LatencySummary:
        if not self.results:
            return LatencySummary()
        mean = self.total / self.results / _MICROSECOND
        highest = self.highest / _MICROSECOND
        return LatencySummary(self.results, mean, self.quantile(0.5), self.quantile(0.99), highest)


def time_text(microseconds: float) -> str:
    """
    >>> [time_text(each) for each in (0.0312, 73.4, 2_900, 41_000_000)]
    ['31 ns', '73 µs', '2.9 ms', '41 s']
    """
    units = (("s", 1e6), ("ms", 1e3), ("µs", 1.0))
    unit, size = next((each for each in units if microseconds >= each[1]), ("ns", 1e-3))
    return f"{microseconds / size:,.{0 if microseconds >= 10 * size else 1}f} {unit}"
