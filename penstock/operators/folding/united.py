"""Partial results of several parts of the same thing, as one."""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.operators.folding.folder import Folder, Partials


def united(folder: Folder, partials: Partials, parts: Codes, wholes: Ints) -> Partials:
    """The partial results of wholes 0, 1, …; `wholes` says, ascending, to which each part belongs.

    Neighbours are merged two by two, so a whole of many parts takes few steps."""
    found = folder.take_apart(partials, parts)
    while len(wholes) > 1 and (wholes[1:] == wholes[:-1]).any():
        begins = np.flatnonzero(np.diff(wholes, prepend=-1))
        within = np.arange(len(wholes)) - np.repeat(begins, np.diff([*begins, len(wholes)]))
        even = np.flatnonzero(within % 2 == 0)
        odd = np.flatnonzero(within % 2)
        stays = folder.take_apart(found, even)
        goes = folder.take_apart(found, odd)
        places = np.searchsorted(even, odd) - 1
        folder.merge_apart(stays, folder.spread_apart(goes, places, len(even)))
        found, wholes = stays, wholes[even]
    return found
