"""Buffers: items in order, a place for every reader, freed when the last has passed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.batch import Batch
from penstock.kernel.operator import Progress
from penstock.kernel.progress.group_bounds import GroupBounds
from penstock.local.graph.buffer import Buffer, Flowing, Reader


class Owner:
    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def rows(*values: int) -> Batch:
    return Batch(pa.record_batch({"s.v": pa.array(values, pa.int64())}))


def groups(*keys: str) -> GroupBounds:
    return GroupBounds(("s.k",), [pa.array(keys)], {"s.t": np.zeros(len(keys), np.int64)})


def values(item: Flowing) -> list[int]:
    assert isinstance(item, Batch)
    found: list[int] = item.rows.column(0).to_pylist()
    return found


def read(reader: Reader, most: int = 100) -> list[list[int] | float]:
    """Everything that waits: rows, or the bound that progress has on a column."""
    found: list[list[int] | float] = []
    while reader.waiting:
        item = reader.take(most)
        found.append(item.bounds["s.t"] if isinstance(item, Progress) else values(item))
    return found


def test_small_batches_are_joined_and_large_ones_cut() -> None:
    buffer = Buffer()
    reader = buffer.read_by(Owner())
    for item in (rows(1), rows(2, 3), rows(4, 5, 6, 7, 8)):
        buffer.put(item)
    assert read(reader, 4) == [[1, 2, 3], [4, 5, 6, 7], [8]]
    assert (buffer.rows, buffer.peak) == (0, 8)


def test_rows_and_progress_stay_in_order() -> None:
    buffer = Buffer()
    reader = buffer.read_by(Owner())
    for item in (rows(1), Progress({"s.t": 3}), Progress({"s.t": 5}), rows(2), rows(3)):
        buffer.put(item)
    assert read(reader) == [[1], 5, [2, 3]]


def test_promises_for_groups_are_not_lost() -> None:
    buffer = Buffer()
    reader = buffer.read_by(Owner())
    for item in (
        Progress({"s.t": 1}, groups=groups("a")),
        Progress({"s.t": 2}),
        Progress({"s.t": 3}, groups=groups("b")),
    ):
        buffer.put(item)
    found = [reader.take(1), reader.take(1)]
    told = [(each.bounds["s.t"], each.groups.keys[0].to_pylist()) for each in found]  # type: ignore[union-attr]
    assert told == [(2, ["a"]), (3, ["b"])]


def test_what_is_unlike_is_not_joined() -> None:
    buffer = Buffer()
    reader = buffer.read_by(Owner())
    buffer.put(rows(1))
    buffer.put(rows(2).breaking("s.v", np.array([5]), np.array([True])))
    assert read(reader) == [[1], [2]]


def test_readers_have_places_of_their_own() -> None:
    buffer = Buffer()
    first, second = buffer.read_by(Owner()), buffer.read_by(Owner(), {"s.v": "r.v"})
    buffer.put(rows(1, 2))
    assert read(first) == [[1, 2]]
    assert buffer.rows == 2  # the other has not passed them
    late = buffer.read_by(Owner())
    buffer.put(rows(3))
    item = second.take(10)
    assert isinstance(item, Batch)
    assert item.rows.schema.names == ["r.v"]
    assert values(item) == [1, 2, 3]
    assert read(late) == [[3]]  # it came later
    assert read(first) == [[3]]
    assert buffer.rows == 0


def test_some_readers_have_handled_a_batch_already() -> None:
    buffer = Buffer()
    one, other = buffer.read_by(Owner()), buffer.read_by(Owner())
    buffer.put(rows(1))
    assert read(one) == [[1]]
    buffer.put(rows(2), readers=[other])  # which could not take it at once
    assert (one.waiting, other.waiting, buffer.rows) == (0, 2, 2)
    buffer.put(rows(3))
    assert (read(one), read(other)) == ([[3]], [[1, 2, 3]])
    assert buffer.rows == 0


def test_a_reader_that_leaves_frees_what_waited_for_it() -> None:
    buffer = Buffer()
    first, second = buffer.read_by(Owner()), buffer.read_by(Owner())
    buffer.put(rows(1, 2))
    read(first)
    second.leave()
    assert buffer.rows == 0
    assert not buffer.waits


def test_nothing_is_kept_for_nobody() -> None:
    buffer = Buffer()
    buffer.put(rows(1))
    assert (buffer.rows, buffer.waits) == (0, False)


def test_those_of_a_fork_take_turns() -> None:
    buffer = Buffer()
    readers = [buffer.read_by(Owner()) for _ in range(3)]
    buffer.put(rows(1, 2))
    turns = []
    while (reader := buffer.turn()) is not None:
        turns.append(readers.index(reader))
        reader.take(1)
    assert turns == [0, 1, 2, 0, 1, 2]


@given(st.lists(st.integers(0, 5), max_size=12), st.lists(st.integers(1, 7), min_size=1), st.data())
def test_every_reader_gets_everything(
    sizes: list[int], mosts: list[int], data: st.DataObject
) -> None:
    buffer, given_rows = Buffer(), 0
    readers = [buffer.read_by(Owner()) for _ in range(3)]
    found: list[list[int]] = [[], [], []]
    for size in sizes:
        buffer.put(rows(*range(given_rows, given_rows + size)))
        given_rows += size
        which = data.draw(st.integers(0, 2))
        if readers[which].waiting:
            found[which] += values(readers[which].take(mosts[size % len(mosts)]))
    for which, reader in enumerate(readers):
        while reader.waiting:
            assert reader.rows == given_rows - len(found[which])
            found[which] += values(reader.take(3))
    assert found == [list(range(given_rows))] * 3
    assert buffer.rows == 0
