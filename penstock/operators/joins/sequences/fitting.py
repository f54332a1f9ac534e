"""The first or last candidate that fits, for many tuples at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from penstock.model.arrays import Ints, Mask

AT_ONCE = 1 << 16  # pairs that are looked at together


def nearest_fitting(
    begins: Ints,
    ends: Ints,
    fits: Callable[[Ints, Ints], Mask],
    backward: bool = False,
    whole: bool = False,
) -> Ints:
    """For every span of candidates the first one that fits, or the last; -1 if none does.

    `fits` is asked about pairs: the number of a span, and a candidate.  More and more candidates of
    each span are looked at together, so that what is near is found soon, and what is far after few
    questions; if `whole`, all of them at once.

    >>> is_even = lambda which, candidates: candidates % 2 == 0
    >>> nearest_fitting(np.array([1, 4, 3]), np.array([9, 9, 4]), is_even).tolist()
    [2, 4, -1]
    >>> nearest_fitting(np.array([1, 4, 3]), np.array([9, 9, 4]), is_even, backward=True).tolist()
    [8, 8, -1]
    """
    found = np.full(len(begins), -1)
    begins, ends = begins.copy(), ends.copy()
    left = np.flatnonzero(begins < ends)
    step = AT_ONCE if whole else 1
    while len(left):
        counts = np.minimum(ends[left] - begins[left], step)
        for some in _cut(counts):
            spans, sizes = left[some], counts[some]
            which = np.repeat(np.arange(len(spans)), sizes)
            within = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            near = ends[spans][which] - 1 - within if backward else begins[spans][which] + within
            fitting = np.flatnonzero(fits(spans[which], near))
            served, first = np.unique(which[fitting], return_index=True)
            found[spans[served]] = near[fitting[first]]
        if backward:
            ends[left] -= counts
        else:
            begins[left] += counts
        left = left[(found[left] < 0) & (begins[left] < ends[left])]
        step = min(2 * step, AT_ONCE)
    return found


def _cut(counts: Ints) -> Iterator[slice]:
    """Neighbours that have about as many candidates together as are looked at at once."""
    upto = np.cumsum(counts)
    begin = 0
    while begin < len(counts):
        before = int(upto[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(upto, before + AT_ONCE, "right")))
        yield slice(begin, end)
        begin = end
