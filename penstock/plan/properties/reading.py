"""Which streams and tables a plan reads, and whether these are tables alone."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.stateless import Scan


def scans_of(node: Node) -> Iterator[Scan]:
    """All scans, those of tables as well, and those that the answers over tables are made of."""
    for each in node.walk():
        if isinstance(each, Scan):
            yield each
            if each.stream.answer is not None:
                yield from scans_of(each.stream.answer)
        elif isinstance(each, Lookup):
            yield from scans_of(each.table)


def reads_tables(node: Node) -> bool:
    """Whether all that comes is of tables, so that it is complete when a run begins."""
    return all(_is_of_table(each) for each in node.walk() if isinstance(each, Scan))


def _is_of_table(scan: Scan) -> bool:
    return scan.stream.is_table or scan.stream.of_table is not None
