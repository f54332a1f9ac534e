"""Databases: engines, names, and that two of them have nothing in common."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps

ROWS = [{"a": 1}, {"a": 2}]


@pytest.fixture
def db() -> ps.Database:
    made = ps.connect()
    made.stream("Numbers", ROWS)
    return made


def values(db: ps.Database, sql: str) -> list[int]:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query.collect().column(0).to_pylist()


def test_connect() -> None:
    assert isinstance(ps.connect(), ps.Database)
    assert ps.connect().engine == "local"
    assert ps.connect().streams == ps.connect().queries == []


@pytest.mark.parametrize("engine", ["duck", "", "Reference"])
def test_an_engine_that_does_not_exist(engine: str) -> None:
    with pytest.raises(ps.EngineError, match=f"no engine called '{engine}'") as caught:
        ps.connect(engine)
    assert caught.value.expected == "one of spark, local, reference"


def test_the_engine_that_was_meant() -> None:
    with pytest.raises(ps.EngineError) as caught:
        ps.connect("referense")
    assert caught.value.hint == "reference"


def test_explaining_needs_no_spark() -> None:
    db = ps.connect("spark", master="spark://nowhere")
    db.stream("s", ROWS)
    query = db.sql("SELECT a FROM s")
    assert isinstance(query, ps.Query)
    assert query.schema.names == ["a"]
    assert query.explain().startswith("Query")


def test_what_only_spark_can_do() -> None:
    db = ps.connect("local")
    db.stream("s", ROWS)
    query = db.sql("SELECT a FROM s")
    assert isinstance(query, ps.Query)
    for attempt in (query.dataframe, query.late_dataframe, query.rejected_dataframe):
        with pytest.raises(ps.EngineError, match="runs on local") as caught:
            attempt()
        assert "connect(spark)" in str(caught.value.hint)


def test_names(db: ps.Database) -> None:
    db.sql("CREATE QUERY Doubled AS SELECT a * 2 AS b FROM NUMBERS")
    assert (db.streams, db.queries) == (["Numbers"], ["Doubled"])
    assert values(db, "SELECT b FROM doubled") == [2, 4]
    assert db.query("DOUBLED").collect().column("b").to_pylist() == [2, 4]


def test_queries_over_queries_keep_what_they_were_made_of(db: ps.Database) -> None:
    db.sql("CREATE QUERY q AS SELECT a + 1 AS b FROM numbers")
    db.sql("CREATE QUERY r AS SELECT b + 1 AS c FROM q")
    db.sql("DROP QUERY q")
    assert db.query("r").collect().column("c").to_pylist() == [3, 4]


def test_query_by_a_name_that_is_none(db: ps.Database) -> None:
    with pytest.raises(ps.BindError, match="'numbers' is a stream") as caught:
        db.query("numbers")
    assert caught.value.hint == "db.sql('SELECT * FROM numbers')"
    with pytest.raises(ps.BindError, match="view or query called 'numbrs'") as caught:
        db.query("numbrs")
    assert caught.value.hint == "Numbers"


def test_names_that_are_taken(db: ps.Database) -> None:
    for sql in (
        "CREATE STREAM numbers (a INT)",
        "CREATE QUERY NUMBERS AS SELECT a FROM numbers",
    ):
        with pytest.raises(ps.BindError, match="exists already"):
            db.sql(sql)
    assert db.streams == ["Numbers"]


def test_drop(db: ps.Database) -> None:
    db.sql("CREATE QUERY q AS SELECT a FROM numbers")
    with pytest.raises(ps.BindError, match="stream Numbers is read by q") as caught:
        db.sql("DROP STREAM numbers")
    assert caught.value.hint == "DROP QUERY q first"
    db.sql("DROP QUERY Q; DROP STREAM NUMBERS")
    assert (db.streams, db.queries) == ([], [])
    db.stream("numbers", [{"a": 3}])
    assert values(db, "SELECT a FROM numbers") == [3]


@pytest.mark.parametrize("sql", ["DROP STREAM nobody", "DROP QUERY nobody", "DROP QUERY numbers"])
def test_drop_what_is_not_there(db: ps.Database, sql: str) -> None:
    with pytest.raises(ps.BindError, match="there is no"):
        db.sql(sql)
    db.sql(sql.replace("STREAM", "STREAM IF EXISTS").replace("QUERY", "QUERY IF EXISTS"))
    assert db.streams == ["Numbers"]


def test_a_query_that_was_made_outlives_its_stream(db: ps.Database) -> None:
    query = db.sql("SELECT a FROM numbers")
    db.sql("DROP STREAM numbers")
    assert isinstance(query, ps.Query)
    assert query.collect().column("a").to_pylist() == [1, 2]


def test_two_databases_do_not_share(db: ps.Database) -> None:
    other = ps.connect()
    other.stream("numbers", [{"a": 10}])
    db.sql("CREATE QUERY q AS SELECT a FROM numbers")
    assert values(db, "SELECT a FROM numbers") == [1, 2]
    assert values(other, "SELECT a FROM numbers") == [10]
    assert other.queries == []
    other.sql("DROP STREAM numbers")
    assert db.streams == ["Numbers"]


def test_files_are_looked_for_in_the_base(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.csv").write_text("a\n7\n")
    for base in (tmp_path, str(tmp_path)):
        db = ps.connect(base=base)
        assert values(db, "CREATE STREAM x (a INT) FROM FILES 'in/*.csv'; SELECT a FROM x") == [7]
        with pytest.raises(ps.SourceError, match=r"no file matches 'in/y\.csv'"):
            values(db, "CREATE STREAM y (a INT) FROM FILES 'in/y.csv'; SELECT a FROM y")


def test_strict() -> None:
    for strict in (False, True):
        db = ps.connect(strict=strict)
        db.stream("s", [{"a": 1}, {"a": "x"}], schema="a INT")
        if not strict:
            assert values(db, "SELECT a FROM s") == [1]
            continue
        with pytest.raises(ps.SourceError, match="row 2, column a: the str 'x' is not an INT"):
            values(db, "SELECT a FROM s")


def test_clock() -> None:
    db = ps.connect(clock=ps.ManualClock(at=5, step=2))
    db.stream("s", ROWS, progress=ps.progress("ts", timestamps="INTERNAL"))
    assert values(db, "SELECT epoch_us(ts) AS t FROM s") == [5, 7]


def test_a_stream_without_a_source() -> None:
    db = ps.connect()
    with pytest.raises(ps.SourceError, match="stream s has no source"):
        values(db, "CREATE STREAM s (a INT); SELECT a FROM s")
