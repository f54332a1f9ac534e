"""Partial results in blocks of groups, of which a save writes those that have changed."""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Codes
from penstock.model.first_rows import different
from penstock.operators.folding.folder import Folder, Partials
from penstock.state.chunks import ChunkStore

_BLOCK = 4096  # groups that are saved together


class BlockWriter:
    def __init__(self, folder: Folder, name: str) -> None:
        self._folder = folder
        self.name = name
        self._touched: set[int] = set()
        self._blocks = 0  # how many the store has

    def touch(self, codes: Codes) -> None:
        self._touched.update(different(codes // _BLOCK).tolist())

    def write_all(self) -> None:
        """All groups have other numbers now."""
        self._touched = set(range(self._needed))

    @property
    def _needed(self) -> int:
        return -(-len(self._folder.keys) // _BLOCK)

    def save(self, store: ChunkStore, partials: Partials) -> None:
        self._folder.grow(partials)
        size = len(self._folder.keys)
        for block in sorted(each for each in self._touched if each < self._needed):
            codes = np.arange(block * _BLOCK, min(size, (block + 1) * _BLOCK))
            codes = codes[partials.rows.rows[codes] > 0]
            store.put(
                f"{self.name}/{block}",
                self._folder.save(self._folder.take_apart(partials, codes), codes),
            )
        for block in range(self._needed, self._blocks):
            store.drop(f"{self.name}/{block}")
        self._blocks = self._needed
        self._touched.clear()

    def load(self, store: ChunkStore) -> Partials:
        """Of all groups, whose keys are known by now."""
        self._blocks = self._needed
        partials = self._folder.new()
        for block in range(self._blocks):
            saved = store.get(f"{self.name}/{block}")
            if saved is not None:
                self._folder.merge(partials, self._folder.load(saved))
        return partials
