"""What is known beforehand about where signed items come from.

A negative item takes back a positive one of the same lineage: the tuples that both are made of.
"""

from __future__ import annotations

from penstock.plan.expressions import Column, columns_of
from penstock.plan.nodes.aggregates import Distinct
from penstock.plan.nodes.difference import Difference
from penstock.plan.nodes.joins import Join
from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.stateless import Filter, Project, Stamp, Union


def lineage_parts(node: Node) -> int:
    """Of how many tuples an item of a node is made, at the most."""
    if not node.signed:  # a tuple or a result is one, whatever that is made of
        return 1
    match node:
        case Join():
            return sum(map(lineage_parts, node.branches))
        case Union():
            return max(map(lineage_parts, node.branches))
        case Lookup():
            return lineage_parts(node.input) + (0 if node.kind.left_alone else 1)
        case Filter() | Project() | Stamp():
            return lineage_parts(node.input)
    return 1


def steady_columns(node: Node) -> frozenset[Column]:
    """The columns in which all items of one lineage agree.  Others say when items come and go, or
    are computed from that.

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, [{"k": 2, "t": 3}], progress=ps.progress("t", delay=5))
    >>> columns = "k, changed_at, t + 1 AS u, changed_at % 7 AS d"
    >>> query = db.sql(f"SELECT {columns} FROM a EXCEPT ON (k) b")
    >>> sorted(column.name for column in steady_columns(query.plan.input))
    ['k', 'u']
    """
    columns = [Column.of(field) for field in node.schema]
    if not node.signed:
        return frozenset(columns)
    match node:
        case Difference():
            return frozenset(columns[:-1])
        case Distinct():
            return frozenset(columns) - {columns[node.when]}
        case Stamp():
            return steady_columns(node.input) - {node.column}
        case Filter():
            return steady_columns(node.input)
        case Project():
            below = steady_columns(node.input)
            needs = [columns_of(each.expression) for each in node.columns]
            pairs = zip(columns, needs, strict=True)
            return frozenset(column for column, needed in pairs if below.issuperset(needed))
        case Lookup():
            return frozenset(columns) - (_all(node.input) - steady_columns(node.input))
        case Union():
            places = [_steady_places(branch) for branch in node.branches]
            return frozenset(columns[place] for place in set.intersection(*places))
        case Join():
            return frozenset().union(*map(steady_columns, node.branches))
    return frozenset()


def _all(node: Node) -> frozenset[Column]:
    return frozenset(Column.of(field) for field in node.schema)


def _steady_places(node: Node) -> set[int]:
    steady = steady_columns(node)
    return {place for place, field in enumerate(node.schema) if Column.of(field) in steady}
