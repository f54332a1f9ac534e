"""`penstock demo`: queries over simulated links, in process or on Spark, with a picture of their
answers; on Spark, compared with Spark's own window() over the same micro-batches."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

import penstock as ps
from penstock.api.database import Database
from penstock.api.execution import Running
from penstock.api.query import Query
from penstock.api.started_query import StartedQuery
from penstock.cli.demo.packets import LINKS, Recording, portions
from penstock.cli.report import report_outcome
from penstock.errors import EngineError, RunError
from penstock.io.sinks.output import Output, OutputFormat
from penstock.io.sinks.sink import Collected
from penstock.io.sinks.text import write_table
from penstock.model.punctuation import BEGINNING
from penstock.runs.delivery import Target
from penstock.runs.status import RunProgress
from penstock.spark.session.session import check_installed, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CUTS = 3
_ORDER = [("window_end", "ascending"), ("srcIP", "ascending")]


def compare(spark: SparkSession, recording: Recording, queries: str) -> str:
    db = ps.connect(spark, buckets=2)
    packets = recording.again(spark, _CUTS)
    db.stream("packets", packets, progress=ps.progress("ts", delay="5 seconds", per="link"))
    list(db.script(queries))
    frames = {"penstock": db.query("talkers").dataframe(), "spark": _native(packets)}
    times: dict[str, float] = {}
    answers: dict[str, pa.Table] = {}
    for _ in range(2):  # whoever is first pays for what is not there yet, so both run twice
        for name, frame in frames.items():
            taken, answers[name] = _run(frame, name)
            times[name] = min(taken, times.get(name, taken))
    ours, theirs = _closed(answers)
    if not ours.equals(theirs):
        raise RunError(
            f"Spark's own window() answers differently: {theirs.num_rows:,} rows, and"
            f" {ours.num_rows:,} by Penstock"
        )
    ratio = times["spark"] / times["penstock"]
    return (
        f"Spark's own window() gives the same {theirs.num_rows:,} rows for the windows that it"
        f" closes. Its micro-batches took {times['spark']:.1f} s, Penstock's"
        f" {times['penstock']:.1f} s: {ratio:.1f} times as fast."
    )


def _native(packets: DataFrame) -> DataFrame:
    """Compute the answer with Spark's window(). Spark has one watermark for all links, so it waits
    for the slowest one."""
    from pyspark.sql import functions as F  # noqa: N812

    window = F.window("ts", "60 seconds", "2 seconds")
    grouped = packets.withWatermark("ts", "20 seconds").groupBy(window, "srcIP")
    counted = grouped.agg(F.count("*").alias("packets"), F.sum("len").alias("bytes"))
    return counted.select("window.start", "window.end", "srcIP", "packets", "bytes").toDF(
        "window_start", "window_end", "srcIP", "packets", "bytes"
    )


def _run(frame: DataFrame, name: str) -> tuple[float, pa.Table]:
    """Run a query. Returns the seconds of all micro-batches, and the rows."""
    with TemporaryDirectory(prefix="penstock-demo-") as checkpoint:
        writer = frame.writeStream.format("memory").queryName(name).outputMode("append")
        writer = writer.option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    taken = sum(each.durationMs["triggerExecution"] for each in query.recentProgress)
    rows = frame.sparkSession.table(name).toArrow()
    frame.sparkSession.catalog.dropTempView(name)
    return taken / 1000, rows


def _closed(answers: dict[str, pa.Table]) -> list[pa.Table]:
    """Rows of the windows that both have closed, in order."""
    end = min(pc.max(rows.column("window_end")).as_py() for rows in answers.values())
    schema = answers["spark"].schema
    return [
        rows.filter(pc.less_equal(rows.column("window_end"), end)).cast(schema).sort_by(_ORDER)
        for rows in answers.values()
    ]


# The demo in process, without Spark: three links in a file.

HERE = Path(__file__).parent


def run_local_demo() -> None:
    script = (HERE / "demo.sql").read_text(encoding="utf-8")
    typer.secho(script.strip() + "\n", fg="cyan")
    database = Database(base=HERE)
    for result in database.script(script):
        if not isinstance(result, Query):
            continue
        late = Collected()
        with Output(OutputFormat.TABLE, None) as sink:
            target = Target(sink.result(), late)
            (outcome,) = Running(result.setting, [result.plan], [target]).drive()
        sys.stdout.write("\n")
        report_outcome(outcome, result.plan)
        if outcome.account.late:
            typer.echo("\nThe late ones, with the windows that they missed:")
            write_table(late.table, sys.stdout)
            typer.echo("")


# A picture of the answers.

_SHOWN = 5  # talkers


def plot(traffic: pa.Table, talkers: pa.Table, path: Path, console: Console) -> None:
    if find_spec("matplotlib") is None:
        console.print("no picture: it needs matplotlib (pip install 'penstock\\[demo]')")
        return
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    drawing, axes = plt.subplots(2, 1, figsize=(9, 7), layout="constrained", sharex=True)
    links = sorted(set(traffic.column("link").to_pylist()))
    _draw(axes[0], traffic, "link", links, "Traffic per link (RANGE 20 s, SLIDE 2 s)")
    sums = talkers.group_by("srcIP").aggregate([("bytes", "sum")])
    most = sums.sort_by([("bytes_sum", "descending")]).slice(0, _SHOWN)
    loudest = most.column("srcIP").to_pylist()
    _draw(axes[1], talkers, "srcIP", loudest, "Top talkers (RANGE 60 s, SLIDE 2 s)")
    axes[1].set_xlabel("end of the window")
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=130)
    plt.close(drawing)
    console.print(f"picture: {path}")


def _draw(axis: Any, answer: pa.Table, key: str, chosen: list[str], title: str) -> None:
    ends = sorted(set(answer.column("window_end").to_pylist()))
    for name in chosen:
        own = answer.filter(pc.equal(answer.column(key), name))
        sent = dict(zip(*(own.column(c).to_pylist() for c in ("window_end", "bytes")), strict=True))
        # a group without packets has no row
        axis.plot(ends, [sent.get(end, 0) / 1e6 for end in ends], label=name)
    axis.set(title=title, ylabel="MB in the window")
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


# Status of the queries: a table that keeps changing on a terminal, lines elsewhere.

_LOOK = 0.5  # seconds
_SAY = 4.0  # seconds between lines where there is no terminal
_REST = 3.0  # seconds after the last packet: silence closes windows, too
_COLUMNS = (
    "query",
    "packets",
    "packets/s",
    "late",
    "answers",
    "state",
    "complete until",
    "waits for",
)


def watch(started: Mapping[str, StartedQuery], recording: Recording, console: Console) -> None:
    """Show the status until all packets have been read, and a little longer."""
    with Live(console=console, auto_refresh=False, transient=False) as live:
        said = done = 0.0
        while not done or time.monotonic() < done + _REST:
            time.sleep(_LOOK)
            _check(started)
            progress = {name: query.progress() for name, query in started.items()}
            if not done and all(each.read == recording.total for each in progress.values()):
                done = time.monotonic()
            if console.is_terminal:
                live.update(_table(progress), refresh=True)
            elif time.monotonic() - said >= _SAY:
                said = time.monotonic()
                for name, each in progress.items():
                    if each.read:
                        console.print(_line(name, each))


def _check(started: Mapping[str, StartedQuery]) -> None:
    for query in started.values():
        if not query.active:
            query.wait()  # which says why


def _table(progress: Mapping[str, RunProgress]) -> Table:
    table = Table(*_COLUMNS)
    for name, each in progress.items():
        until, waits_for = _source(each)
        table.add_row(
            name,
            f"{each.read:,}",
            f"{each.rows_per_second:,.0f}",
            f"{each.late:,}",
            f"{each.rows:,}",
            f"{each.state_bytes / 1e6:.1f} MB",
            until,
            waits_for,
        )
    return table


def _line(name: str, progress: RunProgress) -> str:
    until, waits_for = _source(progress)
    words = [
        f"{name}: {progress.read:,} packets",
        f"{progress.rows_per_second:,.0f}/s",
        f"{progress.late:,} late",
        f"{progress.rows:,} answers",
        f"complete until {until}",
        f"waits for {waits_for}",
    ]
    return ", ".join(words)


def _source(progress: RunProgress) -> tuple[str, str]:
    """Low-watermark of the links together, and the links that hold windows open."""
    if not progress.sources or progress.sources[0].low == BEGINNING:
        return "", ""
    (source,) = progress.sources
    reached = datetime.fromtimestamp(source.low / 1e6, UTC)
    return f"{reached:%H:%M:%S}", ", ".join(json.loads(name) for name in source.waits_for)


# The demo on Spark: four links, two continuous queries while packets arrive, and Spark's own
# answer.

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
    """Rows of the five largest groups of the newest window."""
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
