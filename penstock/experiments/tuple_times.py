"""When tuples come: at random moments, alone or in bursts, on streams of different rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.model.arrays import Ints

SECOND = 1_000_000  # microseconds


@dataclass(frozen=True)
class TupleTimes:
    """In the order in which they come; a tuple is called by its number."""

    times: Ints  # microseconds since the beginning
    streams: npt.NDArray[np.int64]
    duration: int

    def __len__(self) -> int:
        return len(self.times)

    def slowed(self, times: int) -> TupleTimes:
        """The same in slow motion."""
        return TupleTimes(self.times * times, self.streams, self.duration * times)


def poisson(
    rates: Sequence[float], seconds: float, bursts: Sequence[int] | None = None, seed: int = 7
) -> TupleTimes:
    """Tuples of each stream at an average rate per second, so many of them at the same moment."""
    duration = round(seconds * SECOND)
    sizes = bursts or [1] * len(rates)
    times, streams = [], []
    for stream, (rate, size) in enumerate(zip(rates, sizes, strict=True)):
        own = np.random.default_rng([seed, stream])
        count = own.poisson(rate * seconds / size)
        moments = np.sort(own.integers(0, duration, count))
        times.append(np.repeat(moments, size))
        streams.append(np.full(count * size, stream))
    all_times, all_streams = np.concatenate(times), np.concatenate(streams)
    order = np.argsort(all_times, kind="stable")
    return TupleTimes(all_times[order], all_streams[order], duration)
