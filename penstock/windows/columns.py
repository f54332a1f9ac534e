"""Exact arithmetic on whole int64 columns, where the plain operators would wrap around.

Constants are Python ints of any size; no row is ever touched by Python.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.errors import PlanError
from penstock.model.arrays import Ints, Mask
from penstock.model.types import INT64_MAX, INT64_MIN


def floor_div(values: Ints, plus: int, by: int) -> Ints:
    """floor((values + plus) / by); refused if a quotient does not fit int64.

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
    """The lowest and the highest of what `floor_div` gives for some values.

    >>> extreme_quotients(np.array([5, -3, 9]), plus=1, by=4)
    (-1, 2)
    """
    lowest, highest = extremes(values)
    return quotient(lowest, plus, by), quotient(highest, plus, by)


def quotient(value: int, plus: int, by: int) -> int:
    """What `floor_div` gives for one value."""
    if by > INT64_MAX:
        raise PlanError(f"a window that moves by {by} ticks does not fit 64 bits")
    found = (value + plus) // by
    if not INT64_MIN <= found <= INT64_MAX:
        raise PlanError(
            f"the windows of value {value} reach id {found}, which does not fit 64 bits"
        )
    return found


def extremes(values: Ints) -> tuple[int, int]:
    """The lowest and the highest of some values."""
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
