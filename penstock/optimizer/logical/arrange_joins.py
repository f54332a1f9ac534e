"""The rule that puts joins of several streams together: of which operators, and in which order the
tuples of each stream look for the others."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from penstock.optimizer.dataflow.join_costs import JoinCosts
from penstock.optimizer.dataflow.join_statistics import statistics_of
from penstock.optimizer.dataflow.search import Candidate, Search
from penstock.optimizer.logical.binary_joins import binary_joins, connected
from penstock.optimizer.rewrite import with_inputs
from penstock.optimizer.settings import Settings
from penstock.physical.host import Host
from penstock.plan.algorithms import JoinAlgorithm
from penstock.plan.consistency import Consistency
from penstock.plan.join_trees.arrangement import arranged
from penstock.plan.join_trees.join_tree import Joined, flat, left_deep
from penstock.plan.nodes.joins import Join
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties.equalities import common_keys

_MARGIN = 1.1  # times faster that containers have to be
_SHOWN = 4  # inputs of which all trees are shown
_SIDE_BY_SIDE = 2.0  # where tuples are handled in threads if there are none


def arrange_joins(query: QueryPlan, settings: Settings) -> QueryPlan:
    """
    before: Join ON a.k = b.k AND b.k = c.k (Scan a, Scan b, Scan c)
    after:  the same with the tree (a b c) and an order of probes for every stream; or with
            ((b c) a), which keeps what b and c have in common, if that takes less time

    Whatever the tree, the state of one operator can be that of another.  Intermediate results are
    kept only where no pair is taken back, and not on Spark; there, tuples of all streams have to
    meet in one place, so it is one operator if all have a key in common.

    >>> import pyarrow as pa
    >>> import penstock as ps
    >>> db = ps.connect()
    >>> for name, rows in (("a", 900), ("b", 900), ("c", 9)):
    ...     batch = [{"k": t % 9, "t": t * 900 // rows} for t in range(rows)]
    ...     db.stream(name, pa.Table.from_pylist(batch), progress=ps.progress("t", delay=5))
    >>> windows = "a [RANGE 90], b [RANGE 90], c [RANGE 90]"
    >>> query = db.sql(f"SELECT a.k FROM {windows} WHERE a.k = b.k AND b.k = c.k").plan
    >>> (join,) = (n for n in arrange_joins(query, Settings()).walk() if isinstance(n, Join))
    >>> join.probes
    ((2, 1), (2, 0), (1, 0))
    """
    margin = margin_of(query.consistency)
    made = with_inputs(query, lambda node: _arranged(node, settings, margin))
    return binary_joins(made, settings)


def margin_of(asked: Consistency | None) -> float:
    """How many times faster containers have to be.  They are conflicts: tuples are not handled side
    by side where there are any, and results do not follow these one by one."""
    if asked is None:
        return _MARGIN
    return _SIDE_BY_SIDE if asked.at_most is None else inf


def _arranged(node: Node, settings: Settings, margin: float) -> Node:
    node = with_inputs(node, lambda each: _arranged(each, settings, margin))
    if not isinstance(node, Join) or not can_be_arranged(node, settings):
        return node
    return put_together(node, chosen(node, settings, margin=margin))


def put_together(join: Join, tree: Joined) -> Join:
    """One operator for all inputs, which finds results by way of a tree."""
    return replace(arranged(join, flat(len(join.branches))), tree=tree)


def can_be_arranged(node: Join, settings: Settings) -> bool:
    """Other hints are about joins with two inputs.  On Spark, tuples have to meet in one place, and
    so do items with those that they take back."""
    if len(node.branches) == 2 or node.hint not in (None, JoinAlgorithm.MULTIWAY):
        return False
    return settings.host is Host.LOCAL or (bool(common_keys(node, 0)) and not node.signed)


def chosen(node: Join, settings: Settings, by_name: bool = True, margin: float = _MARGIN) -> Joined:
    """The tree that takes the least time, of those that may be taken; one operator, if that is not
    much slower: it keeps nothing but tuples, and what is assumed may be wrong."""
    found = candidates(node, settings, by_name)
    return min(found, key=lambda each: each.time * (1 if each.tree.is_flat else margin)).tree


def candidates(node: Join, settings: Settings, by_name: bool = True) -> list[Candidate]:
    """The best trees that may be taken: one operator for all inputs, and any operators for two or
    more."""
    search = Search(JoinCosts(node, statistics_of(node)))
    if len(node.branches) == 2:
        return [search.flat()]
    if not can_be_arranged(node, settings):
        free = by_name and not node.signed
        cascade = left_deep(connected(node) if free else range(len(node.branches)))
        return [Candidate(cascade, search.time(cascade))]
    if not _may_contain(node, settings):
        return [search.flat()]
    found = [search.flat(), search.containing()]
    return [each for number, each in enumerate(found) if each not in found[:number]]


def _may_contain(node: Join, settings: Settings) -> bool:
    """Whether intermediate results may be kept."""
    several = len(node.branches) > 2 and settings.host is Host.LOCAL
    return several and not node.signed and node.hint is None


def considered(node: Join, settings: Settings) -> list[Candidate]:
    """All trees that are worth showing, the fastest first: those of every kind, pipelines of
    operators for two among them, and of a few inputs all that there are."""
    found = candidates(node, settings)
    if _may_contain(node, settings):
        search = Search(JoinCosts(node, statistics_of(node)))
        every = search.every() if len(node.branches) <= _SHOWN else []
        for each in (search.pipeline(), *every):
            if all(each.tree != known.tree for known in found):
                found.append(each)
    return sorted(found, key=lambda each: each.time)
