"""Let tuples meet the rows of a large table where the keys of both are, instead of everywhere."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from penstock.optimizer.settings import Settings
from penstock.physical.node import PhysicalNode
from penstock.physical.plan import PhysicalPlan
from penstock.plan.expressions import columns_of
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.plan.nodes.joins import equal_keys
from penstock.plan.nodes.lookup import Lookup
from penstock.plan.properties.lineage import steady_columns
from penstock.plan.properties.reading import scans_of
from penstock.sources.extent import rows_expected


def shuffle_tables(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:
    """
    before: Lookup (Read s)
    after:  Lookup, tuples meet by s.k (Read s)

    A table of at most `broadcast_rows` rows, as far as that can be said without reading it, is at
    hand wherever tuples are.  A larger one is split by the keys that have to be equal.  Where rows
    are counted, tuples stay in the order in which they come.

    >>> import penstock as ps
    >>> from penstock.optimizer.physical.lower import lower
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 2}])
    >>> db.table("r", [{"k": 2}] * 9)
    >>> query = db.sql("SELECT s.k FROM s JOIN r ON s.k = r.k").plan
    >>> def looking_up(rows):
    ...     plan = shuffle_tables(lower(query, Settings()), Settings(broadcast_rows=rows))
    ...     return [port.keys for node in plan.root.walk() if node.operator.value == "Lookup"
    ...             for port in node.ports]
    >>> looking_up(9), [list(map(str, keys)) for keys in looking_up(8)]
    ([None], [['s.k']])
    """
    sources = {scan.stream.name: scan.stream.source for scan in scans_of(plan.query.input)}

    def is_large(lookup: Lookup) -> bool:
        rows = 0
        for scan in scans_of(lookup.table):
            source = sources.get(scan.stream.name)
            rows += (rows_expected(source, scan.stream.schema) or 0) if source is not None else 0
        return rows > settings.broadcast_rows

    able = _able(plan.root)
    return shuffled(plan, [number for number, lookup in able if is_large(lookup)])


def shuffled(plan: PhysicalPlan, which: Collection[int]) -> PhysicalPlan:
    """With some tables split by keys, by their numbers in the plan, and no others."""
    numbers = {id(lookup): number for number, lookup in _able(plan.root)}
    return replace(plan, root=_shuffled(plan.root, numbers, which))


def are_shuffled(plan: PhysicalPlan) -> list[int]:
    """The numbers of the tables that are."""
    split = {id(node.logical) for node in plan.root.walk() if node.stateful}
    return [number for number, lookup in _able(plan.root) if id(lookup) in split]


def _able(node: PhysicalNode, counted: bool = False) -> Iterator[tuple[int, Lookup]]:
    """The tables that can be split by keys."""
    return enumerate(_looking_up(node, counted))


def _looking_up(node: PhysicalNode, counted: bool) -> Iterator[Lookup]:
    logical = node.logical
    if isinstance(logical, Lookup):
        keys, _ = equal_keys(logical.input.schema, logical.table.schema, logical.condition)
        steady = steady_columns(logical.input)  # by which items meet what they take back
        stays = all(steady.issuperset(columns_of(own)) for own, _ in keys)
        if keys and stays and not counted:
            yield logical
    elif node.stateful:
        counted = isinstance(logical, WindowAggregate) and logical.counts_rows
    for each in node.inputs:
        yield from _looking_up(each, counted)


def _shuffled(node: PhysicalNode, numbers: dict[int, int], which: Collection[int]) -> PhysicalNode:
    ports = tuple(replace(port, input=_shuffled(port.input, numbers, which)) for port in node.ports)
    logical = node.logical
    if isinstance(logical, Lookup):
        keys = None
        if numbers.get(id(logical)) in which:
            pairs, _ = equal_keys(logical.input.schema, logical.table.schema, logical.condition)
            keys = tuple(own for own, _ in pairs)
        ports = (replace(ports[0], keys=keys),)
    return replace(node, ports=ports) if ports != node.ports else node
