"""Final bounds: how far beyond its highest tuple a stream has to promise, so that everything open
closes.

The last run of a query (`--final`) closes what is open by such a bound. It is an ordinary
punctuation: a run that resumes later finds a state like any other, in which tuples below the bound
are late. No such bound closes windows over numbers of rows, groups by computed keys, and what is
computed from landmark windows; only the end of the stream does, after which nothing can resume.
Hosts check whether a bound has closed everything, and end the streams if it has not.
"""

from __future__ import annotations

from math import gcd

from penstock.model.types import INT64_MAX, Kind, Type
from penstock.plan.algorithms import Algorithm
from penstock.plan.expressions import Column, Expression
from penstock.plan.join_windows import BandJoin, SlidingJoin, TumblingJoin
from penstock.plan.nodes.aggregation import Distinct, DistinctOn, GroupAggregate, WindowAggregate
from penstock.plan.nodes.join import Difference, Join, Lookup, Sequence
from penstock.plan.nodes.node import Filter, Node, Project, Scan, Stamp, Union, Unnest
from penstock.plan.nodes.over import Over
from penstock.plan.nodes.query import Late, QueryPlan
from penstock.plan.streams import StreamDefinition
from penstock.plan.window_kinds import Landmark, Session, SlideByTuple, Sliding

_BOUNDS = ("window_start", "window_end")


def closing_reach(query: QueryPlan) -> int | None:
    """Ticks beyond the highest tuple of all streams; None if only the end of the streams closes
    everything.
    """
    if any(isinstance(node, Stamp) for node in query.walk()):
        return None
    if query.late is Late.AMEND and _waits_for_amendments(query):
        return None
    reach = _reach(query.input)
    return None if reach is None else max(1, reach)  # EMIT IN ORDER waits for a tick more


def last_tick(stream: StreamDefinition) -> int:
    """Highest tick of the progressing attribute: no bound is beyond it."""
    if stream.progress is None:
        return INT64_MAX
    match stream.attribute.type:
        case Type(kind=Kind.INT | Kind.DATE):
            return 2**31 - 1
        case Type(kind=Kind.DECIMAL, precision=digits):
            return min(INT64_MAX, int(10**digits) - 1)
    return INT64_MAX


def _waits_for_amendments(query: QueryPlan) -> bool:
    """Whether results wait for as long as late tuples may change them."""
    if any(isinstance(n, Sequence | Difference) for n in query.walk()):
        return True
    kinds = WindowAggregate | GroupAggregate | Distinct | DistinctOn | Over | Join
    folding = [n for n in query.walk() if isinstance(n, kinds)]
    alone = any(isinstance(n, Join) and any(n.kind.keeps) for n in folding)
    by_tuple = [n for n in folding if isinstance(n, WindowAggregate)]
    held = any(
        isinstance(n.window, SlideByTuple)
        or (isinstance(n.window, Session) and n.window.longest is not None)
        for n in by_tuple
    )
    held = held or any(isinstance(n, Over) for n in folding)
    return alone or len(folding) > 1 or held


def _reach(node: Node) -> int | None:
    below = [_reach(each) for each in node.inputs]
    if any(each is None for each in below):
        return None
    own = _own_reach(node)
    return None if own is None else own + max((each for each in below if each), default=0)


def _own_reach(node: Node) -> int | None:
    match node:
        case Distinct() if node.signed:  # retractions at a time are known after it
            return 1
        case Scan() | Filter() | Project() | Union() | Distinct() | Lookup() | Unnest():
            return 0
        case Sequence():
            # a second tuple is decided after its time, and first ones wait for so long
            return _if_timed(node, 1 + (node.within or 0))
        case Difference():
            # the last change of a tuple is that it leaves, or comes back as another one leaves
            longest = max((span for span in node.ranges if span is not None), default=-1)
            return _if_timed(node, longest + 2)
        case WindowAggregate(window=Sliding(span, slide), attribute=attribute):
            # its low level holds panes back until the one after the next
            held = gcd(span, slide) if node.algorithm is Algorithm.TWO_LEVEL else 0
            return span + held if _keeps_ticks(node.input, attribute) else None
        case DistinctOn(window=Sliding(span), attribute=attribute):
            return span if _keeps_ticks(node.input, attribute) else None
        case Over():
            ahead = 0 if node.completing is not None else node.ticks_ahead
            waits = node.completing is None and node.counts_ahead
            return 1 + ahead if not waits and _keeps_ticks(node.input, node.time) else None
        case WindowAggregate(window=Landmark(slide), attribute=attribute):
            return slide if _keeps_ticks(node.input, attribute) else None
        case WindowAggregate(window=Session() as session, attribute=attribute):
            return session.shortest if _keeps_ticks(node.input, attribute) else None
        case WindowAggregate(window=SlideByTuple(), attribute=attribute):
            return 1 if _keeps_ticks(node.input, attribute) else None
        case Join():
            return _join_reach(node)
        case GroupAggregate():
            keys = node.completing[:1] if node.counted else node.completing
            return 1 if any(_keeps_ticks(node.input, key) for key in keys) else None
    return None


def _join_reach(node: Join) -> int | None:
    """Reach of a join. Progress falls behind by as much as partners may be apart; where tuples
    without a partner are emitted, it has to have passed them. Many inputs are joined one after the
    other, and some are bounded to each other only through others.
    """
    inputs = range(len(node.branches))
    windows = [node.window.between(i, j) for j in inputs for i in inputs[:j]]
    far = [_apart(window) for window in windows if window is not None]
    apart = max(
        sum(far) * (len(node.branches) - 1), *(_apart(each.window) for each in node.also), 0
    )
    branches = zip(node.branches, node.attributes, strict=True)
    if not all(_keeps_ticks(branch, attribute) for branch, attribute in branches):
        return None
    return apart + any(node.kind.keeps)


def _apart(window: SlidingJoin | TumblingJoin | BandJoin) -> int:
    match window:
        case TumblingJoin(length):
            return length - 1
        case SlidingJoin():
            return _apart(window.band)
        case BandJoin(low, high):
            return max(0, -low, high)


def _if_timed(node: Sequence | Difference, reach: int) -> int | None:
    """The reach, if bounds of the streams reach the inputs unchanged."""
    inputs = zip(node.inputs, node.attributes, strict=True)
    return reach if all(_keeps_ticks(each, attribute) for each, attribute in inputs) else None


def _keeps_ticks(node: Node, expression: Expression | None) -> bool:
    """Whether an expression is the progressing column of the streams, or the start or the end of
    windows over it, and nothing computed from it.
    """
    if not isinstance(expression, Column):
        return False
    match node:
        case Scan():
            return node.stream.progress is not None
        case Filter() | Distinct() | Over():
            return _keeps_ticks(node.input, expression)
        case Join():
            for branch in node.branches:
                if any(Column.of(field) == expression for field in branch.schema):
                    return _keeps_ticks(branch, expression)
            return False
        case Lookup() | Unnest() if expression in map(Column.of, node.input.schema):
            return _keeps_ticks(node.input, expression)
        case Sequence():
            place = expression.position(node.schema)
            width = len(node.first.schema)
            side, own = (node.first, place) if place < width else (node.second, place - width)
            return _keeps_ticks(side, Column.of(side.schema.fields[own]))
        case Difference():
            inputs = zip(node.inputs, node.attributes, strict=True)
            timed = all(_keeps_ticks(each, attribute) for each, attribute in inputs)
            return timed and expression.name == "changed_at"
        case Project():
            given = node.columns[expression.position(node.schema)].expression
            return _keeps_ticks(node.input, given)
        case Union():
            place = expression.position(node.schema)
            return all(
                _keeps_ticks(each, Column.of(each.schema.fields[place])) for each in node.branches
            )
        case DistinctOn():
            return expression.relation is None and expression.name in _BOUNDS
        case WindowAggregate():
            # landmark windows promise no more than the one that the next tuple would release
            over_values = not isinstance(node.window, SlideByTuple | Landmark)
            return over_values and node.attribute is not None and expression.name in _BOUNDS
        case GroupAggregate():
            key = next((key for key in node.keys if key.name == expression.name), None)
            return key is not None and _keeps_ticks(node.input, key.expression)
    return False
