"""Damaged checkpoints and full disks: the right rows, or a sentence."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.local.checkpoint import Checkpoints

STREAM = "CREATE STREAM s (k STRING, v INT, t INT) FROM FILES 'data/*.csv' PROGRESS ON t DELAY 2;"
ASKED = """SELECT k, count(*) AS n, sum(v) AS total [RANGE 10, SLIDE 5, WA t] FROM s
GROUP BY k LATE SIDE"""
DAMAGES = ("cut", "zeroed", "flipped", "swapped", "removed", "exchanged", "emptied", "all zero")


def put(folder: Path, number: int) -> None:
    rows = (f"{'ab'[v % 2]},{v},{v}\n" for v in range(number * 40, number * 40 + 40))
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / f"{number}.csv").write_text("k,v,t\n" + "".join(rows))


def run(folder: Path, final: bool = False) -> None:
    query = ps.connect(base=folder).sql(f"{STREAM}\n{ASKED}")
    assert isinstance(query, ps.Query)
    late, kept = folder / "late", folder / "kept"
    query.run(folder / "rows.jsonl", late=late, checkpoint=kept, final=final)


def live(folder: Path, final: bool = False) -> None:
    with ps.connect(base=folder).live(checkpoint=folder / "kept") as engine:
        engine.sql(STREAM)
        engine.sql(f"CREATE QUERY q AS {ASKED} INTO 'rows.jsonl', LATE 'late.jsonl'")
        assert engine.wait(timeout=60)


def damaged(content: bytes, how: str, others: list[bytes], chance: random.Random) -> bytes | None:
    """What is left of a file; None: nothing."""
    first, last = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    match how:
        case "cut":
            return content[:first]
        case "zeroed":
            return content[:first] + bytes(last - first) + content[last:]
        case "flipped" if content:
            place = chance.randrange(len(content))
            return (
                content[:place]
                + bytes([content[place] ^ 1 << chance.randrange(8)])
                + (content[place + 1 :])
            )
        case "swapped":
            middle = (first + last) // 2
            return content[:first] + content[middle:last] + content[first:middle] + content[last:]
        case "removed":
            return None
        case "exchanged":
            return chance.choice(others)
        case "all zero":
            return bytes(len(content))
    return b""


def check(tmp_path: Path, carry_out: Callable[..., None], seed: int, count: int) -> None:
    """Some damages to a checkpoint in the middle of a stream."""
    chance = random.Random(seed)
    sound, whole, folder = (tmp_path / name for name in ("sound", "whole", "damaged"))
    sound.mkdir()
    put(sound, 0)
    carry_out(sound)
    put(sound, 1)
    shutil.copytree(sound, whole)
    carry_out(whole, final=True)
    expected = (whole / "rows.jsonl").read_text()
    files = sorted(each for each in (sound / "kept").rglob("*") if each.is_file())
    others = [each.read_bytes() for each in files]
    cases = [(file, how) for file in files for how in DAMAGES]
    refused = 0
    for number in range(count):
        file, how = cases[number % len(cases)] if count >= len(cases) else chance.choice(cases)
        shutil.copytree(sound, folder)
        left = damaged(file.read_bytes(), how, others, chance)
        place = folder / "kept" / file.relative_to(sound / "kept")
        if left is None:
            place.unlink()
        else:
            place.write_bytes(left)
        try:
            carry_out(folder, final=True)
        except ps.PenstockError:
            refused += 1
        else:
            assert (folder / "rows.jsonl").read_text() == expected, (file.name, how)
        shutil.rmtree(folder)
    assert refused


@pytest.mark.parametrize("carry_out", [run, live])
def test_some_damages(carry_out: Callable[..., None], tmp_path: Path) -> None:
    check(tmp_path, carry_out, 1, 32)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("carry_out", [run, live])
def test_many_damages(carry_out: Callable[..., None], seed: int, tmp_path: Path) -> None:
    check(tmp_path, carry_out, seed, 500)


def test_pages_of_zeros(tmp_path: Path) -> None:
    """Keys that are NULL, numbers that are texts."""
    put(tmp_path, 0)
    run(tmp_path)
    database = tmp_path / "kept" / "state.sqlite"
    content = database.read_bytes()
    refused = 0
    for place in range(0, len(content), 1500):
        database.write_bytes(content[:place] + bytes(3000) + content[place + 3000 :])
        try:
            run(tmp_path)
        except ps.CheckpointError:
            refused += 1
    assert refused > 3


def test_a_head_that_tells_another_epoch(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path)
    store.put("a", 1)
    store.commit()
    store._database.execute("UPDATE head SET epoch = 3")
    store.close()
    with pytest.raises(ps.CheckpointError, match="is damaged"):
        Checkpoints(tmp_path)


# --- full disks ----------------------------------------------------------------------------------


def test_no_room_for_the_state(tmp_path: Path) -> None:
    """The commit before is still there."""
    store = Checkpoints(tmp_path)
    store.put("a", 1)
    store.commit()
    store._database.execute("PRAGMA max_page_count = 5")
    store.put("a", os.urandom(100_000).hex())
    with pytest.raises(ps.CheckpointError, match="full") as caught:
        store.commit()
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(f"make room in {tmp_path} and run again")
    store.close()
    store = Checkpoints(tmp_path)
    assert store.get("a") == 1
    store.close()


@pytest.mark.parametrize("output", ["rows.jsonl", "rows"])
def test_a_disk_that_is_full(output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At whichever file it is noticed; with room again, the run goes on."""
    query: Any = None

    def carry_out() -> None:
        nonlocal query
        query = ps.connect(base=tmp_path).sql(f"{STREAM} SELECT k, v, t FROM s")
        query.run(tmp_path / output, checkpoint=tmp_path / "kept")

    put(tmp_path, 0)
    sync, errors = os.fsync, list[ps.PenstockError]()
    for full_at in range(1, 30):
        calls = 0

        def fail(handle: int, full_at: int = full_at) -> None:
            nonlocal calls
            calls += 1
            if calls == full_at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            sync(handle)

        monkeypatch.setattr(os, "fsync", fail)
        put(tmp_path, full_at)
        try:
            carry_out()
        except ps.PenstockError as error:
            errors.append(error)
            monkeypatch.setattr(os, "fsync", sync)
            carry_out()
        else:
            break
    assert len(errors) >= 2
    for each in errors:
        assert "No space left on device" in each.message
        assert (each.hint or "").startswith(f"make room in {tmp_path}")
    table = ps.connect(base=tmp_path).sql(
        f"CREATE STREAM r (v INT) FROM FILES '{output}{'/*' if output == 'rows' else ''}';"
        " SELECT v FROM r"
    )
    found = sorted(row["v"] for row in table)
    assert found == list(range(40 * (len(errors) + 2)))
