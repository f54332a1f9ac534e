"""Queries that share panes on a live engine with a checkpoint come, go and are there again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.durable_files import read_json, write_json
from penstock.kernel.windows import pane_parts, shared_panes
from penstock.local.checkpoint import Checkpoints
from tests.local.live.scripted import speak
from tests.local.live.told import Told
from tests.waiting import wait_for

OUT = {"n": "BIGINT", "k": "STRING", "x": "BIGINT", "t": "BIGINT"}
WINDOWS = ((4, 2), (6, 6), (9, 3), (5, 1))
FILTERS = ("x >= 2", "x < 3", "k = 'a'", "x <> 1", "x BETWEEN 1 AND 3", "x > 7")
CALLS = ("sum(x)", "max(x)", "median(x)", "first(n)", "count(*)")
ASKED = st.builds(
    lambda window, where, call: (
        f"SELECT k, window_end AS e, count(*) AS c, {call} AS m [RANGE {window[0]},"
        f" SLIDE {window[1]}, WA t] FROM s WHERE TRUE AND {where} GROUP BY k LATE SIDE"
    ),
    st.sampled_from(WINDOWS),
    st.sampled_from(FILTERS),
    st.sampled_from(CALLS),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.lists(st.integers(0, 11), min_size=1, max_size=5)),
        st.tuples(st.just("add"), ASKED),
        st.tuples(st.just("add"), ASKED),
        st.tuples(st.just("drop"), st.integers(0, 9)),
        st.tuples(st.just("again"), st.none()),
        st.tuples(st.just("save"), st.none()),
    ),
    min_size=6,
    max_size=16,
)


class Story:
    """Engines on one checkpoint, one after the other; `came` says with which row queries begin."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[dict[str, object]] = []
        self.came: dict[str, tuple[str, int]] = {}
        self.created = 0
        self.begin()

    def begin(self) -> None:
        db = ps.connect(base=self.folder)
        self.source = Told()
        db.stream("s", [], schema=OUT, progress=ps.progress("t", delay=2))
        speak(db, "s", self.source)
        self.live = db.live(checkpoint=self.folder / "kept")
        if not self.created:
            self.add("SELECT n FROM s")  # somebody listens all the time
        self.seen: list[pa.RecordBatch] = []
        self.live.subscribe("q0", self.seen.append)
        self.told = 0

    def again(self, _: object = None) -> None:
        self.live.stop()
        self.begin()

    def save(self, _: object = None) -> None:
        self.live._engine.save()

    def say(self, numbers: list[int]) -> None:
        for each in numbers:
            n = len(self.rows)
            row = {"n": n, "k": "ab"[each % 2], "x": each % 5, "t": max(0, n - each)}
            self.rows.append(row)
        self.source.said.put(list(self.rows[-len(numbers) :]))
        self.told += len(numbers)
        # not by asking for the status: for that, panes get all that waits for them
        wait_for(lambda: sum(each.num_rows for each in self.seen) == self.told)

    def add(self, sql: str) -> None:
        name = f"q{self.created}"
        self.created += 1
        self.live.sql(f"CREATE QUERY {name} AS {sql} INTO '{name}.jsonl', LATE '{name}-late.jsonl'")
        self.came[name] = sql, len(self.rows)

    def drop(self, number: int) -> None:
        names = [*self.came][1:]
        if names:
            self.live.sql(f"DROP QUERY {(name := names[number % len(names)])}")
            del self.came[name]

    def found(self, name: str) -> list[str]:
        rows = (self.folder / f"{name}.jsonl").read_text().splitlines()
        late = self.folder / f"{name}-late.jsonl"
        return sorted(rows + [_number(each) for each in late.read_text().splitlines()])

    def check(self) -> None:
        self.live.stop()
        for name, (sql, came) in self.came.items():
            db = ps.connect()
            db.stream("s", self.rows, schema=OUT, progress=ps.progress("t", delay=2))
            query = db.sql(sql.replace("TRUE", f"n >= {came}"))
            assert isinstance(query, ps.Query)
            with TemporaryDirectory() as whole:
                rows, late = Path(whole) / "rows.jsonl", Path(whole) / "late.jsonl"
                query.run(rows, late=late, checkpoint=Path(whole) / "kept")
                expected = rows.read_text().splitlines()
                expected += [_number(each) for each in late.read_text().splitlines()]
            assert self.found(name) == sorted(expected), (name, came)

    @property
    def sharing(self) -> int:
        kinds = [node.operator for node in self.live.graph_status().nodes]
        return kinds.count("WindowsOfPanes")


def _number(late: str) -> str:
    """Which tuple it was that came late."""
    return f"late {json.loads(late)['n']}"


@settings(deadline=None, max_examples=6)
@given(
    steps=STEPS,
    few=st.sampled_from([0, 2, 128]),
    sparse=st.sampled_from([0, 1000]),
    kept=st.sampled_from([1, 16]),
    new=st.sampled_from([0, 1, 16]),
)
def test_they_come_and_go(
    steps: list[tuple[str, object]], few: int, sparse: int, kept: int, new: int
) -> None:
    with (
        patch.object(shared_panes, "_FEW_ROWS", few),
        patch.object(pane_parts, "_SPARSE", sparse),
        patch.object(pane_parts, "_FEW", kept),
        patch.object(shared_panes, "_NEW", new),
        TemporaryDirectory() as folder,
    ):
        story = Story(Path(folder))
        for what, value in steps:
            getattr(story, what)(value)
        story.check()


TENS = "SELECT window_end AS e, count(*) AS c [RANGE 10, SLIDE 5, WA t] FROM s WHERE TRUE AND "
TENS_OF = [TENS + f"x >= {n}" for n in range(4)]


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    made = Story(tmp_path)
    yield made
    made.live.stop()


@pytest.mark.parametrize("few", [0, 128])
def test_they_share_again(story: Story, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_panes, "_FEW_ROWS", few)
    story.add(TENS_OF[0])
    story.add(TENS_OF[1])
    story.say([0, 1, 2, 3])
    story.add(TENS_OF[2])
    assert story.sharing == 3
    story.say([3, 2, 1, 0])
    story.again()
    assert story.sharing == 3
    story.add(TENS_OF[3])
    story.say(list(range(12)))
    story.drop(0)
    story.again()
    story.again()
    assert story.sharing == 3
    story.say([1] * 10)
    story.check()


@pytest.mark.parametrize("new", [0, 1, 16])
def test_one_more_while_a_piece_is_open(
    story: Story, new: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes is folded by cell for those who were there, and for itself for who is new: what
    is saved of a piece is not for him as well."""
    monkeypatch.setattr(shared_panes, "_NEW", new)
    monkeypatch.setattr(shared_panes, "_FEW_ROWS", 0)
    monkeypatch.setattr(shared_panes, "_NARROW_FILTERS", 100)
    monkeypatch.setattr(pane_parts, "_SPARSE", 1000)
    for sql in TENS_OF[:3]:
        story.add(sql)
    story.say([4, 3, 4, 3])
    story.save()
    story.add(TENS_OF[3])
    story.say([3, 4])
    story.add(TENS_OF[3].replace(">=", "<"))
    story.say([4, 0])
    story.save()
    story.say([3, 4])
    story.again()
    story.say([0, 1, 2, 3, 4] * 4)
    story.again()
    story.check()


CALLED = "SELECT k, window_end AS e, {0} AS m [RANGE 10, SLIDE 5, WA t] FROM s WHERE TRUE AND {1}"
BY_KEY = [
    CALLED.format(call, where) + " GROUP BY k LATE SIDE"
    for where in ("x >= 1", "x < 3")
    for call in ("max(x)", "sum(x)", "median(x)", "min(n)")
]


@pytest.mark.parametrize("dropped", [0, 2])
def test_parts_whose_users_ask_for_different_aggregates(story: Story, dropped: int) -> None:
    """Queries that have been there from the beginning have panes in common if their filter is the
    same.  When one of them is gone, its aggregates are still in what was saved."""
    for each in BY_KEY:
        story.add(each)
    story.say([0, 3, 1, 2, 4, 6])
    story.save()
    story.drop(dropped)
    story.say([1, 0, 2])
    story.again()
    story.say([5, 1, 0])
    story.add(BY_KEY[3])
    story.drop(0)
    story.again()
    story.say([1] * 12)
    story.check()


def test_aggregates_that_came_in_another_order(story: Story) -> None:
    for each in (BY_KEY[0], BY_KEY[6]):
        story.add(each)
    story.say([0, 3, 1, 2])
    for each in (BY_KEY[1], BY_KEY[2], BY_KEY[4]):
        story.add(each)
        story.say([2, 0, 1])
    story.drop(0)
    for each in BY_KEY:
        story.again()
        story.say([4, 1, 2])
        story.add(each)
    story.again()
    story.say([1] * 12)
    story.check()


def test_a_copy_goes_on_by_itself(story: Story) -> None:
    for each in TENS_OF:
        story.add(each)
    story.say([0, 3, 1])
    story.live.stop()
    copied = story.folder.parent / f"{story.folder.name} copied"
    shutil.copytree(story.folder, copied)
    said = list(story.rows)
    story.begin()
    story.say([5, 6, 7] * 6)
    story.check()
    story.folder, story.rows = copied, said
    story.begin()
    assert story.sharing == 4
    story.say([1, 0] * 10)
    story.check()


def test_a_save_writes_what_has_changed(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        story.add(TENS_OF[number % 4])
    story.say([1] * 30)
    story.save()
    written: list[str] = []
    put = Checkpoints.put

    def told(self: Checkpoints, key: str, chunk: object) -> None:
        written.append(key)
        put(self, key, chunk)

    monkeypatch.setattr(Checkpoints, "put", told)
    story.add(TENS_OF[1])
    story.drop(7)
    assert len([each for each in written if each.startswith("queries/")]) == 1
    assert len([each for each in written if each.startswith("operators/")]) < 20
    monkeypatch.undo()
    story.say([1] * 30)
    story.check()


def test_what_earlier_versions_have_saved(story: Story) -> None:
    """Accounts of all queries in one piece, and not relative to what sources have read."""
    story.add(TENS_OF[0])
    story.say([1] * 8)
    story.live.stop()
    kept = story.folder / "kept"
    store = Checkpoints(kept)
    assert store.get("accounts/0") == {"1": [0, 0, 0, 8], "2": [0, 0, 0, 0]}
    store.drop("accounts/0")
    store.put("accounts", {"1": [8, 0, 0, 8], "2": [8, 0, 0, 0]})
    store.put("sources/s/node", {"begun": True})
    store.commit()
    store.close()
    marker = read_json(kept / "checkpoint.json")
    assert marker is not None
    write_json(kept / "checkpoint.json", {**marker, "format": 5})
    story.begin()
    assert [each.account.read for each in story.live.status()] == [8, 8]
    story.say([1] * 8)
    story.again()
    assert (read_json(kept / "checkpoint.json") or {})["format"] == 6
    assert [each.account.read for each in story.live.status()] == [16, 16]
    story.check()
