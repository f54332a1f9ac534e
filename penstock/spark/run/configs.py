"""What the tasks of every stage have to know, and whose state it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from penstock.physical.plan import PhysicalPlan
from penstock.plan.nodes.stateless import Scan
from penstock.runs.adapting.adaptation import Adaptation
from penstock.spark.plan.config import Destination, StageConfig
from penstock.spark.plan.readings import WayToEnd
from penstock.spark.plan.stages import Entry, Stage
from penstock.spark.run.checkpoint import algorithms_on_spark, identity_on_spark
from penstock.spark.stateful.identity import StateIdentity
from penstock.spark.tasks.buckets import keys_for
from penstock.spark.tasks.messages import PackedKind


@dataclass(frozen=True)
class Configs:
    """Of the stages of some plans; `parts` are the sub-sources that streams have from the start."""

    plans: Sequence[PhysicalPlan]
    buckets: int
    token: str
    parts: Mapping[str, tuple[str, ...]]
    strict: bool
    live: bool
    analyzed: bool = False
    adaptation: Adaptation = field(default_factory=Adaptation.never)

    def of(
        self, ends: Sequence[WayToEnd], every: Sequence[WayToEnd], kind: PackedKind
    ) -> list[StageConfig]:
        """Of the stages on some ways to the end, those that feed others first.  Stages are numbered
        among those on `every` way."""
        numbers = {id(each): number for number, each in enumerate(_stages(every), start=1)}
        stages = _stages(ends)
        asked: dict[int, list[_Asked]] = {id(stage): [] for stage in stages}
        for end in ends:
            if isinstance(end.entry.leaf, Stage):
                asked[id(end.entry.leaf)].append(_Asked(end.entry, end.query, None, end.number))
        made: dict[int, StageConfig] = {}
        for stage in reversed(stages):  # whoever is fed is there before
            destinations = tuple(self._destination(each, made) for each in asked[id(stage)])
            config = self._config(stage, destinations, numbers[id(stage)])
            made[id(stage)] = config.giving(kind) if config.goes_out else config
            (query,) = config.queries if len(config.queries) == 1 else (0,)
            times = sum(each.times for each in destinations)
            for number, entry in enumerate(stage.entries):  # which are scans, where queries share
                if isinstance(entry.leaf, Stage):
                    asked[id(entry.leaf)].append(_Asked(entry, query, stage, number, times))
        return [made[id(stage)] for stage in stages]

    def _destination(self, asked: _Asked, made: Mapping[int, StageConfig]) -> Destination:
        query = self.plans[asked.query].query
        fed = None if asked.by is None else made[id(asked.by)]
        late, signed = query.late, query.signed
        return Destination(asked.entry, fed, asked.number, asked.query, late, signed, asked.times)

    def _config(
        self, stage: Stage, destinations: tuple[Destination, ...], number: int
    ) -> StageConfig:
        buckets = 1 if stage.one_bucket else self.buckets
        scans = [entry.leaf if isinstance(entry.leaf, Scan) else None for entry in stage.entries]
        feeding = [entry.leaf if isinstance(entry.leaf, Stage) else None for entry in stage.entries]
        queries = list(dict.fromkeys(each.query for each in destinations))
        return StageConfig(
            stage,
            destinations,
            tuple(keys_for(self.buckets)[:buckets]),
            f"{self.token}/{id(stage)}",
            tuple(self.parts.get(scan.stream.name, ()) if scan else () for scan in scans),
            tuple((1 if each.one_bucket else self.buckets) if each else 0 for each in feeding),
            self._identity(queries, number, buckets),
            self.strict,
            self.live,
            self.analyzed,
            self.adaptation,
        )

    def _identity(self, queries: Sequence[int], number: int, buckets: int) -> StateIdentity:
        """Whose state a stage has: that of a query, or of all that share it."""
        if len(self.plans) == 1:
            plan, how = self._of_plans[0]
            return StateIdentity(tuple(plan), tuple(how), number, buckets)
        plan, how = [], []
        for query in queries:
            title = f"query {query + 1} of {len(self.plans)}"
            plan += [title, *self._of_plans[query][0]]
            how += self._of_plans[query][1]
        return StateIdentity(tuple(plan), tuple(how), number, buckets)

    @cached_property
    def _of_plans(self) -> list[tuple[list[str], list[str]]]:
        return [(identity_on_spark(plan), algorithms_on_spark(plan)) for plan in self.plans]


@dataclass(frozen=True)
class _Asked:
    """Who wants the results of a stage: an entry of another one, or a query."""

    entry: Entry
    query: int
    by: Stage | None = None
    number: int = 0
    times: int = 1


def _stages(ends: Sequence[WayToEnd]) -> list[Stage]:
    """Each once, after those that feed it."""
    found: dict[int, Stage] = {}
    for end in ends:
        if isinstance(end.entry.leaf, Stage):
            for stage in end.entry.leaf.stages():
                found.setdefault(id(stage), stage)
    return list(found.values())
