"""A query that was started on Spark: it goes on beside the program until it ends or is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from penstock.answer import Account, join_tables
from penstock.errors import SinkError
from penstock.model.domain import Domain
from penstock.model.punctuation import BEGINNING
from penstock.plan.query import Query
from penstock.plan.stateless import Scan
from penstock.running import Setting
from penstock.running_on_spark import CommittingOutlet, delivering_late
from penstock.sinks.callback import Callback
from penstock.sinks.output import Output, OutputFormat, format_by_ending
from penstock.sinks.sink import Collected, Sink
from penstock.spark.part_files import PartFiles
from penstock.spark.progress import RunProgress
from penstock.targets import SinkLike


class StartedQuery:
    def __init__(
        self,
        query: Query,
        setting: Setting,
        sinks: Sequence[SinkLike | None],
        rows: bool,
        checkpoint: Path | None,
        trigger: str | None,
    ) -> None:
        """`sinks` are for rows, late tuples and rejected rows; the last two are kept if nobody else
        takes them."""
        self._query = query
        self._outputs = ExitStack()
        self._late, self._rejected = Collected(), Collected()
        target, late, rejected = (
            default if given is None else _sink(given, rows)
            for given, default in zip(sinks, (None, self._late, self._rejected), strict=True)
        )
        if target is None:
            target = self._outputs.enter_context(Output(OutputFormat.TABLE, None)).result()
        if sinks[1] is not None:
            query = delivering_late(query)
        self._outlet = CommittingOutlet(query, target, late, rejected)
        self._run = setting.on_spark.run(
            query, self._outlet, setting.strict, checkpoint=checkpoint, trigger=trigger
        )
        self._run.start()

    def wait(self) -> Account:
        """Until the input ends; then every window has closed."""
        with self._outputs:
            self._run.wait()
            self._outlet.end()
        return self.account

    def stop(self) -> None:
        self._run.stop()

    @property
    def active(self) -> bool:
        return self._run.active

    @property
    def account(self) -> Account:
        return self._run.account()

    @property
    def late(self) -> pa.Table:
        """With LATE SIDE: the tuples that missed windows so far, unless a sink takes them."""
        return join_tables([pa.Table.from_batches([each]) for each in self._late.batches])

    @property
    def rejected(self) -> pa.Table:
        return self._rejected.table

    def progress(self) -> RunProgress:
        return self._run.progress()

    def explain_stall(self) -> str:
        """Which source holds back the oldest window that is still open, and what would help."""
        streams = {n.stream.name: n.stream for n in self._query.walk() if isinstance(n, Scan)}
        found = [each for each in self._run.tally.sources if not each.ended]
        if not found:
            return (
                "nothing is held back" if self._run.tally.sources else "nothing has been read yet"
            )
        slowest = min(found, key=lambda each: each.low)
        stream = streams[slowest.stream]
        if stream.progress is None:
            return f"stream {stream.name} makes no promises; nothing waits for it"
        domain = Domain(stream.attribute.type)
        names = ", ".join(name for name in slowest.waits_for[:3] if name) or "its only source"
        more = len(slowest.waits_for) - 3
        who = names + (f" and {more:,} more" if more > 0 else "")
        if slowest.low == BEGINNING:
            return f"stream {stream.name} has promised nothing yet: it waits for {who}"
        at = domain.format(int(slowest.low))
        behind = domain.format_length(int(slowest.high) - int(slowest.low))
        idle = stream.progress.policy.idle_after
        advice = (
            "it is left out when it has been silent for as long as IDLE AFTER says"
            if idle is not None
            else "IDLE AFTER would leave it out when it is silent"
        )
        return (
            f"windows that end after {at} are open: stream {stream.name} waits for {who},"
            f" which is {behind} behind the highest value; {advice}"
        )


def _sink(given: SinkLike, rows: bool) -> Sink:
    if isinstance(given, str | Path):
        path = Path(given)
        return PartFiles(path, format_by_ending(path) if path.suffix else OutputFormat.PARQUET)
    if isinstance(given, Sink):
        return given
    if callable(given):
        return Callback(given, rows)
    raise SinkError(
        f"a {type(given).__name__} is not a sink",
        expected="a function, a directory, or an object with begin, write, flush and end",
    )
