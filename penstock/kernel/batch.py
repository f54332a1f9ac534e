"""Batches, the items that travel between operators: rows with optional signs, broken bounds, places
and lineage; and taking rows of a record batch by their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PlanError
from penstock.expressions.columns import arrow
from penstock.model.arrays import Ints, Mask
from penstock.model.punctuation import SIGN
from penstock.model.values import RowForm, Values

# Rows by their numbers.  Columns that are all NULL, such as unseen columns of joins, are not
# copied.

_TAKE = arrow("take", pc.TakeOptions(boundscheck=False))


def taken_columns(
    batch: pa.RecordBatch, numbers: Ints, which: Sequence[int] | None = None
) -> list[pa.Array]:
    """Take rows of some columns, or of all.

    >>> import numpy as np
    >>> batch = pa.record_batch({"n": [1, 2, None], "s": pa.nulls(3, pa.string())})
    >>> [column.to_pylist() for column in taken_columns(batch, np.array([2, 0]))]
    [[None, 1], [None, None]]
    """
    indices = pa.array(numbers)
    columns = batch.columns if which is None else [batch.column(place) for place in which]
    return [
        pa.nulls(len(numbers), column.type)
        if column.null_count == len(column)
        else _TAKE(column, indices)
        for column in columns
    ]


def taken_rows(batch: pa.RecordBatch, numbers: Ints) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(taken_columns(batch, numbers), schema=batch.schema)


# The batch: rows and, where present, a sign for each row, the bounds that rows broke, and where
# rows come from.

Signs: TypeAlias = npt.NDArray[np.int8]
Broken: TypeAlias = Mapping[str, pa.Array]
_NEW = object.__new__


@dataclass(slots=True)  # to be frozen would cost every tuple that comes alone some microseconds
class Batch:
    """Rows of a stream with optional columns of the engine: signs, broken bounds, places, numbers
    and lineage.

    `signs` are +1 for insertions and -1 for retractions; without signs, all rows are insertions.
    `broken` has, for progressing columns, the bound that held before each row which broke its
    source's promise, in ticks, NULL for all other rows; if it has one progressing column of its
    input, it has all.  `places` are the sub-sources of rows, `numbers` count the rows before each
    of them, `lineage` has the numbers of the rows that each row was made of: for signed items,
    those that tell which item is retracted (see `kernel/retractions/lineage.py`).

    A single tuple without any of these may have a `form`: it is then available as plain values,
    too, and the plain values or the columns are computed from the other when first used.

    >>> batch = Batch(pa.record_batch({"v": [5, 6, 7]}), signs=np.array([1, -1, 1], np.int8))
    >>> some = batch.take(np.array([2, 1]))
    >>> some.rows.to_pydict(), some.signs
    ({'v': [7, 6]}, array([ 1, -1], dtype=int8))
    """

    rows: pa.RecordBatch
    signs: Signs | None = None
    broken: Broken | None = None
    places: Ints | None = None
    numbers: Ints | None = None
    lineage: Ints | None = None
    form: RowForm | None = field(default=None, init=False, repr=False, compare=False)
    _values: Values | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if (
            self.signs is None
            and self.broken is None
            and self.places is None
            and self.numbers is None
            and self.lineage is None
        ):
            return
        beside = (self.signs, self.places, self.numbers, self.lineage)
        for each in (*beside, *(self.broken or {}).values()):
            if each is not None and len(each) != self.rows.num_rows:
                raise PlanError(f"{len(each)} values beside {self.rows.num_rows} rows")

    @staticmethod
    def single(values: Values, form: RowForm) -> Batch:
        """Make a batch of a single tuple, of which there are no columns yet."""
        made: Batch = _NEW(Batch)
        made.signs = made.broken = made.places = made.numbers = made.lineage = None
        made.form, made._values = form, values
        return made

    if not TYPE_CHECKING:  # it is asked for what is missing, and nothing else ever is

        def __getattr__(self, name: str) -> pa.RecordBatch:
            if name != "rows":
                raise AttributeError(name)
            made = self.rows = self.form.record(self._values)
            return made

    @property
    def values(self) -> Values:
        """Plain values of a single tuple that has a form."""
        found = self._values
        if found is None:
            assert self.form is not None
            found = self._values = self.form.values(self.rows)
        return found

    @property
    def num_rows(self) -> int:
        return 1 if self.form is not None else int(self.rows.num_rows)

    @property
    def is_plain(self) -> bool:
        """Whether the batch has rows only: no signs, broken bounds, places, numbers or lineage."""
        return (
            self.signs is None
            and self.broken is None
            and self.places is None
            and self.numbers is None
            and self.lineage is None
        )

    def with_rows(self, rows: pa.RecordBatch) -> Batch:
        """Other columns for the same rows."""
        return Batch(rows) if self.is_plain else replace(self, rows=rows)

    def filter(self, mask: pa.BooleanArray) -> Batch:
        rows = self.rows.filter(mask)
        return Batch(rows) if self.is_plain else self._select(rows, np.asarray(mask))

    def take(self, places: Ints) -> Batch:
        rows = self.rows.take(pa.array(places))
        return Batch(rows) if self.is_plain else self._select(rows, places)

    def slice(self, begin: int, rows: int | None = None) -> Batch:
        """Neighbouring rows, without copying."""
        some = self.rows.slice(begin, rows)
        if self.is_plain:
            return Batch(some)
        which = np.s_[begin : begin + some.num_rows]
        broken = self.broken
        if broken is not None:
            broken = {name: each.slice(begin, some.num_rows) for name, each in broken.items()}
        return Batch(
            some,
            None if self.signs is None else self.signs[which],
            broken,
            None if self.places is None else self.places[which],
            None if self.numbers is None else self.numbers[which],
            None if self.lineage is None else self.lineage[which],
        )

    def is_like(self, other: Batch) -> bool:
        """Whether both batches have the same optional columns, so that they can be joined."""
        return (
            (self.signs is None) is (other.signs is None)
            and (self.broken or {}).keys() == (other.broken or {}).keys()
            and (self.places is None) is (other.places is None)
            and (self.numbers is None) is (other.numbers is None)
            and (self.lineage is None) is (other.lineage is None)
        )

    def _select(self, rows: pa.RecordBatch, which: Ints | Mask) -> Batch:
        broken = None
        if self.broken is not None:
            taken = pa.array(np.flatnonzero(which) if which.dtype == np.bool_ else which)
            broken = {name: bounds.take(taken) for name, bounds in self.broken.items()}
        return Batch(
            rows,
            None if self.signs is None else self.signs[which],
            broken,
            None if self.places is None else self.places[which],
            None if self.numbers is None else self.numbers[which],
            None if self.lineage is None else self.lineage[which],
        )

    @staticmethod
    def joined(several: Sequence[Batch]) -> Batch:
        """Concatenate batches; an optional column that one of them has, all of them have."""
        first, *others = several
        if not others:
            return first
        rows = pa.concat_batches([each.rows for each in several])
        if first.is_plain:
            return Batch(rows)
        broken = None
        if first.broken is not None:
            columns = {
                name: [(each.broken or {})[name] for each in several] for name in first.broken
            }
            broken = {name: pa.concat_arrays(each) for name, each in columns.items()}

        def beside(of: Callable[[Batch], npt.NDArray[Any] | None]) -> npt.NDArray[Any] | None:
            found = [each for each in map(of, several) if each is not None]
            return np.concatenate(found) if found else None

        return Batch(
            rows,
            beside(lambda each: each.signs),
            broken,
            beside(lambda each: each.places),
            beside(lambda each: each.numbers),
            beside(lambda each: each.lineage),
        )

    def renamed(self, names: Mapping[str, str]) -> Batch:
        """Rename the columns; every column has an entry in `names`."""
        if self.form is not None:
            return Batch.single(self.values, self.form.renamed(names))
        rows = self.rows.rename_columns([names[name] for name in self.rows.schema.names])
        if self.broken is None:
            return self.with_rows(rows)
        broken = {names[name]: bounds for name, bounds in self.broken.items() if name in names}
        return replace(self, rows=rows, broken=broken)

    def breaking(self, name: str, bounds: Ints, broken: Mask) -> Batch:
        """Add the bounds on a column that some rows broke."""
        column = pa.array(bounds, mask=~broken)
        return replace(self, broken={**(self.broken or {}), name: column})

    def without_broken(self) -> Batch:
        return self if self.broken is None else replace(self, broken=None)

    def positive(self) -> Batch:
        """Keep the insertions only, as if nothing were ever retracted."""
        if self.signs is None:
            return self
        return replace(self.take(np.flatnonzero(self.signs > 0)), signs=None)


def signed_record(batch: Batch, always: bool = False) -> pa.RecordBatch:
    """Append the signs to the rows as a last column, for consumers of record batches; if `always`,
    also where all rows are insertions."""
    if batch.signs is None and not always:
        return batch.rows
    signs = np.ones(batch.num_rows, np.int8) if batch.signs is None else batch.signs
    return batch.rows.append_column(SIGN, pa.array(signs, pa.int8()))


def from_signed_record(record: pa.RecordBatch) -> Batch:
    """Inverse of `signed_record`: split the last column off as signs, if it holds signs."""
    if SIGN not in record.schema.names:
        return Batch(record)
    signs = np.asarray(record.column(SIGN), np.int8)
    return Batch(record.drop_columns([SIGN]), signs)
