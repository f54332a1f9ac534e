"""Which expressions of the inputs of a join have to be equal, directly or by way of others.

From a.k = b.k and b.k = c.k follows a.k = c.k: so tuples of a and c can meet by it before one of b
is looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.model.schema import Schema
from penstock.plan.expressions import Expression, columns_of
from penstock.plan.nodes.joins import Join, by_risk, sides_of_equality


@dataclass(frozen=True, slots=True)
class Equality:
    """By the number of an input: the expression of it that equals those of all the others."""

    sides: tuple[tuple[int, Expression], ...]

    @property
    def inputs(self) -> frozenset[int]:
        return frozenset(each for each, _ in self.sides)

    def of(self, number: int) -> Expression:
        return next(expression for each, expression in self.sides if each == number)

    def __str__(self) -> str:
        return " = ".join(str(expression) for _, expression in self.sides)


@dataclass(frozen=True, slots=True)
class Conditions:
    """A condition taken apart: what has to be equal, what else has to hold, and what of it may
    fail, which is looked at last."""

    equalities: tuple[Equality, ...]
    others: tuple[Expression, ...]
    risky: tuple[Expression, ...]


def conditions_of(join: Join) -> Conditions:
    """An equality has at most one expression of an input; where there would be a second one, the
    condition is one of the others.

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> for name in "abc":
    ...     db.stream(name, [{"j": 1, "k": 2, "t": 3}], progress=ps.progress("t", delay=5))
    >>> windows = "a [RANGE 9], b [RANGE 5], c [RANGE 7]"
    >>> where = "a.k = b.k AND c.j = b.k AND a.k = c.k AND a.j < c.j AND a.j + 1 > b.j"
    >>> query = db.sql(f"SELECT a.j FROM {windows} WHERE {where}")
    >>> found = conditions_of(query.plan.input.input)
    >>> [str(each) for each in found.equalities]
    ['a.k = b.k = c.j']
    >>> [str(each) for each in found.others], [str(each) for each in found.risky]
    (['(a.k = c.k)', '(a.j < c.j)'], ['((a.j + 1) > b.j)'])
    """
    safe, risky = by_risk(join.condition)
    schemas = [branch.schema for branch in join.branches]
    classes: list[dict[int, Expression]] = []
    others = []
    for each in safe:
        sides = _two_inputs(each, schemas)
        if sides is None or not _merged(classes, *sides):
            others.append(each)
    made = [Equality(tuple(sorted(each.items()))) for each in classes]  # by number, which differ
    return Conditions(tuple(made), tuple(others), tuple(risky))


def common_keys(join: Join, port: int) -> tuple[Expression, ...]:
    """What tuples of all inputs have to agree on, as an expression of one of them."""
    everywhere = frozenset(range(len(join.branches)))
    found = conditions_of(join).equalities
    return tuple(each.of(port) for each in found if each.inputs == everywhere)


def input_of(expression: Expression, schemas: Sequence[Schema]) -> int | None:
    """The input whose columns an expression has, if it is one."""
    known = [{(field.name, field.relation) for field in schema} for schema in schemas]
    found = {
        next(n for n, names in enumerate(known) if (column.name, column.relation) in names)
        for column in columns_of(expression)
    }
    return found.pop() if len(found) == 1 else None


def _two_inputs(
    condition: Expression, schemas: Sequence[Schema]
) -> tuple[tuple[int, Expression], tuple[int, Expression]] | None:
    """The sides of an equality between two inputs."""
    pair = sides_of_equality(condition)
    if pair is None:
        return None
    one, other = (input_of(side, schemas) for side in pair)
    if one is None or other is None or one == other:
        return None
    return (one, pair[0]), (other, pair[1])


def _merged(
    classes: list[dict[int, Expression]], one: tuple[int, Expression], other: tuple[int, Expression]
) -> bool:
    """Put two sides into one class, if it has no other expression of an input then."""
    own = [each for each in classes if one in each.items() or other in each.items()]
    parts = [dict([one]), dict([other]), *own]
    made: dict[int, Expression] = {}
    for part in parts:
        if any(made.get(number, given) != given for number, given in part.items()):
            return False
        made |= part
    for each in own:
        classes.remove(each)
    classes.append(made)
    return True
