"""Which sub-source a row is of, and what sub-sources are called: everybody else has numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes
from penstock.model.plain_values import to_python
from penstock.model.texts import to_json
from penstock.model.types import STRING
from penstock.operators.batch import Batch
from penstock.operators.folding.keys import KeyCodes
from penstock.plan.streams import StreamDefinition, StreamProgress
from penstock.state.chunks import ChunkStore

_NAMED = 100  # sub-sources in one answer
_SPARSE = 64  # sub-sources for each row, below which it is cheaper to look at all of them


class SubSourceNames:
    """Sub-sources, numbered as they appear: by the values of PER, by file, or one with no name."""

    def __init__(self, progress: StreamProgress | None) -> None:
        self._per = progress.per if progress is not None else None
        self._type = self._per.type if self._per is not None else STRING
        self._keys = KeyCodes([self._type])

    def __len__(self) -> int:
        return len(self._keys)

    def numbers(self, names: pa.Array) -> Codes:
        return self._keys.encode([names], len(names))

    def of_files(self, names: list[str]) -> Codes:
        return self.numbers(pa.array(names, pa.string()))

    def names(self, codes: Codes) -> pa.Array:
        return self._keys.take(codes)[0]

    def some_texts(self, codes: Codes) -> tuple[list[str], int]:
        """For whoever wants to know whom the others wait for: some, and how many there are more."""
        named = codes[:_NAMED]
        found = to_python(self.names(named), self._type)
        if self._per is None:
            texts = [name for name in found if name]
        else:
            texts = [to_json(value, self._type) for value in found]
        return texts, len(codes) - len(named)

    def save(self, store: ChunkStore) -> None:
        self._keys.save(store)

    def load(self, store: ChunkStore) -> None:
        """In place of those that there are."""
        self._keys = self._keys.empty()
        self._keys.load(store)


class SubSources(SubSourceNames):
    """The sub-sources of the rows of one scan, or of several that follow each other."""

    def __init__(self, stream: StreamDefinition, progress: StreamProgress) -> None:
        super().__init__(progress)
        self._expression = (
            compile_expression(progress.per, stream.schema) if progress.per is not None else None
        )
        self._per_file = progress.per_file
        self._part: tuple[str, int] | None = None  # the one that was asked for last

    def of_single(self, batch: Batch, part: str) -> int:
        """That of a tuple alone, of which columns are made only if they tell it."""
        if self._expression is None:
            return self._of_part(part if self._per_file else "")
        return int(self.numbers(self._expression(batch.rows))[0])

    def of(self, batch: pa.RecordBatch, part: str) -> Codes | int:
        """That of each row, or the one of all."""
        if self._expression is None:
            return self._of_part(part if self._per_file else "")
        codes = self.numbers(self._expression(batch))
        return int(codes[0]) if len(codes) == 1 else codes

    def _of_part(self, part: str) -> int:
        if self._part is None or self._part[0] != part:
            self._part = (part, int(self.of_files([part])[0]))
        return self._part[1]

    def load(self, store: ChunkStore) -> None:
        super().load(store)
        self._part = None


def distinct(codes: Codes | int) -> Codes:
    """Each sub-source once, in order."""
    if isinstance(codes, int):
        return np.array([codes])
    highest = int(codes.max(initial=0))
    if len(codes) * _SPARSE < highest:
        return np.unique(codes)
    found = np.zeros(highest + 1, np.bool_)
    found[codes] = True
    return np.flatnonzero(found)
