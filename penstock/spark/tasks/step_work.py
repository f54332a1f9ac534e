"""What stateless steps have done in tasks and buckets, for those who analyze a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.state.chunks import Tree, pack

FOLDING = -1  # the step that folds tuples into panes, behind all others
SHUFFLE = -2  # what comes to a stage: messages, and their bytes


class StepName(NamedTuple):
    """A step on the way to an entry of a stage, or, of stage 0, on a way to the end."""

    stage: int
    entry: int
    step: int


@dataclass(slots=True)
class StepWork:
    """Rows that have come and left, and how long it took."""

    rows_in: int = 0
    rows_out: int = 0
    nanoseconds: int = 0

    def add(self, other: StepWork) -> None:
        self.rows_in += other.rows_in
        self.rows_out += other.rows_out
        self.nanoseconds += other.nanoseconds


def work_done(work: Iterable[tuple[StepName, StepWork]]) -> bytes:
    """A status: what steps have done."""
    done = [[*name, each.rows_in, each.rows_out, each.nanoseconds] for name, each in work]
    return pack({"work": done})


def add_work(saved: Tree, to: dict[StepName, StepWork]) -> None:
    for stage, entry, step, *counts in saved:
        to.setdefault(StepName(stage, entry, step), StepWork()).add(StepWork(*counts))
