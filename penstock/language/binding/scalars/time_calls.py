"""Calls whose arguments are no values: a unit as a word, `timestampadd(DAY, 1, ts)`, and a length
in calendar months, `date_add(day, INTERVAL 1 MONTH)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.language.binding.scalars.arithmetic import chain
from penstock.language.binding.scalars.composed_times import TIMES, between, is_unit
from penstock.language.binding.scalars.literals import span_of
from penstock.model.types import STRING
from penstock.plan.expressions import Expression, Literal

if TYPE_CHECKING:
    from penstock.language.binding.scalars.expressions import ExpressionBinder

_BY_UNIT = ("timestampadd", "timestampdiff", "dateadd", "date_add", "datediff", "date_diff")
_BY_LENGTH = {"date_add": exp.Add, "date_sub": exp.Sub}
TIME_CALLS = {*_BY_UNIT, *_BY_LENGTH}


def time_call(binder: ExpressionBinder, syntax: exp.Anonymous) -> Expression | None:
    """None if all arguments are values."""
    name, given = str(syntax.name).lower(), syntax.expressions
    if len(given) == 2 and name in _BY_LENGTH and isinstance(given[1], exp.Interval):
        moved = _BY_LENGTH[name](this=given[0], expression=given[1])
        return chain(binder, moved)
    unit = given[0] if len(given) == 3 and name in _BY_UNIT else None
    if not isinstance(unit, exp.Column) or unit.table or not is_unit(unit.name):
        return None
    if binder.scope.matches(unit.name, None):
        return None
    word = Literal(unit.name, STRING, span=span_of(unit))
    arguments = [word, *(binder.bind(each) for each in given[1:])]
    if name in ("date_diff", "datediff", "timestampdiff"):
        return between(name, arguments, whole=True)
    return TIMES["dateadd" if name == "date_add" else name](arguments)
