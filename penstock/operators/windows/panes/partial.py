"""Panes that are begun elsewhere: partial results of pairs of a pane and a group, to be merged.

This is the low level of two-level aggregation for a host that hands over whole batches: instead of
tuples, it ships one partial result per pane and group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Ints
from penstock.operators.folding.folder import Folder, Partials
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.ticks import to_ticks
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.state.chunks import Tree
from penstock.windows.columns import floor_div
from penstock.windows.sliding import Sliding

_ROOM = 4  # pairs per row for which there may be room without looking for those that occur


@dataclass(frozen=True, slots=True)
class PartialPanes:
    """For each pair: the sub-source that its tuples are of, its pane, keys and partial results."""

    places: Ints
    panes: Ints
    keys: list[pa.Array]
    partials: Partials

    def __len__(self) -> int:
        return len(self.panes)

    def runs(self) -> Iterator[tuple[int, int]]:
        """From where to where the pairs of one sub-source and pane stand: they are sorted."""
        changes = (self.panes[1:] != self.panes[:-1]) | (self.places[1:] != self.places[:-1])
        cuts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(self)]
        return pairwise(cuts) if len(self) else iter(())

    def save(self, folder: Folder) -> Tree:
        tree = folder.save(self.partials, self.places)
        return {**tree, "panes": self.panes, "keys": self.keys}

    @staticmethod
    def load(saved: Tree, folder: Folder) -> PartialPanes:
        places, partials = folder.load_apart(saved)
        return PartialPanes(places, saved["panes"], saved["keys"], partials)


class PaneMaker:
    """Folds batches into partial panes; what it keeps is only which keys there are."""

    def __init__(self, node: WindowAggregate) -> None:
        assert isinstance(node.window, Sliding)
        assert node.attribute is not None
        self._window = node.window
        self._type = node.attribute.type
        self._pane = gcd(node.window.range, node.window.slide)
        self._attribute = compile_expression(node.attribute, node.input.schema)
        self._key_types = [key.expression.type for key in node.keys]
        self.folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)

    def forget_keys(self) -> None:
        self.folder.keys = KeyCodes(self._key_types)

    def panes(self, batch: pa.RecordBatch, places: Ints | None) -> tuple[PartialPanes, Codes]:
        """The pairs of a batch, and the code of the group of each; `places` are the sub-sources."""
        ticks = to_ticks(self._attribute(batch), self._type)
        inside = self._window.covered(ticks)
        if inside is not None:
            batch, ticks = batch.filter(pa.array(inside)), ticks[inside]
            places = places[inside] if places is not None else None
        rows = self.folder.rows(batch, ticks)
        panes = floor_div(ticks, plus=-self._window.origin, by=self._pane)
        lowest = int(panes.min()) if len(panes) else 0
        sources = 1 if places is None else int(places.max(initial=0)) + 1
        spans = [sources, _span(panes, lowest), max(1, len(self.folder.keys))]
        pairs, found = _numbered([places, panes - lowest, rows.codes], spans)
        partials = self.folder.folded(replace(rows, codes=pairs), len(found[0]))
        made = PartialPanes(found[0], found[1] + lowest, self.folder.keys.take(found[2]), partials)
        return made, found[2]

    def take(self, made: PartialPanes, chosen: Codes) -> PartialPanes:
        """Some of the pairs."""
        indices = pa.array(chosen)
        partials = self.folder.take_apart(made.partials, chosen)
        keys = [column.take(indices) for column in made.keys]
        return PartialPanes(made.places[chosen], made.panes[chosen], keys, partials)


def _span(panes: Ints, lowest: int) -> int:
    return int(panes.max()) - lowest + 1 if len(panes) else 1


def _numbered(parts: Sequence[Ints | None], spans: list[int]) -> tuple[Codes, list[Ints]]:
    """The different combinations of some small numbers: which one each row has, and what they are.

    >>> _numbered([np.array([1, 0, 1]), None, np.array([2, 2, 2])], [2, 1, 3])
    (array([1, 0, 1]), [array([0, 1]), array([0, 0]), array([2, 2])])
    """
    size = spans[0] * spans[1] * spans[2]
    rows = len(next(part for part in parts if part is not None))
    if size >= 1 << 62:  # panes of times that are ages apart: number them anew
        assert parts[1] is not None
        different, middle = np.unique(parts[1], return_inverse=True)
        inverse, found = _numbered([parts[0], middle, parts[2]], [spans[0], rows, spans[2]])
        return inverse, [found[0], different[found[1]], found[2]]
    combined = np.zeros(rows, np.int64)
    for part, span in zip(parts, spans, strict=True):
        combined *= span
        if part is not None:
            combined += part
    if size <= _ROOM * rows:
        different = np.flatnonzero(np.bincount(combined, minlength=size))
        place = np.empty(size, np.int64)
        place[different] = np.arange(len(different))
        inverse = place[combined]
    else:
        different, inverse = np.unique(combined, return_inverse=True)
    rest, last = np.divmod(different, spans[2])
    first, middle = np.divmod(rest, spans[1])
    return inverse, [first, middle, last]
