"""A difference before a join: the same items as after it, and less work where a tuple has several
partners."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sources.source import Chunk
from penstock.local.scheduling.scheduler import answer
from penstock.model.clock import ManualClock
from penstock.optimizer.join_order import difference_below_join
from penstock.optimizer.optimize import PHYSICAL, optimize
from penstock.optimizer.rewrite import Settings
from penstock.plan.nodes.join import Difference, Join
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import Host, PhysicalPlan
from tests.planning import in_process
from tests.reference.helpers import Row, Stream, ask, bag, tuples
from tests.spark.without_spark import Given, WithoutSpark, rows_of

SCHEMA = "b INT, c INT, t INT"
SLIDING = "r [RANGE {0}, WA t], s [RANGE {1}, WA t] WHERE r.b = s.b"
TUMBLING = "r, s [RANGE TUMBLING 4, WA t] WHERE r.b = s.b"
BAND = "r, s WHERE r.b = s.b AND s.t BETWEEN r.t - {0} AND r.t + {1}"
SWAPPED = "s [RANGE {0}, WA t], r [RANGE {1}, WA t] WHERE r.b = s.b"
PAIRS = "SELECT r.c AS d, s.c, s.b + r.c AS e, s.t AS at FROM "
ITEMS = "(" + PAIRS + "{pairs}) q [RANGE {2}, WA at] EXCEPT ON (c) u [RANGE {3}, WA t]"
QUERIES = (
    "SELECT * FROM {items}",
    "SELECT e, changed_at FROM {items} WHERE d > 0",
    "SELECT d, count(*) AS n [RANGE 4, SLIDE 2, WA changed_at] FROM {items} GROUP BY d",
)

rows = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 12)), max_size=12)


def query_of(
    kind: str, pairs: str, lengths: tuple[int, ...], found: tuple[list[Row], ...], delay: int
) -> ps.Query:
    sql = kind.format(items=ITEMS.replace("{pairs}", pairs).format(*lengths))
    given = {
        name: Stream(SCHEMA, each, ps.progress("t", delay=delay))
        for name, each in zip("rsu", found, strict=True)
    }
    return ask(f"{sql} LATE SIDE", **given)


def planned(query: QueryPlan, host: Host = Host.LOCAL) -> PhysicalPlan:
    """As if it always paid."""
    plan = optimize(query, Settings(host=host, as_begun=True), PHYSICAL[host])
    assert "difference_below_join" in plan.simplified
    return plan


def is_before(query: QueryPlan) -> bool:
    """Whether a join comes after a difference."""
    joins = [node for node in query.walk() if isinstance(node, Join)]
    return any(isinstance(each, Difference) for join in joins for each in join.branches)


@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(QUERIES),
    pairs=st.sampled_from((SLIDING, TUMBLING, BAND, SWAPPED)),
    lengths=st.tuples(*[st.integers(0, 5)] * 4),
    found=st.tuples(rows, rows, rows),
    delay=st.sampled_from([0, 3, 50]),
)
def test_the_items_are_the_same(
    kind: str,
    pairs: str,
    lengths: tuple[int, ...],
    found: tuple[list[Row], ...],
    delay: int,
) -> None:
    query = query_of(kind, pairs, lengths, found, delay)
    expected = bag(tuples(query.collect())), bag(tuples(query.late)), query.account
    here = answer(planned(query.plan), ManualClock())
    assert (bag(tuples(here.table)), bag(tuples(here.late)), here.account) == expected
    job = WithoutSpark(planned(query.plan, Host.SPARK), 2)
    job.run({name: [Given([Chunk(b)], ends=True)] for name, b in rows_of(query.plan).items()})
    assert bag(tuples(job.received.table(query.plan))) == expected[0]


# --- when ----------------------------------------------------------------------------------------


def over(count: int, keys: int, sql: str = "") -> QueryPlan:
    """Over streams with a tuple a tick and so many keys."""
    db = ps.connect()
    made = pa.Table.from_pylist([{"b": t % keys, "c": t % 3, "t": t} for t in range(count)])
    for name in "rsu":
        db.stream(name, made, progress=ps.progress("t", delay=5))
    query = db.sql(sql or "SELECT * FROM " + ITEMS.replace("{pairs}", SLIDING).format(*[20] * 4))
    assert isinstance(query, ps.Query)
    return query.plan


def test_where_tuples_have_several_partners() -> None:
    assert is_before(difference_below_join(over(999, keys=2), Settings()))
    assert not is_before(difference_below_join(over(999, keys=900), Settings()))


@pytest.mark.parametrize(
    "sql",
    [
        # what is compared, or when a pair comes, is not of one stream alone
        "SELECT * FROM (SELECT r.c + s.c AS c, s.t FROM {p}) q [RANGE 9, WA t] EXCEPT ON (c) u",
        "SELECT * FROM (SELECT r.c, s.t FROM {p}) q [RANGE 9, WA t] EXCEPT ON (c) u",
        "SELECT * FROM (SELECT r.b, s.c, s.t FROM {p}) q [RANGE 9, WA t] EXCEPT ON (b, c) u",
        # pairs that stay for ever: partners would have to
        "SELECT * FROM (SELECT s.c, s.t FROM {p}) q [RANGE ALL, WA t] EXCEPT ON (c) u",
        # where the window would go on to times at which there is no pair
        "SELECT count(*) AS n [RANGE ALL, SLIDE 3, WA changed_at]"
        " FROM (SELECT s.c, s.t FROM {p}) q [RANGE 9, WA t] EXCEPT ON (c) u",
    ],
)
def test_not_where_it_would_be_another_question(sql: str) -> None:
    pairs = "r [RANGE 20], s [RANGE 20] WHERE r.b = s.b"
    query = over(99, 2, sql.format(p=pairs))
    assert not is_before(difference_below_join(query, Settings(as_begun=True)))


# --- runs that go on -----------------------------------------------------------------------------


def on_files(folder: Path, sql: str) -> ps.Query:
    db = ps.connect("local")
    for name in "rsu":
        db.sql(
            f"CREATE STREAM {name} ({SCHEMA}) FROM FILES '{folder}/{name}*.csv'"
            " FORMAT CSV PROGRESS ON t DELAY 3"
        )
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def test_a_run_that_goes_on_does_what_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if there is less to gain by now."""
    sql = "SELECT * FROM " + ITEMS.replace("{pairs}", SLIDING).format(6, 6, 5, 3)
    files = tmp_path / "files"
    files.mkdir()

    def add(part: int) -> None:
        for number, name in enumerate("rsu"):
            lines = [f"{t % 2},{(t + number) % 3},{t}\n" for t in range(part * 30, part * 30 + 30)]
            (files / f"{name}{part}.csv").write_text("b,c,t\n" + "".join(lines))

    def run(checkpoint: Path, final: bool) -> list[Row]:
        found: list[pa.RecordBatch] = []
        on_files(files, sql).run(found.append, checkpoint=checkpoint, final=final)
        return [row for batch in found for row in tuples(pa.Table.from_batches([batch]))]

    paying = True
    monkeypatch.setattr(
        "penstock.optimizer.join_order.pays_before_joins",
        lambda after, before: paying,
    )
    add(0)
    first = run(tmp_path / "checkpoint", final=False)
    add(1)
    paying = False
    rest = run(tmp_path / "checkpoint", final=True)
    assert not in_process(on_files(files, sql).plan).simplified
    expected = bag(run(tmp_path / "another", final=True))
    assert bag([*first, *rest]) == expected
    assert first
    assert rest
