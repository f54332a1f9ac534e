"""Whose checkpoint it is: a query goes on from its own state, with the buckets it began with."""

from __future__ import annotations

import difflib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.errors import EngineError
from penstock.operators.chunks import FORMAT
from penstock.plan.explain import explain
from penstock.plan.query import Query
from penstock.plan.stateless import Scan
from penstock.spark.config import may_be_idle

_NAME = "query.json"
_TRIGGERS = {False: "the trigger available-now", True: "a trigger by time"}


@dataclass(frozen=True, slots=True)
class Identity:
    """What must not change while a checkpoint lives."""

    format: int
    plan: list[str]
    buckets: int
    parts: dict[str, list[str]]  # by stream: the sub-sources that were known at the start
    timed: bool = False  # whether it looks at the clock between micro-batches


def identity_of(query: Query, buckets: int, parts: dict[str, list[str]], live: bool) -> Identity:
    """Of a query that is `live`, or that ends with what is there."""
    # where data comes from, and how windows are computed, may change
    lines = [line for line in explain(query).splitlines() if not _passing(line)]
    return Identity(FORMAT, lines, buckets, parts, live and _looks_at_clock(query))


def _looks_at_clock(query: Query) -> bool:
    scans = [each for each in query.walk() if isinstance(each, Scan)]
    return may_be_idle(scans) or query.early_every is not None


def _passing(line: str) -> bool:
    words = line.lstrip(" │└├─")
    return words.startswith(("source:", "known:", "assumed:", "state:"))


def claim(directory: Path, own: Identity) -> Identity:
    """Make a checkpoint this query's own, or find that it is; the identity that it began with."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / _NAME
    if not path.exists():
        written = directory / f".{_NAME}"
        with written.open("w", encoding="utf-8") as file:
            json.dump(asdict(own), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
        return own
    found = _read(path)
    if found.plan != own.plan:
        changes = [
            line
            for line in difflib.unified_diff(found.plan, own.plan, lineterm="", n=0)
            if not line.startswith(("---", "+++", "@@"))
        ]
        raise EngineError(
            f"the checkpoint in {directory.parent} belongs to another query; they differ in:\n  "
            + "\n  ".join(changes),
            expected="the query that it was made by (lines with -)",
            hint="another --checkpoint, or delete the directory to begin anew",
        )
    if found.timed != own.timed:  # Spark's state is laid out for timers, or not
        raise EngineError(
            f"the checkpoint in {directory.parent} was made with {_TRIGGERS[found.timed]}, and a "
            "query with IDLE AFTER or EMIT EARLY cannot change that",
            expected=_TRIGGERS[found.timed],
            hint="another --checkpoint, or delete the directory to begin anew",
        )
    return found


def _read(path: Path) -> Identity:
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
        if given["format"] > FORMAT:
            raise EngineError(
                f"the checkpoint in {path.parent.parent} has format {given['format']},"
                f" and this version of Penstock reads {FORMAT}",
                hint="run it with the version that wrote it, or a later one",
            )
        return Identity(**given)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(
            f"{path} is not what it should be: {error}",
            hint="restore the checkpoint, or delete its directory to begin anew",
        ) from None
