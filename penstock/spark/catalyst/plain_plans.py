"""Paths without a stateful node as plain Spark plans, for DataFrames that are handed to the user.

Catalyst sees all of such a plan, and leaves out columns that are not needed.  It is made where
Spark gives exactly Penstock's values.  Of a stream that progresses, rows without a progress value
are left out, and counted if metrics are asked for; if anything else could keep a row from taking
part, the rows go through `Passing` in `tasks/ingest_tasks.py`.
"""

from __future__ import annotations

from itertools import takewhile

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from penstock.model.punctuation import TimestampKind
from penstock.model.ticks import EVERYWHERE
from penstock.model.types import Kind, Schema
from penstock.plan.expressions import may_fail
from penstock.plan.nodes.node import Filter, Project, Scan, Stamp, Unnest
from penstock.spark.catalyst.columns import column_or_reason, quoted
from penstock.spark.catalyst.types import holds_as_declared, spark_type
from penstock.spark.run.observed_counts import ObservedBy, observed_while_read
from penstock.spark.stages import Branch, StagePath, Step, TableStep


def plain(path: StagePath, frame: DataFrame, metrics: ObservedBy | None = None) -> DataFrame | str:
    """Compute the rows of a path by Catalyst alone, or return the reason why that cannot be.
    `columns.SETTINGS` must hold.  If the stream progresses, `metrics` is where its rows are
    counted."""
    assert isinstance(path.leaf, Scan)
    reason = needs_ingest(path.leaf, frame.schema)
    if reason is not None:
        return reason
    schema = path.leaf.schema
    frame = frame.select(
        *(frame[quoted(each.name)].cast(spark_type(each.type)) for each in schema)
    ).toDF(*schema.names)
    steps = path.steps
    if path.leaf.stream.progress is not None:
        filters = tuple(takewhile(lambda step: isinstance(step, Filter), steps))
        steps = steps[len(filters) :]
        taken = _participates(path.leaf, filters, frame)
        if isinstance(taken, str):
            return taken
        if metrics is not None:
            if any(isinstance(step, Filter) for step in steps):
                return "rows are counted before they are computed, and filtered after it"
            frame = observed_while_read(frame, metrics, _has_progress(path.leaf, frame), taken)
        frame = frame.where(taken)
    failing = False
    for step in steps:
        if failing and not isinstance(step, Branch):
            return "an error could be lost: Spark may drop rows before a column that fails"
        made = _applied(step, frame)
        if isinstance(made, str):
            return made
        frame = made
        failing = isinstance(step, Project) and any(may_fail(c.expression) for c in step.columns)
    return frame


def needs_ingest(scan: Scan, given: spark.StructType) -> str | None:
    """Reason why rows have to be checked before they take part, or None."""
    stream = scan.stream
    if _may_reject_more(scan):
        return f"more than rows without a progress value may be set aside of stream {stream.name}"
    names = [name.lower() for name in given.names]
    if len(set(names)) < len(names):
        return "columns differ in the case of letters only"
    types = {field.name: field.dataType for field in given}
    for field in stream.schema:
        found = types.get(field.name)
        if found is None or not holds_as_declared(found, field.type):
            return f"column {field.name} is {found and found.simpleString()}, not {field.type}"
    return None


def _may_reject_more(scan: Scan) -> bool:
    """Whether a row of the stream can be rejected for more than a missing progress value."""
    progress = scan.stream.progress
    if progress is None:
        return False
    policy = progress.policy
    return (
        progress.punctuation is not None
        or policy.future_limit is not None
        or policy.timestamps is not TimestampKind.EXTERNAL
        or scan.stream.attribute.type.kind is Kind.DECIMAL
        or scan.room != EVERYWHERE
    )


def _participates(scan: Scan, filters: tuple[Step, ...], frame: DataFrame) -> SparkColumn | str:
    """Condition for rows that have a progress value and pass the filters."""
    taken = _has_progress(scan, frame)
    for step in filters:
        holds = _holds(step)
        if isinstance(holds, str):
            return holds
        taken = taken & holds
    return taken


def _has_progress(scan: Scan, frame: DataFrame) -> SparkColumn:
    return frame[quoted(scan.stream.attribute.name)].isNotNull()


def _holds(step: Step) -> SparkColumn | str:
    assert isinstance(step, Filter)
    if may_fail(step.predicate):
        return f"{step.predicate} may fail, and Spark may not notice"
    return column_or_reason(step.predicate, step.input.schema)


def _applied(step: Step, frame: DataFrame) -> DataFrame | str:
    match step:
        case Filter():
            holds = _holds(step)
            return holds if isinstance(holds, str) else frame.where(holds)
        case Project():
            return _projected(step, step.input.schema, frame)
        case Branch():
            return frame.toDF(*step.union.schema.names)
        case Unnest():
            return "items are taken apart in Arrow"
        case Stamp():
            return "tuples are stamped by the kernel's clock"
        case TableStep():
            return "tuples are looked up in a table"


def _projected(step: Project, schema: Schema, frame: DataFrame) -> DataFrame | str:
    columns = []
    for named in step.columns:
        column = column_or_reason(named.expression, schema)
        if isinstance(column, str):
            return column
        columns.append(column.cast(spark_type(named.expression.type)).alias(named.name))
    return frame.select(*columns)
