"""How many bytes the arrays of an operator's state take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernel.windows.buffering import Buffering
from penstock.kernel.windows.paned import Paned


def state_bytes(operator: Paned | Buffering) -> int:
    """Tuples, panes and contents of windows; group keys are left out, which all algorithms keep."""
    if isinstance(operator, Buffering):
        return _bytes([operator.buffer, operator._sliding], set())
    panes = [operator.panes, operator.contents, operator.stragglers]
    return _bytes([*panes, operator.waiting.batches], set())


def _bytes(kept: Any, seen: set[int]) -> int:
    """Of all arrays that can be reached, each counted once."""
    if id(kept) in seen or isinstance(kept, str | int | float | type(None)):
        return 0
    seen.add(id(kept))
    match kept:
        case np.ndarray() | pa.Array() | pa.RecordBatch():
            return int(kept.nbytes)
        case list() | tuple():
            return sum(_bytes(each, seen) for each in kept)
        case dict():
            return sum(_bytes(each, seen) for each in kept.values())
    names = getattr(kept, "__dict__", None) or getattr(kept, "__slots__", ())
    return sum(_bytes(getattr(kept, name), seen) for name in names if name != "_folder")
