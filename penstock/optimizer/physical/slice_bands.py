"""Let tuples that are joined by their times alone meet in slices of time, not all in one place."""

from __future__ import annotations

from dataclasses import replace

from penstock.optimizer.settings import Settings
from penstock.physical.node import PhysicalNode
from penstock.physical.plan import PhysicalPlan
from penstock.physical.slices import TimeSlices
from penstock.plan.expressions import Column
from penstock.plan.nodes.joins import Join, JoinKind
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.sequence import Sequence, SequenceMode
from penstock.windows.joins import BandJoin, SlidingJoin, TumblingJoin

_TIMES = 4  # so many times as wide as the band: a fourth of one input is sent twice
_FAR = 1 << 60  # ticks; a band that reaches so far is as good as none


def slice_bands(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:  # noqa: ARG001
    """
    before: OaJoin, all tuples meet in one place (Read a, Read b)
    after:  OaJoin, tuples meet in slices of time (Read a, Read b)

    Tuples of one input go to one slice.  All of their partners go there, too, so it may be the
    input whose tuples come without a partner, or once.  A FULL join has two such inputs: its tuples
    meet in one place.  Pairs of signed items have to come from one place, too, so that they are
    known when they are taken back: plain tuples go to one slice, and two inputs with signed items
    meet in one place.  So do those of a CHRONICLE sequence, where a tuple that one slice uses up is
    missing in the next, of a RECENT one without WITHIN, which reaches back for ever, and of one
    that gives first tuples which nothing follows.

    >>> import penstock as ps
    >>> from penstock.optimizer.physical.lower import lower
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, [{"x": 2, "t": 4}], progress=ps.progress("t", delay=5))
    >>> query = db.sql("SELECT a.x FROM a, b WHERE b.t BETWEEN a.t - 2 AND a.t + 3").plan
    >>> plan = slice_bands(lower(query, Settings()), Settings())
    >>> [str(port.slices) for port in plan.root.inputs[0].ports]
    ['slices of 20 of a.t', 'slices of 20 of b.t in which they may have partners']
    """
    return replace(plan, root=_sliced(plan.root))


def _sliced(node: PhysicalNode) -> PhysicalNode:
    ports = tuple(replace(port, input=_sliced(port.input)) for port in node.ports)
    by_time = len(ports) == 2 and all(port.keys == () for port in ports)
    if by_time and not node.whole_windows:  # whose results are counted
        slices = _slices(node.logical)
        if slices is not None:
            pairs = zip(ports, slices, strict=True)
            ports = tuple(replace(port, slices=each) for port, each in pairs)
    return replace(node, ports=ports) if ports != node.ports else node


def _slices(node: Node) -> tuple[TimeSlices, TimeSlices] | None:
    """Those of both inputs, if there can be several."""
    match node:
        case Join(branches=(one, other)) if one.signed and other.signed:
            return None
        case Join(branches=(_, _), attributes=(left, right)):
            window = node.window.between(0, 1)
            if isinstance(window, TumblingJoin):
                width, origin = window.range, window.origin
                return TimeSlices(left, width, origin=origin), TimeSlices(
                    right, width, origin=origin
                )
            band = window.band if isinstance(window, SlidingJoin) else window
            if band is None or node.kind is JoinKind.FULL:
                return None
            once_right = node.kind is JoinKind.RIGHT or node.branches[0].signed
            return _of_band(left, right, band, left_once=not once_right)
        case Sequence(mode=SequenceMode.RECENT, within=int(within), keeps=(False, _)):
            first, second = node.attributes
            return _of_band(first, second, BandJoin(0, within), left_once=False)
    return None


def _of_band(
    left: Column, right: Column, band: BandJoin, left_once: bool
) -> tuple[TimeSlices, TimeSlices] | None:
    if max(abs(band.low), abs(band.high)) > _FAR:
        return None
    width = _TIMES * max(1, band.high - band.low)
    if left_once:  # a right tuple has partners from `high` before it to `low` before it
        return TimeSlices(left, width), TimeSlices(right, width, -band.high, -band.low)
    return TimeSlices(left, width, band.low, band.high), TimeSlices(right, width)
