"""The checkpoint of a job: its identity (queries, algorithms, buckets), the plans as they were when
it was begun, its lock, and the paths of files in it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, TypeAlias
from urllib.parse import quote
from zlib import crc32

from penstock.errors import CheckpointError
from penstock.io.durable_files import lock
from penstock.kernel.state import FORMAT
from penstock.optimizer.distribution import are_shuffled, shuffled
from penstock.optimizer.sharing import share_panes
from penstock.plan.identity import (
    algorithms,
    check_algorithms,
    check_format,
    check_query,
    identity,
    meaning,
    origins,
    without_windows,
)
from penstock.plan.nodes.aggregation import WindowAggregate, WindowsOfPanes
from penstock.plan.nodes.join import Difference, Join
from penstock.plan.nodes.join import Sequence as SequenceNode
from penstock.plan.nodes.node import Scan
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import PhysicalNode, PhysicalPlan
from penstock.spark.stages import may_be_idle, waits_for_order

READS = re.compile(r"(stream|progress on) ")  # columns that are read have lines of their own


def kept_columns(plan: PhysicalPlan) -> list[str]:
    """Columns of tuples that wait for others, of which only those that the query uses are kept:
    another SELECT list may need more."""
    return [
        f"join {number} keeps {text} {field.type}"
        for number, node in _keeping_tuples(plan)
        for port in node.ports
        for field, text in zip(
            port.input.logical.schema, origins(port.input.logical).values(), strict=True
        )
    ]


def simplified_state(plan: PhysicalPlan) -> list[str]:
    """Lines about state that is simpler than the query, because rules have simplified the plan."""
    if not plan.simplified:
        return []
    top = plan.root.logical
    lines = meaning(top.inputs[0] if isinstance(top, QueryPlan) else top)
    return [f"simplified: {line}" for line in map(str.strip, lines) if not READS.match(line)]


def slices(plan: PhysicalPlan) -> list[str]:
    """Lines about the time slices in which tuples without keys meet."""
    return [
        f"join {number} meets in slices of {port.slices.width} from {port.slices.low} to"
        f" {port.slices.high}"
        for number, node in _keeping_tuples(plan)
        for port in node.ports
        if port.slices is not None
    ]


def _keeping_tuples(plan: PhysicalPlan) -> Iterator[tuple[int, PhysicalNode]]:
    nodes = (n for n in plan.root.walk() if isinstance(n.logical, Join | SequenceNode | Difference))
    return enumerate(nodes, start=1)


# Identity of a checkpoint: queries resume their own state, with the buckets they began with.
#
# The state has an identity, too (`StateIdentity`); the file of the checkpoint is read before
# anything runs.

Planned: TypeAlias = Callable[[int, Collection[str]], PhysicalPlan]

_QUERY_FILE = "query.json"
_OF_SPARK = ("metadata", "offsets", "commits", "state")  # what Spark writes into a checkpoint


@dataclass(frozen=True, slots=True)
class Identity:
    """Facts that must not change during the life of a checkpoint."""

    format: int
    plan: list[str]
    algorithms: list[str]
    buckets: int
    parts: dict[str, list[str]]  # by stream: the sub-sources that were known at the start
    timed: bool = False  # whether it has timers
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
    """Facts about one more query."""

    plan: list[str]
    algorithms: list[str]
    shuffled: list[int]
    simplified: list[str]


def identity_of(
    plans: Sequence[PhysicalPlan], buckets: int, parts: dict[str, list[str]], live: bool
) -> Identity:
    """Identity of queries that are `live`, or bounded."""
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
    """Plans as they were when the checkpoint was begun, because Spark's state is laid out for their
    steps: a table that has grown large or small since stays where it was, queries are simplified by
    the same rules, and share what they shared; `planned` makes the plan of a query, by its number,
    by some of the rules."""
    path = directory / _QUERY_FILE
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
    """Aggregations that make their windows of shared panes, each by its meaning."""
    nodes = (node.logical for plan in plans for node in plan.root.walk())
    shared = (node.aggregate for node in nodes if isinstance(node, WindowsOfPanes))
    return list(dict.fromkeys(map(_name_of, shared)))


def _name_of(aggregate: WindowAggregate) -> str:
    return " / ".join(line.strip() for line in meaning(aggregate) if not READS.match(line.strip()))


def identity_on_spark(plan: PhysicalPlan) -> list[str]:
    """Lines that identify a plan; columns that the query does not use are neither read nor kept."""
    return [*identity(plan.query), *kept_columns(plan), *simplified_state(plan)]


def algorithms_on_spark(plan: PhysicalPlan) -> list[str]:
    """Lines about the algorithms of a plan; rows wait for their order in a stage of their own, if
    there is one."""
    lines = algorithms(replace(plan.query, in_order=waits_for_order(plan.root)))
    split = [f"table {number} in buckets" for number in are_shuffled(plan)]
    return [*lines, *slices(plan), *split]


def _looks_at_clock(query: QueryPlan) -> bool:
    scans = [each for each in query.walk() if isinstance(each, Scan)]
    return may_be_idle(scans) or query.early_every is not None


def claim(directory: Path, own: Identity) -> Identity:
    """Claim a checkpoint for some queries, or check that it is theirs; return the identity that it
    began with."""
    path = directory / _QUERY_FILE
    if not path.exists():
        _reject_orphaned_state(directory)
        directory.mkdir(parents=True, exist_ok=True)
        _write(path, own)
        return own
    found = _read(path)
    where = f"the checkpoint in {directory.parent}"
    if len(found.others) != len(own.others):
        raise CheckpointError(
            f"{where} is of {_queries(found)}, and {_queries(own)} would go on from it",
            expected="the queries that it was made by, in the same order",
            hint="another --checkpoint, or delete the directory to start over",
        )
    pairs = zip(found.queries, own.queries, strict=True)
    for number, (its, mine) in enumerate(pairs, start=1):
        of = f"what {where} has of query {number} of {1 + len(own.others)}" if own.others else where
        check_query(its.plan, mine.plan, of)
        # the algorithm of windows may change: the state has its own
        had, has = (without_windows(each.algorithms) for each in (its, mine))
        check_algorithms(had, has, of)
    if found.timed != own.timed:  # Spark's state is laid out for timers, or not
        clock = "IDLE AFTER or EMIT EARLY under a trigger by time"
        made, now = ("with", "without") if found.timed else ("without", "with")
        raise CheckpointError(
            f"{where} was made {made} {clock}, and cannot go on {now} it: Spark lays out its state "
            "for timers, or not",
            expected="the trigger, and the IDLE AFTER or EMIT EARLY, that it was made with",
            hint="another --checkpoint, or delete the directory to start over",
        )
    return found


def _queries(identity: Identity) -> str:
    return f"{1 + len(identity.others)} queries" if identity.others else "one query"


def _reject_orphaned_state(directory: Path) -> None:
    if (directory.parent / "0" / directory.name / _QUERY_FILE).exists():
        raise CheckpointError(
            f"the checkpoint in {directory.parent} was made by an earlier version of Penstock, with"
            " a directory for every query",
            hint="run it with the version that wrote it, or start over with another checkpoint",
        )
    of_spark = directory.parent / "spark"
    if (directory / "feed").exists() or any((of_spark / name).exists() for name in _OF_SPARK):
        raise CheckpointError(
            f"the checkpoint in {directory.parent} does not say whose it is: {directory.name}/"
            f"{_QUERY_FILE} is missing beside its state",
            hint="restore the checkpoint, or delete its directory to start over",
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
        f"{path} {what}", hint="restore the checkpoint, or delete its directory to start over"
    ) from None


# The lock of a checkpoint, which the system releases when its process ends.


class CheckpointLock:
    """Allows one run at a time on a checkpoint; held until it is released or collected."""

    def __init__(self, directory: Path) -> None:
        """Lock the checkpoint that contains the directory."""
        directory.mkdir(parents=True, exist_ok=True)
        self._file = lock(directory / "lock", f"the checkpoint {directory.parent}")

    def release(self) -> None:
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.release()


# Moved checkpoints: Spark records the absolute paths of the files in a checkpoint.

_PLACE_FILE = "place"


def relocate(checkpoint: Path, own: Path) -> None:
    """Rewrite the paths that Spark recorded, if the checkpoint has been moved; `own` is Penstock's
    folder in it.  An interrupted run is repeated by the next one."""
    path = own / _PLACE_FILE
    before = path.read_text("utf-8") if path.exists() else None
    now = str(checkpoint)
    if before == now:
        return
    if before is not None:
        spark = checkpoint / "spark"
        for text in spark.glob("sources/*/*"):  # which portions have been read, as addresses
            _replace(text, quote(before), quote(now))
        for text in spark.glob("state/*/_metadata/**/*"):  # how state is laid out, as paths
            _replace(text, before, now)
    written = own / f".{_PLACE_FILE}"
    written.write_text(now, encoding="utf-8")
    written.replace(path)


def _replace(path: Path, old: str, new: str) -> None:
    if path.name.startswith(".") or not path.is_file():
        return
    content = path.read_bytes()
    moved = content
    for folder in ("/spark/", "/penstock/"):
        moved = moved.replace((old + folder).encode(), (new + folder).encode())
    if moved == content:
        return
    written = path.with_name(f".{path.name}.moved")
    written.write_bytes(moved)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's, of what was there
    written.replace(path)
