"""Compute once what a query asks for more than once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from penstock.optimizer.settings import Settings
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan


def share_subplans(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Parts of a query that are equal, and keep something: their results go to everyone who asks
    for them.  A tuple that is late for such a part is late as often as it is asked for, as if each
    had it to himself.

    Windows that count rows can tell in which order these come from several branches, so nothing is
    shared below them; nor are items that may be taken back.

    before: Join (Project AS a (Windows (Scan s)), Project AS b (Windows (Scan s)))
    after:  the same, where Windows (Scan s) is computed once

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> counts = "SELECT k, count(*) AS n [RANGE 4, SLIDE 4, WA t] FROM s GROUP BY k"
    >>> db.sql(f"CREATE VIEW v AS {counts}")
    >>> text = "SELECT a.n FROM v AS a, v AS b WHERE a.window_end = b.window_end - 4 AND a.k = b.k"
    >>> [str(node.details()[0]) for node in share_subplans(db.sql(text).plan, Settings()).shared]
    ['WindowAggregate count(*)']
    """
    if any(isinstance(each, WindowAggregate) and each.counts_rows for each in query.walk()):
        return query
    asked = Counter(_kept(query.input))
    found = tuple(node for node, times in asked.items() if times > 1)
    return replace(query, shared=found) if found else query


def _kept(node: Node) -> Iterator[Node]:
    """Everything that keeps something for what comes; tables are read by those who look into
    them."""
    if node.stateful and not node.signed:
        yield node
    for each in [node.input] if isinstance(node, Lookup) else node.inputs:
        yield from _kept(each)
