"""What an operator holds: tuples, bytes of state, and results that have not been given out."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
import pyarrow as pa

_LONG = 64
_PLAIN = (str, int, float, bytes)
_ARRAYS = (np.ndarray, pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table)


@dataclass(frozen=True, slots=True)
class Metrics:
    """`rows` are tuples that are kept as they came, `open` the windows or groups that have been
    begun and not been given out; `counters` what else an operator counts, by name."""

    rows: int = 0
    bytes: int = 0
    open: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)


def bytes_of(state: Any) -> int:
    """The arrays and tables that an operator holds, wherever they are in it.  Objects of a few
    bytes are not counted, and what belongs to its configuration (plans, types) neither.

    >>> bytes_of(np.zeros(3)), bytes_of([np.zeros(1000)]) >= 8000
    (24, True)
    """
    seen: set[int] = set()
    found, waiting = 0, [state]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or each is None or isinstance(each, _PLAIN):
            continue
        seen.add(id(each))
        if isinstance(each, _ARRAYS):
            found += each.nbytes
        elif isinstance(each, dict):
            found += sys.getsizeof(each)
            waiting += _holding_arrays(each.values())
        elif isinstance(each, list | tuple | set | frozenset):
            found += sys.getsizeof(each)
            waiting += _holding_arrays(each)
        else:
            waiting += _parts(each)
    return found


def _holding_arrays(several: Collection[Any]) -> Collection[Any]:
    """Nothing of containers of plain values, which may be very long."""
    plain = len(several) > _LONG and isinstance(next(iter(several)), _PLAIN)
    return () if plain else several


def _parts(each: Any) -> list[Any]:
    module = type(each).__module__
    if not module.startswith(("penstock.operators", "penstock.state", "collections")):
        return []
    if is_dataclass(each):
        return [getattr(each, part.name) for part in fields(each)]
    if isinstance(each, type) or callable(each):
        return []
    slots = [name for kind in type(each).__mro__ for name in getattr(kind, "__slots__", ())]
    own = [getattr(each, name) for name in slots if hasattr(each, name)]
    own += getattr(each, "__dict__", {}).values()
    return own + (list(each) if module.startswith("collections") else [])
