"""Checkpoints on disk: whatever breaks, and whenever, the last whole checkpoint can be read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine import checkpoint
from penstock.engine.checkpoint import Checkpoints
from penstock.errors import CheckpointError


def content(directory: Path) -> dict[str, Any]:
    store = Checkpoints(directory)
    return {name: store.get(name) for name in store.names()}


def test_what_was_committed_is_there(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path / "new" / "folder")
    store.put("a", {"n": [1, None, "x"]})
    store.put("b", np.arange(3))
    assert content(tmp_path / "new" / "folder") == {}
    assert store.get("a") == {"n": [1, None, "x"]}
    store.commit()
    again = Checkpoints(tmp_path / "new" / "folder")
    assert again.get("a") == {"n": [1, None, "x"]}
    assert again.get("b").tolist() == [0, 1, 2]  # type: ignore[union-attr]
    again.drop("a")
    assert again.get("a") is None
    assert list(again.names()) == ["b"]
    assert set(content(tmp_path / "new" / "folder")) == {"a", "b"}
    again.commit()
    assert set(content(tmp_path / "new" / "folder")) == {"b"}


def test_only_what_has_changed_is_written(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path)
    for number in range(50):
        store.put(f"{number}", np.full(1000, number * 1_000_003))
    whole = store.commit()
    for number in range(50):
        store.put(f"{number}", np.full(1000, number * 1_000_003))
    assert store.commit() == 0
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
    store, kept, committed = Checkpoints(directory), {}, {}
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
    store = Checkpoints(tmp_path)
    rng = np.random.default_rng(1)
    one = np.array(rng.integers(0, 2**60, 500))
    store.put("still", one)
    for _ in range(40):
        store.put("changing", np.array(rng.integers(0, 2**60, 500)))
        store.commit()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 8 * one.nbytes
    assert (content(tmp_path)["still"] == one).all()


def test_segments_stay_few(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path)
    written = 0
    for number in range(200):
        store.put(f"{number}", np.full(100, number))
        written += store.commit()
    assert len(list(tmp_path.glob("*.segment"))) <= 9
    kept = sum(path.stat().st_size for path in tmp_path.glob("*.segment"))
    assert written < 10 * kept
    assert len(content(tmp_path)) == 200


# --- crashes -------------------------------------------------------------------------------------


class CrashError(Exception):
    pass


class Failing:
    """The functions of `os`, one call of which fails."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __getattr__(self, name: str) -> Any:
        given = getattr(os, name)
        return self.failing(given) if name in ("open", "write", "fsync") else given

    def failing(self, given: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                if given is os.write:  # half of it has come through
                    given(arguments[0], arguments[1][: len(arguments[1]) // 2])
                raise CrashError
            return given(*arguments)

        return call


@contextmanager
def crashing(at: int) -> Iterator[Failing]:
    failing = Failing(at)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "os", failing)
        patch.setattr(Path, "replace", failing.failing(Path.replace))
        patch.setattr(Path, "unlink", failing.failing(Path.unlink))
        yield failing


def changed(store: Checkpoints, times: int) -> dict[str, Any]:
    store.put("a", {"times": times})
    store.put(f"{times}", "x" * 100)
    store.drop(f"{times - 1}")
    return {"a": {"times": times}, f"{times}": "x" * 100}


@pytest.mark.parametrize("before", [0, 1, 2, 5])
def test_a_crash_at_any_call_leaves_one_checkpoint_or_the_other(
    before: int, tmp_path: Path
) -> None:
    crashes = 0
    while True:
        directory = tmp_path / f"{crashes}"
        store = Checkpoints(directory)
        old: dict[str, Any] = {}
        for times in range(before):
            old = changed(store, times)
            store.commit()
        new = changed(store, before)
        try:
            with crashing(crashes):
                store.commit()
        except CrashError:
            crashes += 1
        else:
            break
        assert content(directory) in (old, new)
        resumed = Checkpoints(directory)
        newest = changed(resumed, before + 1)
        resumed.drop(f"{before - 1}")
        resumed.drop(f"{before}")
        resumed.commit()
        assert content(directory) == newest
    assert crashes >= 10


def test_files_that_were_cut_off_anywhere(tmp_path: Path) -> None:
    directory = tmp_path / "whole"
    store = Checkpoints(directory)
    old = changed(store, 0)
    store.commit()
    before = tmp_path / "before"
    shutil.copytree(directory, before)
    changed(store, 1)
    store.commit()
    fresh = next(path for path in directory.glob("*.segment") if not (before / path.name).exists())
    manifest = (directory / "manifest.json").read_bytes()
    for size in range(len(fresh.read_bytes())):
        (before / fresh.name).write_bytes(fresh.read_bytes()[:size])
        assert content(before) == old
    for size in range(len(manifest)):
        (before / "manifest.json.new").write_bytes(manifest[:size])
        assert content(before) == old
    # damage that no crash makes is found
    for size in range(len(manifest)):
        (before / "manifest.json").write_bytes(manifest[:size])
        with pytest.raises(CheckpointError, match="not the manifest"):
            content(before)
    (before / "manifest.json").write_bytes(manifest)
    for size in range(len(fresh.read_bytes())):
        (before / fresh.name).write_bytes(fresh.read_bytes()[:size])
        with pytest.raises(CheckpointError, match="bytes where"):
            content(before)


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path)
    store.put("key", {"text": "something"})
    store.commit()
    path = next(tmp_path.glob("*.segment"))
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
        with pytest.raises(CheckpointError):
            content(tmp_path)


def test_clear_errors(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(CheckpointError, match=r"file in .* is not a directory"):
        Checkpoints(file)
    directory = tmp_path / "checkpoints"
    store = Checkpoints(directory)
    store.put("a", 1)
    store.commit()
    manifest = directory / "manifest.json"
    given = json.loads(manifest.read_text())
    for change, message in [
        ({"format": 2}, "has format 2, and this version of Penstock reads 1"),
        ({"penstock": "something else"}, "is not the manifest of a checkpoint"),
        ({"segments": {}}, "is damaged"),
    ]:
        manifest.write_text(json.dumps({**given, **change}))
        with pytest.raises(CheckpointError, match=message):
            Checkpoints(directory)
    manifest.write_text(json.dumps(given))
    next(directory.glob("*.segment")).write_bytes(b"something of somebody else" * 10)
    with pytest.raises(CheckpointError, match="is not a segment"):
        Checkpoints(directory)
    next(directory.glob("*.segment")).unlink()
    with pytest.raises(CheckpointError, match="is missing"):
        Checkpoints(directory)
