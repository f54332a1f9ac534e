"""Functions that only Spark computes, as further columns of the DataFrames that a query reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from penstock.errors import EngineError
from penstock.model.types import Field, Schema, free_name
from penstock.optimizer.rewrite import bottom_up, with_inputs
from penstock.plan.expressions import Call, Case, Cast, Column, Expression, Literal, Named, walk
from penstock.plan.nodes.join import Lookup
from penstock.plan.nodes.node import Filter, Node, Project, Scan
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties import below, substituted, with_children
from penstock.plan.streams import StreamDefinition
from penstock.spark.catalyst.columns import SETTINGS, column_or_reason
from penstock.spark.session.session import setting
from penstock.spark.sources.dataframe import DataFrameSource


def with_computed_columns(query: QueryPlan) -> QueryPlan:
    """
    before: Project weight(s.x) (Filter is_odd(s.x) (Scan s: x))
    after:  Project s.weight (Filter s.is_odd (Scan s: x, weight(x) AS weight, is_odd(x) AS is_odd))
    """
    computing = _Computing()
    query = with_inputs(query, lambda node: bottom_up(node, computing.above))
    return with_inputs(query, computing.widened)


@dataclass
class _Computing:
    """Collects the calls that Spark computes.  All scans of a stream read the same DataFrame, so
    they get the same columns."""

    added: dict[str, dict[str, tuple[Field, Call]]] = field(default_factory=dict)  # by stream, text

    def above(self, node: Node) -> Node:
        """The node with columns of its inputs in the place of calls."""
        if isinstance(node, Lookup):
            node = replace(node, table=bottom_up(node.table, self.above))
        calls = list(dict.fromkeys(_calls(node)))
        made: dict[Call, Column] = {}
        for call in calls:
            made[call], node = self._column(node, call)

        def column(expression: Expression) -> Expression:
            if isinstance(expression, Call) and expression in made:
                return made[expression]
            return with_children(expression, column)

        return _with_expressions(node, column) if made else node

    def _column(self, node: Node, call: Call) -> tuple[Column, Node]:
        """A column of one of the node's inputs that has the value of the call."""
        found: list[Column] = []

        def from_below(input_: Node) -> Node:
            if found:
                return input_
            above = self._through(input_, call)
            if above is None:
                return input_
            found.append(above[0])
            return above[1]

        node = with_inputs(node, from_below)
        if not found:
            raise _elsewhere(call)
        return found[0], node

    def _through(self, node: Node, call: Call) -> tuple[Column, Node] | None:
        names = {(each.name, each.relation) for each in node.schema}
        if any((each.name, each.relation) not in names for each in _columns(call)):
            return None
        match node:
            case Filter():
                under = self._through(node.input, call)
                return under and (under[0], replace(node, input=under[1]))
            case Project():
                lower = below(call, node)
                assert isinstance(lower, Call)
                under = self._through(node.input, lower)
                if under is None:
                    return None
                name = free_name(call.function, node.schema.names)
                wider = replace(
                    node, input=under[1], columns=(*node.columns, Named(name, under[0]))
                )
                return Column(name, call.type, node.relation), wider
            case Scan(stream) if isinstance(stream.source, DataFrameSource):
                name = self._add(stream, call)
                return Column(name, call.type, node.alias), self._wide(node)
        return None

    def _add(self, stream: StreamDefinition, call: Call) -> str:
        """The name of the column of a stream that has the value of a call."""
        plain = substituted(call, lambda each: Column(each.name, each.type))
        assert isinstance(plain, Call)
        added = self.added.setdefault(stream.name, {})
        if str(plain) not in added:
            names = [*stream.schema.names, *(each.name for each, _ in added.values())]
            named = Field(free_name(call.function, names), call.type)
            added[str(plain)] = (named, plain)
        return added[str(plain)][0].name

    def _wide(self, scan: Scan) -> Scan:
        stream, source = scan.stream, scan.stream.source
        assert isinstance(source, DataFrameSource)
        frame, schema = source.frame, stream.schema
        missing = [
            each for each in self.added[stream.name].values() if each[0].name not in schema.names
        ]
        with setting(frame.sparkSession, SETTINGS):
            counted = {each.name for each in stream.counted}
            for named, call in missing:
                numbers = [each.name for each in _columns(call) if each.name in counted]
                if numbers:
                    raise _elsewhere(
                        call, f"Spark has numbers in {numbers[0]}, which stand for times"
                    )
                made = column_or_reason(call, schema)
                if isinstance(made, str):
                    raise _elsewhere(call, made)
                frame = frame.withColumn(named.name, made)
        wider = Schema((*schema.fields, *(named for named, _ in missing)))
        return replace(scan, stream=replace(stream, schema=wider, source=DataFrameSource(frame)))

    def widened(self, node: Node) -> Node:
        """Rewrite a plan so that every scan of a stream has all of its columns."""
        if isinstance(node, Lookup):
            node = replace(node, table=self.widened(node.table))
        if not isinstance(node, Scan) or node.stream.name not in self.added:
            return with_inputs(node, self.widened)
        own = len(node.schema.fields)
        wide = self._wide(node)
        if len(wide.schema.fields) == own:
            return wide
        columns = tuple(Named(each.name, Column.of(each)) for each in node.schema)
        return Project(wide, columns, node.alias)


def _elsewhere(call: Call, reason: str | None = None) -> EngineError:
    because = f" ({reason})" if reason else ""
    return EngineError(
        f"{call.function} is not a function of Python, so only Spark computes it, and here it"
        f" cannot{because}",
        span=call.span,
        expected="columns of a DataFrame or view as its arguments",
        hint=f"(SELECT …, {call.function}(…) AS value FROM view) as the input of the query",
    )


def _columns(expression: Expression) -> list[Column]:
    return [each for each in walk(expression) if isinstance(each, Column)]


def _calls(node: Node) -> list[Call]:
    """The outermost calls of the node that only Spark computes."""
    found: list[Call] = []

    def look(expression: Expression) -> Expression:
        if isinstance(expression, Call) and expression.user and expression.user.only_spark:
            found.append(expression)
            return expression
        return with_children(expression, look)

    _with_expressions(node, look)
    return found


def _with_expressions(value: Any, change: Callable[[Expression], Expression]) -> Any:
    """A node, or a part of one, with its own expressions changed."""
    if isinstance(value, Call | Case | Cast | Column | Literal):
        return change(value)
    if isinstance(value, tuple):
        return tuple(
            each if isinstance(each, Node) else _with_expressions(each, change) for each in value
        )
    own = is_dataclass(value) and type(value).__module__.startswith("penstock.plan.")
    if not own or isinstance(value, StreamDefinition):
        return value
    changed = {}
    for each in fields(value):
        old = getattr(value, each.name)
        new = old if isinstance(old, Node) else _with_expressions(old, change)
        if new is not old and new != old:
            changed[each.name] = new
    return replace(value, **changed) if changed else value
