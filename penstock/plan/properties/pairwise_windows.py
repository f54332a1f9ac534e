"""The time condition between any two inputs of a join, said or following from others."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TypeAlias

from penstock.plan.nodes.joins import Bands, Join, JoinWindow, Ranges, Tumbling
from penstock.windows.joins import BandJoin, SlidingJoin, TumblingJoin

PairWindow: TypeAlias = SlidingJoin | TumblingJoin | BandJoin


def between(join: Join, left: int, right: int) -> PairWindow:
    """How far apart the times of two inputs may be, from the first to the second."""
    if isinstance(join.window, Bands):
        return _band(join.window, left, right)
    found = join.window.between(left, right)
    assert found is not None
    return found


def _band(bands: Bands, left: int, right: int) -> BandJoin:
    """Their own band, or else what follows from the narrowest bands by way of others."""
    ways: dict[int, list[tuple[int, BandJoin]]] = {}
    for i, j, band in bands.bands:
        ways.setdefault(i, []).append((j, band))
        ways.setdefault(j, []).append((i, BandJoin(-band.high, -band.low)))
    own = [band for other, band in ways[left] if other == right]
    if own:
        return own[0]
    seen: set[int] = set()
    waiting = [(0, left, 0, 0)]
    while waiting:
        wide, here, low, high = heappop(waiting)
        if here == right:
            return BandJoin(low, high)
        if here not in seen:
            seen.add(here)
            for other, band in ways[here]:
                step = (wide + width(band), other, low + band.low, high + band.high)
                heappush(waiting, step)
    raise AssertionError("nothing bounds how far apart two inputs of a join are")


def width(window: PairWindow) -> int:
    match window:
        case TumblingJoin():
            return window.range
        case SlidingJoin():
            return window.left_range + window.right_range
        case BandJoin():
            return window.high - window.low


def window_of_two(window: PairWindow) -> JoinWindow:
    """As the window of a join with two inputs."""
    match window:
        case TumblingJoin():
            return Tumbling(window)
        case SlidingJoin():
            return Ranges((window.left_range, window.right_range))
        case BandJoin():
            return Bands(((0, 1, window),))
