"""The whole answer of a query at once: a run whose outlet gathers everything."""

from __future__ import annotations

from penstock.engine.options import Scheduling
from penstock.engine.run import LocalRun
from penstock.engine.scheduling.scheduler import Scheduler
from penstock.model.clock import Clock
from penstock.physical.plan import PhysicalPlan
from penstock.runs.answer import Answer
from penstock.runs.gathered import Gathered


def answer(
    plan: PhysicalPlan, clock: Clock, strict: bool = False, scheduling: Scheduling | None = None
) -> Answer:
    gathered = Gathered(plan.query)
    run = LocalRun([plan], [gathered], clock, strict, scheduling=scheduling)
    Scheduler(run).drive()
    return gathered.answer(sum(scan.ingest.read for scan in run.scans if not scan.again))
