"""Rows that are found by their keys, against a search through all of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from penstock.kernel.running.running_rows import KeyedRows, KeyIndex

CHANCE = np.random.default_rng(3)
SCHEMA = pa.schema([("v", pa.int64()), ("s", pa.string())])
CODES = {
    "close together": lambda size: CHANCE.integers(0, 40, size),
    "negative": lambda size: CHANCE.integers(-500, -400, size),
    "far apart": lambda size: CHANCE.choice(np.array([-(2**63), 2**63 - 1, 0, 5, 10**12]), size),
}


@pytest.mark.parametrize("size", [1, 5_000])
@pytest.mark.parametrize("kind", CODES)
def test_an_index_finds_all_rows_of_a_key(kind: str, size: int) -> None:
    codes = CODES[kind](size)
    index = KeyIndex(codes)
    asked = np.concatenate([CODES[each](30) for each in CODES])
    begin, counts = index.find(asked)
    for code, at, count in zip(asked.tolist(), begin.tolist(), counts.tolist(), strict=True):
        assert index.order[at : at + count].tolist() == np.flatnonzero(codes == code).tolist()


@pytest.mark.parametrize("takes_back", [False, True])
@pytest.mark.parametrize("asks", [False, True])
def test_rows_of_keys(takes_back: bool, asks: bool) -> None:
    kept = KeyedRows(SCHEMA, takes_back)
    there: Counter[tuple[int, int, str]] = Counter()
    for size in [1, 1, 1, 700, 2, 40_000, 3, 3, 40_000, 1]:
        codes = CHANCE.integers(0, 30, size)
        values = codes * 3 + CHANCE.integers(0, 3, size)  # the key of a row is one of its values
        signs = np.ones(size, np.int8)
        items = list(zip(codes.tolist(), values.tolist(), map(str, values), strict=True))
        if takes_back:  # what is there may go
            for place, item in enumerate(items):
                signs[place] = -1 if there[item] > 0 and place % 3 else 1
                there[item] += int(signs[place])
        else:
            there.update(items)
        rows = pa.record_batch([values, pa.array(map(str, values))], schema=SCHEMA)
        kept.add(rows, codes, signs)
        if asks:
            assert len(kept.runs) < 10
    for some in (np.array([7]), np.arange(0, 60, 2)):
        rows, codes = kept.of(some)
        found = zip(codes.tolist(), *(each.to_pylist() for each in rows.columns), strict=True)
        wanted = {item: n for item, n in there.items() if n and item[0] in some}
        assert Counter(found) == Counter(wanted)
