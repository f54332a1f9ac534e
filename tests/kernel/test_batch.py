"""Batches: what is beside the rows goes where they go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PlanError
from penstock.kernel.batch import Batch, from_signed_record, signed_record
from penstock.model.punctuation import SIGN
from penstock.model.types import BIGINT, STRING, Field, Schema
from penstock.model.values import RowForm

WHOLE = Batch(
    pa.record_batch({"x": [10, 11, 12, 13]}),
    np.array([1, -1, 1, 1], np.int8),
    {"x": pa.array([None, 5, None, 7], pa.int64())},
    np.arange(4),
    np.arange(4) + 100,
    np.arange(4) + 200,
)


def beside(batch: Batch) -> list[list[object]]:
    assert batch.signs is not None
    assert batch.broken is not None
    assert batch.places is not None
    assert batch.numbers is not None
    assert batch.lineage is not None
    arrays = [batch.signs, batch.places, batch.numbers, batch.lineage]
    columns = [batch.rows.column(0).to_pylist(), batch.broken["x"].to_pylist()]
    return [*columns, *(each.tolist() for each in arrays)]


@given(st.lists(st.integers(0, 3)))
def test_rows_are_taken_with_all_that_is_beside_them(places: list[int]) -> None:
    taken = WHOLE.take(np.array(places, np.int64))
    assert beside(taken) == [[column[place] for place in places] for column in beside(WHOLE)]


@given(st.lists(st.booleans(), min_size=4, max_size=4))
def test_a_filter_takes_the_rows_that_pass(passes: list[bool]) -> None:
    places = np.flatnonzero(passes)
    assert beside(WHOLE.filter(pa.array(passes))) == beside(WHOLE.take(places))


def test_other_names_are_other_names_of_bounds() -> None:
    renamed = WHOLE.renamed({"x": "y"})
    assert renamed.rows.schema.names == ["y"]
    assert renamed.broken is not None
    assert list(renamed.broken) == ["y"]


def test_a_bound_is_found_beside_signs() -> None:
    """Where bounds are recognised by the last column, a sign behind them hides them."""
    batch = Batch(pa.record_batch({"x": [1, 2]}), np.array([1, -1], np.int8))
    marked = batch.breaking("x", np.array([0, 9]), np.array([False, True]))
    assert marked.broken is not None
    assert marked.broken["x"].to_pylist() == [None, 9]
    assert marked.signs is not None
    assert marked.without_broken().broken is None


def test_what_is_given_without_what_is_taken_back() -> None:
    left = WHOLE.positive()
    assert left.rows.to_pydict() == {"x": [10, 12, 13]}
    assert left.signs is None
    assert Batch(WHOLE.rows).positive().num_rows == 4


@pytest.mark.parametrize("signs", [None, np.array([1, -1], np.int8)])
def test_record_batches_with_signs(signs: np.ndarray | None) -> None:
    batch = Batch(pa.record_batch({"x": [1, 2]}), signs)
    record = signed_record(batch)
    assert (SIGN in record.schema.names) == (signs is not None)
    again = from_signed_record(record)
    assert again.rows == batch.rows
    assert (again.signs is None) == (signs is None)


def test_every_row_has_its_own() -> None:
    with pytest.raises(PlanError, match="1 values beside 2 rows"):
        Batch(pa.record_batch({"x": [1, 2]}), np.array([1], np.int8))


FORM = RowForm(Schema((Field("x", BIGINT), Field("y", STRING))))


def test_a_tuple_alone_becomes_a_row_for_whoever_asks() -> None:
    single = Batch.single((7, "a"), FORM)
    assert (single.num_rows, single.is_plain) == (1, True)
    expected = pa.record_batch({"x": pa.array([7]), "y": pa.array(["a"])})
    assert single.rows == expected
    assert single.rows is single.rows
    assert single == Batch(expected)


def test_a_row_alone_becomes_plain_values_for_whoever_asks() -> None:
    batch = Batch(pa.record_batch({"x": pa.array([7]), "y": pa.array([None], pa.string())}))
    batch.form = FORM
    assert batch.values == (7, None)


def test_a_tuple_with_something_beside_it_is_a_batch_like_all_others() -> None:
    signed = replace(Batch.single((7, "a"), FORM), signs=np.array([-1], np.int8))
    assert signed.form is None
    assert signed.rows.to_pylist() == [{"x": 7, "y": "a"}]


def test_a_tuple_alone_under_other_names() -> None:
    renamed = Batch.single((7, "a"), FORM).renamed({"x": "p", "y": "q"})
    assert renamed.form is not None
    assert renamed.rows.to_pylist() == [{"p": 7, "q": "a"}]


def test_a_batch_has_nothing_that_it_has_not() -> None:
    with pytest.raises(AttributeError):
        _ = Batch.single((7, "a"), FORM).columns  # type: ignore[attr-defined]
