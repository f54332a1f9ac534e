"""Outputs of a checkpoint that have become those of another run, or are shared with one."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import penstock as ps
from tests.waiting import wait_for

STREAM = "CREATE STREAM s (v INT, t INT) FROM FILES 'data/*.csv' PROGRESS ON t DELAY 2;"
ROWS = "SELECT v, t FROM s LATE SIDE"
COUNTS = "SELECT count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s LATE SIDE"


@pytest.fixture(params=["one", "several", "live", "spark"])
def host(request: pytest.FixtureRequest) -> str:
    if request.param == "spark":
        request.getfixturevalue("spark")
    return str(request.param)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "other").mkdir()
    return tmp_path


def more(here: Path, name: str, first: int, end: int) -> None:
    """A file with rows, the last of which is rejected."""
    lines = [f"{v},{v}" for v in range(first, end)] + ["bad,1"]
    (here / "data" / f"{name}.csv").write_text("v,t\n" + "\n".join(lines) + "\n")


def run(
    here: Path,
    host: str,
    output: str = "rows.jsonl",
    kept: str = "kept",
    sides: str = ".jsonl",
) -> None:
    """All rows that are new, once more, on a checkpoint."""
    places = [here / output, here / f"late{sides}", here / f"rejected{sides}"]
    if host == "live":
        rows, late, rejected = places
        with ps.connect(base=here).live(checkpoint=here / kept) as live:
            live.sql(STREAM)
            live.sql(
                f"CREATE QUERY q AS {ROWS} INTO '{rows}', LATE '{late}', REJECTED '{rejected}'"
            )
            assert live.wait(timeout=60)
            for status in live.status():
                if status.error is not None:
                    raise ps.SinkError(status.error)
        return
    db = ps.connect("spark" if host == "spark" else "local", base=here)
    db.sql(STREAM)
    queries: list[Any] = [db.sql(ROWS)]
    sinks: list[list[Any]] = [[place] for place in places]
    if host == "several":
        queries.insert(0, db.sql(COUNTS))
        for side in sinks:
            side.insert(0, here / f"counts-{kept}-{side[0].name}")
    outputs, late_sinks, rejected_sinks = sinks
    db.run(queries, outputs, late=late_sinks, rejected=rejected_sinks, checkpoint=here / kept)


def values(path: Path) -> list[int]:
    """What is in the column v."""
    if path.is_dir():
        return sorted(v for part in path.glob("part-*") for v in values(part))
    if path.suffix == ".parquet":
        return sorted(pyarrow.parquet.read_table(path)["v"].to_pylist())
    if path.suffix == ".csv":
        return sorted(int(line.split(",")[0]) for line in path.read_text().splitlines()[1:])
    return sorted(json.loads(line)["v"] for line in path.read_text().splitlines())


def contents(path: Path) -> dict[str, bytes]:
    """Everything that is in a file or a directory."""
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return {str(each.relative_to(path)): each.read_bytes() for each in files}


# --- exchanged -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows"])
def test_replaced_by_the_output_of_another_run(here: Path, host: str, name: str) -> None:
    """Which is longer: it is neither cut nor appended to."""
    more(here, "1", 100, 110)
    run(here, host, name)
    assert values(here / name) == list(range(100, 110))
    other = here / "other"
    (other / "data").mkdir()
    more(other, "1", 500, 560)
    run(other, "one", name)
    if (here / name).is_dir():
        shutil.rmtree(here / name)
        shutil.copytree(other / name, here / name)
    else:
        shutil.copy(other / name, here / name)
    before = contents(here / name)
    more(here, "2", 110, 120)
    for _ in range(2):
        with pytest.raises(ps.SinkError, match=r"is not the file that|not its own|of another run"):
            run(here, host, name)
        assert contents(here / name) == before


@pytest.mark.parametrize("side", ["late", "rejected"])
def test_a_side_replaced_by_another(here: Path, host: str, side: str) -> None:
    """One without rows, so that nothing tells it but its length."""
    (here / "data" / "1.csv").write_text("v,t\n1,1\n2,2\n")
    run(here, host)
    assert (here / f"{side}.jsonl").read_text() == ""
    (here / f"{side}.jsonl").write_text("mine\n")
    more(here, "2", 110, 120)
    with pytest.raises(ps.SinkError, match=rf"{side}.jsonl has 5 bytes, and .* written 0"):
        run(here, host)
    assert (here / f"{side}.jsonl").read_text() == "mine\n"


def test_rows_that_somebody_else_has_appended(here: Path) -> None:
    more(here, "1", 0, 10)
    run(here, "one")
    with (here / "rows.jsonl").open("a") as file:
        file.write("mine\n")
    more(here, "2", 10, 20)
    with pytest.raises(ps.SinkError, match="the others are not its own"):
        run(here, "one")
    assert (here / "rows.jsonl").read_text().endswith("mine\n")


# --- removed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("emptied", [False, True])
@pytest.mark.parametrize("side", ["rows", "late", "rejected"])
def test_a_directory_that_was_removed(here: Path, host: str, emptied: bool, side: str) -> None:
    more(here, "1", 0, 10)
    run(here, host, "rows", sides="")
    for each in (here / side).iterdir():
        each.unlink()
    if not emptied:
        (here / side).rmdir()
    more(here, "2", 10, 80)
    for _ in range(2):
        with pytest.raises(ps.SinkError, match="was removed or emptied since the checkpoint"):
            run(here, host, "rows", sides="")
    assert (here / side).exists() == emptied


def test_another_place_for_a_directory_that_was_removed(here: Path) -> None:
    more(here, "1", 0, 10)
    run(here, "one", "rows")
    shutil.rmtree(here / "rows")
    more(here, "2", 10, 20)
    run(here, "one", "elsewhere")
    assert values(here / "elsewhere") == list(range(10, 20))
    with pytest.raises(ps.SinkError, match="was removed or emptied"):
        run(here, "one", "rows")


def test_a_directory_whose_parts_have_been_taken(here: Path) -> None:
    """By those who have read them."""
    more(here, "1", 0, 10)
    run(here, "one", "rows")
    for part in (here / "rows").glob("part-*"):
        part.unlink()
    more(here, "2", 10, 20)
    run(here, "one", "rows")
    assert values(here / "rows") == list(range(10, 20))


def test_the_directory_of_another_query(here: Path) -> None:
    more(here, "1", 0, 10)
    db = ps.connect(base=here)
    db.sql(STREAM)
    queries: list[Any] = [db.sql(ROWS), db.sql(COUNTS)]
    one, other = here / "one", here / "other"
    db.run(queries, [one, other], checkpoint=here / "kept")
    more(here, "2", 10, 20)
    with pytest.raises(ps.SinkError, match="holds results of another run"):
        db.run(queries, [other, one], checkpoint=here / "kept")


# --- shared --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows"])
def test_two_that_begin_at_once(here: Path, host: str, name: str) -> None:
    """Both have seen that nothing is there before either has written."""
    if host == "live":
        both_live(here, name)
        return
    meeting = threading.Barrier(2)

    def source() -> Iterator[dict[str, int]]:
        meeting.wait(60)
        yield from ({"v": v, "t": v} for v in range(10))

    started = []
    for number in range(2):
        db = ps.connect("spark" if host == "spark" else "local")
        made = source if host != "spark" else lambda: iter([{"v": v, "t": v} for v in range(10)])
        db.stream("s", made, schema="v INT, t INT", progress=ps.progress("t", delay=2))
        query = db.sql("SELECT v, t FROM s")
        assert isinstance(query, ps.Query)
        started.append(query.start(here / name, checkpoint=here / f"kept{number}"))
    errors = []
    for each in started:
        try:
            each.wait()
        except ps.PenstockError as error:
            errors.append(str(error))
    assert len(errors) == 1
    assert "knows nothing of it" in errors[0] or "of another run" in errors[0]
    assert values(here / name) == list(range(10))


def both_live(here: Path, name: str) -> None:
    create = f"CREATE QUERY q AS SELECT v, t FROM s INTO '{here / name}'"
    more(here, "1", 0, 10)
    with (
        ps.connect(base=here).live(checkpoint=here / "kept0") as one,
        ps.connect(base=here).live(checkpoint=here / "kept1") as other,
    ):
        errors: list[str] = []
        meeting = threading.Barrier(2)

        def work(live: Any) -> None:
            live.sql(STREAM)
            meeting.wait(60)
            try:
                live.sql(create)
                live.wait(timeout=60)
            except ps.PenstockError as error:
                errors.append(str(error))
            else:
                errors.extend(each.error for each in live.status() if each.error)

        threads = [threading.Thread(target=work, args=(live,)) for live in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(errors) == 1
    assert "knows nothing of it" in errors[0] or "of another run" in errors[0]
    assert values(here / name) == list(range(10))


def test_one_file_and_a_second_checkpoint(here: Path, host: str) -> None:
    """Nothing has been written yet, and the file is still the first one's."""
    (here / "data" / "1.csv").write_text("v,t\n")
    run(here, "one")
    with pytest.raises(ps.SinkError, match="knows nothing of it"):
        run(here, host, kept="kept2")
    more(here, "2", 0, 10)
    run(here, "one")
    assert values(here / "rows.jsonl") == list(range(10))


# --- alternated ----------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("a.jsonl", "b.jsonl"), ("a.csv", "b"), ("a", "b.jsonl")])
def test_two_places_in_turn(here: Path, names: tuple[str, str]) -> None:
    for number in range(6):
        more(here, str(number), number * 10, number * 10 + 10)
        run(here, "one", names[number % 2])
    for place, name in enumerate(names):
        expected = [v for v in range(60) if v // 10 % 2 == place]
        assert values(here / name) == expected


@pytest.mark.parametrize("left", [0, 20, None])
def test_the_earlier_one_was_shortened(here: Path, left: int | None) -> None:
    more(here, "1", 0, 10)
    run(here, "one", "a.jsonl")
    more(here, "2", 10, 20)
    run(here, "one", "b.jsonl")
    if left is None:
        (here / "a.jsonl").unlink()
    else:
        (here / "a.jsonl").write_bytes((here / "a.jsonl").read_bytes()[:left])
    more(here, "3", 20, 30)
    with pytest.raises(ps.SinkError, match="bytes when the checkpoint was saved, and"):
        run(here, "one", "a.jsonl")
    run(here, "one", "b.jsonl")
    assert values(here / "b.jsonl") == list(range(10, 30))
    assert not left or (here / "a.jsonl").stat().st_size == left


# --- changed while a run writes ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rows.jsonl", "rows"])
@pytest.mark.parametrize("how", ["removed", "exchanged"])
def test_while_the_run_goes_on(here: Path, name: str, how: str) -> None:
    place, written = here / name, threading.Event()

    def source() -> Iterator[dict[str, int]]:
        yield {"v": 1, "t": 1}
        assert written.wait(60)
        yield {"v": 2, "t": 2}

    db = ps.connect(clock=ps.ManualClock(at=0, step=2_000_000))
    db.stream("s", source, schema="v INT, t INT", progress=ps.progress("t", delay=2))
    query = db.sql("SELECT v, t FROM s")
    assert isinstance(query, ps.Query)
    started = query.start(place, checkpoint=here / "kept")
    wait_for(lambda: place.exists() and values(place) == [1])
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()
    if how == "exchanged":
        place.mkdir() if name == "rows" else place.write_text("mine\n")
    written.set()
    with pytest.raises(ps.SinkError, match="while the run was writing to it"):
        started.wait()
    if how == "exchanged":
        assert contents(place) == ({} if name == "rows" else {".": b"mine\n"})
