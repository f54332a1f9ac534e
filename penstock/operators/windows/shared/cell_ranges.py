"""Partial results of many ranges of neighbouring cells, with one merge for each.

Cells are cut into blocks of 1, 2, 4, … of them, and merged from the beginning of every block to
each cell and from there to the end of the block.  A range is then the end of one block and the
beginning of the next, of the size at which its ends fall apart (a disjoint sparse table).  So
nothing needs to be subtracted, and all ranges of a size are merged at once.
"""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.operators.folding.folder import Folder, Partials


def merged_ranges(folder: Folder, cells: Partials, groups: int, ranges: Ints) -> Partials:
    """For ranges from a first to a last cell, one in a row.  The groups of a cell stand
    together, cell by cell; `cells` is not to be used afterwards."""
    count = len(cells.rows.rows) // groups
    first, last = ranges.T
    levels = np.frexp((first ^ last).astype(np.float64))[1] - 1  # the highest bit that differs
    merged = nothing(folder, cells, len(ranges) * groups)
    alone = np.flatnonzero(levels < 0)
    put_in(folder, merged, alone, folder.take_apart(cells, groups_of(first[alone], groups)), groups)
    to_end, from_begin = folder.take_apart(cells, np.arange(count * groups)), cells
    for level in range(int(levels.max(initial=-1)) + 1):
        own = np.flatnonzero(levels == level)
        if len(own):
            found = folder.take_apart(to_end, groups_of(first[own], groups))
            folder.merge_apart(found, folder.take_apart(from_begin, groups_of(last[own], groups)))
            put_in(folder, merged, own, found, groups)
        numbers = np.arange(count)
        right = numbers[numbers >> level & 1 == 1]
        _add(folder, from_begin, right, (right >> level << level) - 1, groups)
        left = numbers[numbers >> level & 1 == 0]
        following = (left >> level) + 1 << level
        left, following = left[following < count], following[following < count]
        _add(folder, to_end, left, following, groups)
    return merged


def _add(folder: Folder, partials: Partials, to: Ints, of: Ints, groups: int) -> None:
    """What some cells have, to others."""
    taken = folder.take_apart(partials, groups_of(of, groups))
    put_in(folder, partials, to, taken, groups)


def nothing(folder: Folder, like: Partials, size: int) -> Partials:
    none = np.zeros(0, np.int64)
    return folder.spread_apart(folder.take_apart(like, none), none, size)


def put_in(folder: Folder, partials: Partials, cells: Ints, more: Partials, groups: int) -> None:
    """Merge partial results of some cells into those of more cells."""
    size = len(partials.rows.rows)
    folder.merge_apart(partials, folder.spread_apart(more, groups_of(cells, groups), size))


def groups_of(cells: Ints, groups: int, width: int | None = None) -> Codes:
    """Where the groups of some cells are, if cells have room for `width` of them."""
    begins = cells[:, None] * (groups if width is None else width)
    return (begins + np.arange(groups)).ravel()
