"""Whether the answer to a query depends on the order in which the items of its streams come."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model.progress import Slack, TimestampKind
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.stateless import Scan
from penstock.plan.streams import StreamDefinition


def order_matters(node: Node) -> list[str]:
    """Why it does, in a line for each reason; nothing if the answer is order invariant: the same
    for any order of the items.  Items that break a promise are not among these: they are late by
    the order of their own stream.

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"x": 1, "t": 1}], progress=ps.progress("t", delay=5))
    >>> order_matters(db.sql("SELECT sum(x) AS n [RANGE 9, SLIDE 3, WA t] FROM s").plan)
    []
    >>> order_matters(db.sql("SELECT sum(x) AS n [RANGE 9 ROWS, SLIDE 3 ROWS] FROM s").plan)
    ['a window counts rows as they come']
    """
    return list(dict.fromkeys(_reasons(node)))


def _reasons(node: Node) -> Iterator[str]:
    for each in node.walk():
        if isinstance(each, WindowAggregate):
            if each.counts_rows:
                yield "a window counts rows as they come"
            for call in (named.call for named in each.aggregates):
                if call.function.implementation is not None:
                    yield f"{call.function.name} is told of tuples one after the other"
        if isinstance(each, Scan):
            yield from _of_stream(each.stream)


def _of_stream(stream: StreamDefinition) -> Iterator[str]:
    if stream.progress is None:
        return
    policy = stream.progress.policy
    if policy.timestamps is not TimestampKind.EXTERNAL:
        yield f"tuples of {stream.name} are stamped as they come ({policy.timestamps.value})"
    if isinstance(policy.rule, Slack):
        yield f"SLACK of {stream.name} counts tuples as they come"
