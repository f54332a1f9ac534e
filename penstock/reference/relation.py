"""What flows between nodes here: complete relations of rows in arrival order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from penstock.model.domain import Domain
from penstock.model.punctuation import BEGINNING, Bound
from penstock.model.schema import Field, Schema
from penstock.plan.expressions import Column, Expression
from penstock.plan.properties.monotone import rises_with
from penstock.scalars.bounds import Bounding, bounding, reached

Key: TypeAlias = tuple[str, str | None]
Bounds: TypeAlias = dict[Key, Any]
"""Values of progressing columns; a column that is not there has promised nothing."""


@dataclass(frozen=True, slots=True)
class Row:
    """A tuple, what its source had promised before it came, its sign, and the tuples that it is
    made of; of those that come and go, `turns` says when they did."""

    values: tuple[Any, ...]
    bounds: Bounds = field(default_factory=dict)
    sign: int = 1
    lineage: tuple[Hashable, ...] = ()
    turns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Relation:
    """`high` is how far each progressing column has come, whether or not its row is still here."""

    schema: Schema
    rows: list[Row]
    high: Bounds = field(default_factory=dict)


def bound_evaluator(expression: Expression) -> Callable[[Bounds], Any]:
    """From bounds on columns to the bound on an expression that rises with them."""
    return _over_bounds(expression, bounding)


def reach_evaluator(expression: Expression) -> Callable[[Bounds], Any]:
    """From how far columns have come to how far an expression has that rises with them."""
    return _over_bounds(expression, reached)


def _over_bounds(
    expression: Expression, by: Callable[[Expression, Sequence[Column]], Bounding]
) -> Callable[[Bounds], Any]:
    columns = tuple(dict.fromkeys(rises_with(expression)))
    evaluate = by(expression, columns) if columns else None

    def bound(bounds: Bounds) -> Any:
        found = [bounds.get((each.name, each.relation), BEGINNING) for each in columns]
        if evaluate is None or BEGINNING in found:
            return BEGINNING
        return evaluate(found)

    return bound


def tick_bound(domain: Domain, bound: Any) -> Bound:
    return BEGINNING if bound == BEGINNING else domain.tick(bound)


def carried(bounds: Bounds, renamed: list[tuple[Key, Callable[[Bounds], Any]]]) -> Bounds:
    """The bounds of computed columns."""
    found = {key: evaluate(bounds) for key, evaluate in renamed}
    return {key: bound for key, bound in found.items() if bound != BEGINNING}


def field_key(field_: Field | Column) -> Key:
    return (field_.name, field_.relation)
