"""Checkpoints on disk: whatever breaks, and whenever, the last whole checkpoint can be read."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import CheckpointError
from penstock.io.durable_files import write_json
from penstock.local.checkpoint import DATABASE, Checkpoints
from tests.waiting import ended_in_time

_open: list[Checkpoints] = []


@pytest.fixture(autouse=True)
def _closing() -> Iterator[None]:
    yield
    while _open:
        _open.pop().close()


def opened(directory: str | Path) -> Checkpoints:
    """A checkpoint that is closed when the test is over."""
    _open.append(Checkpoints(directory))
    return _open[-1]


def content(directory: Path) -> dict[str, Any]:
    """What a copy of the checkpoint holds, whoever has it open."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(directory, copy, dirs_exist_ok=True)
        store = opened(copy)
        try:
            return {name: store.get(name) for name in store.names()}
        finally:
            store.close()


def test_what_was_committed_is_there(tmp_path: Path) -> None:
    store = opened(tmp_path / "new" / "folder")
    store.put("a", {"n": [1, None, "x"]})
    store.put("b", np.arange(3))
    assert content(tmp_path / "new" / "folder") == {}
    assert store.get("a") == {"n": [1, None, "x"]}
    store.commit()
    store.close()
    again = opened(tmp_path / "new" / "folder")
    assert again.get("a") == {"n": [1, None, "x"]}
    assert again.get("b").tolist() == [0, 1, 2]  # type: ignore[union-attr]
    again.drop("a")
    assert again.get("a") is None
    assert list(again.names()) == ["b"]
    assert set(content(tmp_path / "new" / "folder")) == {"a", "b"}
    again.commit()
    assert set(content(tmp_path / "new" / "folder")) == {"b"}


def test_only_what_has_changed_is_written(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(50):
        store.put(f"{number}", np.full(1000, number * 1_000_003))
    whole = store.commit()
    for number in range(50):
        store.put(f"{number}", np.full(1000, number * 1_000_003))
    assert store.commit() == 0  # bytes
    store.put("7", np.arange(1000))
    store.drop("8")
    store.drop("not there")
    assert 0 < store.commit() < whole


STEPS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.none() | st.integers(0, 2**70)) | st.just("commit"),
    max_size=60,
)


@settings(deadline=None, max_examples=60)
@given(steps=STEPS)
def test_as_a_dictionary(steps: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("checkpoints")
    store = opened(directory)
    kept: dict[str, Any] = {}
    committed: dict[str, Any] = {}
    for step in steps:
        if step == "commit":
            store.commit()
            committed = dict(kept)
            assert content(directory) == committed
        elif step[1] is None:
            store.drop(step[0])
            kept.pop(step[0], None)
        else:
            store.put(step[0], {"value": step[1]})
            kept[step[0]] = {"value": step[1]}
        assert {name: store.get(name) for name in store.names()} == kept
    assert content(directory) == committed


def test_what_is_out_of_date_does_not_pile_up(tmp_path: Path) -> None:
    store = opened(tmp_path)
    rng = np.random.default_rng(1)
    one = np.array(rng.integers(0, 2**60, 500))
    store.put("still", one)
    for _ in range(40):
        store.put("changing", np.array(rng.integers(0, 2**60, 500)))
        store.commit()
    assert store.size < 8 * one.nbytes
    assert (content(tmp_path)["still"] == one).all()


def test_epochs_are_counted(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert store.epoch == 0
    store.commit()
    store.put("a", 1)
    store.commit()
    store.close()
    assert opened(tmp_path).epoch == 2


# --- crashes -------------------------------------------------------------------------------------

ENDLESS = """
import sys
from penstock.local.checkpoint import Checkpoints
store = Checkpoints(sys.argv[1])
number = store.epoch
while True:
    number += 1
    store.put("number", number)
    store.put(f"{number}", "x" * 5000)
    store.drop(f"{number - 1}")
    store.commit()
    print(number, flush=True)
"""


def test_kills_leave_whole_commits(tmp_path: Path) -> None:
    told = 0
    for kill in range(10):
        with (
            subprocess.Popen(
                [sys.executable, "-c", ENDLESS, str(tmp_path)], stdout=subprocess.PIPE, text=True
            ) as process,
            ended_in_time(process),
        ):
            assert process.stdout is not None
            for _ in range(1 + kill):
                told = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            told = max([told, *(int(line) for line in process.stdout if line.endswith("\n"))])
        found = content(tmp_path)
        number = found["number"]
        assert number >= told  # what was told of has been kept
        assert found == {"number": number, f"{number}": "x" * 5000}


# --- damage --------------------------------------------------------------------------------------


def committed(directory: Path) -> None:
    store = opened(directory)
    store.put("key", {"text": "something"})
    store.put("other", np.arange(300) ** 3)
    store.commit()
    store.close()


def test_damage_is_found_or_harmless(tmp_path: Path) -> None:
    whole, damaged = tmp_path / "whole", tmp_path / "damaged"
    committed(whole)
    expected = repr(content(whole))
    shutil.copytree(whole, damaged)
    original = (whole / DATABASE).read_bytes()
    found = 0
    for at in range(0, len(original), 61):
        changed = original[:at] + bytes([original[at] ^ 16]) + original[at + 1 :]
        (damaged / DATABASE).write_bytes(changed)
        try:
            assert repr(content(damaged)) == expected  # where nothing was written
        except CheckpointError:
            found += 1
    assert found


@pytest.mark.parametrize("left", [0, 100, 4096, 5000])
def test_a_database_that_was_cut(left: int, tmp_path: Path) -> None:
    committed(tmp_path)
    original = (tmp_path / DATABASE).read_bytes()
    assert len(original) > 5000
    (tmp_path / DATABASE).write_bytes(original[:left])
    with pytest.raises(CheckpointError, match="the checkpoint in "):
        content(tmp_path)


def test_a_database_that_is_gone_is_no_beginning(tmp_path: Path) -> None:
    committed(tmp_path)
    (tmp_path / DATABASE).unlink()
    with pytest.raises(CheckpointError, match=r"has lost its state\.sqlite"):
        opened(tmp_path)


def test_a_database_of_another_checkpoint(tmp_path: Path) -> None:
    committed(tmp_path / "one")
    committed(tmp_path / "other")
    shutil.copy(tmp_path / "one" / DATABASE, tmp_path / "other" / DATABASE)
    with pytest.raises(CheckpointError, match="belongs to another one"):
        opened(tmp_path / "other")


@pytest.mark.parametrize(
    "order",
    ["DELETE FROM chunk WHERE key = 'key'", "UPDATE chunk SET packed = x'00' WHERE key = 'key'"],
)
def test_chunks_that_somebody_has_changed(order: str, tmp_path: Path) -> None:
    committed(tmp_path)
    with sqlite3.connect(tmp_path / DATABASE) as database:
        database.execute(order)
    database.close()
    with pytest.raises(CheckpointError, match="is damaged"):
        content(tmp_path)


def test_a_marker_that_somebody_has_changed(tmp_path: Path) -> None:
    committed(tmp_path)
    marker = tmp_path / "checkpoint.json"
    given = marker.read_text()
    for text in (given[:-9], "null", given.replace('"local"', '"lokal"')):
        marker.write_text(text)
        with pytest.raises(CheckpointError, match="was damaged or edited"):
            opened(tmp_path)


def test_a_later_format(tmp_path: Path) -> None:
    write_json(tmp_path / "checkpoint.json", {"penstock": "checkpoint", "format": 99, "id": "x"})
    with pytest.raises(CheckpointError, match="has format 99, and this version"):
        opened(tmp_path)


def test_one_run_at_a_time(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(CheckpointError, match="is in use by another run"):
        opened(tmp_path)
    store.close()
    opened(tmp_path).close()


def test_a_copy_is_as_good(tmp_path: Path) -> None:
    committed(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    assert repr(content(tmp_path / "copy")) == repr(content(tmp_path / "one"))


@pytest.mark.parametrize(
    ("name", "message"), [("spark", "spark engine"), ("x.txt", "other things")]
)
def test_directories_of_others_are_left_alone(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("something")
    with pytest.raises(CheckpointError, match=message):
        opened(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_file_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="is not a directory"):
        opened(tmp_path / "file")
