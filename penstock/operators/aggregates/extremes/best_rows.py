"""The best rows of groups, found in tables of groups: sorting takes many times as long."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.first_rows import first_rows
from penstock.model.types import INT64_MAX, INT64_MIN

_FEW = 8  # times as many groups as rows, at most, in a table of them


def fold_numbers(
    values: npt.NDArray[Any], present: Mask, codes: Codes, new: npt.NDArray[Any], largest: bool
) -> None:
    """Let numbers replace those of their groups, in place, where they are better: NaN is the
    largest."""
    fresh = codes[~present[codes]]
    if values.dtype == np.float64:
        values[fresh] = -np.inf if largest else np.nan
        with np.errstate(invalid="ignore"):
            (np.maximum if largest else np.fmin).at(values, codes, new)
    else:
        values[fresh] = INT64_MIN if largest else INT64_MAX
        (np.maximum if largest else np.minimum).at(values, codes, new)
    present[fresh] = True


def best_rows(codes: Codes, keys: npt.NDArray[Any], largest: bool) -> Ints:
    """The rows that have the best key of their group, several if these are equal.

    >>> best_rows(np.array([0, 1, 0, 0]), np.array([5, 9, 7, 7]), largest=True)
    array([1, 2, 3])
    """
    ranks = in_order(keys)
    size = int(codes.max(initial=-1)) + 1
    if size > _FEW * len(codes):
        rows, codes = first_rows(codes)
        size = len(rows)
    if largest:
        best = np.full(size, INT64_MIN)
        np.maximum.at(best, codes, ranks)
    else:
        best = np.full(size, INT64_MAX)
        np.minimum.at(best, codes, ranks)
    found: Ints = np.flatnonzero(ranks == best[codes])
    return found


def in_order(numbers: npt.NDArray[Any]) -> Ints:
    """Whole numbers that are ordered as some numbers are: NaN is above all others.

    >>> in_order(np.array([np.nan, -1.0, 2.0, np.inf])).argsort()
    array([1, 2, 3, 0])
    """
    if numbers.dtype != np.float64:
        return numbers
    bits = numbers.view(np.int64)
    ranks: Ints = np.where(np.isnan(numbers), INT64_MAX, bits ^ ((bits >> 63) & INT64_MAX))
    return ranks
