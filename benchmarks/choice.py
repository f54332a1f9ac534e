"""What the choice between window algorithms rests on: python -m benchmarks.choice [part ...]

`calibrate` measures the table of penstock/optimizer/window_choice.py and prints it; `check`
runs every algorithm on some workloads, and says how the predicted order compares with the measured
one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import astuple, fields
from functools import partial
from itertools import combinations, product
from time import process_time

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks.driving import Make, feed
from penstock.io.sources.rejects import RejectLog
from penstock.kernel.batch import Batch
from penstock.kernel.grouping.folding import Folder, Partials
from penstock.kernel.operator import Item, Operator
from penstock.kernel.progress.ingest import Ingest
from penstock.kernel.windows.adapt_wid import AdaptWid, Thresholds
from penstock.kernel.windows.buffering import Buffering
from penstock.kernel.windows.paned import Paned
from penstock.kernel.windows.panes import Panes, SlidingContents
from penstock.kernel.windows.two_level import TwoLevel
from penstock.kernel.windows.wid import Tagger, Wid, joined
from penstock.model.clock import SystemClock
from penstock.optimizer.window_choice import Class, Constants, Cost
from penstock.plan.algorithms import Algorithm
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.node import Scan
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.window_kinds import Sliding

SCHEMA = pa.schema(
    [("k", pa.int64()), ("v", pa.int64()), ("x", pa.float64()), ("ts", pa.timestamp("us", "UTC"))]
)
SECOND = 1_000_000
MANY = 1 << 16
GROUPS = 100_000
CALLS = {
    Class.COUNT: "count(*)",
    Class.WHOLE: "sum(v)",
    Class.FRACTION: "sum(x)",
    Class.EXTREME: "max(v)",
    Class.HOLISTIC: "median(v)",
}

MAKE: dict[Algorithm, Make] = {
    Algorithm.PANED: Paned,
    Algorithm.WID: Wid,
    Algorithm.ADAPTIVE: AdaptWid,
    Algorithm.TWO_LEVEL: TwoLevel,
    Algorithm.BUFFERING: Buffering,
}


def nanoseconds(work: Callable[[], object], runs: int = 5, least: float = 0.02) -> float:
    """The least processor time of several runs, each long enough to be measured."""
    times, count = [], 1
    work()
    while len(times) < runs:
        begin = process_time()
        for _ in range(count):
            work()
        taken = process_time() - begin
        if taken < least:
            count *= 4
        else:
            times.append(taken / count)
    return min(times) * 1e9


def stream(rows: int, groups: int, seconds: float, disorder: float = 0.0) -> pa.RecordBatch:
    """Rows at an even pace; times are out of order by up to `disorder` seconds."""
    generator = np.random.default_rng(1)
    keys = generator.integers(0, groups, rows)
    keys[: min(rows, groups)] = np.arange(min(rows, groups))
    due = np.linspace(0, seconds * SECOND, rows) + generator.random(rows) * disorder * SECOND
    columns = [
        pa.array(keys),
        pa.array(generator.integers(40, 1501, rows)),
        pa.array(generator.random(rows) * 1000),
        pa.array(due.astype(np.int64)).cast(SCHEMA.field("ts").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def query(
    calls: str, batches: list[pa.RecordBatch], range_: float, slide: float, hint: str = ""
) -> QueryPlan:
    db = ps.connect()
    db.stream("events", batches, schema=SCHEMA, progress=ps.progress("ts", delay="5 seconds"))
    window = f"[RANGE {range_} SECONDS, SLIDE {slide} SECONDS, WA ts]"
    found = db.sql(f"SELECT {hint} k, {calls} {window} FROM events GROUP BY k")
    assert isinstance(found, ps.Query)
    return found.plan


def aggregation(plan: QueryPlan) -> WindowAggregate:
    return next(node for node in plan.walk() if isinstance(node, WindowAggregate))


# --- calibration ---------------------------------------------------------------------------------


class Bench:
    """The steps of one aggregation, over some number of groups."""

    def __init__(self, calls: str | None, groups: int) -> None:
        self.batch = stream(max(MANY, groups), groups, seconds=600)
        self.node = aggregation(query(calls or "count(*)", [self.batch], 600, 10))
        named = self.node.aggregates if calls else ()
        self.folder = Folder(self.node.keys, named, self.node.input.schema)
        self.rows = self.folder.rows(self.batch, np.asarray(self.batch.column("ts").cast("int64")))
        self.holistic = any(each.holistic for each in self.folder.aggregates)

    def folded(self, count: int) -> Partials:
        content = self.folder.new()
        self.folder.fold(content, self.rows.slice(0, count))
        if self.holistic:
            self.folder.merge(self.folder.new(), content)  # counts the tuples
        return content

    def new(self) -> float:
        """Partial results, and the room that their first tuple needs."""
        return max(0.0, nanoseconds(lambda: self.folded(1)) - self.fold(1))

    def fold(self, count: int) -> float:
        if self.holistic:
            return nanoseconds(lambda: self.folded(count))
        content, rows = self.folded(1), self.rows.slice(0, count)
        return nanoseconds(lambda: self.folder.fold(content, rows))

    def merge(self, count: int) -> float:
        """Into partial results that are as full."""
        folder, done = self.folder, self.folded(count)

        def work(times: int) -> None:
            content = folder.new()
            for _ in range(times):
                folder.merge(content, done)

        return max(0.0, nanoseconds(lambda: work(2)) - nanoseconds(lambda: work(1)))

    def finish(self, count: int) -> float:
        done = self.folded(count)
        codes = np.flatnonzero(done.rows.rows)
        return nanoseconds(lambda: self.folder.finish(done, codes))


def constants(calls: str | None) -> Constants:
    one, many = Bench(calls, 1), Bench(calls, GROUPS)
    steps = []
    for step in (Bench.fold, Bench.merge, Bench.finish):
        call = step(one, 1)
        tuples = max(call, step(one, MANY))
        groups = max(tuples, step(many, MANY))
        steps.append(Cost(call, (tuples - call) / MANY, (groups - tuples) / MANY))
    fold, merge, finish = steps
    if one.holistic:  # what it keeps are tuples, whatever their groups
        some, call = Bench(calls, 1000), merge.call
        merge = Cost(call, max(0.0, many.merge(MANY) - call) / MANY)
        finish = Cost(finish.call, max(0.0, some.finish(MANY) - finish.call) / MANY + merge.tuple)
    new = one.new()
    kept = (state_bytes(many.folded(MANY)) - state_bytes(many.folded(1))) / MANY
    per_group = (state_bytes(many.folded(1)) - kept) / GROUPS
    room = Cost(new, 0, max(0.0, many.new() - new) / GROUPS)
    return Constants(fold, room, merge, finish, round(per_group), round(kept))


def state_bytes(kept: object) -> int:
    if isinstance(kept, np.ndarray | pa.Array):
        return int(kept.nbytes)
    if isinstance(kept, list | tuple):
        return sum(map(state_bytes, kept))
    if not type(kept).__module__.startswith("penstock.operators"):
        return 0
    names = getattr(kept, "__slots__", None) or getattr(kept, "__dict__", ())
    return sum(state_bytes(getattr(kept, name)) for name in names)


def less(of: Constants, base: Constants) -> Constants:
    """What an aggregate adds to counting rows."""

    def step(mine: Cost, its: Cost) -> Cost:
        return Cost(*(max(0.0, a - b) for a, b in zip(astuple(mine), astuple(its), strict=True)))

    steps = [step(getattr(of, n), getattr(base, n)) for n in ("fold", "new", "merge", "finish")]
    return Constants(*steps, of.partial - base.partial, of.kept - base.kept)


def shown(value: object) -> str:
    """As it stands in the file, with two digits."""
    if isinstance(value, Constants):
        names = [each.name for each in fields(value)]
        inside = ", ".join(f"{name}={shown(getattr(value, name))}" for name in names)
        return f"Constants({inside})"
    if isinstance(value, Cost):
        numbers = [float(f"{number:.2g}") for number in astuple(value)]
        return f"Cost({', '.join(f'{number:g}' for number in numbers)})"
    return f"{float(f'{value:.2g}'):g}"


def calibrate() -> None:
    rows = constants(None)
    print(f"ROWS = {shown(rows)}")
    for kind, calls in CALLS.items():
        print(f"{kind}: {shown(less(constants(calls), rows))},", flush=True)
    bench = Bench("sum(v)", 1000)
    folder, window = bench.folder, bench.node.window
    assert isinstance(window, Sliding)
    bucket = Tagger(bench.node, folder)
    mixed = bench.batch.take(pa.array(np.random.default_rng(2).permutation(MANY)))
    tagged = bucket.tag(mixed)[0]
    one = nanoseconds(lambda: bucket.tag(mixed.slice(0, 1)))
    many = nanoseconds(lambda: bucket.tag(mixed)[0].in_order(window))
    print(f"ENCODE = {shown(Cost(one, (many - one) / MANY))}")
    ordered = tagged.in_order(window)
    windows = len(list(ordered.extents(window)))
    cut = nanoseconds(lambda: list(ordered.extents(window))) / windows
    print(f"CUT = {shown(cut)}")
    skip = nanoseconds(lambda: SlidingContents(folder, Panes(folder)).of(0, MANY)) / MANY
    print(f"SKIP = {shown(skip)}")
    some = np.arange(100, 2 * MANY)
    buffer = nanoseconds(lambda: joined([ordered, tagged]).in_order(window).take(some))
    print(f"BUFFER = {shown(buffer / 2 / MANY)}")
    print(f"TAGGED = {shown(state_bytes(tagged) / MANY - 8)}")
    above()


def above() -> None:
    """What ADAPTIVE and TWO_LEVEL add to the algorithms that they build on."""
    whole = stream(MANY, 1000, seconds=9)
    for name, base, other in (
        ("ADAPTIVE", Wid, partial(AdaptWid, thresholds=Thresholds(0, 0))),
        ("TWO_LEVEL", Paned, TwoLevel),
    ):
        extra = []
        for rows in (whole.slice(0, 1), whole):
            node, batch = aggregation(query("sum(v)", [rows], 10, 10)), Batch(rows)

            def once(make: Callable[[WindowAggregate], Operator], node=node, batch=batch) -> float:
                operator = make(node)
                list(operator.on_batch(0, batch))
                return nanoseconds(lambda: list(operator.on_batch(0, batch)))

            extra.append(max(0.0, once(other) - once(base)))
        print(f"{name} = {shown(Cost(extra[0], max(0.0, extra[1] - extra[0]) / MANY))}")
    codes = np.random.default_rng(3).integers(0, 1000, MANY)
    lazy = nanoseconds(lambda: np.unique(codes, return_inverse=True))
    print(f"LAZY = {shown(lazy / MANY)}")


# --- the choice against what happens --------------------------------------------------------------

WINDOWS = ((300, 5), (10, 10), (50, 0.5), (60, 59), (5, 60), (1, 1))  # RANGE, SLIDE; seconds
AGGREGATES = ("count(*), sum(v)", "sum(x)", "max(v)", "median(v)")
STREAMS = ((1_000, 1 << 16), (20, 1 << 10), (50_000, 1 << 16))  # groups, rows of a batch
ROWS, SECONDS = 100_000, 500
TOO_LONG = 5e9  # predicted nanoseconds: not run


def measured(node: WindowAggregate, items: list[Item], make: Make) -> tuple[float, int]:
    """The processor time of the faster of two runs, and the number of result rows."""
    times, rows = [], 0
    for _ in range(2):
        operator, rows = make(node), 0
        begin = process_time()
        for item in items:
            rows += sum(out.num_rows for out in feed(operator, item) if hasattr(out, "num_rows"))
        times.append(process_time() - begin)
    return min(times) * 1e9, rows


def check() -> None:
    """How the choice fares, the groups of the data being what it assumes, fewer, or many more."""
    losses, right, pairs = [], 0, 0
    shown = f"{'aggregates':17} {'RANGE':>5} {'SLIDE':>5} {'groups':>6} {'batch':>6}"
    print(f"{shown}  chosen     its time / the fastest; all in the order predicted: ms measured")
    for (groups, size), calls, (wide, slide) in product(STREAMS, AGGREGATES, WINDOWS):
        whole = stream(ROWS, groups, SECONDS, disorder=3)
        batches = [whole.slice(begin, size) for begin in range(0, ROWS, size)]
        node = aggregation(query(calls, batches, wide, slide))
        assert node.choice is not None
        assert isinstance(node.input, Scan)
        items = list(Ingest(node.input, SystemClock(), RejectLog()).items())
        windows = SECONDS / slide
        run = [each for each in node.choice.estimates if each.time * windows < TOO_LONG]
        found = {each.algorithm: measured(node, items, MAKE[each.algorithm]) for each in run}
        assert len({rows for _, rows in found.values()}) == 1, "the answers differ"
        times = {algorithm: time for algorithm, (time, _) in found.items()}
        losses.append(times[node.choice.algorithm] / min(times.values()))
        for one, other in combinations([each.algorithm for each in run], 2):
            pairs, right = pairs + 1, right + (times[one] < times[other])
        each_time = ", ".join(f"{name.name} {time / 1e6:.0f}" for name, time in times.items())
        case = f"{calls:17} {wide:5} {slide:5} {groups:6} {size:6}"
        print(f"{case}  {node.choice.algorithm.name:9} {losses[-1]:5.2f}  {each_time}", flush=True)
    fastest, near = (sum(loss <= limit for loss in losses) for limit in (1.0, 1.3))
    print(
        f"\n{len(losses)} workloads: the fastest was chosen in {fastest}, one within 1.3 times of"
        f" it in {near}; at worst {max(losses):.2f} times.  Of all pairs of algorithms,"
        f" {right / pairs:.0%} were predicted in the right order."
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choice")
    parser.add_argument("parts", nargs="*", choices=["calibrate", "check"], default=["check"])
    for part in parser.parse_args().parts:
        {"calibrate": calibrate, "check": check}[part]()


if __name__ == "__main__":
    main()
