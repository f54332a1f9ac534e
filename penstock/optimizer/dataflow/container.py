"""When it pays to keep intermediate results: inequality 1 of Getta and Vossough, with the waiting
of equation 2."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Container:
    """A window w of the results of r ⋈ s that the tuples of t are joined with.  All times are
    nanoseconds: `recording` a tuple in the window of its stream, `filling` the container with what
    a tuple finds, `reading` the container for a tuple of t, and `recomputing` what is in it by
    reading the windows of r and s instead.

    >>> fast = Container(recording=100, filling=900, reading=300, recomputing=2000)
    >>> fast.waiting(apart=200), fast.waiting(apart=5000)
    (700, 0.0)
    >>> fast.pays(apart=200), fast.pays(apart=float("inf"))
    (True, True)
    >>> Container(recording=100, filling=900, reading=300, recomputing=250).pays(apart=5000)
    False
    """

    recording: float
    filling: float
    reading: float
    recomputing: float

    @property
    def saved(self) -> float:
        """What a tuple of t need not do: the right side of inequality 1."""
        return self.recomputing - self.reading

    def waiting(self, apart: float) -> float:
        """How long a tuple of t waits for one of r or s that came so much before it to be in the
        container (equation 2).  Streams that are static are infinitely far apart: nobody waits."""
        return max(self.recording + self.filling - (apart + self.recording), 0.0)

    def pays(self, apart: float) -> bool:
        """Inequality 1."""
        return self.waiting(apart) < self.saved


def slot(rate: float) -> float:
    """Δt of equation 2: how long ago the last tuple of a stream came, on average, when any tuple of
    another one comes; of a stream that is static, infinitely long.

    >>> slot(0.25), slot(0)
    (4.0, inf)
    """
    return 1 / rate if rate > 0 else float("inf")
