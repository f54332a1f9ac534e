"""FROM as a tree: what is joined with what, and where every condition belongs.

A condition goes down to where it means the same.  What is asked of a side whose tuples come also
without a partner must not take tuples away below the join that lets them through: ON decides who is
a partner, WHERE who stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from penstock.errors import BindError, Span
from penstock.model.ticks import Domain
from penstock.plan.algorithms import JoinAlgorithm
from penstock.plan.expressions import Column, Expression, all_of, columns_of
from penstock.plan.nodes.join import Join, JoinKind, Lookup, RunningJoin, SequenceMode
from penstock.plan.nodes.join import Sequence as SequenceNode
from penstock.plan.nodes.node import Filter, Node, Scan
from penstock.plan.properties import scans_of
from penstock.sql.binder import join_times
from penstock.sql.binder.changelog import kept_for
from penstock.sql.binder.join_times import Time, Timed
from penstock.sql.binder.literals import ticks
from penstock.sql.binder.relations import (
    BoundSource,
    RelationBinder,
    pointing_at,
    positive,
    same_domain,
    stamped,
)
from penstock.sql.binder.windows import (
    HOW_TO_RUN,
    how_to_progress,
    how_to_progress_by_name,
    only_progressing,
)
from penstock.sql.syntax import WindowClause

Keys: TypeAlias = frozenset[tuple[str, str | None]]  # names and relations of columns


@dataclass(eq=False)
class Leaf:
    """A relation, and the conditions on it alone."""

    source: BoundSource
    predicates: list[Expression] = field(default_factory=list)

    @cached_property
    def columns(self) -> Keys:
        return frozenset((each.name, each.relation) for each in self.source.node.schema)

    def place(self, predicate: Expression) -> None:
        """Add a condition on the results."""
        self.predicates.append(predicate)

    def leaves(self) -> Iterator[Leaf]:
        yield self


@dataclass(eq=False)
class Inner:
    """Any number of inputs whose combinations fulfil all conditions."""

    parts: tuple[Tree, ...]
    predicates: list[Expression] = field(default_factory=list)

    @cached_property
    def columns(self) -> Keys:
        return frozenset(self._owners)

    @cached_property
    def _owners(self) -> dict[tuple[str, str | None], int]:
        return {key: place for place, part in enumerate(self.parts) for key in part.columns}

    def place(self, predicate: Expression) -> None:
        owners = {self._owners[key] for key in keys_of(predicate)}
        if len(owners) == 1:
            self.parts[owners.pop()].place(predicate)
        else:
            self.predicates.append(predicate)

    def leaves(self) -> Iterator[Leaf]:
        for part in self.parts:
            yield from part.leaves()


@dataclass(eq=False)
class Paired:
    """Two inputs of an outer, semi or anti join. `condition` decides which tuples are partners;
    conditions `above` the join, which of the results stay."""

    kind: JoinKind
    left: Tree
    right: Tree
    span: Span
    condition: list[Expression] = field(default_factory=list)
    above: list[Expression] = field(default_factory=list)

    @cached_property
    def columns(self) -> Keys:
        return self.left.columns if self.kind.left_alone else self.left.columns | self.right.columns

    def place(self, predicate: Expression) -> None:
        """Place a condition. It can only be checked before the join on a side whose columns are
        never missing in the results."""
        keys = keys_of(predicate)
        if keys and keys <= self.left.columns and self.kind in _LEFT_STAYS:
            self.left.place(predicate)
        elif keys and keys <= self.right.columns and self.kind is JoinKind.RIGHT:
            self.right.place(predicate)
        else:
            self.above.append(predicate)

    def place_on(self, predicate: Expression) -> None:
        """Add a condition on pairs. It can be checked before the join on a side whose tuples are
        not emitted without a partner; there it only leaves fewer partners."""
        keys = keys_of(predicate)
        keeps_left, keeps_right = self.kind.keeps
        if keys and keys <= self.right.columns and not keeps_right:
            self.right.place(predicate)
        elif keys and keys <= self.left.columns and not keeps_left:
            self.left.place(predicate)
        else:
            self.condition.append(predicate)

    def leaves(self) -> Iterator[Leaf]:
        yield from self.left.leaves()
        yield from self.right.leaves()


_LEFT_STAYS = (JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)


@dataclass(eq=False)
class AsOf:
    """Tuples with the last row of another stream at their time."""

    left: Tree
    right: Leaf
    time: Column
    keeps: bool  # tuples before its first row
    span: Span
    condition: list[Expression] = field(default_factory=list)
    above: list[Expression] = field(default_factory=list)
    said: Column | None = None  # the time of the other stream, where one is named

    @cached_property
    def columns(self) -> Keys:
        return self.left.columns | self.right.columns

    def place(self, predicate: Expression) -> None:
        """Place a condition. It goes to the left side or above the join, never into the table: the
        last version of a row may differ from the last version that fulfils the condition."""
        keys = keys_of(predicate)
        if keys and keys <= self.left.columns:
            self.left.place(predicate)
        else:
            self.above.append(predicate)

    def place_on(self, predicate: Expression) -> None:
        keys = keys_of(predicate)
        if keys and keys <= self.right.columns:
            self.right.place(predicate)
        elif keys and keys <= self.left.columns and not self.keeps:
            self.left.place(predicate)
        else:
            self.condition.append(predicate)

    def leaves(self) -> Iterator[Leaf]:
        yield from self.left.leaves()
        yield self.right


Tree: TypeAlias = Leaf | Inner | Paired | AsOf


def inner(left: Tree, right: Tree) -> Inner:
    """Join two trees; the parts of inner joins are joined side by side."""
    sides = [each if isinstance(each, Inner) else Inner((each,)) for each in (left, right)]
    parts = tuple(part for side in sides for part in side.parts)
    return Inner(parts, [predicate for side in sides for predicate in side.predicates])


def keys_of(predicate: Expression) -> Keys:
    return frozenset((each.name, each.relation) for each in columns_of(predicate))


# Tables in FROM: streams are looked up in them, so no condition has to bound times.

_KEPT = {  # what would come out of a join that keeps rows of a table
    JoinKind.LEFT: "its rows without a partner",
    JoinKind.RIGHT: "its rows without a partner",
    JoinKind.FULL: "its rows without a partner",
    JoinKind.SEMI: "its rows that have a partner",
    JoinKind.ANTI: "its rows without a partner",
}


def is_table(node: Node) -> bool:
    """Whether a node is looked up in: it reads tables alone, and is complete before any tuple
    comes."""
    scans = [each for each in node.walk() if isinstance(each, Scan)]
    return all(scan.stream.is_table for scan in scans) and all(
        isinstance(each, RunningJoin) for each in node.walk() if each.stateful
    )


def columns(node: Node) -> Keys:
    return frozenset((field.name, field.relation) for field in node.schema)


def looked_up(node: Node, tables: list[Node], predicates: list[Expression], span: Span) -> Node:
    """Look the node up in all tables, one after the other: first in those that a condition ties to
    the columns known so far."""
    waiting, rest = list(tables), list(predicates)
    while waiting:
        known = columns(node)
        table = next((each for each in waiting if _is_tied(each, known, rest)), waiting[0])
        waiting = [each for each in waiting if each is not table]
        there = known | columns(table)
        own = [each for each in rest if keys_of(each) <= there]
        rest = [each for each in rest if not keys_of(each) <= there]
        node = _lookup(node, table, own, JoinKind.INNER, span)
    return node


def _is_tied(table: Node, known: Keys, predicates: list[Expression]) -> bool:
    own = columns(table)
    return any(
        keys_of(each) & own and keys_of(each) & known and keys_of(each) <= own | known
        for each in predicates
    )


def paired(
    kind: JoinKind, left: Node, right: Node, predicates: list[Expression], span: Span
) -> Node:
    """Join two inputs of which at least one is a table; of two tables, the right one is looked up
    in."""
    if kind is JoinKind.FULL and is_table(left) and is_table(right):
        return pointing_at(span, lambda: RunningJoin(left, right, all_of(predicates), kind, span))
    stream, table = (left, right) if is_table(right) else (right, left)
    turned = {JoinKind.RIGHT: JoinKind.LEFT, JoinKind.INNER: JoinKind.INNER}
    wanted = kind if table is right else turned.get(kind)
    if is_table(left) and is_table(right) and kind is JoinKind.RIGHT:
        stream, table, wanted = right, left, JoinKind.LEFT
    if wanted is None or wanted in (JoinKind.RIGHT, JoinKind.FULL):
        raise _keeps_rows(kind, table, span)
    return _lookup(stream, table, predicates, wanted, span)


def _keeps_rows(kind: JoinKind, table: Node, span: Span) -> BindError:
    name = next(scans_of(table)).alias
    word = {JoinKind.SEMI: "SEMI JOIN", JoinKind.ANTI: "ANTI JOIN"}.get(kind, f"{kind.value} JOIN")
    return BindError(
        f"{word} would give of table {name} {_KEPT[kind]}, which are known when the stream ends",
        span=span,
        expected="a join that keeps tuples of the stream",
        hint="the stream first: stream LEFT JOIN table ON …",
    )


def _lookup(
    node: Node, table: Node, predicates: list[Expression], kind: JoinKind, span: Span
) -> Node:
    return pointing_at(span, lambda: Lookup(node, table, all_of(predicates), kind, span))


# From the tree of FROM to nodes: joins, look-ups in tables, and AS OF joins.


@dataclass
class JoinBinder:
    """Makes the nodes of one FROM.  `span` is where the query stands, for joins by commas."""

    relations: RelationBinder
    tree: Tree
    span: Span
    hint: JoinAlgorithm | None = None
    joined: list[Join] = field(default_factory=list)  # those that were made
    _compared: list[BoundSource] = field(default_factory=list)  # whose windows count

    def bind(self) -> Timed:
        made = self._made(self.tree)
        self._refuse_idle_windows()
        return made

    def _made(self, tree: Tree) -> Timed:
        match tree:
            case Leaf():
                return self._leaf(tree)
            case Inner():
                return self._inner(tree)
            case Paired():
                return self._paired(tree)
            case AsOf():
                return self._as_of(tree)

    # --- the kinds -------------------------------------------------------------------------------

    def _leaf(self, leaf: Leaf) -> Timed:
        source = leaf.source
        node = filtered(source.node, leaf.predicates)
        if is_table(node) and source.window is not None:
            raise BindError(
                f"table {source.alias} is complete, so it has no window",
                span=source.window.span,
                hint=how_to_progress_by_name(node),
            )
        only = isinstance(self.tree, Leaf)  # nothing is joined with it
        windowed = source.window is not None or self.relations.window_all is not None
        if only or is_table(node) or not windowed:
            times = [Time(Column.of(each.field), source) for each in node.progress]
            return Timed(node, tuple(times), alternatives=True)
        attribute = self.relations.attribute(source, node)
        stay = None
        if not self._tumbling:
            stay = self.relations.stay(source.window, attribute)
        return Timed(node, (Time(attribute, source, stay),))

    def _inner(self, tree: Inner) -> Timed:
        """All streams as one n-ary join; then they are looked up in the tables."""
        parts = [self._made(part) for part in tree.parts]
        kept = [part for part in parts if is_table(part.node)]
        streams = [part for part in parts if part not in kept] or [kept.pop(0)]
        known = frozenset(key for part in streams for key in columns(part.node))
        own = [each for each in tree.predicates if keys_of(each) <= known]
        rest = [each for each in tree.predicates if each not in own]
        if len(streams) == 1:
            base, rest = streams[0], tree.predicates
        else:
            base = self._join(JoinKind.INNER, streams, own, self.span)
        if not kept:
            return base
        node = looked_up(base.node, [each.node for each in kept], rest, self.span)
        return base._replace(node=node)

    def _paired(self, tree: Paired) -> Timed:
        left, right = self._made(tree.left), self._made(tree.right)
        if is_table(right.node) or is_table(left.node):
            node = paired(tree.kind, left.node, right.node, tree.condition, tree.span)
            stream = left if is_table(right.node) else right
            made = stream._replace(node=node)
        else:
            made = self._join(tree.kind, [left, right], tree.condition, tree.span)
        return _above(made, tree.above)

    def _as_of(self, tree: AsOf) -> Timed:
        left, right = self._made(tree.left), self._made(tree.right)
        source = tree.right.source
        if is_table(right.node):
            raise BindError(
                f"table {source.alias} does not change, so it has no past",
                span=source.span,
                hint="JOIN … ON without AS OF",
            )
        if source.window is not None:
            raise BindError(
                "what is looked up AS OF a time has no window: the last word counts, however old",
                span=source.window.span,
            )
        if left.node.promise(tree.time) is None:
            known = [each.field.qualified for each in left.node.progress]
            raise BindError(
                f"{tree.time} does not progress, so nobody knows when all that was said before has"
                " come",
                span=tree.time.span or tree.span,
                expected=f"one of {', '.join(known)}" if known else None,
            )
        if tree.said is not None and right.node.promise(tree.said) is None:
            raise BindError(
                f"{tree.said} does not progress, so an ASOF join cannot go by it",
                span=tree.said.span or tree.span,
                expected=f"a time of {source.alias} that progresses",
                hint=how_to_progress(right.node),
            )
        if len(right.times) > 1 and tree.said is None:
            raise BindError(
                f"several columns of {source.alias or 'the sub-query'} progress, and AS OF does not"
                " say which is its time",
                span=source.span,
                hint="a sub-query that selects one of them",
            )
        first = tree.said or only_progressing(right.node, source.span, "WA")
        same_domain([tree.time, first], tree.span)
        node = pointing_at(
            tree.span,
            lambda: SequenceNode(
                right.node,
                left.node,
                (first, tree.time),
                SequenceMode.RECENT,
                all_of(tree.condition),
                None,
                tree.span,
                (False, tree.keeps),
            ),
        )
        times = [each for each in left.times if not left.alternatives or each.column == tree.time]
        made = left._replace(node=node, times=tuple(times), alternatives=False)
        return _above(made, tree.above)

    # --- joins -----------------------------------------------------------------------------------

    def _join(
        self, kind: JoinKind, inputs: list[Timed], predicates: list[Expression], span: Span
    ) -> Timed:
        running = self.relations.catalog.running
        if running is not None and not self._tumbling:
            if join_times.bounded_if_any(inputs, predicates) is None:
                inputs = kept_for(inputs, running, span)
            if join_times.bounded_if_any(inputs, predicates) is None:
                return self._running(kind, inputs, predicates, span)
        self._check(kind, inputs, span)
        if self._tumbling:
            chosen = join_times.tumbling(inputs, self._length(inputs))
        else:
            chosen = join_times.bounded(inputs, predicates, span)
        self._note(chosen.times)
        nodes = tuple(each.node for each in inputs)
        condition, hint = all_of(predicates), self.hint
        node = pointing_at(
            span,
            lambda: Join(
                nodes,
                chosen.attributes,
                chosen.window,
                condition,
                span,
                kind,
                chosen.also,
                chosen.late_by,
                hint,
            ),
        )
        self.joined.append(node)
        left, right = kind.keeps
        left_stays, right_stays = not right, not left and not kind.left_alone
        if kind is JoinKind.INNER:
            times = [time for several in chosen.times for time in several]
        else:
            times = [*(chosen.times[0] if left_stays else ())]
            times += chosen.times[1] if right_stays else ()
        return Timed(node, tuple(times), parts=tuple(inputs), chosen=chosen)

    def _running(
        self, kind: JoinKind, inputs: list[Timed], predicates: list[Expression], span: Span
    ) -> Timed:
        """Two by two; a condition is looked at where all of its columns are there first."""
        if self.hint is not None:
            raise BindError(
                f"{self.hint.name} joins within windows, and nothing bounds this join", span=span
            )
        node, *others = (each.node for each in inputs)
        rest = predicates
        for other in others:
            left = node
            known = frozenset(key for each in (left, other) for key in columns(each))
            own = all_of([each for each in rest if keys_of(each) <= known])
            rest = [each for each in rest if not keys_of(each) <= known]
            node = self._running_pair(kind, left, other, own, span)
        return Timed(node, ())

    def _running_pair(
        self, kind: JoinKind, left: Node, right: Node, condition: Expression | None, span: Span
    ) -> RunningJoin:
        return pointing_at(span, lambda: RunningJoin(left, right, condition, kind, span))

    def _check(self, kind: JoinKind, inputs: list[Timed], span: Span) -> None:
        """Whether these can be joined at all."""
        for each in inputs:
            if each.node.signed and kind is not JoinKind.INNER:
                raise BindError(
                    f"a difference cannot stand in a {kind.value} join: who had no partner could"
                    " have one again",
                    span=span,
                    hint="JOIN … ON",
                )
            if not each.progressing:
                raise self._without_time(each, span)
        same_domain([time.column for each in inputs for time in self._comparable(each)], span)

    def _comparable(self, each: Timed) -> tuple[Time, ...]:
        """The times that will be compared; of several, the condition says which."""
        return each.times if not each.alternatives or len(each.times) == 1 else ()

    def _without_time(self, each: Timed, span: Span) -> BindError:
        """Make the error for an input without a progressing column."""
        names = list(dict.fromkeys(f.relation for f in each.node.schema if f.relation))
        if isinstance(each.node, Join | Filter) and each.node.inputs:
            return BindError(
                f"the tuples of {' and '.join(names)} may lack a partner, so nothing that always"
                " has a time is left to join them by",
                span=span,
                expected="a side whose tuples are always there",
                hint="LEFT JOIN instead of FULL JOIN, or put the other join first",
            )
        if not names:
            return BindError(
                "the sub-query selects no column that progresses, so its rows would be kept for"
                " ever",
                span=span,
                expected="its time among what it selects, and what it is compared with",
                hint=f"(a.x, a.ts) IN (SELECT x, ts …); or {HOW_TO_RUN}",
            )
        return BindError(
            f"{' and '.join(names)} does not progress, so its tuples would be kept for ever",
            span=span,
            hint=f"{how_to_progress(each.node)}; CREATE TABLE if all of it is there;"
            f" or {HOW_TO_RUN}",
        )

    # --- windows ---------------------------------------------------------------------------------

    @property
    def _clauses(self) -> list[tuple[BoundSource, WindowClause]]:
        sources = [leaf.source for leaf in self.tree.leaves()]
        return [(each, each.window) for each in sources if each.window is not None]

    @property
    def _tumbling(self) -> bool:
        """Bind [RANGE TUMBLING 5 MINUTES, WA ts], which is written once and holds for all
        inputs."""
        return any(clause.tumbling for _, clause in self._clauses)

    def _length(self, inputs: Sequence[Timed]) -> int:
        lengths = []
        for each in inputs:
            if each.alternatives and len(each.times) > 1:
                only_progressing(each.node, each.times[0].source.span, "WA")  # refuses it
        domain = Domain(inputs[0].times[0].column.type)
        for _, clause in self._clauses:
            if not clause.tumbling or clause.range is None:
                raise BindError("all inputs of a tumbling join tumble", span=clause.span)
            lengths.append(positive(clause.range, ticks(clause.range, domain)))
        if len(set(lengths)) > 1:
            raise BindError(
                "the inputs tumble by different lengths", span=self._clauses[-1][1].span
            )
        return lengths[0]

    def _note(self, times: Sequence[tuple[Time, ...]]) -> None:
        """Record whose windows have been compared with others."""
        if self._tumbling:
            self._compared += [time.source for several in times for time in several]
            return
        staying = [any(each.stay is not None for each in several) for several in times]
        if sum(staying) > 1:
            self._compared += [time.source for several in times for time in several]

    def _refuse_idle_windows(self) -> None:
        for source, clause in self._clauses:
            if source in self._compared:
                continue
            if isinstance(self.tree, Leaf):
                raise BindError(
                    "the window of an aggregate stands after the SELECT list, before FROM",
                    span=clause.span,
                )
            name = source.alias or "this input"
            raise BindError(
                f"the window of {name} counts for nothing: no stream that it is joined with has"
                " one",
                span=clause.span,
                hint="leave it out" + (", or give the others windows, too" if self.joined else ""),
            )


def filtered(node: Node, predicates: list[Expression]) -> Node:
    """Put a node's own conditions above it; LATENT timestamps are filled in as late as possible."""
    later = stamped(node)
    if later is node:
        predicate = all_of(predicates)
        return Filter(node, predicate) if predicate is not None else node
    latent = later.column  # type: ignore[attr-defined]
    before = all_of([p for p in predicates if latent not in columns_of(p)])
    after = all_of([p for p in predicates if latent in columns_of(p)])
    node = Filter(node, before) if before is not None else node
    node = stamped(node)
    return Filter(node, after) if after is not None else node


def _above(made: Timed, predicates: list[Expression]) -> Timed:
    predicate = all_of(predicates)
    return made if predicate is None else made._replace(node=Filter(made.node, predicate))
