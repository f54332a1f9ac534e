"""Results of a run: answers, accounts of tuples, latencies, decisions, and the outlets where
queries end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field

import numpy as np
import pyarrow as pa

from penstock.errors import SinkError
from penstock.io.sinks.sink import Backlog, Ledger, Sink
from penstock.io.sources.rejects import REJECT_COLUMNS, Reject, RejectKind, RejectLog, rejects_batch
from penstock.kernel.batch import Batch
from penstock.kernel.state import Tree
from penstock.model.punctuation import sign_name
from penstock.model.types import free_name
from penstock.plan.algorithms import duration
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties import late_schemas, plain_names


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole result of a query, its late tuples, its rejects, and the number of rows read."""

    table: pa.Table
    late: pa.Table
    rejects: RejectLog
    delivered: int  # rows that the sources could read
    counted_late: int | None = None  # where late tuples are counted but not kept

    @property
    def account(self) -> Account:
        read = self.delivered + self.rejects.count(RejectKind.BAD_ROW)
        late = self.late.num_rows if self.counted_late is None else self.counted_late
        return Account(read, late, self.rejects.count())


@dataclass(frozen=True, slots=True)
class Account:
    """The number of tuples that a query read, and how many of them were late or rejected."""

    read: int
    late: int
    rejected: int

    def plus(self, other: Account) -> Account:
        return Account(
            self.read + other.read, self.late + other.late, self.rejected + other.rejected
        )


def plainly_named(
    batch: pa.RecordBatch, known: Mapping[tuple[str, ...], list[str]] | None = None
) -> pa.RecordBatch:
    """Drop relations before the names of columns that are unique without them; `known` are the
    names of late tuples of a query (see `plain_names`)."""
    for inside, outside in (known or {}).items():
        if tuple(batch.schema.names[: len(inside)]) == inside:
            return batch.rename_columns([*outside, *batch.schema.names[len(inside) :]])
    plain = [name.rpartition(".")[2] for name in batch.schema.names]
    return batch.rename_columns(plain) if len(set(plain)) == len(plain) else batch


class LateColumns:
    """Columns for the late tuples of several operators. Columns with the same name and type are
    one; of several types that share a name, the first one keeps it, and the others get a number
    behind it.

    >>> late = LateColumns([pa.schema([("t", pa.int32())]), pa.schema([("t", pa.date32())])])
    >>> late.schema.names
    ['t', 't_1']
    >>> late.aligned(pa.table({"t": pa.array([7], pa.int32())})).to_pylist()
    [{'t': 7, 't_1': None}]
    """

    def __init__(self, schemas: Sequence[pa.Schema]) -> None:
        types: dict[str, list[pa.DataType]] = {}
        for schema in schemas:
            for column in schema:
                found = types.setdefault(column.name, [])
                if column.type not in found:
                    found.append(column.type)
        self.names: dict[tuple[str, pa.DataType], str] = {}
        taken = {name.lower() for name in types}  # Spark does not look at the case of letters
        for name, several in types.items():
            for number, each in enumerate(several):
                chosen = free_name(name, taken) if number else name
                self.names[name, each] = chosen
                taken.add(chosen.lower())
        fields = [(name, each) for (_, each), name in self.names.items()]
        self.schema = pa.schema(fields)

    def aligned(self, table: pa.Table) -> pa.Table:
        """Convert late tuples to these columns, NULL in those that they do not have."""
        own = {
            self.names[field.name, field.type]: column
            for field, column in zip(table.schema, table.columns, strict=True)
        }
        rest = {
            field.name: pa.nulls(table.num_rows, field.type)
            for field in self.schema
            if field.name not in own
        }
        return pa.table({**own, **rest}).select(self.schema.names)


def join_tables(tables: Sequence[pa.Table], query: QueryPlan | None = None) -> pa.Table:
    """Concatenate the late tuples of several operators, with all columns that late tuples of the
    query can have."""
    filled = [table for table in tables if table.num_rows]
    schemas = late_schemas(query) if query is not None else []
    columns = LateColumns([*schemas, *(table.schema for table in filled or tables[:1])])
    return pa.concat_tables(
        [columns.schema.empty_table(), *(columns.aligned(table) for table in filled)]
    )


# Work of one node of a plan in a run that was measured.


@dataclass(slots=True)
class NodeWork:
    """Rows in and out, nanoseconds, and the most tuples and bytes that it has kept; `size` is None
    for a node without state. A source has only rows. `notes` are further lines."""

    rows_in: int = 0
    rows_out: int = 0
    nanoseconds: int = 0
    kept: int = 0
    size: int | None = None
    is_source: bool = False
    notes: list[str] = field(default_factory=list)


# Decisions about running operators, in words.


@dataclass(frozen=True, slots=True)
class Decision:
    """The exchange of an operator of some queries: its names before and after, the expected time of
    a tuple in each, in nanoseconds, if that decided, and the reasons; `tuples` had come to it by
    then; moving its state took `took` nanoseconds.

    >>> told = Decision("Join-1", 9_000, "WID", "PANED", 900.0, 300.0, "seen", 1_000_000)
    >>> print(told)
    Join-1, after 9,000 tuples: WID -> PANED, 300 ns instead of 900 ns a tuple (seen); moved in 1 ms
    """

    operator: str
    tuples: int
    before: str
    after: str
    time_before: float | None
    time_after: float | None
    because: str
    took: int

    def save(self) -> Tree:
        return list(astuple(self))

    @staticmethod
    def load(saved: Tree) -> Decision:
        return Decision(*saved)

    def __str__(self) -> str:
        what = f"{self.operator}, after {self.tuples:,} tuples: {self.before} -> {self.after}"
        if self.time_before is not None and self.time_after is not None:
            times = f"{duration(self.time_after)} instead of {duration(self.time_before)}"
            what += f", {times} a tuple"
        return f"{what} ({self.because}); moved in {duration(self.took)}"


# Latencies: a histogram with fixed buckets, so that its cost does not depend on the number of
# results.
#
# Eight buckets for every doubling: times read from it are right within 7 %.

_FINE = 3  # bits: eight buckets for a doubling
_LEAST = 10  # below 2^10 ns, about a microsecond, nobody tells the difference
_MOST = 45  # 2^45 ns are almost ten hours
_BUCKETS = (_MOST - _LEAST) << _FINE
_MICROSECOND = 1_000
_WIDTHS = np.repeat(2.0 ** np.arange(_LEAST, _MOST), 1 << _FINE) / (1 << _FINE)
_MIDDLES = np.cumsum(_WIDTHS) - _WIDTHS / 2 + 2.0**_LEAST


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Latencies in microseconds, over so many results; None without results."""

    results: int = 0
    mean: float | None = None
    median: float | None = None
    p99: float | None = None
    highest: float | None = None

    def __str__(self) -> str:
        if self.median is None or self.p99 is None:
            return "no results yet"
        return f"median {time_text(self.median)}, p99 {time_text(self.p99)}"


class Latencies:
    """Latencies of results, from the arrival of the item that released them.

    >>> found = Latencies()
    >>> found.add(50_000, 99)
    >>> found.add(8_000_000, 1)
    >>> print(found.summary())
    median 51 µs, p99 51 µs
    """

    __slots__ = ("counts", "highest", "results", "total")

    def __init__(self) -> None:
        self.counts = [0] * _BUCKETS
        self.results = 0
        self.total = 0  # nanoseconds of all of them
        self.highest = 0

    def add(self, nanoseconds: int, results: int) -> None:
        """Add results of the same latency."""
        if nanoseconds > self.highest:
            self.highest = nanoseconds
        self.results += results
        self.total += nanoseconds * results
        octave = nanoseconds.bit_length() - 1 - _LEAST
        if octave < 0:
            self.counts[0] += results
        elif octave >= _MOST - _LEAST:
            self.counts[-1] += results
        else:
            within = (nanoseconds >> (octave + _LEAST - _FINE)) & ((1 << _FINE) - 1)
            self.counts[(octave << _FINE) | within] += results

    def quantile(self, share: float) -> float | None:
        """Time, in microseconds, that this share of the results did not exceed."""
        upto = np.cumsum(self.counts)
        if not upto[-1]:
            return None
        bucket = int(np.searchsorted(upto, share * upto[-1]))
        return min(float(_MIDDLES[bucket]), self.highest) / _MICROSECOND

    def summary(self) -> LatencySummary:
        if not self.results:
            return LatencySummary()
        mean = self.total / self.results / _MICROSECOND
        highest = self.highest / _MICROSECOND
        return LatencySummary(self.results, mean, self.quantile(0.5), self.quantile(0.99), highest)


def time_text(microseconds: float) -> str:
    """
    >>> [time_text(each) for each in (0.0312, 73.4, 2_900, 41_000_000)]
    ['31 ns', '73 µs', '2.9 ms', '41 s']
    """
    units = (("s", 1e6), ("ms", 1e3), ("µs", 1.0))
    unit, size = next((each for each in units if microseconds >= each[1]), ("ns", 1e-3))
    return f"{microseconds / size:,.{0 if microseconds >= 10 * size else 1}f} {unit}"


# The outlet, where a query ends: counts results and passes them to sinks, batch by batch.

SHOWN = 3  # rejects that a message can name


class Outlet:
    """The end of a query. Rows go to `sink`, with a sign if they may be retracted; late tuples and
    rejects go to sinks of their own, or are counted and dropped."""

    def __init__(
        self,
        query: QueryPlan,
        sink: Sink,
        late: Sink | None = None,
        rejected: Sink | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        """Make an outlet; the `ledger` notes outputs that a later run continues."""
        self._ledger = ledger
        self._schema = query.schema.arrow
        self._signed = query.revises or query.signed
        if self._signed:
            refuse_for_good(sink)
            name = sign_name(self._schema.names)
            self._schema = self._schema.append(pa.field(name, pa.int8()))
        self._sink = sink
        self._late_sink = late
        self._rejected_sink = rejected
        self.written = 0
        self.late = 0
        self.rejected = 0
        self.latencies = Latencies()  # told by hosts that know when tuples came
        self.first_rejects: list[Reject] = []  # enough for a message
        self.plain_names = plain_names(query)  # of late tuples
        self._late_schemas = late_schemas(query)
        self._late_columns: LateColumns | None = None  # once there are late tuples
        sink.begin(self._schema)
        if rejected is not None:
            rejected.begin(REJECT_COLUMNS)

    def on_rows(self, batch: Batch) -> None:
        count = batch.num_rows
        if count:
            self.written += count
            rows = batch.rows
            if self._signed:
                signs = np.ones(len(rows), np.int8) if batch.signs is None else batch.signs
                columns = [*rows.columns, pa.array(signs, pa.int8())]
                rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
            self._sink.write(rows)

    def on_late(self, batch: pa.RecordBatch) -> None:
        if self._late_sink is not None and batch.num_rows and _is_wanted(self._late_sink):
            batch = plainly_named(batch, self.plain_names)
            if self._late_columns is None:  # which ones they have depends on the operators
                self._late_columns = LateColumns([*self._late_schemas, batch.schema])
                self._late_sink.begin(self._late_columns.schema)
            for each in self._late_columns.aligned(pa.Table.from_batches([batch])).to_batches():
                self._late_sink.write(each)
        self.late += batch.num_rows

    def on_rejects(self, rejects: Sequence[Reject]) -> None:
        self.rejected += len(rejects)
        self.first_rejects += rejects[: max(0, SHOWN - len(self.first_rejects))]
        if self._rejected_sink is not None and _is_wanted(self._rejected_sink):
            self._rejected_sink.write(rejects_batch(rejects))

    @property
    def waiting(self) -> int:
        """Rows that wait in the queues of subscribers."""
        return 0

    @property
    def dropped(self) -> int:
        """Rows that were dropped from full queues of subscribers."""
        return 0

    @property
    def sinks(self) -> list[Sink]:
        sinks = (self._sink, self._late_sink, self._rejected_sink)
        return [sink for sink in sinks if sink is not None]

    def flush(self) -> None:
        for sink in self.sinks:
            sink.flush()

    @property
    def commits(self) -> bool:
        """Whether a sink commits epochs."""
        return any(hasattr(sink, "commit") for sink in self.sinks)

    def prepare(self, epoch: int) -> None:
        """Prepare to commit an epoch: outputs that this run has not written to are cut back to what
        they held before it."""
        for sink in self.sinks:
            prepare = getattr(sink, "prepare", None)
            if prepare is not None:
                prepare(epoch)

    def commit(self, epoch: int) -> None:
        """Commit an epoch: its rows are kept now. One that failed is replayed."""
        self.prepare(epoch)
        if self._ledger is not None:
            self._ledger.write()
        for sink in self.sinks:
            commit = getattr(sink, "commit", None)
            if commit is not None:
                commit(epoch)
            else:
                sink.flush()
        if self._ledger is not None:
            self._ledger.write()

    def end(self) -> None:
        self._sink.end()
        if self._late_sink is not None and self.late:
            self._late_sink.end()
        if self._rejected_sink is not None:
            self._rejected_sink.end()


def refuse_for_good(sink: Sink) -> None:
    """Refuse a sink that cannot process retractions, if rows may be retracted."""
    if not getattr(sink, "takes_back", True):
        raise SinkError(
            f"rows of the query may be taken back, and {type(sink).__name__} keeps them for good",
            expected="a sink that understands the column _sign",
            hint="leave EMIT CHANGES, EMIT EARLY and LATE AMEND out, or query.collect()",
        )


def _is_wanted(sink: Sink) -> bool:
    """Whether rows for a sink are of use: one that passes them to subscribers may have none."""
    return bool(getattr(sink, "wanted", True))


# An outlet whose failure ends its own query only.


class IsolatedOutlet(Outlet):
    """An outlet that stops using its sinks when one fails. The engine checks its `failure`."""

    failure: BaseException | None = None
    told: Callable[[IsolatedOutlet], None] | None = None  # whoever wants to know of it at once
    noted: Callable[[], None] | None = None  # called when something comes, if that is saved
    backlog: Backlog | None = None  # of its subscribers

    @property
    def waiting(self) -> int:
        return 0 if self.backlog is None else self.backlog.waiting

    @property
    def dropped(self) -> int:
        return 0 if self.backlog is None else self.backlog.dropped

    def on_rows(self, batch: Batch) -> None:
        self._note()
        self._try(lambda: super(IsolatedOutlet, self).on_rows(batch))

    def on_late(self, batch: pa.RecordBatch) -> None:
        self._note()
        self._try(lambda: super(IsolatedOutlet, self).on_late(batch))

    def on_rejects(self, rejects: Sequence[Reject]) -> None:
        self._note()
        self._try(lambda: super(IsolatedOutlet, self).on_rejects(rejects))

    def flush(self) -> None:
        self._try(super().flush)

    def prepare(self, epoch: int) -> None:
        self._try(lambda: super(IsolatedOutlet, self).prepare(epoch))

    def commit(self, epoch: int) -> None:
        self._try(lambda: super(IsolatedOutlet, self).commit(epoch))

    def end(self) -> None:
        self._try(super().end)

    def _note(self) -> None:
        if self.noted is not None:
            self.noted()

    def _try(self, hand_over: Callable[[], None]) -> None:
        if self.failure is not None:
            return
        try:
            hand_over()
        except BaseException as error:  # the threads of an engine are not the program's to leave
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Stop using the sinks; from any thread."""
        self.failure = error
        if self.told is not None:
            self.told(self)
