"""Say how much a join is about to keep, and warn where its window is long for what it joins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.model.domain import Domain
from penstock.optimizer.estimates.sizes import assumed_flow, counted, flow_of, rate
from penstock.optimizer.settings import Settings
from penstock.physical.node import PhysicalNode
from penstock.physical.plan import PhysicalPlan
from penstock.plan.expressions import Column
from penstock.plan.nodes.joins import Join
from penstock.plan.nodes.node import Node
from penstock.plan.properties.window_times import time_of_window

MANY = 1_000_000  # tuples of an input that are worth a warning


def expect_state(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:  # noqa: ARG001
    """
    before: OaJoin (Read a, Read b)
    after:  the same, with what it expects to keep of a and of b

    A tuple is kept until the other input has promised to be beyond its window: for as long as the
    window is, and as the other input may be out of order.  Results of windows come when those
    have closed.

    >>> import penstock as ps
    >>> from penstock.optimizer.physical.lower import lower
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, iter([]), schema="k INT, t INT", progress=ps.progress("t", delay=5))
    >>> text = "SELECT a.k FROM a [RANGE 20], b [RANGE 9] WHERE a.k = b.k"
    >>> plan = expect_state(lower(db.sql(text).plan, Settings()), Settings())
    >>> print(*(note for node in plan.root.walk() for note in node.notes), sep="\\n")
    keeps about 25 tuples of a (25, at an assumed 1 tuple a unit)
    keeps about 14 tuples of b (14, at an assumed 1 tuple a unit)
    """
    return replace(plan, root=_noted(plan.root))


def _noted(node: PhysicalNode) -> PhysicalNode:
    ports = tuple(replace(port, input=_noted(port.input)) for port in node.ports)
    notes = node.notes
    if isinstance(node.logical, Join) and len(node.ports) == 2:
        notes = (*notes, *_expected(node.logical))
    return replace(node, ports=ports, notes=notes) if node.ports else node


def _expected(join: Join) -> Iterator[str]:
    window = join.window.between(0, 1)
    if window is None:
        return
    sides = list(zip(join.branches, join.attributes, strict=True))
    found = [flow_of(branch, attribute) for branch, attribute in sides]
    flows = [
        flow or assumed_flow(attribute.type)
        for flow, (_, attribute) in zip(found, sides, strict=True)
    ]
    reach = (window.partner_bounds(0)[1], window.partner_bounds_of_right(0)[1])
    for port, (_, attribute) in enumerate(sides):
        own, other = flows[port], flows[1 - port]
        ticks = max(0, reach[port]) + round(other.disorder) + _lag(*sides[1 - port])
        tuples = own.volume * ticks
        if own.rows is not None:
            tuples = min(tuples, own.rows)
        domain, name = Domain(attribute.type), attribute.relation or attribute.name
        known = "" if own.known else "an assumed "
        speed = f"{known}{rate(own.volume, attribute.type)}"
        kept = f"{counted(tuples, 'tuple')} of {name}"
        yield f"keeps about {kept} ({domain.format_length(ticks)}, at {speed})"
        if tuples >= MANY:
            yield (
                f"note: that is much; a shorter window or band would keep less,"
                f" DELAY alone {counted(own.volume * other.disorder, 'tuple')}"
            )


def _lag(branch: Node, attribute: Column) -> int:
    """How long results of windows are behind the stream that they are made of."""
    found = time_of_window(branch, attribute)
    if found is None or found.node.attribute is None:
        return 0
    flow = flow_of(found.node.input, found.node.attribute)
    return found.window.range - found.ticks + (round(flow.disorder) if flow is not None else 0)
