"""A whole run that ends and goes on from its checkpoint: nothing is lost, nothing comes twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import CheckpointError, RunError
from penstock.kernel.state import ChunkStore, MemoryStore
from penstock.local.checkpoint import Checkpoints
from penstock.plan.nodes.node import Scan
from penstock.runs.collected_answer import final_rows
from tests.local.resumed import Part, run_in_parts
from tests.queries import NAMES, assert_late, bound, expected, is_strict, lines


def check(name: str, cut: int | None, chunks: int, store: Callable[[], ChunkStore]) -> None:
    query = bound(name, cut)
    found = run_in_parts(query.plan, chunks, store, strict=is_strict(name))
    read = [node.stream for node in query.plan.walk() if isinstance(node, Scan)]
    few = all(each.answer is not None for each in read) and found.rows.num_rows <= chunks
    assert found.parts > 1 or few
    table = final_rows(found.rows, "_sign") if query.plan.revises else found.rows
    assert lines(table) == expected(name)
    assert_late(name, found.late)


@pytest.mark.parametrize(("cut", "chunks"), [(1, 3), (None, 1)])
@pytest.mark.parametrize("name", NAMES)
def test_rows_before_and_after(name: str, cut: int | None, chunks: int) -> None:
    kept = MemoryStore()
    check(name, cut, chunks, lambda: kept)


@pytest.mark.parametrize("name", NAMES)
def test_rows_before_and_after_on_disk(name: str, tmp_path: Path) -> None:
    opened: list[Checkpoints] = []

    def store() -> Checkpoints:
        if opened:
            opened[-1].commit()
            opened[-1].close()
        opened.append(Checkpoints(tmp_path))
        return opened[-1]

    check(name, 7, 1, store)
    opened[-1].close()


def test_other_queries_are_refused() -> None:
    one, other = (bound(name, 1).plan for name in ("distinct", "landmark"))
    store = MemoryStore()
    assert Part(one, store).go_on(1)
    with pytest.raises(CheckpointError, match="belongs to another query"):
        Part(other, store)


def test_a_missing_chunk_is_an_error() -> None:
    query = bound("landmark", 1).plan
    store = MemoryStore()
    assert Part(query, store).go_on(2)
    store.drop(next(name for name in store.names() if name.startswith("sources/s/run")))
    with pytest.raises(RunError, match="a piece of saved state is missing"):
        Part(query, store)
