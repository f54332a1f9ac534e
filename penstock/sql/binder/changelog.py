"""EMIT CHANGES: running answers, which never complete, and KEEP FOR, which bounds their state."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Several
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import NamedTuple

from sqlglot import exp

from penstock.errors import BindError, PlanError, Span
from penstock.model.ticks import Domain
from penstock.plan.catalog import Catalog, RunningAnswers
from penstock.plan.expressions import Column, Expression, Named
from penstock.plan.nodes.aggregation import (
    DistinctOn,
    GroupAggregate,
    NamedAggregate,
    WindowAggregate,
)
from penstock.plan.nodes.join import Difference, Join, RunningJoin, Sequence
from penstock.plan.nodes.node import Node, Project
from penstock.plan.nodes.over import NamedOver, OrderKey, Over, RowsOver, RunningOver
from penstock.plan.window_kinds import Session
from penstock.sql.binder.join_times import Timed
from penstock.sql.binder.literals import any_length
from penstock.sql.binder.relations import pointing_at
from penstock.sql.binder.windows import HOW_TO_RUN
from penstock.sql.syntax import NamedRelation, QuerySyntax

_BY_TIME = ("first", "last")
_WORDS: dict[type[Node], str] = {
    WindowAggregate: "a window",
    DistinctOn: "DISTINCT ON",
    Difference: "EXCEPT ON",
    Sequence: "a sequence",
    Join: "a join with windows",
}


def with_running(syntax: QuerySyntax, catalog: Catalog) -> Catalog:
    """Return the catalog for a query that says EMIT CHANGES, or reads one that does."""
    if not syntax.changes:
        if catalog.running is None and reads_changes(syntax, catalog):
            return replace(catalog, running=RunningAnswers())
        return catalog
    keep_for = any_length(syntax.keep_for) if syntax.keep_for is not None else None
    return replace(catalog, running=RunningAnswers(keep_for))


def reads_changes(syntax: QuerySyntax, catalog: Catalog) -> bool:
    """Whether a query reads a view whose answer changes."""
    changing = {name for name, (_, plan) in catalog.views.items() if plan.changes}
    return bool(changing) and any(name in changing for name in _names(syntax, frozenset()))


def _names(part: object, own: frozenset[str]) -> Iterator[str]:
    """Names of relations in a part of a query, without those that it defines itself."""
    match part:
        case NamedRelation():
            if part.name.text.casefold() not in own:
                yield part.name.text.casefold()
        case QuerySyntax():
            for table in part.tables:
                yield from _names(table.query, own)
                own = own | {table.name.text.casefold()}
            yield from _names(part.selects, own)
        case exp.Expr():
            for node in part.walk():
                for each in node.args.values():
                    if isinstance(each, QuerySyntax):
                        yield from _names(each, own)
        case tuple():
            for each in part:
                yield from _names(each, own)
        case _ if is_dataclass(part):
            for field in fields(part):
                yield from _names(getattr(part, field.name), own)


def refuse_running(node: Node, syntax: QuerySyntax, catalog: Catalog) -> None:
    """Refuse a query over a running answer without EMIT CHANGES, or with operators that cannot
    process retractions."""
    if node.running and catalog.running is None:
        raise BindError(
            "the query stands on an answer that changes for ever",
            span=syntax.span,
            hint="EMIT CHANGES at its end",
        )
    for each in node.walk():
        takes_signs = isinstance(each, RunningJoin | RunningOver) or (
            isinstance(each, GroupAggregate) and each.runs
        )
        over_running = any(below.running for below in each.inputs)
        if each.stateful and over_running and not takes_signs:
            what = _WORDS.get(type(each), "what stands here")
            raise BindError(
                f"{what} would build on rows that may be taken back",
                span=getattr(each, "span", None) or syntax.span,
                expected="aggregates without a window, DISTINCT, LIMIT, OVER and joins over a"
                " running answer",
                hint="windows below it, over the streams",
            )


def running_groups(
    node: Node,
    keys: Several[Named],
    aggregates: Several[NamedAggregate],
    running: RunningAnswers,
    span: Span,
) -> Node:
    """Groups that change for ever; or, where they are forgotten after a while, that live as long as
    tuples come to them: in sessions with that gap.

    before: SELECT k, count(*) FROM s GROUP BY k EMIT CHANGES KEEP FOR 1 HOUR
    after:  WindowAggregate count(*) [SESSION GAP 1 HOUR, WA ts] BY k
    """
    if node.signed:
        raise BindError(
            "the items of a difference come and go at times of their own, and a running answer"
            " knows none",
            span=span,
            expected="a window, or a key that progresses",
        )
    if running.keep_for is None:
        made = GroupAggregate(node, tuple(keys), tuple(aggregates), span, runs=True)
        _refuse_timeless(made)
        return made
    attribute = _time_of(node, span)
    gap = running.keep_for.ticks(Domain(attribute.type))
    if gap <= 0:
        raise BindError(f"KEEP FOR {running.keep_for}", span=span, expected="more than zero")
    return pointing_at(
        span,
        lambda: WindowAggregate(
            node, Session(gap), attribute, (), tuple(keys), tuple(aggregates), None, span
        ),
    )


def running_distinct(node: Node, running: RunningAnswers, span: Span) -> Node:
    """Every different row, as long as one with its values is there: groups without aggregates."""
    keys = tuple(Named(str(number), Column.of(each)) for number, each in enumerate(node.schema))
    columns = tuple(
        Named(field.name, Column(key.name, key.expression.type))
        for field, key in zip(node.schema, keys, strict=True)
    )
    return Project(running_groups(node, keys, (), running, span), columns)


class OverParts(NamedTuple):
    """The parts of OVER or LIMIT over rows, before they become a node that emits final or running
    rows."""

    input: Node
    partition: tuple[Expression, ...]
    order: tuple[OrderKey, ...]
    ties: tuple[Column, ...]
    calls: tuple[NamedOver, ...]
    most: tuple[int, int] | None
    span: Span | None
    skip: int = 0
    bare: bool = False


def over_rows(parts: OverParts, running: RunningAnswers | None, final: bool = True) -> RowsOver:
    """Make the node for OVER or LIMIT: final rows if they can become final; otherwise, under EMIT
    CHANGES, running ones."""
    if final:
        try:
            return Over(*parts)
        except PlanError as error:
            error.span = error.span or parts.span
            if running is None:
                _hint_at_running(error, parts)
                raise
    if running is not None and running.keep_for is not None:
        raise BindError(
            "KEEP FOR forgets groups and tuples of joins, and the order of these rows has neither",
            span=parts.span,
            hint="EMIT CHANGES alone, or a window: [RANGE 1 HOUR, SLIDE 1 MINUTE, WA ts]",
        )
    made = partial(RunningOver, *parts)
    return made() if parts.span is None else pointing_at(parts.span, made)


def _hint_at_running(error: PlanError, parts: OverParts) -> None:
    """Add the hint EMIT CHANGES to an error, if that would help."""
    with suppress(PlanError):
        RunningOver(*parts)
        error.hint = "; or ".join([*([error.hint] if error.hint else []), HOW_TO_RUN])


def _time_of(node: Node, span: Span) -> Column:
    """Column by which KEEP FOR measures the last activity of a group."""
    if node.running:
        raise BindError(
            "KEEP FOR goes by the times of tuples, and the rows of a running answer have none",
            span=span,
            hint="KEEP FOR where it is the only running answer of the query",
        )
    times = [Column.of(each.field) for each in node.progress]
    if len(times) != 1:
        known = ", ".join(map(str, times))
        raise BindError(
            "KEEP FOR goes by the time of tuples, and "
            + (f"these have several: {known}" if times else "these have none that progresses"),
            span=span,
            expected="one column that progresses",
            hint="a sub-query that selects one of them" if times else None,
        )
    return times[0]


def _refuse_timeless(node: GroupAggregate) -> None:
    for each in node.aggregates:
        if node.time is None and each.call.function.name in _BY_TIME:
            raise BindError(
                f"{each.call.function.name} goes by time, and no column progresses here",
                span=each.call.span,
                hint="min_by or max_by, which name what they go by",
            )


def kept_for(inputs: list[Timed], running: RunningAnswers, span: Span) -> list[Timed]:
    """The inputs of a join that nothing bounds, with the windows that KEEP FOR gives them.

    before: SELECT … FROM a JOIN b ON a.k = b.k EMIT CHANGES KEEP FOR 1 HOUR
    after:  the same over a [RANGE 1 HOUR], b [RANGE 1 HOUR]
    """
    if running.keep_for is None:
        return inputs
    made = []
    for each in inputs:
        column = _time_of(each.node, span)
        stay = running.keep_for.ticks(Domain(column.type))
        time = next(time for time in each.times if time.column == column)
        made.append(each._replace(times=(time._replace(stay=stay),), alternatives=False))
    return made
