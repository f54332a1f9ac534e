"""CREATE, ALTER and DROP QUERY on a running engine."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.errors import BindError, EngineError, ParseError, RunError, SinkError
from tests.local.live.scripted import speak
from tests.local.scheduling.test_scheduler import Spoken
from tests.waiting import LONGEST, join, wait_for

ROWS = [{"v": value} for value in range(25)]
COUNT = "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA v] FROM s"


def database(**options: Any) -> ps.Database:
    db = ps.connect(**options)
    db.stream("s", ROWS, progress=ps.progress("v", delay=0))
    return db


def test_a_query_writes_a_file(tmp_path: Path) -> None:
    db = database(base=tmp_path)
    with db.live() as live:
        live.sql(f"CREATE QUERY counts AS {COUNT} INTO 'counts.jsonl'")
        assert live.wait("Counts", timeout=LONGEST)
        (status,) = live.status()
        assert (status.name, status.state, status.written) == ("counts", "ended", 3)
        lines = (tmp_path / "counts.jsonl").read_text(encoding="utf-8").splitlines()
        assert [json.loads(line)["n"] for line in lines] == [10, 10, 5]
        shown = live.sql("SHOW QUERIES")
        assert isinstance(shown, ps.Explanation)
        assert shown.table().select(["name", "state", "read", "rows"]).to_pylist() == [
            {"name": "counts", "state": "ended", "read": 25, "rows": 3}
        ]
        live.sql("DROP QUERY Counts")
        assert (live.status(), db.queries) == ([], [])


def test_a_select_runs_beside_the_program() -> None:
    with database().live() as live:
        query = live.sql(COUNT)
        assert isinstance(query, ps.LiveQuery)
        assert query.wait(timeout=LONGEST)
        assert [row["n"] for row in query] == [10, 10, 5]
        assert query.stop().read == 25
        found: list[int] = []
        other = live.sql(COUNT, lambda row: found.append(row["n"]), rows=True)
        assert isinstance(other, ps.LiveQuery)
        other.wait(timeout=LONGEST)
        assert found == [10, 10, 5]


def test_subscribers_come_and_go() -> None:
    db = database()
    source = Spoken()
    speak(db, "s", source)
    found: list[int] = []
    with db.live() as live:
        live.sql("CREATE QUERY q AS SELECT v FROM s")
        leave = live.subscribe("Q", lambda row: found.append(row["v"]), rows=True)
        source.said.put([1, 2])
        wait_for(lambda: found == [1, 2])
        leave()
        source.said.put([3])
        wait_for(lambda: live.status()[0].written == 3)
        assert found == [1, 2]
        assert "s waits for" in live.explain_stall("q") or "s makes" in live.explain_stall("q")
        beside = live.sql("SELECT v FROM s")
        assert isinstance(beside, ps.LiveQuery)
        assert beside.explain_stall() == live.explain_stall("q")
        live.subscribe("q", lambda _: 1 / 0)
        source.said.put([4])
        assert live.wait("q", timeout=LONGEST)
        assert live.status()[0].state == "failed"
        assert "division by zero" in (live.status()[0].error or "")


def test_settings() -> None:
    db = database()
    speak(db, "s", Spoken())
    with db.live() as live:
        live.sql(f"CREATE QUERY q AS {COUNT}")
        live.sql("ALTER QUERY Q SET SHARE 2; ALTER QUERY q SET STRATEGY 'bfs 10'")
        live.sql("ALTER QUERY q SET ETS 'none'")
        for wrong in ("SHARE 'x'", "STRATEGY 'zigzag'", "COLOUR 'red'"):
            with pytest.raises(EngineError):
                live.sql(f"ALTER QUERY q SET {wrong}")
        with pytest.raises(EngineError, match="no query called 'p'"):
            live.sql("ALTER QUERY p SET SHARE 2")
        with pytest.raises(ParseError):
            live.sql("ALTER QUERY q SET SHARE")
        assert "is paused" not in live.explain_stall("q")
        live.sql("ALTER QUERY q SET PAUSED TRUE")
        assert (
            live.explain_stall("q")
            == "query q is paused; ALTER QUERY q SET PAUSED FALSE lets it go on"
        )


@pytest.mark.parametrize(
    ("query", "setting", "message", "place"),
    [
        ("p", "SHARE 2", "no query called 'p'", "p"),
        ("q", "COLOUR 'red'", "a query has no setting 'COLOUR'", "COLOUR"),
        ("q", "SHARE 0", "'0' is not a share", "0"),
        ("q", "STRATEGY 'zigzag'", "there is no strategy called 'zigzag'", "'zigzag'"),
        ("q", "STRATEGY 'dfs at nowhere'", "no operator called 'nowhere'", "'dfs at nowhere'"),
        ("q", "STRATEGY 'dfs at '", "at which operators is missing", "'dfs at '"),
        ("q", "BREAKS 'nowhere'", "no operator called 'nowhere'", "'nowhere'"),
        ("q", "ETS '0 seconds'", "'0 seconds' does not say", "'0 seconds'"),
        ("q", "ETS '-5 seconds'", "'-5 seconds' does not say", "'-5 seconds'"),
        ("q", "PAUSED 'no'", "'no' does not say whether to pause", "'no'"),
        ("over", "SHARE 2", "query 'over' has ended", "over"),
    ],
)
def test_nonsense_is_pointed_at(query: str, setting: str, message: str, place: str) -> None:
    db = database()
    db.stream("r", ROWS)
    speak(db, "s", Spoken())
    with db.live() as live:
        live.sql(f"CREATE QUERY q AS {COUNT}; CREATE QUERY over AS SELECT v FROM r")
        assert live.wait("over", timeout=LONGEST)
        text = f"ALTER QUERY {query} SET {setting}"
        with pytest.raises(EngineError, match=message) as caught:
            live.sql(text)
        assert caught.value.span is not None
        assert text[caught.value.span.start : caught.value.span.end] == place


def test_what_a_query_asks_for_is_not_altered() -> None:
    db = database()
    speak(db, "s", Spoken())
    with db.live() as live:
        live.sql(f"CREATE QUERY q AS {COUNT}")
        with pytest.raises(EngineError, match="DROP QUERY, and CREATE QUERY"):
            live.sql("ALTER QUERY q SET RANGE 20")


def test_names_are_free_when_the_engine_is_stopped() -> None:
    db = database()
    db.sql("CREATE QUERY own AS SELECT v FROM s")
    with db.live() as live:
        live.sql("CREATE QUERY q AS SELECT v FROM s")
        live.sql("CREATE QUERY again AS SELECT v FROM q")
        with pytest.raises(BindError, match="'Q' exists already"):
            live.sql("CREATE QUERY Q AS SELECT v FROM s")
    assert list(db.catalog.queries) == ["own"]
    with db.live() as later:
        later.sql("CREATE QUERY q AS SELECT v + 1 AS w FROM s")
        live.drop("q")
        live.stop()  # again: names of others stay
        assert isinstance(db.sql("SELECT w FROM q"), ps.Query)


def test_an_engine_that_has_stopped_takes_nothing_on() -> None:
    """Whoever waited for it would wait for ever."""
    live = database().live()
    live.sql("CREATE QUERY q AS SELECT v FROM s")
    assert live.wait(timeout=LONGEST)
    live.stop()
    for late in ("CREATE QUERY p AS SELECT v FROM s", "SELECT v FROM s"):
        with pytest.raises(EngineError, match="the engine has stopped"):
            live.sql(late)
    for pause in (live.pause, live.resume):
        with pytest.raises(EngineError, match="the engine has stopped"):
            pause()
    assert [each.name for each in live.status()] == ["q"]
    assert live.drop("q").read == 25
    live.stop()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_who_is_handed_rows_neither_changes_the_engine_nor_waits_for_it(threads: int) -> None:
    """Not even half: a query that was not dropped is still known by its name."""
    db = database()
    source = Spoken()
    speak(db, "s", source)
    refused: list[str] = []
    with db.live(threads=threads) as live:
        live.sql("CREATE QUERY q AS SELECT v FROM s; CREATE QUERY r AS SELECT v FROM s")
        asking: list[Callable[[], object]] = [
            lambda: live.sql("DROP QUERY r"),
            lambda: live.drop("r"),
            lambda: live.sql("SELECT v FROM s"),
            lambda: live.wait("r"),
            live.stop,
        ]

        def ask(row: dict[str, int]) -> None:
            for each in asking:
                with pytest.raises(EngineError, match="cannot change the engine") as caught:
                    each()
                refused.append(caught.value.message)

        live.subscribe("q", ask, rows=True)
        source.said.put([1])
        wait_for(lambda: len(refused) == len(asking) or live.error("q") is not None)
        assert {each.name: each.state for each in live.status()} == {"q": "running", "r": "running"}
        assert live.drop("r").read == 1


def test_who_is_handed_rows_does_not_wait_for_somebody_who_waits_for_him() -> None:
    db = database()
    source = Spoken()
    speak(db, "s", source)
    begun, refused = threading.Event(), threading.Event()
    with db.live() as live:
        live.sql("CREATE QUERY q AS SELECT v FROM s")

        def ask(row: dict[str, int]) -> None:
            begun.set()
            time.sleep(0.2)  # somebody has something changed meanwhile
            with pytest.raises(EngineError):
                live.sql("SHOW STREAMS")
            refused.set()

        live.subscribe("q", ask, rows=True)
        source.said.put([1])
        assert begun.wait(LONGEST)
        other = threading.Thread(
            target=live.sql, args=["CREATE QUERY r AS SELECT v FROM s"], daemon=True
        )
        other.start()
        assert refused.wait(LONGEST)
        join(other)


def test_who_wants_to_leave_the_program_stops_alone() -> None:
    """SystemExit in a thread of the engine would end that, and say nothing."""

    def leave(row: dict[str, int]) -> None:
        raise SystemExit(f"at {row['v']}")

    with database().live() as live:
        query = live.sql("SELECT v FROM s", leave, rows=True)
        other = live.sql("SELECT v FROM s WHERE v > 0")
        assert isinstance(query, ps.LiveQuery)
        assert isinstance(other, ps.LiveQuery)
        assert other.wait(timeout=LONGEST)
        with pytest.raises(RunError, match="has failed: SystemExit: at 0"):
            query.wait(timeout=LONGEST)
        assert len(other.table) == 24
        assert live.status()[0].error == "SystemExit: at 0"


def test_what_cannot_be() -> None:
    db = database()
    speak(db, "s", Spoken())
    with db.live() as live:
        live.sql("CREATE QUERY q AS SELECT v FROM s")
        with pytest.raises(BindError, match="exists already"):
            live.sql("CREATE QUERY Q AS SELECT v FROM s")
        with pytest.raises(BindError, match="unknown column"):
            live.sql("CREATE QUERY p AS SELECT w FROM s")
        with pytest.raises(BindError, match="no query called"):
            live.sql("DROP QUERY p")
        live.sql("DROP QUERY IF EXISTS p")
        with pytest.raises(SinkError, match="a int cannot be handed rows"):
            live.subscribe("q", 3)  # type: ignore[arg-type]
        assert [each.name for each in live.status()] == ["q"]
    assert not live.active
    with pytest.raises(BindError, match="run at once"):
        db.sql("CREATE QUERY p AS SELECT v FROM s INTO 'p.jsonl'")
    with pytest.raises(BindError, match="run at once"):
        db.sql("ALTER QUERY q SET SHARE 2")
    with pytest.raises(EngineError, match="local engine"):
        ps.connect("reference").live()


def test_rows_go_where_sql_may_read(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with database(base=tmp_path, allow=["mine"]).live() as live:
        with pytest.raises(BindError, match="may not be written"):
            live.sql("CREATE QUERY q AS SELECT v FROM s INTO 'mine/../q.jsonl'")
        live.sql("CREATE QUERY q AS SELECT v FROM s INTO 'mine/q.jsonl'")
        assert live.wait(timeout=LONGEST)
    assert len((tmp_path / "mine" / "q.jsonl").read_text(encoding="utf-8").splitlines()) == 25


@pytest.mark.parametrize("place", ["rows", "rows/", "old.jsonl"])
def test_rows_do_not_go_to_directories(tmp_path: Path, place: str) -> None:
    (tmp_path / "old.jsonl").mkdir()
    with (
        database(base=tmp_path).live() as live,
        pytest.raises(BindError, match="names a directory"),
    ):
        live.sql(f"CREATE QUERY q AS SELECT v FROM s INTO '{place}'")


def test_names_in_back_quotes() -> None:
    name = 'we\'ird "n"; größe'
    with database().live() as live:
        with pytest.raises(ParseError, match="try: `plain` in back quotes"):
            live.sql('CREATE QUERY "plain" AS SELECT v FROM s')
        live.sql(f"CREATE QUERY `{name}` AS SELECT v FROM s")
        assert live.wait(name, timeout=LONGEST)
        assert [each.name for each in live.status()] == [name]
        live.sql(f"DROP QUERY `{name}`")
        assert not live.status()


def test_a_select_that_fails_says_so() -> None:
    with database().live() as live:
        query = live.sql("SELECT CAST(9223372036854775807 AS BIGINT) + v AS w FROM s")
        assert isinstance(query, ps.LiveQuery)
        with pytest.raises(RunError, match="has failed"):
            query.wait(timeout=LONGEST)
        with pytest.raises(RunError, match="has failed"):
            query.stop()
        assert not live.status()  # it has left all the same


def test_showing() -> None:
    db = database()
    db.sql(f"CREATE QUERY q AS {COUNT}")
    for what, columns in (("STREAMS", ["name", "kind", "columns", "source"]), ("QUERIES", None)):
        shown = db.sql(f"SHOW {what}")
        assert isinstance(shown, ps.Explanation)
        assert shown.table().num_rows == 1
        assert shown.table().column_names == (columns or ["name", "columns"])
        assert str(shown).startswith("name")


def test_rows_that_come_too_fast_are_dropped_and_counted() -> None:
    """The reader is held up until everything has come."""
    db = ps.connect()
    gone = [False]
    found: list[int] = []

    async def rows() -> AsyncIterator[dict[str, int]]:
        for value in range(1000):
            yield {"v": value}
        gone[0] = True

    def slowly(row: dict[str, int]) -> None:
        wait_for(lambda: gone[0])
        found.append(row["v"])

    db.stream("s", rows, schema={"v": "INT"})
    with db.live(overload="drop-oldest 10") as live:
        query = live.sql("SELECT v FROM s", slowly, rows=True)
        assert isinstance(query, ps.LiveQuery)
        assert query.wait(timeout=LONGEST)
        assert found[-1] == 999
        assert live.status()[0].account.read == len(found)
        assert live.graph_status().dropped.get("s", 0) == 1000 - len(found)
    with pytest.raises(EngineError, match="too fast"):
        db.live(overload="forget")


def spoken() -> tuple[ps.Database, Spoken]:
    """A stream that says what a test lets it say."""
    db, source = database(), Spoken()
    speak(db, "s", source)
    return db, source


def test_late_rows_of_running_queries() -> None:
    db, source = spoken()
    late: list[int] = []
    others: list[int] = []
    with db.live() as live:
        query = f"{COUNT} LATE SIDE"
        live.sql(query, lambda _: None, late=lambda row: late.append(row["v"]), rows=True)
        live.sql(f"CREATE QUERY named AS {query}")
        source.said.put([1, 12, 3])
        wait_for(lambda: late == [3])
        leave = live.subscribe("named", lambda row: others.append(row["v"]), rows=True, of="late")
        source.said.put([4, 25])
        wait_for(lambda: late == [3, 4] and others == [4])
        leave()
        with pytest.raises(EngineError, match="gives out no 'lat'") as error:
            live.subscribe("named", print, of="lat")
        assert error.value.hint == "late"


def test_a_final_stop_gives_out_what_is_open() -> None:
    db, source = spoken()
    found: list[int] = []
    live = db.live()
    live.sql(COUNT, lambda row: found.append(row["n"]), rows=True)
    source.said.put(list(range(14)))
    wait_for(lambda: found == [10])
    live.stop(final=True)
    assert found == [10, 4]


def test_a_select_that_is_interrupted_while_it_begins_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody knows its name yet, so nobody else could stop it."""
    db = ps.connect()
    db.stream("s", [{"t": 1}], schema="t INT", progress=ps.progress("t", ordered=True))
    with db.live() as live:
        begin = type(live)._begin

        def interrupted(*args: Any, **options: Any) -> None:
            begin(*args, **options)
            raise KeyboardInterrupt

        monkeypatch.setattr(type(live), "_begin", interrupted)
        with pytest.raises(KeyboardInterrupt):
            live.sql("SELECT t FROM s")
        assert live.status() == []


def test_everything_that_can_be_read_is_shown() -> None:
    db = database()
    db.sql("CREATE TABLE d (v INT, name STRING) FROM VALUES (1, 'a')")
    db.sql("CREATE VIEW few AS SELECT v FROM s WHERE v < 3")
    shown = db.sql("SHOW VIEWS")
    assert isinstance(shown, ps.Explanation)
    assert shown.table().to_pylist() == [{"name": "few", "columns": "v BIGINT"}]
    with db.live() as live:
        live.sql(f"CREATE QUERY q AS {COUNT}")
        shown = live.sql("SHOW TABLES")
        assert isinstance(shown, ps.Explanation)
        found = {row["name"]: row["kind"] for row in shown.table().to_pylist()}
        assert found == {"s": "stream", "d": "table", "few": "view", "q": "query"}


@pytest.mark.parametrize(
    ("what", "columns"),
    [
        ("S", [("v", "BIGINT", "DELAY 0")]),
        ("few", [("v", "BIGINT", "progresses")]),
        (
            COUNT,
            [
                ("window_start", "BIGINT", "progresses"),
                ("window_end", "BIGINT", "progresses"),
                ("n", "BIGINT", None),
            ],
        ),
    ],
    ids=["stream", "view", "query"],
)
def test_describing(what: str, columns: list[tuple[str, str, str | None]]) -> None:
    db = database()
    db.sql("CREATE VIEW few AS SELECT v FROM s WHERE v < 3")
    for word in ("DESCRIBE", "DESC"):
        with db.live() as live:
            shown = (db if word == "DESC" else live).sql(f"{word} {what}")
        assert isinstance(shown, ps.Explanation)
        assert [tuple(row.values()) for row in shown.table().to_pylist()] == columns
