"""What tuples of a join meet when they come: how far the other inputs are then, and what those have
promised.

Sources that can be read at will are read in step, the one with the lowest promise next.  Where the
batches of all of them are known, that is played through beforehand; elsewhere, how far an input is
beside the others is anywhere within what disorder and batches make of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.model.arrays import Floats
from penstock.optimizer.dataflow.join_statistics import InputStatistics

_TUPLES = 512  # of an input that are looked at
_PRIMES = [n for n in range(2, 230) if all(n % each for each in range(2, n))]
_STEPS = np.sqrt(np.array(_PRIMES, np.float64))  # their multiples are all over an interval


@dataclass(frozen=True, slots=True)
class Encounters:
    """Some tuples of one input: their times, and by input where it begins, how far tuples of it
    have come, and what is promised of it, when they come."""

    times: Floats
    begins: tuple[float, ...]
    reached: tuple[Floats, ...]
    promised: tuple[Floats, ...]


def encounters(inputs: Sequence[InputStatistics]) -> tuple[Encounters, ...]:
    """Of every input."""
    if all(each.ends for each in inputs):
        return _in_step(inputs)
    return tuple(_about(inputs, origin) for origin in range(len(inputs)))


def evenly(number: int, size: int = _TUPLES) -> Floats:
    """Numbers from 0 to 1 that lie more evenly than by chance, and are the same every time; rows
    with other numbers have nothing to do with each other.

    >>> [round(float(each), 2) for each in evenly(0, 4)]
    [0.41, 0.83, 0.24, 0.66]
    """
    found: Floats = np.arange(1, size + 1) * _STEPS[number % len(_STEPS)] % 1.0
    return found


def _about(inputs: Sequence[InputStatistics], origin: int) -> Encounters:
    own = inputs[origin]
    times = own.ahead + own.spread * (2 * evenly(0) - 1)
    reached = tuple(
        each.ahead + each.spread * (2 * evenly(number + 1) - 1)
        for number, each in enumerate(inputs)
    )
    promised = tuple(
        far - max(each.disorder, 0.0) for far, each in zip(reached, inputs, strict=True)
    )
    return Encounters(times, (-np.inf,) * len(inputs), reached, promised)


@dataclass(frozen=True, slots=True)
class _Batch:
    """The first and the last tick of a batch; how far all inputs were before it."""

    begin: float
    end: float
    reached: tuple[float, ...]
    promised: tuple[float, ...]


def _in_step(inputs: Sequence[InputStatistics]) -> tuple[Encounters, ...]:
    """As engine/reading/in_step.py reads them; a source that has been read promises everything."""
    begins = [float(each.begin) for each in inputs]
    reached = [-np.inf] * len(inputs)
    promised = [-np.inf] * len(inputs)
    left = [list(each.ends[::-1]) for each in inputs]
    read: list[list[_Batch]] = [[] for _ in inputs]
    reading = list(range(len(inputs)))
    while reading:
        which = min(reading, key=lambda number: promised[number])
        if not left[which]:
            reading.remove(which)
            promised[which] = np.inf
            continue
        end = float(left[which].pop())
        read[which].append(_Batch(begins[which], end, tuple(reached), tuple(promised)))
        reached[which] = begins[which] = max(end, reached[which])
        promised[which] = reached[which] - inputs[which].disorder
    return tuple(_looked_at(inputs, origin, found) for origin, found in enumerate(read))


def _looked_at(
    inputs: Sequence[InputStatistics], origin: int, read: Sequence[_Batch]
) -> Encounters:
    """Tuples of all batches, which have about as many each."""
    each = -(-_TUPLES // len(read))
    size = each * len(read)

    def spread(values: Sequence[float]) -> Floats:
        return np.repeat(np.array(values, np.float64), each)

    begins, ends = spread([one.begin for one in read]), spread([one.end for one in read])
    # a tuple may be older than its batch by as much as it may be late, and so may the newest
    times = begins + (ends - begins) * evenly(0, size)
    times = times - inputs[origin].disorder * evenly(len(inputs) + 1, size)
    numbers = range(len(inputs))
    reached = [spread([one.reached[number] for one in read]) for number in numbers]
    late = [reached[n] - inputs[n].disorder * evenly(n + 1, size) for n in numbers]
    promised = [spread([one.promised[number] for one in read]) for number in numbers]
    first = tuple(float(given.begin) for given in inputs)
    return Encounters(times, first, tuple(late), tuple(promised))
