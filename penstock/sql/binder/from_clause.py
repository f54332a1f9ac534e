"""Binds FROM and WHERE, and the hints after SELECT that choose how windows and joins are
computed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from sqlglot import exp

from penstock.errors import BindError, Span, nearest
from penstock.model.types import BOOLEAN, Field, Schema, free_name
from penstock.plan.algorithms import Algorithm, JoinAlgorithm
from penstock.plan.catalog import Catalog
from penstock.plan.expressions import Call, Column, Expression, conjuncts
from penstock.plan.nodes.join import Difference, JoinKind
from penstock.plan.nodes.node import Node
from penstock.sql.binder import subqueries
from penstock.sql.binder.expressions import ExpressionBinder
from penstock.sql.binder.joins import AsOf, Inner, JoinBinder, Leaf, Paired, Tree, inner, keys_of
from penstock.sql.binder.literals import alike, span_of
from penstock.sql.binder.relations import (
    BoundSource,
    RelationBinder,
    distinct_aliases,
    distinct_columns,
    ending,
    under_another_name,
)
from penstock.sql.binder.scope import Hidden, Merged, NestedScope, Scope
from penstock.sql.syntax import JoinChain, JoinSyntax, Name, Quantity, Select


class Hints(NamedTuple):
    """Hints after SELECT, at most one algorithm of each kind."""

    window: Algorithm | None = None
    join: JoinAlgorithm | None = None
    span: Span | None = None


def bind_hints(hint: Name | None) -> Hints:
    """Bind `/*+ WID */`, `/*+ OPOB */`, or one of each with a comma between them."""
    if hint is None:
        return Hints()
    found = Hints(span=hint.span)
    for word in re.split(r"[\s,]+", hint.text.upper()):
        if word in Algorithm.__members__ and found.window is None:
            found = found._replace(window=Algorithm[word])
        elif word in JoinAlgorithm.__members__ and found.join is None:
            found = found._replace(join=JoinAlgorithm[word])
        else:
            raise _unknown(word, hint)
    return found


def refuse_useless(hints: Hints, windows: bool, joins: bool) -> None:
    """Refuse a hint that no node of the query can follow."""
    if hints.window is not None and not windows:
        raise BindError("the hint is for an aggregate over a window", span=hints.span)
    if hints.join is not None and not joins:
        raise BindError("the hint is for a join of streams", span=hints.span)


def _unknown(word: str, hint: Name) -> BindError:
    windows, joins = list(Algorithm.__members__), list(JoinAlgorithm.__members__)
    if word in windows or word in joins:
        return BindError("there are two hints for the same", span=hint.span)
    close = nearest(word, [*windows, *joins])
    return BindError(
        f"{word!r} is not an algorithm",
        span=hint.span,
        expected=f"one of {', '.join(windows)} for windows, {', '.join(joins)} for joins",
        hint=f"/*+ {close[0]} */" if close else None,
    )


# FROM and WHERE: relations, joins, conditions and sub-queries become one node.

Sources: TypeAlias = Sequence[Sequence[BoundSource]]  # of every chain in FROM

MAX_JOINED = 200  # relations; every pair of them has windows to compare


class BoundFrom(NamedTuple):
    """Result of binding FROM: the node, its columns in the order in which they are written, the
    times that combinations of tuples have, and whether streams are joined or subtracted, for which
    WINDOW says how long their tuples stay."""

    node: Node
    schema: Schema
    times: tuple[Column, ...]
    joins: bool
    stays: bool
    hidden: Hidden  # columns that USING has made one with another
    merged: Merged  # what stands for both of them, where either may be missing

    def scope(self, schema: Schema | None = None) -> Scope:
        """Scope of the columns of the node."""
        return Scope(schema or self.node.schema, self.hidden, self.merged)


class FromBinder:
    """Binds FROM and WHERE.  A sub-query of EXISTS or IN sees the columns of the query around it
    (`outer`), too."""

    def __init__(
        self,
        select: Select,
        catalog: Catalog,
        outer: Scope | None = None,
        window_all: Quantity | None = None,
        bound: Sources | None = None,
    ) -> None:
        """Bind the FROM of a SELECT; its relations may have been `bound` already, with the same
        catalogue or another."""
        self.select = select
        self.catalog = catalog
        self.outer = outer
        windowed = select.window.attribute if select.window is not None else None
        alone = sum(len(chain.relations) for chain in select.chains) == 1
        self.relations = RelationBinder(
            catalog,
            select.window_all or window_all,
            windowed.column if windowed is not None and alone else None,
        )
        self.bound: Sources = bound or ()
        self._ends = windowed.column if windowed is not None and catalog.complete else None
        self.correlated: list[Expression] = []  # conditions that look at the query around it
        self._sources: list[BoundSource] = []
        self._fields: list[Field] = []  # what can be named, in the order in which it is written
        self._written: dict[str, str] = {}  # relations that had to get another name
        self._hidden: set[tuple[str, str | None]] = set()  # found by their relation alone
        self._shown: list[tuple[str, str | None]] = []  # of the columns that the last USING names
        self._merged: dict[tuple[str, str | None], Expression] = {}

    def bind(self, hints: Hints) -> BoundFrom:
        tree = self.tree()
        joins = JoinBinder(self.relations, tree, self.select.span, hints.join)
        made = joins.bind()
        joined = bool(joins.joined)
        stays = joined or any(isinstance(each.node, Difference) for each in self._sources)
        times = tuple(each.column for each in made.progressing) if joined else ()
        schema, hidden = Schema(tuple(self._fields)), frozenset(self._hidden)
        return BoundFrom(made.node, schema, times, joined, stays, hidden, self._merged)

    def tree(self) -> Tree:
        """Return the relations as a tree, with every condition at its place."""
        tree = self._joined()
        return tree if self.select.where is None else self._where(tree, self.select.where)

    @property
    def scope(self) -> Scope:
        """Return the scope with the columns of all relations."""
        return self._scope(self._fields)

    # --- FROM ------------------------------------------------------------------------------------

    def _joined(self) -> Tree:
        chains = self.select.chains
        count = sum(len(chain.relations) for chain in chains)
        if count > MAX_JOINED:
            raise BindError(
                f"{count:,} relations are joined",
                span=self.select.span,
                expected=f"up to {MAX_JOINED}",
            )
        if not self.bound:
            self.bound = [[self.relations.bind(each) for each in c.relations] for c in chains]
        bound = [list(sources) for sources in self.bound]
        if self._ends is not None:
            bound = [[ending(each, self._ends) for each in sources] for sources in bound]
        distinct_aliases([source for sources in bound for source in sources])
        bound = [[self._apart(source) for source in sources] for sources in bound]
        self._sources = [source for sources in bound for source in sources]
        distinct_columns(self._sources)
        self._hidden.update(*(each.hidden for each in self._sources))
        tree: Tree | None = None
        for chain, sources in zip(chains, bound, strict=True):
            tree = self._chain(tree, chain, sources)
        assert tree is not None
        return tree

    def _apart(self, source: BoundSource) -> BoundSource:
        """Rename a relation that has the name of one around the sub-query."""
        if self.outer is None:
            return source
        taken = self.outer.relations
        if not taken & Scope(source.node.schema).relations:
            return source
        name = free_name((source.alias or "q").casefold(), {*taken, *self._written})
        self._written[name] = source.alias
        return under_another_name(source, name)

    def _chain(self, before: Tree | None, chain: JoinChain, sources: list[BoundSource]) -> Tree:
        """Add a chain to those before it. Inner joins are the same wherever they are written; an
        outer one begins with its own chain, as JOIN binds tighter than a comma."""
        first, *others = sources
        seen = len(self._fields)
        self._fields += first.node.schema
        alone = any(join.kind not in ("INNER", "CROSS") or join.as_of for join in chain.joins)
        tree: Tree = Leaf(first)
        if before is not None and not alone:
            tree = inner(before, tree)
        for join, source in zip(chain.joins, others, strict=True):
            tree = self._join(tree, join, source, self._fields[seen if alone else 0 :])
            self._put_first(self._shown, seen)
        return inner(before, tree) if before is not None and alone else tree

    def _join(
        self, tree: Tree, join: JoinSyntax, source: BoundSource, known: Sequence[Field]
    ) -> Tree:
        made: Inner | Paired | AsOf
        if join.asof:
            return self._asof(tree, join, source, known)
        if join.as_of is not None:
            made = self._as_of(tree, join, source, self._scope(known))
        elif join.kind in ("INNER", "CROSS"):
            made = inner(tree, Leaf(source))
        else:
            made = Paired(JoinKind(join.kind), tree, Leaf(source), join.span)
        if join.on is not None:
            scope = self._scope([*known, *source.node.schema])
            for predicate in self._predicates(join.on, scope, "ON"):
                self._place_on(made, predicate, join)
        self._shown = []
        for name in _common(join, source, self._scope(known)) if join.natural else join.using:
            self._place_on(made, self._equal(name, join, source, self._scope(known)), join)
        if not (isinstance(made, Paired) and made.kind.left_alone):
            self._fields += source.node.schema
        return made

    def _put_first(self, shown: list[tuple[str, str | None]], begin: int) -> None:
        """Move the columns that both sides of USING have to the front, in the order in which *
        shows them."""
        places = {key: place for place, key in enumerate(shown)}
        own = self._fields[begin:]
        own.sort(key=lambda each: places.get((each.name, each.relation), len(places)))
        self._fields[begin:] = own

    def _equal(self, name: Name, join: JoinSyntax, source: BoundSource, scope: Scope) -> Expression:
        """USING: a column that both sides have is equal, and comes once."""
        column = scope.find(name.text, None, name.span)
        left = scope.value(name.text, None, name.span)
        right = Scope(source.node.schema).find(name.text, None, name.span)
        hidden = column if join.kind == "RIGHT" else right
        self._hidden.add((hidden.name, hidden.relation))
        kept = right if join.kind == "RIGHT" else column
        self._shown.append((kept.name, kept.relation))
        try:
            pair = alike([left, right], "compare")
        except BindError as error:
            error.span = error.span or name.span
            raise
        if join.kind == "FULL":
            known = Call("coalesce", tuple(pair), pair[0].type)
            self._merged[(column.name, column.relation)] = known
        return Call("eq", tuple(pair), BOOLEAN, span=name.span)

    def _place_on(
        self, made: Inner | Paired | AsOf, predicate: Expression, join: JoinSyntax
    ) -> None:
        if isinstance(made, Inner):
            self._place(made, predicate)
            return
        if not keys_of(predicate) <= made.left.columns | made.right.columns:
            raise BindError(
                f"ON of a {join.kind} JOIN looks at the relations that it joins",
                span=predicate.span or join.span,
                hint="WHERE, for what the query around it has",
            )
        made.place_on(predicate)

    def _as_of(self, tree: Tree, join: JoinSyntax, source: BoundSource, scope: Scope) -> AsOf:
        if join.kind not in ("INNER", "CROSS", "LEFT"):
            raise BindError(
                f"AS OF cannot stand in a {join.kind} JOIN: what was said last is looked up for"
                " tuples that ask",
                span=join.span,
                expected="JOIN or LEFT JOIN",
            )
        assert join.as_of is not None
        time = ExpressionBinder(scope, self.catalog, "AS OF").bind(join.as_of)
        if not isinstance(time, Column) or (time.name, time.relation) not in tree.columns:
            raise BindError(
                "AS OF takes a time of the relations before it", span=span_of(join.as_of)
            )
        return AsOf(tree, Leaf(source), time, join.kind == "LEFT", join.span)

    def _asof(
        self, tree: Tree, join: JoinSyntax, source: BoundSource, known: Sequence[Field]
    ) -> AsOf:
        """
        before: a ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts, or USING (k, ts)
        after:  a JOIN b AS OF a.ts ON a.k = b.k
        """
        both = self._scope([*known, *source.node.schema])
        predicates = () if join.on is None else self._predicates(join.on, both, "ON")
        matching = predicates
        if join.matching is not None:
            matching = self._predicates(join.matching, both, "MATCH_CONDITION")
        own = frozenset((each.name, each.relation) for each in source.node.schema)
        found = [_earlier(each, own) for each in matching]
        times = [each for each in found if each is not None]
        others = list(predicates)
        if join.matching is None:
            others = [p for p, each in zip(predicates, found, strict=True) if each is None]
        keys, hidden = list(join.using), set[tuple[str, str | None]]()
        if keys and join.matching is None:
            last = keys.pop()
            left = self._scope(known).find(last.text, None, last.span)
            right = Scope(source.node.schema).find(last.text, None, last.span)
            hidden = {(right.name, right.relation)}
            times = [(left, right, "ge")]
        one = len(matching) == 1 or join.matching is None
        if not one or [compared for _, _, compared in times] != ["ge"]:
            written = join.matching or join.on
            raise BindError(
                "an ASOF join looks for what was said last at a time",
                span=join.span if written is None else span_of(written),
                expected=f"one comparison: a time before it >= the time of {source.alias}",
                hint="ON a.k = b.k AND a.ts >= b.ts",
            )
        self._shown = []
        asks, said, _ = times[0]
        if (asks.name, asks.relation) not in tree.columns:
            raise BindError("ASOF takes a time of the relations before it", span=asks.span)
        made = AsOf(tree, Leaf(source), asks, join.kind == "LEFT", join.span, said=said)
        for predicate in others:
            self._place_on(made, predicate, join)
        for name in keys:
            self._place_on(made, self._equal(name, join, source, self._scope(known)), join)
        self._hidden |= hidden
        if hidden:
            self._shown.append((asks.name, asks.relation))
        self._fields += source.node.schema
        return made

    # --- conditions ------------------------------------------------------------------------------

    def _scope(self, fields: Sequence[Field]) -> Scope:
        if self.outer is None:
            return Scope(Schema(tuple(fields)), frozenset(self._hidden), self._merged)
        hidden = frozenset(self._hidden)
        return NestedScope(fields, self._written, self.outer, hidden, self._merged)

    def _predicates(self, syntax: exp.Expr, scope: Scope, clause: str) -> tuple[Expression, ...]:
        binder = ExpressionBinder(scope, self.catalog, clause)
        return conjuncts(binder.condition(syntax, clause))

    def _place(self, tree: Tree, predicate: Expression) -> None:
        if keys_of(predicate) <= tree.columns:
            tree.place(predicate)
        else:
            self.correlated.append(predicate)

    def _where(self, tree: Tree, where: exp.Expr) -> Tree:
        """Split WHERE: conditions on tuples first, then those with sub-queries."""
        plain, tests = subqueries.taken_apart(where)
        for syntax in plain:
            for predicate in self._predicates(syntax, self.scope, "WHERE"):
                self._place(tree, predicate)
        for test in tests:
            tree = self._tested(tree, test)
        return tree

    def _tested(self, tree: Tree, test: subqueries.SubqueryTest) -> Tree:
        """
        before: s WHERE EXISTS (SELECT 1 FROM r WHERE r.k = s.k)
        after:  s SEMI JOIN r ON r.k = s.k
        """
        asked_for = subqueries.asked_tuples(test, self.catalog)
        asked = FromBinder(asked_for.select, self.catalog, self.scope, self.relations.window_all)
        try:
            other = asked.tree()
        except BindError as error:
            if not asked_for.plain:
                subqueries.refuse_correlated(error, test, self.scope, asked_for.clauses)
            raise
        made = Paired(JoinKind.ANTI if test.negated else JoinKind.SEMI, tree, other, test.span)
        own = ExpressionBinder(self.scope, self.catalog, "WHERE")
        theirs = ExpressionBinder(asked.scope, self.catalog, f"the sub-query of {test.word}")
        for predicate in [*asked.correlated, *subqueries.compared(test, own, theirs, asked_for)]:
            subqueries.refuse_far(predicate, tree.columns | other.columns, test.span)
            made.place_on(predicate)
        return made


def _common(join: JoinSyntax, source: BoundSource, scope: Scope) -> list[Name]:
    """Names of the columns that both sides have, for NATURAL."""
    found = [field.name for field in source.node.schema if scope.matches(field.name, None)]
    if not found:
        raise BindError(
            "the relations of a NATURAL JOIN have no column in common",
            span=join.span,
            hint="JOIN … ON, or CROSS JOIN",
        )
    return [Name(name, join.span) for name in found]


_TURNED = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt"}


def _earlier(
    predicate: Expression, own: frozenset[tuple[str, str | None]]
) -> tuple[Column, Column, str] | None:
    """Split a comparison of a column before the join with one of the joined relation into both
    columns, and how the first compares with the second."""
    if not isinstance(predicate, Call) or predicate.function not in _TURNED:
        return None
    one, other = predicate.arguments
    if not (isinstance(one, Column) and isinstance(other, Column)):
        return None
    sides = [(each.name, each.relation) in own for each in (one, other)]
    if sides == [False, True]:
        return one, other, predicate.function
    if sides == [True, False]:
        return other, one, _TURNED[predicate.function]
    return None
