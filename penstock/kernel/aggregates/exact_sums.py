"""Sums without rounding or overflow, so that order and subtraction do not matter.

A sum is kept in limbs: limb k counts multiples of 2**(32·k).  A double is a 53-bit integer times a
power of two, so it falls into three neighbouring limbs; adding and subtracting limbs is integer
arithmetic.  Only what is asked for in the end is rounded, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.kernel.grouping.key_codes import add_integers, magnitude, spread
from penstock.kernel.state import Tree
from penstock.model.arrays import Codes, Floats, Ints

Unsigned: TypeAlias = npt.NDArray[np.uint64]
_BITS = 32
_MASK = (1 << _BITS) - 1
_MANTISSA = 53
_ROOT_BITS = 2 * (_MANTISSA + 3)  # of what a root is taken of
_HALF = 27  # bits of the lower half of a mantissa, for squares


class ExactSums:
    """One exact sum per group.  `limbs[i, g]` counts multiples of 2**(32·(first + i)).

    >>> sums = ExactSums(2)
    >>> sums.add(np.array([0, 0, 0, 1]), np.array([1e16, 1.0, -1e16, 0.5]))
    >>> sums.rounded(np.array([0, 1]))
    array([1. , 0.5])
    """

    def __init__(self, size: int) -> None:
        self.first = 0
        self.limbs: Ints = np.zeros((0, size), np.int64)
        self._bound = 0  # no limb is larger than this

    @property
    def size(self) -> int:
        return int(self.limbs.shape[1])

    def grow(self, size: int) -> None:
        if size > self.size:
            wider = np.zeros((len(self.limbs), max(size, 2 * self.size)), np.int64)
            wider[:, : self.size] = self.limbs
            self.limbs = wider

    def add(self, codes: Codes, values: Floats) -> None:
        """Add finite values to the sums of their groups."""
        mantissas, exponents = _split(values)
        self._add_scaled(codes, mantissas, exponents)

    def add_integers(self, codes: Codes, values: Ints) -> None:
        """Add integers; all of a sum's values are integers, or all are doubles."""
        size = magnitude(values)
        if size < 1 << _BITS:
            self._reach(0, 1)
            self._grow_bound(size * len(values))
            add_integers(self.limbs[0], codes, values, size)
        else:
            self._add_digits(codes, 0, [values & _MASK, values >> _BITS])

    def add_wide(self, codes: Codes, low: Unsigned, high: Ints) -> None:
        """Add integers of 128 bits, given in halves."""
        halves = [(low & _MASK).astype(np.int64), (low >> _BITS).astype(np.int64)]
        self._add_digits(codes, 0, [*halves, high & _MASK, high >> _BITS])

    def add_squares(self, codes: Codes, values: Floats) -> None:
        """Add the squares of finite values: (a·2**27 + b)² = a²·2**54 + 2ab·2**27 + b²."""
        mantissas, exponents = _split(values)
        mantissas = np.abs(mantissas)
        high, low = mantissas >> _HALF, mantissas & ((1 << _HALF) - 1)
        self._add_scaled(codes, high * high, 2 * exponents + 2 * _HALF)
        self._add_scaled(codes, 2 * high * low, 2 * exponents + _HALF)
        self._add_scaled(codes, low * low, 2 * exponents)

    def add_products(self, codes: Codes, left: Floats, right: Floats) -> None:
        """Add the products of finite values, in the same way.

        >>> sums = ExactSums(1)
        >>> sums.add_products(np.array([0, 0]), np.array([1e16, -1e16]), np.array([3.0, 3.0]))
        >>> sums.rounded(np.array([0]))
        array([0.])
        """
        one, one_exponents = _split(left)
        other, other_exponents = _split(right)
        signs, exponents = np.sign(one) * np.sign(other), one_exponents + other_exponents
        one, other = np.abs(one), np.abs(other)
        below = (1 << _HALF) - 1
        a, b, c, d = one >> _HALF, one & below, other >> _HALF, other & below
        self._add_scaled(codes, signs * (a * c), exponents + 2 * _HALF)
        self._add_scaled(codes, signs * (a * d + b * c), exponents + _HALF)
        self._add_scaled(codes, signs * (b * d), exponents)

    def accumulate(self) -> None:
        """Running totals: add to every group the sums of all groups before it."""
        self._bound = magnitude(self.limbs.reshape(-1)) if self.limbs.size else 0
        if self._bound * self.size >= 1 << 62:
            self._carry()
        np.cumsum(self.limbs, axis=1, out=self.limbs)
        self._bound *= self.size

    def take(self, codes: Codes) -> ExactSums:
        taken = ExactSums(0)
        taken.first, taken.limbs, taken._bound = self.first, self.limbs[:, codes], self._bound
        return taken

    def spread(self, codes: Codes, size: int) -> ExactSums:
        wide = ExactSums(0)
        wide.first, wide._bound = self.first, self._bound
        wide.limbs = spread(self.limbs, codes, size)
        return wide

    def save(self) -> Tree:
        return {"first": self.first, "limbs": self.limbs}

    @staticmethod
    def load(saved: Tree) -> ExactSums:
        loaded = ExactSums(0)
        loaded.first, loaded.limbs = saved["first"], saved["limbs"]
        loaded._bound = magnitude(loaded.limbs.reshape(-1))
        return loaded

    def merge(self, other: ExactSums) -> None:
        at = self._aligned(other)
        self.limbs[at, : other.size] += other.limbs

    def subtract(self, other: ExactSums) -> None:
        at = self._aligned(other)
        self.limbs[at, : other.size] -= other.limbs

    def _aligned(self, other: ExactSums) -> slice:
        """Make room for the limbs of `other`; return their slice in the limbs here."""
        if len(other.limbs) == 0:
            return slice(0, 0)
        self._reach(other.first, other.first + len(other.limbs))
        self._grow_bound(other._bound)
        at = other.first - self.first
        return slice(at, at + len(other.limbs))

    def int64s(self, codes: Codes) -> Ints | None:
        """The sums of integers where one limb holds them all; None where it does not."""
        if len(self.limbs) == 0:
            return np.zeros(len(codes), np.int64)
        return self.limbs[0][codes] if len(self.limbs) == 1 and self.first == 0 else None

    def integers(self, codes: Codes) -> tuple[npt.NDArray[np.object_], int]:
        """The sums as Python integers, and the power of two that they are multiples of."""
        total = np.zeros(len(codes), dtype=object)
        for limb in self.limbs[::-1]:
            total = (total << _BITS) + limb[codes].astype(object)
        return total, self.first * _BITS

    def rounded(self, codes: Codes) -> Floats:
        """The sums as the nearest doubles."""
        return divide(*self.integers(codes), np.ones(len(codes), dtype=object))

    def _add_scaled(self, codes: Codes, integers: Ints, exponents: Ints) -> None:
        """Add integer·2**exponent, |integer| < 2**55, to the sums of the groups."""
        if len(codes) == 0:
            return
        places, shifts = exponents // _BITS, exponents % _BITS
        low, high = integers & _MASK, integers >> _BITS  # the sign stays in the upper part
        low, high = low << shifts, high << shifts  # below 2**63 and 2**55
        digits = [low & _MASK, (low >> _BITS) + (high & _MASK), high >> _BITS]
        first, last = int(places.min()), int(places.max())
        if first == last:
            self._add_digits(codes, first, digits)
            return
        self._reach(first, last + 3)
        self._grow_bound(len(codes) << (_BITS + 1))
        flat = self.limbs.reshape(-1)
        at = (places - self.first) * self.size + codes
        for step, digit in enumerate(digits):
            add_integers(flat, at + step * self.size, digit)

    def _add_digits(self, codes: Codes, place: int, digits: list[Ints]) -> None:
        """Add one digit of every value to each of some neighbouring limbs."""
        self._reach(place, place + len(digits))
        self._grow_bound(len(codes) << (_BITS + 1))
        for step, digit in enumerate(digits, start=place - self.first):
            add_integers(self.limbs[step], codes, digit)

    def _reach(self, first: int, stop: int) -> None:
        """Make room for the limbs from `first` to before `stop`."""
        if self.first <= first and stop <= self.first + len(self.limbs):
            return
        if len(self.limbs) == 0:
            self.first = first
        below = max(0, self.first - first)
        above = max(0, stop - (self.first + len(self.limbs)))
        if below or above:
            self._add_limbs(below, above)
            self.first -= below

    def _add_limbs(self, below: int, above: int) -> None:
        count = len(self.limbs)
        limbs = np.zeros((below + count + above, self.size), np.int64)
        limbs[below : below + count] = self.limbs
        self.limbs = limbs

    def _grow_bound(self, by: int) -> None:
        """Prepare for limbs to grow by at most `by`: carry to the next ones what could overflow."""
        if self._bound + by >= 1 << 62:  # look whether it is really so: much is subtracted again
            self._bound = magnitude(self.limbs.reshape(-1))
        if self._bound + by >= 1 << 62:
            self._carry()
        self._bound += by

    def _carry(self) -> None:
        """Leave 32 bits in every limb but a new last one."""
        self._add_limbs(0, 1)
        for i in range(len(self.limbs) - 1):
            self.limbs[i + 1] += self.limbs[i] >> _BITS
            self.limbs[i] &= _MASK
        self._bound = 1 << _BITS


def _split(values: Floats) -> tuple[Ints, Ints]:
    """Each value as a 53-bit integer times a power of two."""
    fractions, exponents = np.frexp(values)
    mantissas = np.ldexp(fractions, _MANTISSA).astype(np.int64)
    return mantissas, exponents.astype(np.int64) - _MANTISSA


def divide(
    dividends: npt.NDArray[np.object_], exponent: int, divisors: npt.NDArray[np.object_]
) -> Floats:
    """dividend·2**exponent / divisor, each rounded once: integer division does that exactly."""
    fractions = _fractions(dividends, exponent, divisors)
    return np.array([_quotient(a, b) for a, b in fractions], np.float64)


def roots(
    dividends: npt.NDArray[np.object_], exponent: int, divisors: npt.NDArray[np.object_]
) -> Floats:
    """The square roots of such quotients, each rounded once.

    >>> roots(np.array([2, 9], object), 2, np.array([1, 1], object))
    array([2.82842712, 6.        ])
    """
    fractions = _fractions(dividends, exponent, divisors)
    return np.array([_root(a, b) for a, b in fractions], np.float64)


def _fractions(
    dividends: npt.NDArray[np.object_], exponent: int, divisors: npt.NDArray[np.object_]
) -> Iterator[tuple[int, int]]:
    if exponent >= 0:
        dividends = dividends << exponent
    else:
        divisors = divisors << -exponent
    return zip(dividends, divisors, strict=True)


def _quotient(dividend: int, divisor: int) -> float:
    try:
        return dividend / divisor
    except OverflowError:
        return float("inf") if dividend > 0 else float("-inf")


def _root(dividend: int, divisor: int) -> float:
    """Root as an integer with more bits than a double has, the last of which tells whether anything
    follows: so the division, which rounds, sees on which side of a half it is."""
    shift = (dividend.bit_length() - divisor.bit_length() - _ROOT_BITS) // 2
    if shift >= 0:
        divisor <<= 2 * shift
    else:
        dividend <<= -2 * shift
    root = isqrt(dividend // divisor)
    root |= root * root * divisor != dividend
    return _quotient(root << max(0, shift), 1 << max(0, -shift))
