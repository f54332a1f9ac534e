"""Tables in FROM: streams are looked up in them, and nothing has to be bounded."""

from __future__ import annotations

from penstock.errors import BindError, Span
from penstock.language.binding.relations.join_tree import Keys, keys_of
from penstock.language.binding.relations.relations import pointing_at
from penstock.plan.expressions import Expression, all_of
from penstock.plan.nodes.joins import JoinKind
from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.running_join import RunningJoin
from penstock.plan.nodes.stateless import Scan
from penstock.plan.properties.reading import scans_of

_KEPT = {  # what would come out of a join that keeps rows of a table
    JoinKind.LEFT: "its rows without a partner",
    JoinKind.RIGHT: "its rows without a partner",
    JoinKind.FULL: "its rows without a partner",
    JoinKind.SEMI: "its rows that have a partner",
    JoinKind.ANTI: "its rows without a partner",
}


def is_table(node: Node) -> bool:
    """Whether a node is looked up in: it reads tables alone, and is complete before any tuple."""
    scans = [each for each in node.walk() if isinstance(each, Scan)]
    return all(scan.stream.is_table for scan in scans) and all(
        isinstance(each, RunningJoin) for each in node.walk() if each.stateful
    )


def columns(node: Node) -> Keys:
    return frozenset((field.name, field.relation) for field in node.schema)


def looked_up(node: Node, tables: list[Node], predicates: list[Expression], span: Span) -> Node:
    """The node looked up in all tables, one after the other: first in those that a condition ties
    to what is there already."""
    waiting, rest = list(tables), list(predicates)
    while waiting:
        known = columns(node)
        table = next((each for each in waiting if _is_tied(each, known, rest)), waiting[0])
        waiting = [each for each in waiting if each is not table]
        there = known | columns(table)
        own = [each for each in rest if keys_of(each) <= there]
        rest = [each for each in rest if not keys_of(each) <= there]
        node = _lookup(node, table, own, JoinKind.INNER, span)
    return node


def _is_tied(table: Node, known: Keys, predicates: list[Expression]) -> bool:
    own = columns(table)
    return any(
        keys_of(each) & own and keys_of(each) & known and keys_of(each) <= own | known
        for each in predicates
    )


def paired(
    kind: JoinKind, left: Node, right: Node, predicates: list[Expression], span: Span
) -> Node:
    """Two inputs of which one at least is a table; of two tables, the right one is looked into."""
    if kind is JoinKind.FULL and is_table(left) and is_table(right):
        return pointing_at(span, lambda: RunningJoin(left, right, all_of(predicates), kind, span))
    stream, table = (left, right) if is_table(right) else (right, left)
    turned = {JoinKind.RIGHT: JoinKind.LEFT, JoinKind.INNER: JoinKind.INNER}
    wanted = kind if table is right else turned.get(kind)
    if is_table(left) and is_table(right) and kind is JoinKind.RIGHT:
        stream, table, wanted = right, left, JoinKind.LEFT
    if wanted is None or wanted in (JoinKind.RIGHT, JoinKind.FULL):
        raise _keeps_rows(kind, table, span)
    return _lookup(stream, table, predicates, wanted, span)


def _keeps_rows(kind: JoinKind, table: Node, span: Span) -> BindError:
    name = next(scans_of(table)).alias
    word = {JoinKind.SEMI: "SEMI JOIN", JoinKind.ANTI: "ANTI JOIN"}.get(kind, f"{kind.value} JOIN")
    return BindError(
        f"{word} would give of table {name} {_KEPT[kind]}, which are known when the stream ends",
        span=span,
        expected="a join that keeps tuples of the stream",
        hint="the stream first: stream LEFT JOIN table ON …",
    )


def _lookup(
    node: Node, table: Node, predicates: list[Expression], kind: JoinKind, span: Span
) -> Node:
    return pointing_at(span, lambda: Lookup(node, table, all_of(predicates), kind, span))
