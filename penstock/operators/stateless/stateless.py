"""What operators without state answer to questions about it."""

from __future__ import annotations

from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.operators.operator import Base
from penstock.state.chunks import ChunkStore


class Stateless(Base):
    """Nothing is kept from tuple to tuple."""

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    def save(self, store: ChunkStore) -> None:
        pass

    def load(self, store: ChunkStore) -> None:
        pass
