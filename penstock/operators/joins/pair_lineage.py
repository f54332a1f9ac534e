"""Where the tuples of an input come from, in a join whose pairs may be taken back."""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Ints
from penstock.operators.batch import Batch
from penstock.operators.signed.lineage import NONE, lineage_of, made_of, of_branch, widened
from penstock.plan.nodes.joins import Join
from penstock.plan.nodes.node import Node
from penstock.plan.properties.lineage import lineage_parts

_GIVEN, _OWN = 0, 1  # who has numbered a tuple


class InputLineage:
    """Plain tuples are numbered as they come: a pair is taken back because of its other tuple, and
    has to be known by both.  Signed items have a lineage, except plain tuples among them.

    Of an input, all have so many columns that a pair looks the same whenever it is made."""

    def __init__(self, node: Node) -> None:
        self._signed = node.signed
        self._width = 2 * lineage_parts(node)
        self.came = 0  # tuples that were numbered

    def of(self, batch: Batch) -> Ints:
        if not self._signed:
            return made_of(self._numbered(batch.num_rows))
        given = of_branch(widened(lineage_of(batch), self._width), _GIVEN, 2)
        plain = np.flatnonzero(given[:, 0] == NONE)
        if len(plain):
            own = widened(made_of(self._numbered(len(plain))), self._width)
            given[plain] = of_branch(own, _OWN, 2)
        return given

    def _numbered(self, size: int) -> Ints:
        first, self.came = self.came, self.came + size
        return np.arange(first, self.came)


def input_lineages(node: Join) -> tuple[InputLineage, ...]:
    """For each input; none if no pair is ever taken back."""
    return tuple(map(InputLineage, node.branches)) if node.signed else ()
