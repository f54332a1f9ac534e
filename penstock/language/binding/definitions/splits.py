"""SPLIT: one stream becomes several, by conditions of which the first that is true counts."""

from __future__ import annotations

from penstock.errors import BindError
from penstock.language.binding.relations.joins import filtered
from penstock.language.binding.relations.relations import RelationBinder
from penstock.language.binding.scalars.expressions import ExpressionBinder
from penstock.language.binding.scope import Scope
from penstock.language.syntax.names import Name
from penstock.language.syntax.relations import NamedRelation
from penstock.language.syntax.statements import Split
from penstock.model.types import BOOLEAN
from penstock.plan.catalog import Catalog
from penstock.plan.expressions import Call, Column, Expression, Literal, Named
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Project


def bind_split(syntax: Split, catalog: Catalog) -> list[tuple[Name, QueryPlan]]:
    """Queries by name.  Together they have every tuple at most once, and all of them if there is an
    OTHERWISE; NULL is not true.

    before: SPLIT s INTO hot WHERE c > 30, cold WHERE c < 0, mild OTHERWISE
    after:  hot   s WHERE c > 30
            cold  s WHERE (c < 0) AND (c > 30) IS NOT TRUE
            mild  s WHERE (c > 30) IS NOT TRUE AND (c < 0) IS NOT TRUE
    """
    _check_names(syntax, catalog)
    source = RelationBinder(catalog).bind(NamedRelation(syntax.source, None, None, syntax.span))
    binder = ExpressionBinder(Scope(source.node.schema), catalog, "SPLIT")
    columns = tuple(Named(field.name, Column.of(field)) for field in source.node.schema)
    found = catalog.relation(syntax.source.text, syntax.source.span)
    changes = isinstance(found, QueryPlan) and found.changes
    made: list[tuple[Name, QueryPlan]] = []
    before: list[Expression] = []  # the conditions of the parts that come first
    for branch in syntax.branches:
        own = [] if branch.where is None else [binder.condition(branch.where, "SPLIT")]
        node = filtered(source.node, [*own, *map(_not_true, before)])
        made.append((branch.name, QueryPlan(Project(node, columns), changes=changes)))
        before += own
    return made


def _not_true(condition: Expression) -> Expression:
    return Call("is_distinct", (condition, Literal(True, BOOLEAN)), BOOLEAN, span=condition.span)


def _check_names(syntax: Split, catalog: Catalog) -> None:
    seen: set[str] = set()
    for place, branch in enumerate(syntax.branches):
        catalog.refuse_taken(branch.name.text, branch.name.span)
        if branch.name.text.casefold() in seen:
            raise BindError(f"two parts are called {branch.name.text!r}", span=branch.name.span)
        seen.add(branch.name.text.casefold())
        if branch.where is None and place < len(syntax.branches) - 1:
            raise BindError(
                "nothing is left behind OTHERWISE",
                span=branch.name.span,
                expected="OTHERWISE as the last part",
            )
