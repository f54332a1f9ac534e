"""Whose checkpoint it is: queries go on from their own state, with the buckets they began with.

The state says so, too (`stateful/identity.py`); this file is read before anything runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, TypeAlias
from zlib import crc32

from penstock.errors import CheckpointError
from penstock.optimizer.physical.shuffle_tables import are_shuffled, shuffled
from penstock.optimizer.share_panes import share_panes
from penstock.physical.plan import PhysicalPlan
from penstock.plan.identity.belonging import check_algorithms, check_format, check_query
from penstock.plan.identity.identity import algorithms, identity, meaning, without_windows
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.shared_panes import WindowsOfPanes
from penstock.plan.nodes.stateless import Scan
from penstock.spark.plan.config import may_be_idle
from penstock.spark.plan.layout import READS, kept_columns, simplified_state, slices
from penstock.spark.plan.stages import waits_for_order
from penstock.state.chunks import FORMAT

Planned: TypeAlias = Callable[[int, Collection[str]], PhysicalPlan]

_NAME = "query.json"
_OF_SPARK = ("metadata", "offsets", "commits", "state")  # what Spark writes into a checkpoint


@dataclass(frozen=True, slots=True)
class Identity:
    """What must not change while a checkpoint lives."""

    format: int
    plan: list[str]
    algorithms: list[str]
    buckets: int
    parts: dict[str, list[str]]  # by stream: the sub-sources that were known at the start
    timed: bool = False  # whether it looks at the clock between micro-batches
    shuffled: list[int] = field(default_factory=list)  # tables that are split by keys, by number
    simplified: list[str] = field(default_factory=list)  # by which rules of the optimizer
    others: list[OtherQuery] = field(default_factory=list)  # that run together with the first
    shared: list[str] = field(default_factory=list)  # aggregations that have panes in common

    @property
    def queries(self) -> list[OtherQuery]:
        first = OtherQuery(self.plan, self.algorithms, self.shuffled, self.simplified)
        return [first, *self.others]


@dataclass(frozen=True, slots=True)
class OtherQuery:
    """The same of one more query."""

    plan: list[str]
    algorithms: list[str]
    shuffled: list[int]
    simplified: list[str]


def identity_of(
    plans: Sequence[PhysicalPlan], buckets: int, parts: dict[str, list[str]], live: bool
) -> Identity:
    """Of queries that are `live`, or that end with what is there."""
    timed = live and any(_looks_at_clock(plan.query) for plan in plans)
    first, *others = [
        OtherQuery(
            identity_on_spark(plan),
            algorithms_on_spark(plan),
            are_shuffled(plan),
            list(plan.simplified),
        )
        for plan in plans
    ]
    return Identity(
        FORMAT,
        first.plan,
        first.algorithms,
        buckets,
        parts,
        timed,
        first.shuffled,
        first.simplified,
        others,
        panes_in_common(plans),
    )


def as_begun(
    plans: Sequence[PhysicalPlan], directory: Path, planned: Planned | None = None
) -> list[PhysicalPlan]:
    """The plans as a checkpoint was begun, because Spark's state is laid out for the steps that
    there were: a table that has grown large or small since stays where it was, queries are
    simplified by the rules that there were, and share what they shared; `planned` makes the plan
    of a query, by its number, by some of the rules."""
    path = directory / _NAME
    if not path.exists():
        return share_panes(plans) if len(plans) > 1 else list(plans)
    begun = _read(path)
    queries = begun.queries
    if len(queries) != len(plans):
        return list(plans)  # others than these, which is said when they are compared
    made = []
    for number, (plan, own) in enumerate(zip(plans, queries, strict=True)):
        if planned is not None and tuple(own.simplified) != plan.simplified:
            plan = planned(number, own.simplified)
        made.append(shuffled(plan, own.shuffled))
    if len(made) == 1:
        return made
    return share_panes(made, lambda each: _name_of(each) in begun.shared)


def panes_in_common(plans: Sequence[PhysicalPlan]) -> list[str]:
    """The aggregations that make their windows of shared panes, each by its meaning."""
    nodes = (node.logical for plan in plans for node in plan.root.walk())
    shared = (node.aggregate for node in nodes if isinstance(node, WindowsOfPanes))
    return list(dict.fromkeys(map(_name_of, shared)))


def _name_of(aggregate: WindowAggregate) -> str:
    return " / ".join(line.strip() for line in meaning(aggregate) if not READS.match(line.strip()))


def identity_on_spark(plan: PhysicalPlan) -> list[str]:
    """Columns that a query does not look at are not read here, nor kept."""
    return [*identity(plan.query), *kept_columns(plan), *simplified_state(plan)]


def algorithms_on_spark(plan: PhysicalPlan) -> list[str]:
    """Rows wait for their order in a stage of their own, if there is one."""
    lines = algorithms(replace(plan.query, in_order=waits_for_order(plan.root)))
    split = [f"table {number} in buckets" for number in are_shuffled(plan)]
    return [*lines, *slices(plan), *split]


def _looks_at_clock(query: QueryPlan) -> bool:
    scans = [each for each in query.walk() if isinstance(each, Scan)]
    return may_be_idle(scans) or query.early_every is not None


def claim(directory: Path, own: Identity) -> Identity:
    """Make a checkpoint the own one of some queries, or find that it is; the identity that it began
    with."""
    path = directory / _NAME
    if not path.exists():
        _refuse_state_of_nobody(directory)
        directory.mkdir(parents=True, exist_ok=True)
        _write(path, own)
        return own
    found = _read(path)
    where = f"the checkpoint in {directory.parent}"
    if len(found.others) != len(own.others):
        raise CheckpointError(
            f"{where} is of {_queries(found)}, and {_queries(own)} would go on from it",
            expected="the queries that it was made by, in the same order",
            hint="another --checkpoint, or delete the directory to begin anew",
        )
    pairs = zip(found.queries, own.queries, strict=True)
    for number, (its, mine) in enumerate(pairs, start=1):
        of = f"what {where} has of query {number} of {1 + len(own.others)}" if own.others else where
        check_query(its.plan, mine.plan, of)
        # how windows are computed may change: the state says itself what it is of
        had, has = (without_windows(each.algorithms) for each in (its, mine))
        check_algorithms(had, has, of)
    if found.timed != own.timed:  # Spark's state is laid out for timers, or not
        clock = "IDLE AFTER or EMIT EARLY under a trigger by time"
        made, now = ("with", "without") if found.timed else ("without", "with")
        raise CheckpointError(
            f"{where} was made {made} {clock}, and cannot go on {now} it: Spark lays out its state "
            "for timers, or not",
            expected="the trigger, and the IDLE AFTER or EMIT EARLY, that it was made with",
            hint="another --checkpoint, or delete the directory to begin anew",
        )
    return found


def _queries(identity: Identity) -> str:
    return f"{1 + len(identity.others)} queries" if identity.others else "one query"


def _refuse_state_of_nobody(directory: Path) -> None:
    if (directory.parent / "0" / directory.name / _NAME).exists():
        raise CheckpointError(
            f"the checkpoint in {directory.parent} was made by an earlier version of Penstock, with"
            " a directory for every query",
            hint="run it with the version that wrote it, or begin anew with another checkpoint",
        )
    of_spark = directory.parent / "spark"
    if (directory / "feed").exists() or any((of_spark / name).exists() for name in _OF_SPARK):
        raise CheckpointError(
            f"the checkpoint in {directory.parent} does not say whose it is: {directory.name}/"
            f"{_NAME} is missing beside its state",
            hint="restore the checkpoint, or delete its directory to begin anew",
        )


def _write(path: Path, own: Identity) -> None:
    content = {"penstock": "query", **asdict(own)}
    written = path.with_name(f".{path.name}")
    with written.open("w", encoding="utf-8") as file:
        json.dump({**content, "check": _check(content)}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    written.replace(path)


def _read(path: Path) -> Identity:
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        check = content.pop("check", None)
        version = int(content["format"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        _fail(path, f"is not what it should be: {error or type(error).__name__}")
    check_format(version, FORMAT, f"the checkpoint in {path.parent.parent}")
    if content.get("penstock") != "query":
        _fail(path, "is not what it should be: it is not about a query")
    if check != _check(content):
        _fail(path, "is not what was written: it was changed or is damaged")
    del content["penstock"]
    others = [OtherQuery(**each) for each in content.pop("others", [])]
    return Identity(**content, others=others)


def _check(content: dict[str, Any]) -> int:
    return crc32(json.dumps(content, sort_keys=True).encode())


def _fail(path: Path, what: str) -> NoReturn:
    raise CheckpointError(
        f"{path} {what}", hint="restore the checkpoint, or delete its directory to begin anew"
    ) from None
