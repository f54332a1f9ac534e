"""Four links on Spark: two continuous queries while packets arrive, and what Spark itself says."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import penstock as ps
from penstock.cli.demo.comparison import compare
from penstock.cli.demo.links import LINKS, portions
from penstock.cli.demo.local import run_local_demo
from penstock.cli.demo.plot import plot
from penstock.cli.demo.recording import Recording
from penstock.cli.demo.watching import watch
from penstock.errors import EngineError
from penstock.spark.session.session import session
from penstock.spark.session.versions import check_installed

SECONDS = 180  # of the links
SPEED = 10  # seconds of the links in a second of the demo
PAUSE = 1.5  # seconds between portions

QUERIES = """\
CREATE QUERY traffic AS
SELECT link, count(*) AS packets, sum(len) AS bytes [RANGE 20 SECONDS, SLIDE 2 SECONDS, WA ts]
FROM packets GROUP BY link;

CREATE QUERY talkers AS
SELECT srcIP, count(*) AS packets, sum(len) AS bytes [RANGE 60 SECONDS, SLIDE 2 SECONDS, WA ts]
FROM packets GROUP BY srcIP;
"""


def run_demo(engine: str, picture: Path, seconds: float = SECONDS) -> None:
    if engine == "local":
        run_local_demo()
        return
    if engine != "spark":
        raise EngineError(f"there is no demo on {engine!r}", expected="spark or local")
    check_installed()
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"{len(LINKS)} links send packets for {seconds:g} seconds, played at {SPEED} times their"
        " speed. Their packets come out of order; harbour falls silent on the way, and satellite"
        " is always behind.\n"
    )
    console.print(f"[cyan]{escape(QUERIES)}")
    console.print("starting Spark …")
    # as few partitions as a small machine has cores, for Penstock and for Spark's own query
    spark = session(conf={"spark.sql.shuffle.partitions": "2"})
    with TemporaryDirectory(prefix="penstock-demo-") as folder:
        packets = portions(LINKS, seconds, every=SPEED * PAUSE)
        recording = Recording(Path(folder), packets, PAUSE)
        recording.begin()

        db = ps.connect(spark, buckets=2)
        promise = ps.progress("ts", delay="5 seconds", per="link", idle="4 seconds")
        db.stream("packets", recording.stream(spark), progress=promise)
        list(db.script(QUERIES))
        console.print("warming up …")  # Spark's first query is slow, and the links would not wait
        db.query("talkers").start(lambda _: None, trigger="available-now").wait()

        answers: dict[str, list[pa.RecordBatch]] = {"traffic": [], "talkers": []}
        started = {
            name: db.query(name).start(answers[name].append, trigger="500 milliseconds")
            for name in answers
        }
        with recording.playing():
            watch(started, recording, console)
        for query in started.values():
            query.stop()
            query.wait()

        traffic, talkers = (pa.Table.from_batches(answers[name]) for name in answers)
        console.print(_last_window(traffic, "link", "Traffic per link"))
        console.print(_last_window(talkers, "srcIP", "Top talkers"))
        plot(traffic, talkers, picture, console)
        console.print("comparing with Spark's own window() …")
        console.print(compare(spark, recording, QUERIES))


def _last_window(answer: pa.Table, key: str, title: str) -> Table:
    """The five largest groups of the newest window."""
    end = pc.max(answer.column("window_end"))
    newest = answer.filter(pc.equal(answer.column("window_end"), end))
    table = Table(
        title=f"{title}, window that ends at {end.as_py():%H:%M:%S}", title_justify="left"
    )
    for name in (key, "packets", "bytes"):
        table.add_column(name, justify="left" if name == key else "right")
    for row in newest.sort_by([("bytes", "descending")]).slice(0, 5).to_pylist():
        table.add_row(row[key], f"{row['packets']:,}", f"{row['bytes']:,}")
    return table
