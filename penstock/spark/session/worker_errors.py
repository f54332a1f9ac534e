"""Errors in Spark's workers, turned into Penstock's own; and the garbage collection of workers."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from penstock import errors
from penstock.errors import CheckpointError, EngineError, PenstockError

# the name of an error and what it says: a line, and those below it that are set in
_SAID = re.compile(r"(?:^|: )penstock\.errors\.(\w+): (.*(?:\n  .*)*)", re.MULTILINE)
_RAISED = re.compile(
    r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)(?:: .*)?)$", re.MULTILINE
)
_CAUSE = re.compile(r"^(?:Caused by: |: )?[\w.$]+(?:Error|Exception): (.+)$", re.MULTILINE)
# messages of Spark, Hadoop and RocksDB about a file of a checkpoint that is not as they wrote it
_OF_STATE = re.compile(
    r"CANNOT_LOAD_STATE_STORE|CANNOT_READ_STATE|STATE_STORE_|ChecksumException|RocksDB"
    r"|/spark/(?:offsets|commits|sources|state)/|log file|MALFORMED_LOG|/spark/metadata"
    r"|Unexpected end-of-input|Unrecognized token"
)
_NOISE = re.compile(
    r"\[STREAM_FAILED\] .*? terminated with exception: | SQLSTATE: \w+|\[[A-Z_.]+\] "
)
_EXPECTED, _TRY = "\n  expected: ", "\n  try: "


@contextmanager
def brief_errors() -> Iterator[None]:
    """Hide the traceback of Penstock's errors in a worker: they say where and why.  The worker ends
    with the error, so no other error loses its traceback."""
    try:
        yield
    except PenstockError:
        from pyspark import TaskContext  # programs that only read this file do without

        if TaskContext.get() is not None:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def failure(error: BaseException) -> PenstockError:
    """Convert an error of Spark, which has the traceback of a worker as text; Penstock's message is
    at its end."""
    if isinstance(error, PenstockError):
        return error
    said = _SAID.findall(str(error))
    if said:
        name, text = said[-1]
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, PenstockError):
            text, _, hint = text.partition(_TRY)
            message, _, expected = text.partition(_EXPECTED)
            return kind(message, expected=expected or None, hint=hint or None)
    if _OF_STATE.search(str(error)):
        return CheckpointError(
            f"the checkpoint cannot be read: {_cause(error)}",
            hint="restore the checkpoint from a copy, or start over with another one",
        )
    raised = _RAISED.findall(str(error)) if "Traceback" in str(error) else []
    return EngineError(f"the query failed on Spark: {raised[-1] if raised else _cause(error)}")


def _cause(error: BaseException) -> str:
    """Root cause of an error, in one line."""
    causes = _CAUSE.findall(str(error))
    return _NOISE.sub("", causes[-1] if causes else first_line(error)).strip()


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def is_of_spark(error: BaseException) -> bool:
    """Whether an error comes from Spark or from Java, and not from Penstock or a sink."""
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")


# Permanent objects of a Python worker are hidden from the garbage collector.
#
# PySpark collects garbage after every task.  Searching all that a worker has imported takes longer
# than most tasks.


@cache  # once in a worker
def freeze_imports() -> None:
    """Freeze permanent objects, when a first task has imported all modules."""
    gc.collect()
    gc.freeze()
