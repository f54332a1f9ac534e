"""Which streams and tables a plan reads."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.stateless import Scan


def scans_of(node: Node) -> Iterator[Scan]:
    """All scans, those of tables as well."""
    for each in node.walk():
        if isinstance(each, Scan):
            yield each
        elif isinstance(each, Lookup):
            yield from scans_of(each.table)
