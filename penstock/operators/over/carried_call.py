"""What can be carried from row to row of a partition, so that its rows need not be kept."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from penstock.model.arrays import Codes
from penstock.operators.over.frame_bounds import RowsInPartitions
from penstock.state.chunks import Tree


class CarriedCall(ABC):
    """A call whose frame begins with the partition and ends with the row."""

    @abstractmethod
    def of(self, given: RowsInPartitions, size: int) -> pa.Array:
        """The values for new rows, which are all that have come since; there are partitions with
        codes below `size`."""

    @abstractmethod
    def save(self, codes: Codes) -> Tree:
        """What is carried for some partitions."""

    @abstractmethod
    def load(self, saved: Tree, codes: Codes, size: int) -> None: ...
