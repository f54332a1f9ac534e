"""Functions of other systems that are made of functions that there are.

Nothing but the binder knows them, so that they are the same on all engines.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from penstock.errors import BindError, Span
from penstock.functions.operators import arithmetic
from penstock.language.binding.scalars.arrays import ARRAYS, concatenated
from penstock.language.binding.scalars.calls import called, takes
from penstock.language.binding.scalars.composed_choices import CHOICES
from penstock.language.binding.scalars.composed_numbers import NUMBERS
from penstock.language.binding.scalars.composed_texts import TEXTS
from penstock.language.binding.scalars.composed_times import TIMES
from penstock.language.binding.scalars.nested import NESTED
from penstock.language.binding.scalars.time_formats import TIME_FORMATS
from penstock.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, Kind
from penstock.plan.expressions import Call, Case, Cast, Expression, Literal, cast_to

MOST_PADDED = 10_000  # characters


def as_text(value: Expression) -> Expression:
    """What stands between `||`: everything but bytes can be read as a text."""
    if value.type.kind in (Kind.BINARY, Kind.STRING):
        return value
    if value.type.kind is Kind.INTERVAL:
        raise BindError("an INTERVAL cannot be made a STRING", span=value.span)
    return cast_to(value, STRING)


def joined(pieces: list[Expression]) -> Expression:
    """`||` and `concat` of ARRAYs, or of texts."""
    if any(each.type.kind is Kind.ARRAY for each in pieces):
        return concatenated(pieces, "||")
    return called("concat", [as_text(each) for each in pieces])


def _mod(given: list[Expression]) -> Expression:
    if len(given) != 2:
        raise takes("mod", "number, number")
    types = arithmetic("mod", given[0].type, given[1].type)
    operands = (cast_to(given[0], types.left), cast_to(given[1], types.right))
    return Call("mod", operands, types.result)


def _concat_ws(given: list[Expression]) -> Expression:
    """The texts that are not NULL, each behind a separator, without the first separator."""
    if len(given) < 2:
        raise takes("concat_ws", "separator, text, …")
    separator, *texts = called("concat", [as_text(each) for each in given], "concat_ws").arguments
    pieces = tuple(
        Call(
            "coalesce",
            (Call("concat", (separator, text), STRING), Literal("", STRING)),
            STRING,
        )
        for text in texts
    )
    begin = Call("add", (Call("length", (separator,), BIGINT), Literal(1, BIGINT)), BIGINT)
    return Call("substr", (Call("concat", pieces, STRING), begin), STRING)


def _padded(left: bool) -> Callable[[list[Expression]], Expression]:
    name = "lpad" if left else "rpad"

    def build(given: list[Expression]) -> Expression:
        if not 2 <= len(given) <= 3:
            raise takes(name, "text, length [, filling]")
        text, *constants = given
        values = [each.value for each in constants if isinstance(each, Literal)]
        length, filling = [*values, " "][:2] if len(values) == len(constants) else (None, None)
        if text.type.kind is not Kind.STRING:
            raise BindError(f"argument 1 of {name} is {text.type.a}", expected="a STRING")
        if not isinstance(length, int) or not isinstance(filling, str) or not filling:
            raise BindError(f"the length and the filling of {name} are constants")
        if length > MOST_PADDED:
            raise BindError(f"{name} makes texts of up to {MOST_PADDED:,} characters")
        wanted = Literal(max(0, length), BIGINT)
        own = Call("length", (text,), BIGINT)
        padding = Literal((filling * wanted.value)[: wanted.value], STRING)
        missing = Call("subtract", (wanted, own), BIGINT)
        more = Call("left", (padding, missing), STRING)
        joined = Call("concat", (more, text) if left else (text, more), STRING)
        enough = Call("ge", (own, wanted), BOOLEAN)
        return Case(((enough, Call("left", (text, wanted), STRING)),), joined, STRING)

    return build


def _moved(operator: str, name: str) -> Callable[[list[Expression]], Expression]:
    def build(given: list[Expression]) -> Expression:
        if len(given) != 2 or given[0].type.kind not in (Kind.DATE, Kind.TIMESTAMP):
            raise takes(name, "time, number of days")
        if not given[1].type.is_integer:
            raise BindError(f"argument 2 of {name} is {given[1].type.a}", expected="whole days")
        return Call(operator, (_day(given[0]), cast_to(given[1], BIGINT)), DATE)

    return build


def _day(value: Expression) -> Expression:
    return value if value.type.kind is Kind.DATE else Cast(value, DATE)


def _log(given: list[Expression]) -> Expression:
    """The natural logarithm, or that to a base, which comes first."""
    if not 1 <= len(given) <= 2 or not all(each.type.is_number for each in given):
        raise takes("log", "[base,] number")
    parts = [Call("ln", (cast_to(each, DOUBLE),), DOUBLE) for each in reversed(given)]
    return parts[0] if len(parts) == 1 else Call("divide", tuple(parts), DOUBLE)


def _constant(name: str, value: float) -> Callable[[list[Expression]], Expression]:
    def build(given: list[Expression]) -> Expression:
        if given:
            raise takes(name, "")
        return Literal(value, DOUBLE)

    return build


def _sha2(given: list[Expression]) -> Expression:
    bits = given[1].value if len(given) == 2 and isinstance(given[1], Literal) else None
    if bits not in (0, 224, 256, 384, 512) or given[0].type.kind not in (Kind.STRING, Kind.NULL):
        raise takes("sha2", "text, 224 | 256 | 384 | 512")
    return Call(f"sha{bits or 256}", (cast_to(given[0], STRING),), STRING)


COMPOSED: dict[str, Callable[[list[Expression]], Expression]] = {
    "mod": _mod,
    "concat": joined,
    "concat_ws": _concat_ws,
    "lpad": _padded(left=True),
    "rpad": _padded(left=False),
    "date_add": _moved("add", "date_add"),
    "date_sub": _moved("subtract", "date_sub"),
    "log": _log,
    "pi": _constant("pi", math.pi),
    "e": _constant("e", math.e),
    "sha2": _sha2,
    **CHOICES,
    **NUMBERS,
    **TEXTS,
    **TIMES,
    **TIME_FORMATS,
    **NESTED,
    **ARRAYS,
}


def escaped(pattern: str, character: str, span: Span | None) -> str:
    """A pattern of LIKE with another escape than ours, which is the backslash.

    >>> escaped("50!%_", "!", None)
    '50\\\\%_'
    """
    if len(character) != 1:
        raise BindError("ESCAPE takes one character", span=span)
    made, taken = "", False
    for each in pattern:
        if taken:
            made += "\\" + each
            taken = False
        elif each == character:
            taken = True
        else:
            made += "\\\\" if each == "\\" else each
    if taken:
        raise BindError("the pattern ends with its escape", span=span)
    return made
