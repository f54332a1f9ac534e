"""Whose checkpoint it is: a query goes on from its own state, with the buckets it began with.

The state says so, too (`stateful/identity.py`); this file is read before anything runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, TypeAlias
from zlib import crc32

from penstock.errors import CheckpointError
from penstock.optimizer.physical.shuffle_tables import are_shuffled, shuffled
from penstock.physical.plan import PhysicalPlan
from penstock.plan.belonging import check_algorithms, check_format, check_query
from penstock.plan.identity import algorithms, identity, without_windows
from penstock.plan.query import QueryPlan
from penstock.plan.stateless import Scan
from penstock.spark.plan.config import may_be_idle
from penstock.spark.plan.layout import kept_columns, simplified_state, slices
from penstock.spark.plan.stages import waits_for_order
from penstock.state.chunks import FORMAT

Planned: TypeAlias = Callable[[Collection[str]], PhysicalPlan]

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


def identity_of(
    plan: PhysicalPlan, buckets: int, parts: dict[str, list[str]], live: bool
) -> Identity:
    """Of a query that is `live`, or that ends with what is there."""
    timed = live and _looks_at_clock(plan.query)
    lines, split = identity_on_spark(plan), are_shuffled(plan)
    how, rules = algorithms_on_spark(plan), list(plan.simplified)
    return Identity(FORMAT, lines, how, buckets, parts, timed, split, rules)


def as_begun(plan: PhysicalPlan, directory: Path, planned: Planned | None = None) -> PhysicalPlan:
    """The plan as a checkpoint was begun, because Spark's state is laid out for the steps that
    there were: a table that has grown large or small since stays where it was, and the query is
    simplified by the rules that there were; `planned` makes a plan by some of them."""
    path = directory / _NAME
    if not path.exists():
        return plan
    begun = _read(path)
    if planned is not None and tuple(begun.simplified) != plan.simplified:
        plan = planned(begun.simplified)
    return shuffled(plan, begun.shuffled)


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
    """Make a checkpoint this query's own, or find that it is; the identity that it began with."""
    path = directory / _NAME
    if not path.exists():
        _refuse_state_of_nobody(directory)
        directory.mkdir(parents=True, exist_ok=True)
        _write(path, own)
        return own
    found = _read(path)
    where = f"the checkpoint in {directory.parent}"
    check_query(found.plan, own.plan, where)
    # how windows are computed may change: the state says itself what it is of
    check_algorithms(without_windows(found.algorithms), without_windows(own.algorithms), where)
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


def _refuse_state_of_nobody(directory: Path) -> None:
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
    return Identity(**content)


def _check(content: dict[str, Any]) -> int:
    return crc32(json.dumps(content, sort_keys=True).encode())


def _fail(path: Path, what: str) -> NoReturn:
    raise CheckpointError(
        f"{path} {what}", hint="restore the checkpoint, or delete its directory to begin anew"
    ) from None
