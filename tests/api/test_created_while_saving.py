"""A query that is created while a live engine saves another one keeps a number of its own."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import penstock as ps
from penstock.kernel.state import Tree
from penstock.local.checkpoint import LIVE, Checkpoints
from tests.waiting import join, wait_for

STREAM = "CREATE STREAM s (v INT) FROM VALUES (1), (2) PROGRESS ON v ORDERED"


def names(live: ps.Live) -> list[str]:
    return [each.name for each in live.status()]


def test_no_query_takes_the_place_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    with ps.connect().live(checkpoint=kept) as live:
        live.sql(STREAM)
        beside = threading.Thread(target=live.sql, args=["CREATE QUERY b AS SELECT v FROM s"])
        put = Checkpoints.put

        def slowly(self: Checkpoints, key: str, chunk: Tree) -> None:
            put(self, key, chunk)
            if key == LIVE and beside.ident is None:
                beside.start()
                store = live._engine.kept
                assert store is not None
                wait_for(lambda: store.next_number > chunk["next"])

        monkeypatch.setattr(Checkpoints, "put", slowly)
        live.sql("CREATE QUERY a AS SELECT v FROM s")
        join(beside)
        assert names(live) == ["a", "b"]
    with ps.connect().live(checkpoint=kept) as live:
        live.sql("CREATE QUERY c AS SELECT v FROM s")
    with ps.connect().live(checkpoint=kept) as live:
        assert names(live) == ["a", "b", "c"]
