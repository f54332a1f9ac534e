"""Places that rows are written to: one for each output, and none that is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import penstock as ps
from penstock.errors import SinkError
from penstock.io.sources.files import FileSource

STREAM = "CREATE STREAM s (v INT) FROM VALUES (1), (9), (3) PROGRESS ON v ORDERED"
COUNT = "SELECT count(*) AS n [RANGE 2, SLIDE 2, WA v] FROM s LATE SIDE"


@pytest.fixture
def db(tmp_path: Path) -> ps.Database:
    made = ps.connect("local", base=tmp_path)
    made.sql(STREAM)
    return made


def query(db: ps.Database, sql: str = COUNT) -> ps.Query:
    made = db.sql(sql)
    assert isinstance(made, ps.Query)
    return made


@pytest.mark.parametrize("checkpoint", [None, "kept"])
def test_rows_and_late_tuples(db: ps.Database, tmp_path: Path, checkpoint: str | None) -> None:
    kept = None if checkpoint is None else tmp_path / checkpoint
    there = tmp_path / "z.jsonl"
    (tmp_path / "link").symlink_to(tmp_path)
    for late in (there, tmp_path / "link" / "z.jsonl"):
        with pytest.raises(SinkError, match=r"the rows go to .*z\.jsonl already, where the late"):
            query(db).run(there, late=late, checkpoint=kept)
    with pytest.raises(SinkError, match="the late tuples go to"):
        query(db).run(tmp_path / "a.jsonl", late=there, rejected=there, checkpoint=kept)
    with pytest.raises(SinkError, match="the rows go to"):
        query(db).start(there, late=there, checkpoint=kept)
    assert not there.exists()


def test_two_queries(db: ps.Database, tmp_path: Path) -> None:
    both = [query(db), query(db, "SELECT v FROM s")]
    there = str(tmp_path / "z.jsonl")
    with pytest.raises(SinkError, match=r"the rows of query 1 go to .* rows of query 2"):
        db.run(both, [there, there])
    directory = str(tmp_path / "z")
    with pytest.raises(SinkError, match="the rows of query 1 go to"):
        db.run(both, [directory, f"{directory}/"], checkpoint=tmp_path / "kept")


def test_a_device_takes_everything(db: ps.Database, tmp_path: Path) -> None:
    nowhere = tmp_path / "null.jsonl"
    nowhere.symlink_to(os.devnull)
    query(db).run(nowhere, late=nowhere, rejected=nowhere)


def test_live_queries(db: ps.Database, tmp_path: Path) -> None:
    with db.live() as live:
        live.sql("CREATE QUERY a AS SELECT v FROM s INTO 'o.jsonl'")
        for sql in (
            "CREATE QUERY b AS SELECT v + 1 AS w FROM s INTO 'o.jsonl'",
            f"CREATE QUERY b AS {COUNT} INTO 'p.jsonl', LATE 'o.jsonl'",
        ):
            with pytest.raises(SinkError, match="the rows of query a go to"):
                live.sql(sql)
        with pytest.raises(SinkError, match="the rows of query a go to"):
            live.sql("SELECT v FROM s", sink=str(tmp_path / "o.jsonl"))
        live.wait()
        live.sql("DROP QUERY a; CREATE QUERY b AS SELECT v + 1 AS w FROM s INTO 'o.jsonl'")
        live.wait()
    assert (tmp_path / "o.jsonl").read_text() == '{"w": 2}\n{"w": 10}\n{"w": 4}\n'


# --- what is read --------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> ps.Database:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("v\n1\n2\n")
    made = ps.connect("local", base=tmp_path)
    made.sql("CREATE STREAM f (v INT) FROM FILES 'data/*.csv' PROGRESS ON v ORDERED")
    return made


@pytest.mark.parametrize("checkpoint", [None, "kept"])
@pytest.mark.parametrize("name", ["a.csv", "new.csv"])
def test_a_file_that_is_read(
    files: ps.Database, tmp_path: Path, name: str, checkpoint: str | None
) -> None:
    kept = None if checkpoint is None else tmp_path / checkpoint
    with pytest.raises(SinkError, match=rf"{name} is one of the files that f is read from"):
        query(files, "SELECT v FROM f").run(tmp_path / "data" / name, checkpoint=kept)
    with files.live() as live, pytest.raises(SinkError, match="is one of the files"):
        live.sql(f"CREATE QUERY q AS SELECT v FROM f INTO 'data/{name}'")
    assert (tmp_path / "data" / "a.csv").read_text() == "v\n1\n2\n"
    query(files, "SELECT v FROM f").run(tmp_path / "data" / "a.jsonl")


def test_a_table_that_is_read(files: ps.Database, tmp_path: Path) -> None:
    files.sql("CREATE TABLE t (v INT) FROM FILES 'data/a.csv'")
    files.sql("CREATE STREAM s (v INT) FROM VALUES (1) PROGRESS ON v ORDERED")
    looked_up = query(files, "SELECT t.v FROM s JOIN t ON s.v = t.v")
    with pytest.raises(SinkError, match="is one of the files that t is read from"):
        looked_up.run(tmp_path / "data" / "a.csv")


def test_a_directory_that_is_read(files: ps.Database, tmp_path: Path) -> None:
    files.sql("CREATE STREAM g (v INT) FROM FILES 'out/*' FORMAT PARQUET PROGRESS ON v ORDERED")
    with pytest.raises(SinkError, match="out is one of the files that g is read from"):
        query(files, "SELECT v FROM g").run(tmp_path / "out", checkpoint=tmp_path / "kept")


@pytest.mark.parametrize(
    ("pattern", "name", "whether"),
    [
        ("a.csv", "a.csv", True),
        ("a.csv", "b.csv", False),
        ("*.csv", "b.csv", True),
        ("*.csv", "d/b.csv", False),
        ("**/*.csv", "d/e/b.csv", True),
        ("**/*.csv", "b.csv", True),
        ("d/[ab].csv", "d/b.csv", True),
        ("*.csv", ".b.csv", False),
        ("../*.csv", "b.csv", False),
    ],
)
def test_which_files_are_read(tmp_path: Path, pattern: str, name: str, whether: bool) -> None:
    source = FileSource(pattern, base=tmp_path)
    assert source.reads(tmp_path / name) is whether
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
    assert source.reads(tmp_path / name) is whether
    if whether:
        assert name in source.parts()
