"""What every task of a stage has to know; fixed when a query first starts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from penstock.plan.nodes.query import Late
from penstock.plan.nodes.stateless import Scan
from penstock.runs.adapting.adaptation import Adaptation
from penstock.spark.plan.stages import Branch, Entry, Stage
from penstock.spark.stateful.identity import StateIdentity
from penstock.spark.tasks.messages import PackedKind


@dataclass(frozen=True)
class Destination:
    """Where the results of a stage, or of a part of it, go: to an entry of another stage, or out
    (None), where `entry` is the number of the way.  What becomes of tuples that are late for them
    is for the query to say, by its number among those of the run; `signed` if negative items are
    part of its answer.  A query may ask so many `times` for what is computed once."""

    tail: Entry
    stage: StageConfig | None
    entry: int = 0
    query: int = 0
    late: Late = Late.DROP
    signed: bool = False
    times: int = 1

    @property
    def part(self) -> int:
        return self.tail.part

    @property
    def width(self) -> int:
        """How many columns results have there, without a sign."""
        if not self.tail.steps:
            assert isinstance(self.tail.leaf, Stage)
            stage = self.tail.leaf
            node = stage.parts[self.part].logical if stage.parts else stage.node
            return len(node.schema)
        last = self.tail.steps[-1]
        return len(last.union.schema if isinstance(last, Branch) else last.schema)


@dataclass(frozen=True)
class StageConfig:
    stage: Stage
    destinations: tuple[Destination, ...]
    bucket_keys: tuple[int, ...]  # what Spark knows each bucket by
    token: str  # tells the runs of queries apart in the memory of workers
    parts: tuple[tuple[str, ...], ...]  # by entry: the sub-sources that are known from the start
    feeding: tuple[int, ...]  # by entry: how many buckets feed it, 0 for a scan
    identity: StateIdentity  # whose state it is
    strict: bool = False
    live: bool = False  # whether sources may be silent: a bounded run reads all to its end
    analyzed: bool = False  # whether somebody wants to know what steps and operators do
    adaptation: Adaptation = field(default_factory=Adaptation.never)  # when operators are exchanged

    @property
    def goes_out(self) -> bool:
        """Whether some of its results are those of a query."""
        return any(each.stage is None for each in self.destinations)

    @property
    def queries(self) -> list[int]:
        """Whose stage it is."""
        return list(dict.fromkeys(each.query for each in self.destinations))

    @property
    def early_every(self) -> int | None:
        asked = self.stage.physical.asked
        return asked.early_every if asked is not None else None

    @property
    def looks_at_clock(self) -> bool:
        """Whether time alone may have something to say: a source may be idle, or answers due."""
        scans = [entry.leaf for entry in self.stage.entries if isinstance(entry.leaf, Scan)]
        return self.early_every is not None or (self.live and may_be_idle(scans))

    @property
    def buckets(self) -> int:
        return len(self.bucket_keys)

    def giving(self, kind: PackedKind) -> StageConfig:
        """For a DataFrame of one kind of rows: what one of late tuples has read, one of results
        must not take for its own."""
        if kind is not PackedKind.LATE:
            return self
        plan = (*self.identity.plan, "gives late tuples alone")
        return replace(self, identity=replace(self.identity, plan=plan))


def may_be_idle(scans: Iterable[Scan]) -> bool:
    """Whether one of the streams says when it is not waited for any more."""
    progress = [scan.stream.progress for scan in scans]
    return any(each is not None and each.policy.idle_after is not None for each in progress)
