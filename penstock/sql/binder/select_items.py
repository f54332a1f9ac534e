"""The SELECT list: what stars stand for, and what columns are called."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sqlglot import exp

from penstock.errors import BindError, nearest, shortened
from penstock.model.types import STRING, Field, Kind, Schema
from penstock.plan.expressions import Column, Expression, Named, cast_to
from penstock.sql.binder.expressions import ExpressionBinder
from penstock.sql.binder.scope import Merged, Scope
from penstock.sql.syntax import SelectItem

WINDOW_COLUMNS = ("window_id", "window_start", "window_end")


def star_columns(
    item: SelectItem, binder: ExpressionBinder, schema: Schema
) -> list[tuple[Expression, SelectItem]] | None:
    """Columns that `*` or `r.*` stands for, with EXCEPT, REPLACE and RENAME applied; None for other
    items. Columns that the scope hides are included only where their relation is named."""
    fields = _starred(item, schema, binder.scope)
    if fields is None:
        return None
    _check_modifiers(item, fields)
    left_out = {name.text.casefold() for name in item.without}
    others = {each.alias.text.casefold(): each for each in item.replaced if each.alias is not None}
    names = {old.text.casefold(): new for old, new in item.renamed}
    found = []
    for field in fields:
        key = field.name.casefold()
        if key in left_out:
            continue
        expression, shown = _each_of_star(field, item, binder.scope.merged)
        if key in others:
            expression = binder.bind(others[key].expression)
            shown = replace(item, expression=exp.column(field.name))
        if key in names:
            shown = replace(shown, alias=names[key])
        found.append((expression, shown))
    if not found:
        raise BindError("EXCEPT leaves no column", span=item.span)
    return found


def _check_modifiers(item: SelectItem, fields: list[Field]) -> None:
    """Refuse names that are no columns of the star, and columns that are named twice."""
    replaced = [each.alias for each in item.replaced if each.alias is not None]
    clauses = (
        ("leave out", [*item.without]),
        ("replace", replaced),
        ("rename", [old for old, _ in item.renamed]),
    )
    known = {field.name.casefold() for field in fields}
    seen: dict[str, str] = {}
    for what, names in clauses:
        for name in names:
            key = name.text.casefold()
            if key not in known:
                columns = [field.name for field in fields]
                raise BindError(
                    f"there is no column {name.text!r} to {what}",
                    span=name.span,
                    expected=shortened(f"one of {', '.join(columns)}", 400),
                    hint=" or ".join(nearest(name.text, columns)) or None,
                )
            if seen.get(key) in (what, "leave out"):
                raise BindError(
                    f"column {name.text!r} is named twice behind the star", span=name.span
                )
            seen[key] = what


def is_star(item: SelectItem) -> bool:
    """Whether the item is `*` or `r.*`."""
    syntax = item.expression
    return isinstance(syntax, exp.Star) or (
        isinstance(syntax, exp.Column) and isinstance(syntax.this, exp.Star)
    )


def _starred(item: SelectItem, schema: Schema, scope: Scope) -> list[Field] | None:
    syntax = item.expression
    if isinstance(syntax, exp.Star):
        return [field for field in schema if (field.name, field.relation) not in scope.hidden]
    if isinstance(syntax, exp.Column) and isinstance(syntax.this, exp.Star):
        relation = syntax.table.casefold()
        names = {
            field: scope.written.get(field.relation or "", field.relation or "") for field in schema
        }
        fields = [field for field in schema if names[field].casefold() == relation]
        if not fields:
            known = sorted({name for name in names.values() if name})
            raise BindError(
                f"there is no relation {syntax.table!r} here",
                span=item.span,
                expected=f"one of {', '.join(known)}",
            )
        return fields
    return None


def _each_of_star(field: Field, item: SelectItem, merged: Merged) -> tuple[Expression, SelectItem]:
    """One of the columns that a star stands for; of two that USING has merged, the merged one."""
    both = (
        merged.get((field.name, field.relation)) if isinstance(item.expression, exp.Star) else None
    )
    if both is None:
        return Column.of(field), item
    return both, replace(item, expression=exp.column(field.name))


def selects_window_columns(items: tuple[SelectItem, ...]) -> bool:
    return any(
        isinstance(node, exp.Column) and not node.table and node.name.lower() in WINDOW_COLUMNS
        for item in items
        for node in item.expression.walk()
    )


def with_window_bounds(columns: tuple[Named, ...], schema: Schema) -> tuple[Named, ...]:
    """Add the start and the end of windows before columns that do not include them."""
    bounds = [f for f in schema if f.relation is None and f.name in ("window_start", "window_end")]
    return (*(Named(field.name, Column.of(field)) for field in bounds), *columns)


def named(found: list[tuple[Expression, SelectItem]]) -> tuple[Named, ...]:
    """Name output columns by their aliases, their own names, or their text; equal names are made
    unique by relation, then by a number."""
    plain = [_plain_name(expression, item) for expression, item in found]
    full = {(name, str(expression)) for name, (expression, _) in zip(plain, found, strict=True)}
    repeated = {name for name, count in Counter(name for name, _ in full).items() if count > 1}
    names: dict[str, None] = {}  # a set that keeps its order
    counts: Counter[str] = Counter()
    for name, (expression, item) in zip(plain, found, strict=True):
        if name in repeated and item.alias is None and isinstance(expression, Column):
            name = str(expression)
        if name in names and item.alias is not None:
            raise BindError(f"two columns are called {name!r}", span=item.alias.span)
        counts[name] += 1
        numbered = name if counts[name] == 1 else f"{name}_{counts[name]}"
        while numbered in names:
            counts[name] += 1
            numbered = f"{name}_{counts[name]}"
        names[numbered] = None
    return tuple(
        Named(
            name, cast_to(expression, STRING) if expression.type.kind is Kind.NULL else expression
        )
        for name, (expression, _) in zip(names, found, strict=True)
    )


def _plain_name(expression: Expression, item: SelectItem) -> str:
    if item.alias is not None:
        return item.alias.text
    syntax = item.expression
    if isinstance(syntax, exp.Column) and not isinstance(syntax.this, exp.Star):
        return syntax.name
    return expression.name if isinstance(expression, Column) and "*" in item.text else item.text
