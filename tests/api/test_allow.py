"""What SQL may read where somebody has said so: resolved through links and `..`, when a stream is
created and when it is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import penstock as ps
from penstock.io.formats.data_file import DataFile


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("x\n1\n")
    (tmp_path / "data-other").mkdir()
    (tmp_path / "data-other" / "b.csv").write_text("x\n2\n")
    (tmp_path / "secret.csv").write_text("x\nhidden\n")
    return tmp_path


def connected(place: Path, *allow: str, engine: str = "local") -> ps.Database:
    return ps.connect(engine, base=place, allow=allow)


def create(name: str) -> str:
    return f"CREATE STREAM s (x INT) FROM FILES '{name}'"


def rows(db: ps.Database) -> list[object]:
    query = db.sql("SELECT x FROM s")
    assert isinstance(query, ps.Query)
    return query.collect().column("x").to_pylist()


@pytest.mark.parametrize("engine", ["local", "reference"])
@pytest.mark.parametrize(
    "allowed", ["data", "data/", "./data/../data", "data/a.csv", "{}/data", "/"]
)
@pytest.mark.parametrize("name", ["data/a.csv", "data/../data/a.csv", "{}/data/a.csv"])
def test_what_is_allowed(place: Path, engine: str, allowed: str, name: str) -> None:
    db = connected(place, allowed.format(place), engine=engine)
    db.sql(create(name.format(place)))
    assert rows(db) == [1]


@pytest.mark.parametrize(
    "name",
    [
        "secret.csv",
        "missing.csv",
        "data/../secret.csv",
        "data-other/b.csv",
        "{}/secret.csv",
        "/etc/passwd",
        "/dev/stdin",
        "*.csv",
        "**/*.csv",
        "data/*/../../secret.csv",
        "",
        "data/\\0a.csv",
    ],
)
def test_what_is_not(place: Path, name: str) -> None:
    db = connected(place, "data")
    with pytest.raises(ps.BindError, match="is not allowed here") as refused:
        db.sql(create(name.format(place).replace("\\0", "\0")))
    assert refused.value.expected == "what is allowed: data"
    assert "^" in str(refused.value)


def test_nothing_at_all(place: Path) -> None:
    db = connected(place)
    for source in ("FILES 'data/a.csv'", "SOCKET 'localhost:9000'"):
        with pytest.raises(ps.BindError, match="is not allowed here") as refused:
            db.sql(f"CREATE STREAM s (x INT) FROM {source}")
        assert refused.value.expected == "what is allowed: nothing"
    db.sql("CREATE STREAM s (x INT) FROM VALUES (7)")
    assert rows(db) == [7]


def test_whether_a_file_exists_is_not_told(place: Path) -> None:
    db = connected(place, "data")
    messages = set()
    for name in ("secret.csv", "nowhere.csv"):
        with pytest.raises(ps.BindError) as refused:
            db.sql(create(name))
        messages.add(str(refused.value).replace(name, "NAME").replace("^", ""))
    assert len({message.replace("  ", "") for message in messages}) == 1


@pytest.mark.parametrize("name", ["data/link.csv", "data/*.csv", "data/there/secret.csv"])
def test_links_lead_where_they_lead(place: Path, name: str) -> None:
    (place / "data" / "link.csv").symlink_to(place / "secret.csv")
    (place / "data" / "there").symlink_to(place)
    with pytest.raises(ps.BindError, match="is not allowed here"):
        connected(place, "data").sql(create(name))


def test_links_within_are_fine(place: Path) -> None:
    (place / "data" / "link.csv").symlink_to(place / "data" / "a.csv")
    (place / "way").symlink_to(place / "data")
    db = connected(place, "way")
    db.sql(create("data/link.csv"))
    assert rows(db) == [1]


def test_links_in_a_circle(place: Path) -> None:
    (place / "data" / "link.csv").symlink_to(place / "data" / "link.csv")
    with pytest.raises(ps.BindError, match="is not allowed here"):
        connected(place, "data").sql(create("data/link.csv"))


@pytest.mark.parametrize("name", ["data/a.csv", "data/*.csv"])
def test_a_link_that_is_put_there_later(place: Path, name: str) -> None:
    db = connected(place, "data")
    db.sql(create(name))
    (place / "data" / "a.csv").unlink()
    (place / "data" / "a.csv").symlink_to(place / "secret.csv")
    with pytest.raises(ps.SourceError, match="is not allowed here") as refused:
        rows(db)
    assert "hidden" not in str(refused.value)


def test_a_link_that_is_put_there_after_the_file_was_found(place: Path) -> None:
    allowed = connected(place, "data").allowed
    file = DataFile(place / "data" / "a.csv", "a.csv", allowed=allowed)
    file.open().close()
    file.path.unlink()
    file.path.symlink_to(place / "secret.csv")
    with pytest.raises(ps.SourceError, match="is not allowed here"):
        file.open()


def test_pipes_are_not_waited_for(place: Path) -> None:
    os.mkfifo(place / "data" / "pipe.csv")
    db = connected(place, "data")
    db.sql(create("data/pipe.csv"))
    with pytest.raises(ps.SourceError, match="is not a regular file"):
        rows(db)


@pytest.mark.parametrize(
    ("allowed", "address", "fine"),
    [
        ("socket://localhost:9000", "localhost:9000", True),
        ("socket://LOCALHOST:9000", "localhost:9000", True),
        ("socket://localhost:9000", "localhost:9001", False),
        ("socket://localhost:9000", "127.0.0.1:9000", False),
        ("socket://localhost:*", "localhost:9001", True),
        ("socket://localhost", "localhost:9001", True),
        ("socket://[::1]:9000", "[::1]:9000", True),
        ("localhost", "localhost:9000", False),
    ],
)
def test_hosts(place: Path, allowed: str, address: str, fine: bool) -> None:
    db = connected(place, allowed)
    sql = f"CREATE STREAM s (x INT) FROM SOCKET '{address}'"
    if fine:
        db.sql(sql)
        return
    with pytest.raises(ps.BindError, match="is not allowed here"):
        db.sql(sql)


@pytest.mark.parametrize("allowed", ["", "socket://", "socket://a b:c:9"])
def test_what_cannot_be_allowed(place: Path, allowed: str) -> None:
    with pytest.raises(ps.PenstockError, match=r"cannot be allowed|is not an address"):
        connected(place, allowed)
