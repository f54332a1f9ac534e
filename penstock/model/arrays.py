"""Array types, named by content, and vectorized algorithms on whole numbers: exact arithmetic,
stable sorting, and distinct values.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.errors import PlanError
from penstock.model.types import INT64_MAX, INT64_MIN

Ints: TypeAlias = npt.NDArray[np.int64]  # ticks, window ids, positions of rows
Codes: TypeAlias = npt.NDArray[np.int64]  # groups by number
Mask: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]


# Exact arithmetic on whole int64 columns, where the plain operators would wrap around.
#
# Constants are Python ints of any size; Python never handles single rows.


def floor_div(values: Ints, plus: int, by: int) -> Ints:
    """Compute floor((values + plus) / by); an error if a quotient does not fit int64.

    >>> floor_div(np.array([-1, 0, 2**63 - 1]), plus=2**63 - 1, by=2)
    array([4611686018427387903, 4611686018427387903, 9223372036854775807])
    """
    if not len(values):
        return np.empty(0, np.int64)
    lowest, highest = extremes(values)
    for extreme in (lowest, highest):
        quotient(extreme, plus, by)
    if all(INT64_MIN <= each <= INT64_MAX for each in (plus, lowest + plus, highest + plus)):
        return (values + plus if plus else values) // by
    quotients, remainders = np.divmod(values, by)
    plus_quotient, plus_remainder = divmod(plus, by)
    carry = remainders >= by - plus_remainder  # remainders + plus_remainder >= by, without the sum
    # The result fits, so its last 64 bits are all of it, even if a partial sum needs a 65th.
    last_bits = np.uint64(plus_quotient % 2**64)
    total: npt.NDArray[np.uint64] = quotients.view(np.uint64) + carry + last_bits
    return total.view(np.int64)


def extreme_quotients(values: Ints, plus: int, by: int) -> tuple[int, int]:
    """Lowest and highest result of `floor_div` for some values.

    >>> extreme_quotients(np.array([5, -3, 9]), plus=1, by=4)
    (-1, 2)
    """
    lowest, highest = extremes(values)
    return quotient(lowest, plus, by), quotient(highest, plus, by)


def quotient(value: int, plus: int, by: int) -> int:
    """Result of `floor_div` for one value."""
    if by > INT64_MAX:
        raise PlanError(f"a window that moves by {by} ticks does not fit 64 bits")
    found = (value + plus) // by
    if not INT64_MIN <= found <= INT64_MAX:
        raise PlanError(
            f"the windows of value {value} reach id {found}, which does not fit 64 bits"
        )
    return found


def extremes(values: Ints) -> tuple[int, int]:
    """Lowest and highest of some values."""
    if len(values) == 1:
        only = int(values[0])
        return only, only
    return int(np.minimum.reduce(values)), int(np.maximum.reduce(values))


def exceeds_by_at_most(left: Ints, right: Ints, limit: int) -> Mask:
    """left - right <= limit, elementwise.

    >>> exceeds_by_at_most(np.array([2**63 - 1, -(2**63)]), np.array([-(2**63), 2**63 - 1]), 5)
    array([False,  True])
    """
    # A difference of two int64 has 65 bits: the comparison is its sign, uint64 holds its size.
    if limit >= 0:
        above = left.view(np.uint64) - right.view(np.uint64)
        return (left < right) | (above <= limit)
    below = right.view(np.uint64) - left.view(np.uint64)
    return (left < right) & (below >= -limit)


def plus(values: Ints, by: int) -> Ints:
    """values + by, or the nearest that 64 bits can hold.

    >>> plus(np.array([-(2**63), 0, 2**63 - 1]), 7)
    array([-9223372036854775801,                    7,  9223372036854775807])
    """
    if not len(values):
        return values
    wrapped: Ints = (values.view(np.uint64) + np.uint64(by % 2**64)).view(np.int64)
    lowest, highest = extremes(values)
    if lowest + by >= INT64_MIN and highest + by <= INT64_MAX:
        return wrapped
    if by > 0:
        return np.where(values > INT64_MAX - by, INT64_MAX, wrapped)
    return np.where(values < INT64_MIN - by, INT64_MIN, wrapped)


# Stable sorting of whole numbers.
#
# Numbers that lie close together are sorted half by half, because NumPy uses a radix sort for
# 16-bit numbers.  Others are packed with their positions into one word and sorted: many times
# faster than an indirect sort of the positions.

_FEW_TO_SORT = 256  # numbers up to which NumPy's own stable sort is faster
_BITS = 63
_HALF = 16  # bits of numbers that NumPy sorts by radix


def stable_order(values: Ints) -> Ints:
    """Order that sorts numbers; equal ones keep their order.

    >>> stable_order(np.array([7, -5, 7, 4]))
    array([1, 3, 0, 2])
    """
    if len(values) <= _FEW_TO_SORT or values.dtype != np.int64:
        return np.argsort(values, kind="stable")
    lowest, highest = int(values.min()), int(values.max())
    if highest - lowest < 1 << 2 * _HALF:
        return _by_halves(values - lowest, highest - lowest)
    bits = (len(values) - 1).bit_length()
    if (highest - lowest).bit_length() + bits <= _BITS:
        return _sorted_places(values - lowest, np.arange(len(values)), bits)
    order = np.argsort(values)
    return _sorted_places(_ranks_of_sorted(values[order]), order, bits)


def stable_order_by(*keys: Ints) -> Ints:
    """Order that sorts by several numbers, the first of which is the most significant.

    >>> stable_order_by(np.array([2, 1, 2, 2]), np.array([5, 9, 3, 5]))
    array([1, 2, 0, 3])
    """
    first, *others = keys
    if len(first) <= _FEW_TO_SORT or any(key.dtype != np.int64 for key in keys):
        return np.lexsort(keys[::-1])
    combined, span = _from_zero(first)
    for key in others:
        own, width = _from_zero(key)
        if span * width >= 1 << _BITS:  # as large as there are numbers, at most
            combined, span = _ranked(combined)
        if span * width >= 1 << _BITS:
            own, width = _ranked(own)
        combined, span = combined * width + own, span * width
    return stable_order(combined)


def sorted_runs_order(values: Ints) -> Ints:
    """Order that merges a few sorted runs, one behind the other; equal numbers keep their order.

    >>> sorted_runs_order(np.array([2, 7, 9, 1, 7]))
    array([3, 0, 1, 4, 2])
    """
    return np.argsort(values, kind="stable")


def _by_halves(values: Ints, highest: int) -> Ints:
    order = np.argsort(values.astype(np.uint16), kind="stable")
    if highest >> _HALF:
        upper = (values >> _HALF).astype(np.uint16)
        order = order[np.argsort(upper[order], kind="stable")]
    return order


def _from_zero(values: Ints) -> tuple[Ints, int]:
    """Map numbers to non-negative ones in the same order; also return an upper bound, excluded."""
    lowest, highest = int(values.min()), int(values.max())
    if highest - lowest >= 1 << _BITS:
        return _ranked(values)
    return values - lowest, highest - lowest + 1


def _ranked(values: Ints) -> tuple[Ints, int]:
    """Replace numbers by their dense ranks; also return the number of ranks."""
    order = np.argsort(values)
    ranks = np.empty(len(values), np.int64)
    ranks[order] = in_order = _ranks_of_sorted(values[order])
    return ranks, int(in_order[-1]) + 1


def _ranks_of_sorted(values: Ints) -> Ints:
    ranks = np.zeros(len(values), np.int64)
    np.cumsum(values[1:] != values[:-1], out=ranks[1:])
    return ranks


def _sorted_places(values: Ints, places: Ints, bits: int) -> Ints:
    """Sort positions, which take `bits` bits, by numbers that leave room for them."""
    words = values << bits
    words |= places
    words.sort()
    words &= (1 << bits) - 1
    return words


# Distinct whole numbers, found without sorting them.
#
# Every number has a place in a table, which records the first row with it: its own place if the
# numbers lie close together, and one by its hash otherwise.

_FEW_NUMBERS = 64  # numbers up to which sorting is as fast
_SPAN = 4096  # length of a table that is always allowed
_SPARSE = 8  # places that a longer table may have for each number
_TURNS = 16  # rounds of hashing after which the remaining values are sorted
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def first_rows(values: Ints) -> tuple[Ints, Ints]:
    """Rows with the first occurrence of each value, and for each row the number of its value among
    them.

    >>> first_rows(np.array([7, 5, 7, 4]))
    (array([0, 1, 3]), array([0, 1, 0, 2]))
    """
    first = _first_of_each(values)
    rows = np.flatnonzero(first == np.arange(len(first)))
    numbers = np.empty(len(values), np.int64)
    numbers[rows] = np.arange(len(rows))
    return rows, numbers[first]


def different(values: Ints) -> Ints:
    """Distinct numbers in ascending order.

    >>> different(np.array([7, 5, 7, 4]))
    array([4, 5, 7])
    """
    if len(values) <= _FEW_NUMBERS:
        return np.unique(values)
    lowest, span = _span(values)
    if span > max(_SPAN, _SPARSE * len(values)):
        found = values[first_rows(values)[0]]
        found.sort()
        return found
    there = np.zeros(span, np.bool_)
    there[values - lowest if lowest else values] = True
    places: Ints = np.flatnonzero(there)
    return places + lowest if lowest else places


def _first_of_each(values: Ints) -> Ints:
    """First row with the value of each row."""
    if len(values) <= _FEW_NUMBERS:
        return _by_sorting(values)
    lowest, span = _span(values)
    if span > max(_SPAN, _SPARSE * len(values)):
        return _by_hash(values)
    places = values - lowest if lowest else values
    table = np.full(span, len(values))
    np.minimum.at(table, places, np.arange(len(values)))
    first: Ints = table[places]
    return first


def _by_sorting(values: Ints) -> Ints:
    order = stable_order(values)
    begins = np.flatnonzero(np.append(True, np.diff(values[order]) != 0)[: len(values)])
    first = np.empty(len(values), np.int64)
    first[order] = np.repeat(order[begins], np.diff(np.append(begins, len(values))))
    return first


def _by_hash(values: Ints) -> Ints:
    """Find the first row with each value through a hash table; of the values that share a place,
    one is resolved in each round.
    """
    bits = len(values).bit_length() + 1
    places = ((values.view(np.uint64) * _FACTOR) >> np.uint64(64 - bits)).view(np.int64)
    table = np.full(1 << bits, len(values))
    first = np.empty(len(values), np.int64)
    rows = np.arange(len(values))
    left = values
    for _ in range(_TURNS):
        np.minimum.at(table, places, rows)
        owners = table[places]
        theirs = values[owners] == left
        done = np.flatnonzero(theirs)
        first[rows[done]] = owners[done]
        if len(done) == len(rows):
            return first
        others = np.flatnonzero(~theirs)
        table[places] = len(values)
        rows, places, left = rows[others], places[others], left[others]
    first[rows] = rows[_by_sorting(left)]
    return first


def _span(values: Ints) -> tuple[int, int]:
    """Origin and length of a table by value: the lowest number, or 0 if that is near enough."""
    lowest, highest = int(values.min()), int(values.max())
    if 0 <= lowest < highest:  # most often codes, from 0 on: not worth moving them
        lowest = lowest if lowest > (highest >> 1) else 0
    return lowest, highest - lowest + 1
