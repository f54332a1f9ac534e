"""Evaluates a whole plan: one function per node, applied from the leaves up."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.errors import RunError
from penstock.io.sources.rejects import RejectLog
from penstock.model.clock import Clock
from penstock.model.ordering import sort_key
from penstock.model.punctuation import sign_name
from penstock.model.types import Field
from penstock.model.values import to_arrow
from penstock.optimizer.optimize import rewrite
from penstock.optimizer.rewrite import Settings
from penstock.plan.expressions import Column
from penstock.plan.nodes.aggregation import Distinct, DistinctOn, GroupAggregate, WindowAggregate
from penstock.plan.nodes.join import Difference, Join, Lookup, RunningJoin, Sequence
from penstock.plan.nodes.node import Filter, Node, Project, Scan, Stamp, Union, Unnest
from penstock.plan.nodes.over import Over, RunningOver
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.tables import OrderedRows, OrElse
from penstock.plan.streams import StreamDefinition
from penstock.reference.extents import window_aggregate
from penstock.reference.groups import distinct, distinct_on, group_aggregate, in_time
from penstock.reference.joins import difference, join, lookup, running_join, sequence
from penstock.reference.over_calls import over, running_over
from penstock.reference.relation import Relation, Run, or_else, ordered_rows
from penstock.reference.scan import filter_, project, scan, stamp, union, unnest
from penstock.runs.answer import Answer


def answer(query: QueryPlan, clock: Clock, strict: bool = False) -> Answer:
    run = Run(query, clock, RejectLog(strict))
    relation = evaluate(query.input, run)
    rows = relation.rows
    if query.in_order:
        first = query.progress[0].field
        position = query.schema.index(first.name, first.relation)
        rows = in_time(relation, [Column.of(first)], run)  # what should follow others may be out
        rows = sorted(rows, key=lambda row: sort_key(row.values[position]))
    columns = {
        field.qualified: _column([row.values[i] for row in rows], field)
        for i, field in enumerate(query.schema)
    }
    if query.signed:
        columns[sign_name(columns)] = pa.array([row.sign for row in rows], pa.int8())
    return Answer(pa.table(columns), run.late_table(), run.rejects, run.tuples_read)


def _column(values: list[Any], field: Field) -> pa.Array:
    try:
        return to_arrow(values, field.type)
    except (OverflowError, pa.ArrowInvalid):
        raise RunError(
            f"a value of {field.qualified} is out of the range of {field.type}"
        ) from None


def evaluate(node: Node, run: Run) -> Relation:
    given = [evaluate(each, run) for each in node.inputs]
    match node:
        case Scan(stream=StreamDefinition(answer=Node() as answer)):
            answered = evaluate(rewrite(QueryPlan(answer), Settings()).input, run.of_tables)
            return scan(node, run, [row.values for row in answered.rows])
        case Scan():
            return scan(node, run)
        case Stamp():
            return stamp(node, given[0], run)
        case Filter():
            return filter_(node, given[0])
        case Project():
            return project(node, given[0])
        case Union():
            return union(node, given)
        case Unnest():
            return unnest(node, given[0])
        case WindowAggregate():
            return window_aggregate(node, given[0], run)
        case GroupAggregate():
            return group_aggregate(node, given[0], run)
        case Distinct():
            return distinct(node, given[0], run)
        case DistinctOn():
            return distinct_on(node, given[0], run)
        case Over():
            return over(node, given[0], run)
        case Join():
            return join(node, given, run)
        case RunningOver():
            return running_over(node, given[0])
        case RunningJoin():
            return running_join(node, given[0], given[1])
        case OrderedRows():
            return ordered_rows(node, given[0])
        case OrElse():
            return or_else(node, given[0])
        case Lookup():
            return lookup(node, given[0], evaluate(node.table, run.of_tables))
        case Difference():
            return difference(node, given[0], given[1], run)
        case Sequence():
            return sequence(node, given[0], given[1], run)
    raise AssertionError(f"a node that nobody taught the reference engine: {type(node).__name__}")
