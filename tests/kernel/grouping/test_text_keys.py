"""The table of texts against a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.grouping import keys
from penstock.kernel.grouping.key_codes import TextKeys
from penstock.kernel.grouping.keys import ValueCodes
from penstock.model.types import STRING

TEXTS = st.text("ab\0é", max_size=12) | st.integers(0, 3000).map(str)


@given(st.lists(st.lists(TEXTS, max_size=30), max_size=5), st.lists(TEXTS, max_size=30))
def test_as_a_dictionary(batches: list[list[str]], asked: list[str]) -> None:
    table, known = TextKeys(), dict[str, int]()
    for batch in batches:
        new = [text for text in dict.fromkeys(batch) if text not in known]
        first = len(known) + 1  # there may be codes that are not in the table
        known |= {text: first + place for place, text in enumerate(new)}
        assert table.add(pa.array(new, pa.string()), first + np.arange(len(new)))
        found = table.find(pa.array(["x", *asked], pa.string()).slice(1))
        if found is not None:  # otherwise two have one hash, which happens with zero bytes
            assert found.tolist() == [known.get(text, -1) for text in asked]


def test_many_texts_stay_where_they_are_when_the_table_grows() -> None:
    table, texts = TextKeys(), [f"device-{number}" for number in range(20_000)]
    for begin in range(0, 20_000, 3_000):
        some = texts[begin : begin + 3_000]
        assert table.add(pa.array(some), begin + np.arange(len(some)))
    assert table.find(pa.array(["", *texts])).tolist() == [-1, *range(20_000)]  # type: ignore[union-attr]


def test_texts_that_are_too_long_are_left_to_others() -> None:
    table = TextKeys()
    assert not table.add(pa.array(["x" * 65]), np.array([0]))
    assert table.find(pa.array(["x" * 65])) is None


def test_texts_that_share_a_hash_are_left_to_others() -> None:
    table = TextKeys()
    one, other = "\0" * 8 + "abcdefgh", "abcdefgh" + "\0" * 8
    assert table.add(pa.array([one]), np.array([0]))
    assert table.find(pa.array([other])) is None
    assert table.find(pa.array([one])).tolist() == [0]  # type: ignore[union-attr]


def test_columns_have_the_same_codes_with_many_texts_and_with_few() -> None:
    random = np.random.default_rng(1)
    many, few = ValueCodes(STRING), ValueCodes(STRING)
    few._texts = None
    for size in (keys._MANY_TEXTS + 1, 500, 3_000, 40, 3_000):
        texts = pa.array([f"t{number}" for number in random.integers(0, 5_000, size)])
        if size == 500:
            texts = pa.concat_arrays([texts, pa.array([None, ""], pa.string())])
        if size == 40:
            texts = pa.array(["y" * 100] * 40)
        assert many.encode(texts).tolist() == few.encode(texts).tolist()
    assert many._texts is None  # since one was too long
