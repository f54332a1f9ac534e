"""The time condition between any two inputs of a join, said or following from others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import TypeAlias

from penstock.plan.nodes.joins import Bands, Join, JoinWindow, Ranges, TimeCondition, Tumbling
from penstock.windows.joins import BandJoin, SlidingJoin, TumblingJoin

PairWindow: TypeAlias = SlidingJoin | TumblingJoin | BandJoin


def between(join: Join, left: int, right: int) -> PairWindow:
    """How far apart the times of two inputs may be, from the first to the second."""
    if isinstance(join.window, Bands):
        return band_between(join.window, left, right)
    found = join.window.between(left, right)
    assert found is not None
    return found


def conditions_across(
    join: Join, some: Sequence[int], others: Sequence[int]
) -> Iterator[TimeCondition]:
    """What further times have to fit between some inputs and others, from the former to the
    latter."""
    owners = {
        (field.name, field.relation): number
        for number, branch in enumerate(join.branches)
        for field in branch.schema
    }
    for each in join.also:
        left, right = (owners[column.name, column.relation] for column in (each.left, each.right))
        if left in some and right in others:
            yield each
        elif right in some and left in others:
            yield TimeCondition(each.right, each.left, _turned(each.window))


def _turned(window: PairWindow) -> PairWindow:
    match window:
        case TumblingJoin():
            return window
        case SlidingJoin(left, right):
            return SlidingJoin(right, left)
        case BandJoin():
            return _reverse(window)


def band_between(bands: Bands, left: int, right: int) -> BandJoin:
    """Their own band, or else what follows from the narrowest bands by way of others."""
    own = [band for i, j, band in bands.bands if (i, j) == (left, right)]
    own += [_reverse(band) for i, j, band in bands.bands if (j, i) == (left, right)]
    if own:
        return own[0]
    found = bands_from(bands, left)
    assert right in found, "nothing bounds how far apart two inputs of a join are"
    return found[right]


def bands_from(bands: Bands, left: int) -> dict[int, BandJoin]:
    """What follows from the narrowest bands for one time and all others."""
    ways: dict[int, list[tuple[int, BandJoin]]] = {}
    for i, j, band in bands.bands:
        ways.setdefault(i, []).append((j, band))
        ways.setdefault(j, []).append((i, _reverse(band)))
    found: dict[int, BandJoin] = {}
    waiting = [(0, left, 0, 0)]
    while waiting:
        wide, here, low, high = heappop(waiting)
        if here not in found:
            found[here] = BandJoin(low, high)
            for other, band in ways.get(here, ()):
                step = (wide + width(band), other, low + band.low, high + band.high)
                heappush(waiting, step)
    return found


def _reverse(band: BandJoin) -> BandJoin:
    return BandJoin(-band.high, -band.low)


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
