"""Tuples that are kept of an input, looked for by their keys and times: for many that ask, or for a
few."""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.model.types import INT64_MAX, INT64_MIN
from penstock.operators.joins.partners.pairs import Found
from penstock.operators.joins.partners.places import KeyTimePlaces, WantedPlaces
from penstock.operators.joins.partners.side import Side


def find_many(
    side: Side, codes: Codes, lows: Ints, highs: Ints, order: Ints, all_fit: bool
) -> list[Found]:
    """Those that ask are in the order of their keys; `order` has their numbers.  `all_fit` says
    that no highest time is below the lowest."""
    low, high = INT64_MIN, INT64_MAX
    if all_fit:
        low, high = int(np.minimum.reduce(lows)), int(np.maximum.reduce(highs))
    wanted: WantedPlaces | None = None
    found = []
    for run in side.runs(low, high):
        if wanted is None or wanted.places is not run.places:
            wanted = run.places.wanted(codes, lows, highs, low, high)
        of, begins, counts = run.find(wanted)
        if len(of):
            found.append(Found(run, order[of], begins, counts, int(counts.sum())))
    return found


def find_few(side: Side, codes: Codes, lows: Ints, highs: Ints) -> list[Found]:
    """One after the other, in any order."""
    found = []
    asked = list(zip(*(column.tolist() for column in (codes, lows, highs)), strict=True))
    for row, runs in enumerate(side.runs_for(asked)):
        places: KeyTimePlaces | None = None
        wanted: tuple[int, int] | None = None
        for run in runs:
            if places is not run.places:
                places = run.places
                wanted = places.wanted_one(*asked[row])
            if wanted is None:
                continue
            begin, count = run.find_one(wanted)
            if count:
                of, begins, counts = (np.array([each]) for each in (row, begin, count))
                found.append(Found(run, of, begins, counts, count))
    return found
