"""Which sources are read in step, because their tuples meet.

Of sources that meet, the one whose promise is lowest is read next: it is the one that the others
wait for.  So a join over files holds what its windows hold, however large the files are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.engine.graph.source_node import SourceNode
from penstock.physical.node import PhysicalNode
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.sources.live import LiveSource


@dataclass(frozen=True)
class Meeting:
    """Scans that are read together.  Those `in_turn` come one after the other, as the definitions
    have it: a window above them counts rows as they arrive."""

    scans: tuple[SourceNode, ...]
    in_turn: bool = False

    def next(self, reading: Sequence[SourceNode]) -> SourceNode:
        """Of those that are still being read, the one to read next."""
        return reading[0] if self.in_turn else min(reading, key=lambda scan: scan.ingest.low)


def meetings(scans: Sequence[SourceNode], met: Sequence[Meeting]) -> list[Meeting]:
    """All scans, those together that meet anywhere, in the order in which they were asked for."""
    groups = [Meeting((scan,)) for scan in scans]
    for each in met:
        together = [group for group in groups if set(group.scans) & set(each.scans)]
        apart = [group for group in groups if group not in together]
        members = [scan for scan in scans if any(scan in group.scans for group in together)]
        in_turn = each.in_turn or any(group.in_turn for group in together)
        groups = [*apart, Meeting(tuple(members), in_turn)]
    return sorted(groups, key=lambda group: scans.index(group.scans[0]))


def met_in(node: PhysicalNode, below: Sequence[Sequence[SourceNode]]) -> Iterator[Meeting]:
    """What follows from one operator, which has these scans below its ports."""
    scans = tuple(dict.fromkeys(scan for port in below for scan in port))
    counts = isinstance(node.logical, WindowAggregate) and node.logical.counts_rows
    if len(scans) > 1 and (counts or len(below) > 1):
        yield Meeting(scans, counts)


def keeps_for_others(node: PhysicalNode) -> bool:
    """Whether the operator keeps tuples of one port for those of another."""
    return node.stateful and len(node.ports) > 1


def is_ahead(scan: SourceNode, others: Sequence[SourceNode]) -> bool:
    """Whether a source that can wait has come further than one of those that its tuples are kept
    for.  The last of them is never ahead, so somebody is always read; and a file that may grow has
    to be waited for only as long as there is something in it to read."""
    if isinstance(scan.ingest.stream.source, LiveSource):
        return False
    return any(each.ingest.low < scan.ingest.low for each in others if not each.has_nothing_now)
