"""string_agg and histogram: all values of a group, in their order."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.sizes import check_values, sizes_of
from penstock.model.plain_values import to_python
from penstock.model.texts import frequencies_json
from penstock.model.types import STRING, Type
from penstock.model.value_limits import check_size
from penstock.operators.aggregates.frequencies.counted import OfFrequencies
from penstock.operators.aggregates.frequencies.frequencies import Frequencies
from penstock.operators.aggregates.sortable import from_sortable


class ListedTexts(OfFrequencies):
    """string_agg: the texts from the least to the greatest, with a separator between them."""

    def __init__(self, separator: str) -> None:
        super().__init__(STRING)
        self.separator = separator

    def compute(self, found: Frequencies, size: int) -> pa.Array:
        starts = found.starts(size)
        upto = np.concatenate([[0], np.cumsum(found.counts)])[starts]
        ranks = np.repeat(found.ranks, found.counts)
        texts = from_sortable(found.values, STRING).take(pa.array(ranks))
        lists = pa.LargeListArray.from_arrays(pa.array(upto, pa.int64()), texts.cast(pa.string()))
        lengths = np.concatenate([[0], np.cumsum(sizes_of(texts.cast(pa.string())))])
        counts = np.diff(upto)
        sizes = lengths[upto[1:]] - lengths[upto[:-1]] + counts * len(self.separator.encode())
        check_size(int(sizes.max(initial=0)))
        joined = pc.binary_join(lists, self.separator)
        return pc.if_else(pa.array(np.diff(starts) > 0), joined, pa.scalar(None, pa.string()))


class Histogram(OfFrequencies):
    """histogram: every value with its count, by value, as JSON."""

    def __init__(self, argument: Type) -> None:
        super().__init__(argument)

    def compute(self, found: Frequencies, size: int) -> pa.Array:
        column = from_sortable(found.values, self.argument).take(pa.array(found.ranks))
        pairs = list(zip(to_python(column, self.argument), found.counts.tolist(), strict=True))
        texts = [
            frequencies_json(pairs[begin:end], self.argument) if begin < end else None
            for begin, end in pairwise(found.starts(size).tolist())
        ]
        return check_values(pa.array(texts, pa.string()))
