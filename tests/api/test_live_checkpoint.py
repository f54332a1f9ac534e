"""Live engines with a checkpoint: queries are there again, and go on where they were."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.api.execution import Setting
from penstock.errors import BindError, CheckpointError, EngineError, SinkError
from penstock.local.checkpoint import Checkpoints
from penstock.plan.physical import PhysicalPlan
from tests.local.live.scripted import speak
from tests.local.scheduling.test_scheduler import Spoken
from tests.waiting import LONGEST, wait_for

STREAM = "CREATE STREAM s (k STRING, v INT) FROM FILES 's.jsonl' PROGRESS ON v DELAY 0"
COUNT = "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA v] FROM s"


class Place:
    """A file that grows, and engines on one checkpoint, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def grow(self, first: int, end: int) -> None:
        with (self.folder / "s.jsonl").open("a") as file:
            file.writelines(
                json.dumps({"k": "ab"[value % 2], "v": value}) + "\n" for value in range(first, end)
            )

    def live(self, **options: Any) -> ps.Live:
        db = ps.connect(base=self.folder)
        return db.live(checkpoint=self.folder / "kept", **options)

    def rows(self, name: str, column: str) -> list[Any]:
        lines = (self.folder / name).read_text().splitlines()
        return [json.loads(line)[column] for line in lines]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_queries_go_on_where_each_of_them_was(place: Place) -> None:
    place.grow(0, 25)
    with place.live() as live:
        live.sql(f"{STREAM}; CREATE QUERY tens AS {COUNT} INTO 'tens.jsonl'")
        assert live.wait(timeout=LONGEST)
        live.sql("CREATE QUERY gone AS SELECT v FROM s")
        live.sql("DROP QUERY gone")
        assert [(each.state, each.open_windows) for each in live.status()] == [("caught up", 1)]
    assert place.rows("tens.jsonl", "n") == [10, 10]
    place.grow(25, 45)
    with place.live() as live:
        assert [each.name for each in live.status()] == ["tens"]
        live.sql("CREATE QUERY odd AS SELECT v FROM s WHERE v % 2 = 1 INTO 'odd.jsonl'")
        assert live.wait(timeout=LONGEST)
        assert [each.account.read for each in live.status()] == [45, 45]
        names = [node.name for node in live.graph_status().nodes if node.operator == "scan"]
        assert len(names) == 2
    place.grow(45, 61)
    with place.live() as live:
        assert live.wait(timeout=LONGEST)
        assert [(each.account.read, each.written) for each in live.status()] == [(61, 6), (61, 30)]
        again = [node.name for node in live.graph_status().nodes if node.operator == "scan"]
        assert again == names
    assert place.rows("tens.jsonl", "n") == [10] * 6
    assert place.rows("odd.jsonl", "v") == list(range(1, 61, 2))


def test_one_database_may_have_engine_after_engine_on_a_checkpoint(place: Place) -> None:
    db = ps.connect(base=place.folder)
    place.grow(0, 25)
    with db.live(checkpoint=place.folder / "kept") as live:
        live.sql(f"{STREAM}; CREATE QUERY tens AS {COUNT} INTO 'tens.jsonl'")
        assert live.wait(timeout=LONGEST)
    place.grow(25, 42)
    for _ in range(2):
        with db.live(checkpoint=place.folder / "kept") as live:
            live.sql(f"CREATE QUERY tens AS {COUNT} INTO 'tens.jsonl'")
            assert live.wait(timeout=LONGEST)
    assert place.rows("tens.jsonl", "n") == [10, 10, 10, 10]
    with db.live() as bare:
        assert bare.status() == []
        bare.sql("CREATE QUERY tens AS SELECT v FROM s")


def test_a_query_over_a_view_and_what_with_names(place: Place) -> None:
    place.grow(0, 10)
    with place.live() as live:
        live.sql(f"{STREAM}; CREATE VIEW few AS SELECT v FROM s WHERE v > 6")
        live.sql("CREATE QUERY q AS WITH f AS (SELECT v FROM few) SELECT v FROM f INTO 'q.jsonl'")
        assert live.wait(timeout=LONGEST)
    place.grow(10, 12)
    with place.live() as live:
        assert live.wait(timeout=LONGEST)
    assert place.rows("q.jsonl", "v") == [7, 8, 9, 10, 11]


def test_parameters_are_not_in_the_text_that_is_kept(place: Place) -> None:
    place.grow(0, 10)
    with place.live() as live:
        live.sql(STREAM)
        with pytest.raises(BindError, match="query q has parameters"):
            live.sql("CREATE QUERY q AS SELECT v FROM s WHERE v > :least", least=3)
        live.sql("CREATE VIEW few AS SELECT v FROM s WHERE v > :least", least=3)
        with pytest.raises(BindError, match="query q has parameters"):
            live.sql("CREATE QUERY q AS SELECT v FROM few")
        assert live.status() == []


def test_a_join_of_three_goes_on_whatever_comes_to_its_streams(place: Place) -> None:
    """The plan of a join depends on how much there is to read, unless it is saved."""
    place.grow(0, 5)
    sql = (
        "SELECT x.v FROM s AS x [RANGE 3] JOIN s AS y [RANGE 3] ON x.v = y.v"
        " JOIN s AS z [RANGE 3] ON y.k = z.k WHERE z.v = x.v"
    )
    with place.live() as live:
        live.sql(f"{STREAM}; CREATE QUERY q AS {sql} INTO 'q.jsonl'")
        assert live.wait(timeout=LONGEST)
    place.grow(5, 2_000)
    with place.live() as live:
        assert live.wait(timeout=LONGEST)
    assert sorted(place.rows("q.jsonl", "v")) == list(range(2_000))


def test_a_query_that_read_another_comes_back_without_it(place: Place) -> None:
    place.grow(0, 10)
    with place.live() as live:
        live.sql(f"{STREAM}; CREATE QUERY few AS SELECT v FROM s WHERE v > 3 INTO 'few.jsonl'")
        live.sql("SPLIT few INTO low WHERE v < 7, high OTHERWISE")
        live.sql("CREATE QUERY q AS SELECT v FROM low INTO 'q.jsonl'; DROP QUERY few")
        live.sql("CREATE QUERY few AS SELECT k FROM s")  # another one
        assert live.wait(timeout=LONGEST)
    place.grow(4, 8)
    with place.live() as live:
        assert live.wait(timeout=LONGEST)
    assert place.rows("q.jsonl", "v") == [4, 5, 6, 4, 5, 6]


def test_a_program_may_say_the_same_again(place: Place) -> None:
    place.grow(0, 25)
    script = f"{STREAM}; CREATE QUERY q AS {COUNT} INTO 'q.jsonl'"
    for _ in range(3):
        with place.live() as live:
            live.sql(script)
            assert live.wait(timeout=LONGEST)
            with pytest.raises(BindError, match="exists already"):
                live.sql(script)
    with place.live() as live:
        with pytest.raises(BindError, match="query q is back from the checkpoint"):
            live.sql("CREATE QUERY q AS SELECT v FROM s")
        with pytest.raises(BindError, match="stream s is back from the checkpoint"):
            live.sql(STREAM.replace("DELAY 0", "DELAY 1"))
        live.sql("DROP QUERY q; CREATE QUERY q AS SELECT v FROM s")
    assert place.rows("q.jsonl", "n") == [10, 10]


# --- streams that cannot be read again -----------------------------------------------------------


def spoken(folder: Path) -> tuple[ps.Database, Spoken]:
    db = ps.connect(base=folder)
    source = Spoken()
    db.stream("s", [], schema={"v": "INT"}, progress=ps.progress("v", delay=0))
    speak(db, "s", source)
    return db, source


def heard(live: ps.Live, rows: int) -> Callable[[], bool]:
    return lambda: live.status()[0].account.read == rows


def test_who_came_later_has_windows_of_his_own_after_a_restart(place: Place) -> None:
    db, source = spoken(place.folder)
    with db.live(checkpoint=place.folder / "kept") as live:
        live.sql(f"CREATE QUERY first AS {COUNT} INTO 'first.jsonl'")
        source.said.put([1, 2, 3])
        wait_for(heard(live, 3))
        live.sql(f"CREATE QUERY second AS {COUNT} INTO 'second.jsonl'")
        source.said.put([4])
        wait_for(heard(live, 4))
    db, source = spoken(place.folder)
    with db.live(checkpoint=place.folder / "kept") as live:
        source.said.put([5, 12])
        wait_for(heard(live, 6))
        live.sql(f"CREATE QUERY third AS {COUNT} INTO 'third.jsonl'")
        assert [each.account.read for each in live.status()] == [6, 3, 0]
        source.said.put([13, 25])
        wait_for(heard(live, 8))
    found = {name: place.rows(f"{name}.jsonl", "n") for name in ("first", "second", "third")}
    assert found == {"first": [5, 2], "second": [2, 2], "third": [1]}


def test_settings_and_failures_are_remembered(place: Place) -> None:
    db, source = spoken(place.folder)
    with db.live(checkpoint=place.folder / "kept") as live:
        live.sql(f"CREATE QUERY q AS {COUNT}; CREATE QUERY p AS SELECT 10 / (v - 13) AS w FROM s")
        states = [line.split()[0] for line in live.explain_schedule("q").splitlines()]
        window = next(each for each in states if each.startswith("Window"))
        live.sql(f"ALTER QUERY q SET SHARE 2; ALTER QUERY q SET STRATEGY 'bfs; bfs 3 at {window}'")
        live.sql(f"ALTER QUERY q SET BREAKS '{window}'")
        live.subscribe("p", lambda _: 1 / 0)
        source.said.put([1])
        assert live.wait("p", timeout=LONGEST)
        worked_on = live.explain_schedule("q")
        assert "BFS-Sink, k = 3" in worked_on
        live.pause("q")
    db, source = spoken(place.folder)
    with db.live(checkpoint=place.folder / "kept") as live:
        assert [(each.name, each.state) for each in live.status()] == [
            ("q", "paused"),
            ("p", "failed"),
        ]
        assert "division by zero" in (live.status()[1].error or "")
        source.said.put([2, 12])
        live.sql("ALTER QUERY q SET PAUSED FALSE; DROP QUERY p")
        wait_for(heard(live, 3))
        (component,) = live._engine.ask(lambda: live._engine._graph.components)
        assert component.share == 2
        assert live.explain_schedule("q") == worked_on
        assert live.status()[0].written == 1
    with spoken(place.folder)[0].live(checkpoint=place.folder / "kept") as live:
        assert [(each.name, each.state) for each in live.status()] == [("q", "running")]


# --- files that grow -----------------------------------------------------------------------------


def test_files_are_followed(place: Place) -> None:
    place.grow(0, 15)
    with place.live(trigger="10 milliseconds") as live:
        live.sql(f"{STREAM}; CREATE QUERY q AS {COUNT} INTO 'q.jsonl'")
        wait_for(heard(live, 15))
        place.grow(15, 25)
        wait_for(heard(live, 25))
        assert [each.state for each in live.status()] == ["running"]
    with ps.connect(base=place.folder).live(trigger="10 milliseconds") as live:
        live.sql(STREAM)
        query = live.sql("SELECT v FROM s")
        assert isinstance(query, ps.LiveQuery)
        wait_for(heard(live, 25))
        place.grow(25, 30)
        wait_for(lambda: live.status()[0].written == 30)
        assert [row["v"] for row in query] == list(range(30))
    assert place.rows("q.jsonl", "n") == [10, 10]


# --- places --------------------------------------------------------------------------------------


def test_places_of_rows(place: Place) -> None:
    place.grow(0, 25)
    with place.live() as live:
        live.sql(f"{STREAM}; CREATE QUERY q AS SELECT v FROM s INTO 'rows/'")
        with pytest.raises(SinkError, match=r"the rows of query q go to '.*rows'"):
            live.sql("CREATE QUERY p AS SELECT v FROM s INTO 'rows'")
        with pytest.raises(SinkError, match="cannot be gone on with"):
            live.sql("CREATE QUERY p AS SELECT v FROM s INTO 'rows.parquet'")
        assert live.wait(timeout=LONGEST)
        live.sql("DROP QUERY q")
        with pytest.raises(SinkError, match="results of another run"):
            live.sql("CREATE QUERY q AS SELECT v FROM s INTO 'rows/'")
        (place.folder / "there.jsonl").write_text("{}\n")
        with pytest.raises(SinkError, match="is there already"):
            live.sql("CREATE QUERY q AS SELECT v FROM s INTO 'there.jsonl'")
        assert live.status() == []
    assert len(list((place.folder / "rows").glob("part-*"))) >= 1


def test_a_place_that_a_dropped_query_has_written_to_stays_its_own(place: Place) -> None:
    place.grow(0, 25)
    with place.live() as live:
        live.sql(f"{STREAM}; CREATE QUERY q AS SELECT v FROM s INTO 'q.jsonl'")
        assert live.wait(timeout=LONGEST)
        with pytest.raises(SinkError, match="is there already"):  # though nothing was saved yet
            live.sql("DROP QUERY q; CREATE QUERY q AS SELECT v + 1 AS w FROM s INTO 'q.jsonl'")
        live.sql("CREATE QUERY none AS SELECT v FROM s WHERE v > 99 INTO 'none.jsonl'")
        assert live.wait(timeout=LONGEST)
        live.sql("DROP QUERY none; CREATE QUERY some AS SELECT v FROM s INTO 'none.jsonl'")
        assert live.wait(timeout=LONGEST)
    assert place.rows("q.jsonl", "v") == place.rows("none.jsonl", "v") == list(range(25))


def test_a_sink_that_fails_when_it_is_saved_stops_its_query_alone(place: Place) -> None:
    place.grow(0, 25)
    (place.folder / "rows").mkdir()
    with place.live(trigger="10 milliseconds") as live:
        live.sql(f"{STREAM}; CREATE QUERY q AS SELECT v FROM s INTO 'rows/q.jsonl'")
        live.sql("CREATE QUERY p AS SELECT v FROM s INTO 'p.jsonl'")
        wait_for(heard(live, 25))
        shutil.rmtree(place.folder / "rows")
        place.grow(25, 30)
        wait_for(lambda: live.status()[0].state == "failed")
        assert "while the run was writing to it: it is gone" in (live.status()[0].error or "")
        wait_for(lambda: live.status()[1].written == 30)
    with place.live() as live:
        assert [each.state for each in live.status()][:1] == ["failed"]
    assert place.rows("p.jsonl", "v") == list(range(30))


# --- what does not fit ---------------------------------------------------------------------------


def test_what_does_not_fit(place: Place) -> None:
    place.grow(0, 25)
    kept = place.folder / "kept"
    with place.live() as live:
        live.sql(f"{STREAM}; CREATE QUERY q AS {COUNT}")
        with pytest.raises(CheckpointError, match="in use by another run"):
            place.live()
    for columns in ("k STRING, v INT, w INT", "v INT"):
        db = ps.connect(base=place.folder)
        db.sql(STREAM.replace("k STRING, v INT", columns))
        with pytest.raises(CheckpointError, match="s has changed since query q was saved"):
            db.live(checkpoint=kept)
    query = ps.connect(base=place.folder).sql(f"{STREAM}; {COUNT}")
    assert isinstance(query, ps.Query)
    with pytest.raises(CheckpointError, match="made by a live engine"):
        query.run(place.folder / "rows.jsonl", checkpoint=kept)
    query.run(place.folder / "rows.jsonl", checkpoint=place.folder / "run")
    with pytest.raises(CheckpointError, match="not of a live engine"):
        ps.connect().live(checkpoint=place.folder / "run")
    for trigger in ("soon", "0 seconds"):
        with pytest.raises(EngineError, match="is not a trigger"):
            ps.connect().live(trigger=trigger)


def test_a_stream_that_is_missing(place: Place) -> None:
    db, _ = spoken(place.folder)
    with db.live(checkpoint=place.folder / "kept") as live:
        live.sql(f"CREATE QUERY q AS {COUNT}")
    with pytest.raises(CheckpointError, match="query q of the checkpoint reads s") as refused:
        place.live()
    assert "db.stream('s', …)" in (refused.value.hint or "")
    with spoken(place.folder)[0].live(checkpoint=place.folder / "kept") as live:  # no harm done
        assert [each.name for each in live.status()] == ["q"]


def test_a_plan_that_has_changed(place: Place) -> None:
    place.grow(0, 5)
    with place.live() as live:
        live.sql(f"{STREAM}; CREATE QUERY q AS {COUNT}")
    store = Checkpoints(place.folder / "kept")
    record = store.get("queries/1")
    record["identity"][0] = record["identity"][0].replace("RANGE 10", "RANGE 20")
    store.put("queries/1", record)
    store.commit()
    store.close()
    with pytest.raises(CheckpointError, match="the saved state of query q belongs to another"):
        place.live()


def test_late_and_rejected_rows_have_files_of_their_own_that_go_on(place: Place) -> None:
    into = "INTO 'tens.jsonl', LATE 'late.jsonl', REJECTED 'bad.jsonl'"
    place.grow(0, 25)
    place.grow(3, 5)
    with (place.folder / "s.jsonl").open("a") as file:
        file.write("nonsense\n")
    with place.live() as live:
        live.sql(f"{STREAM}; CREATE QUERY tens AS {COUNT} LATE SIDE {into}")
        assert live.wait(timeout=LONGEST)
    assert place.rows("late.jsonl", "v") == [3, 4]
    assert len(place.rows("bad.jsonl", "reason")) == 1
    place.grow(25, 45)
    place.grow(7, 9)
    with place.live() as live:
        live.sql(f"CREATE QUERY tens AS {COUNT} LATE SIDE {into}")  # the same again
        assert live.wait(timeout=LONGEST)
        assert [(each.account.late, each.account.rejected) for each in live.status()] == [(4, 1)]
    assert place.rows("tens.jsonl", "n") == [10] * 4
    assert place.rows("late.jsonl", "v") == [3, 4, 7, 8]
    assert len(place.rows("bad.jsonl", "reason")) == 1
    with place.live() as live, pytest.raises(BindError, match="was something else"):
        live.sql(f"CREATE QUERY tens AS {COUNT} LATE SIDE INTO 'tens.jsonl', LATE 'other.jsonl'")


def test_the_rules_that_have_simplified_a_plan_are_remembered(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version may have other rules: state is of the plan that it was saved for."""
    counts = "SELECT k, window_end AS e, count(*) AS n [RANGE 4, SLIDE 4, WA v] FROM s GROUP BY k"
    top = f"SELECT k, max(n) AS m [RANGE 8, SLIDE 8, WA e] FROM ({counts}) q GROUP BY k"
    made = f"CREATE QUERY a AS SELECT m FROM ({top}) p WHERE k = 'a' INTO 'a.jsonl'"
    own, used = Setting.planned, []

    def planned(self: Setting, query: Any, simplified: Any = None) -> PhysicalPlan:
        plan = own(self, query, without if simplified is None else simplified)
        used.append(plan.simplified)
        return plan

    monkeypatch.setattr(Setting, "planned", planned)
    without: list[str] | None = []
    place.grow(0, 21)
    with place.live() as live:
        live.sql(f"{STREAM}; {made}")
        assert live.wait(timeout=LONGEST)
    place.grow(21, 40)
    without = None
    with place.live() as live:
        assert live.wait(timeout=LONGEST)
        plans = live.graph_status()
    assert used == [(), ()]
    assert len(plans.nodes) > 1
    assert place.rows("a.jsonl", "m") == [2] * 5
    with ps.connect(base=place.folder).live() as live:  # whereas today's rules change it
        live.sql(f"{STREAM}; {made.partition('INTO')[0]}")
    assert used[-1] != ()


def test_a_final_stop_closes_what_is_open(place: Place) -> None:
    place.grow(0, 25)
    with place.live() as live:
        live.sql(f"{STREAM}; CREATE QUERY tens AS {COUNT} INTO 'tens.jsonl'")
        live.sql(
            "CREATE QUERY pairs AS SELECT sum(v) AS n [RANGE 10 ROWS, SLIDE 10 ROWS] FROM s"
            " INTO 'pairs.jsonl'"
        )
        assert live.wait(timeout=LONGEST)
        live.stop(final=True)
        assert [each.state for each in live.status()] == ["stopped", "ended"]
    assert place.rows("tens.jsonl", "n") == [10, 10, 5]
    place.grow(25, 45)
    with place.live() as live:
        assert live.wait(timeout=LONGEST)
        # what was closed by a promise goes on, and what only the end could close does not
        assert [(each.state, each.account.late) for each in live.status()] == [
            ("caught up", 5),
            ("ended", 0),
        ]
        live.sql("DROP QUERY pairs")
    assert place.rows("tens.jsonl", "n") == [10, 10, 5, 10]
