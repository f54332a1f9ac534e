"""Functions by the names of other systems, expressed with functions of the catalogue.

Only the binder knows them, so they mean the same on all engines."""

from __future__ import annotations

import math
from collections.abc import Callable

from penstock.errors import BindError, Span
from penstock.functions.signatures import arithmetic
from penstock.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NESTED,
    STRING,
    Kind,
    Type,
    common_type,
)
from penstock.plan.expressions import Call, Case, Cast, Expression, Literal, cast_to
from penstock.sql.binder.literals import alike, called, takes, text
from penstock.sql.binder.operators import COMPOSED_NESTED
from penstock.sql.binder.time_functions import TIME_FORMATS, TIMES, unit_of


def _is_null(value: Expression) -> Call:
    return Call("is_null", (value,), BOOLEAN)


def _same(left: Expression, right: Expression) -> Call:
    distinct = Call("is_distinct", tuple(alike([left, right], "compare")), BOOLEAN)
    return Call("not", (distinct,), BOOLEAN)


def _on_null(negated: bool) -> Callable[[list[Expression]], Expression]:
    def build(given: list[Expression]) -> Expression:
        if len(given) != 1:
            raise takes("isnotnull" if negated else "isnull", "value")
        found = _is_null(given[0])
        return Call("not", (found,), BOOLEAN) if negated else found

    return build


def _nvl2(given: list[Expression]) -> Expression:
    if len(given) != 3:
        raise takes("nvl2", "value, if it is not NULL, if it is")
    return called("if", [_is_null(given[0]), given[2], given[1]], "nvl2")


def _equal_null(given: list[Expression]) -> Expression:
    if len(given) != 2:
        raise takes("equal_null", "value, value")
    return _same(given[0], given[1])


def _decode(given: list[Expression]) -> Expression:
    if len(given) < 3:
        raise takes("decode", "value, search, result, … [, default]")
    value, *rest = given
    otherwise = [rest[-1]] if len(rest) % 2 else []
    pairs = rest[:-1] if otherwise else rest
    results = alike([*pairs[1::2], *otherwise], "put")
    last = results[-1] if otherwise else Literal(None, results[0].type)
    branches = tuple(
        (_same(value, search), result)
        for search, result in zip(pairs[::2], results[: len(pairs) // 2], strict=True)
    )
    return Case(branches, last, last.type)


def _zero(name: str, function: str) -> Callable[[list[Expression]], Expression]:
    def build(given: list[Expression]) -> Expression:
        if len(given) != 1 or not (given[0].type.is_number or isinstance(given[0], Literal)):
            raise takes(name, "number")
        return called(function, [given[0], Literal(0, INT)], name)

    return build


def _of_double(
    name: str, test: Callable[[Expression], Expression]
) -> Callable[[list[Expression]], Expression]:
    def build(given: list[Expression]) -> Expression:
        if len(given) != 1 or not given[0].type.is_number:
            raise takes(name, "number")
        return test(cast_to(given[0], DOUBLE))

    return build


def _isnan(value: Expression) -> Expression:
    return Call("ne", (value, value), BOOLEAN)  # which nothing else is


def _size(comparison: str) -> Callable[[Expression], Expression]:
    infinite = Literal(math.inf, DOUBLE)
    return lambda value: Call(comparison, (called("abs", [value]), infinite), BOOLEAN)


def _nanvl(given: list[Expression]) -> Expression:
    if len(given) != 2 or not all(each.type.is_number for each in given):
        raise takes("nanvl", "number, if it is NaN")
    value, other = (cast_to(each, DOUBLE) for each in given)
    return Case(((_isnan(value), other),), value, DOUBLE)


CHOICES: dict[str, Callable[[list[Expression]], Expression]] = {
    "isnull": _on_null(negated=False),
    "isnotnull": _on_null(negated=True),
    "nvl2": _nvl2,
    "equal_null": _equal_null,
    "decode": _decode,
    "zeroifnull": _zero("zeroifnull", "coalesce"),
    "nullifzero": _zero("nullifzero", "nullif"),
    "isnan": _of_double("isnan", _isnan),
    "isinf": _of_double("isinf", _size("eq")),
    "isfinite": _of_double("isfinite", _size("lt")),
    "nanvl": _nanvl,
}


# Numbers.


def _combined(operator: str, left: Expression, right: Expression) -> Expression:
    types = arithmetic(operator, left.type, right.type)
    return Call(operator, (cast_to(left, types.left), cast_to(right, types.right)), types.result)


def _pmod(given: list[Expression]) -> Expression:
    """Remainder that is never negative: a negative one is raised by the divisor."""
    if len(given) != 2 or not all(each.type.is_number for each in given):
        raise takes("pmod", "number, number")
    rest = _combined("mod", *given)
    more = _combined("mod", _combined("add", rest, given[1]), given[1])
    negative = Call("lt", (rest, cast_to(Literal(0, INT), rest.type)), BOOLEAN)
    return Case(((negative, cast_to(more, rest.type)),), rest, rest.type)


def _truncated(given: list[Expression]) -> Expression:
    """Drop the fraction of a number, truncating towards zero; refuse or translate Spark's
    `trunc(time, 'month')`, which gives a DATE."""
    if len(given) == 2 and given[0].type.kind in (Kind.DATE, Kind.TIMESTAMP):
        raise BindError(
            "trunc of a time gives a DATE in Spark, and here it is called otherwise",
            hint="date_trunc('month', time)",
        )
    if len(given) == 2 and given[1].type.kind in (Kind.DATE, Kind.TIMESTAMP):
        return called("date_trunc", [unit_of("date_trunc", given[0]), given[1]])
    if len(given) == 2 and isinstance(given[1], Literal) and given[1].value == 0:
        given = given[:1]
    if len(given) != 1 or not given[0].type.is_number:
        raise BindError(
            "trunc and truncate cut off all places of a number",
            expected="trunc(number)",
            hint="round(number, 2), which rounds",
        )
    (number,) = given
    if number.type.is_integer:
        return number
    up, down = called("ceil", given), called("floor", given)
    below = Call("lt", (number, cast_to(Literal(0, INT), number.type)), BOOLEAN)
    return Case(((below, up),), down, down.type)


def _over_one(function: str, name: str) -> Callable[[list[Expression]], Expression]:
    """Reciprocal of a function; infinite where that is zero."""

    def build(given: list[Expression]) -> Expression:
        inner = called(function, given, name)
        return called("power", [inner, Literal(-1.0, DOUBLE)])

    return build


def _quotient(name: str) -> Callable[[list[Expression]], Expression]:
    """Quotient that is NULL if the divisor is zero, as that of `/` and DIV is anyway."""
    operator = "div" if name == "div" else "divide"

    def build(given: list[Expression]) -> Expression:
        if len(given) != 2:
            raise takes(name, "number, number")
        return _combined(operator, *given)

    return build


def _bit(name: str) -> Callable[[list[Expression]], Expression]:
    def build(given: list[Expression]) -> Expression:
        if len(given) != 2:
            raise takes(name, "whole number, place")
        moved = called("shiftright", given, name)
        return called("bitand", [moved, Literal(1, BIGINT)])

    return build


def _positive(given: list[Expression]) -> Expression:
    if len(given) != 1 or not given[0].type.is_number:
        raise takes("positive", "number")
    return given[0]


NUMBERS: dict[str, Callable[[list[Expression]], Expression]] = {
    "pmod": _pmod,
    "trunc": _truncated,
    "truncate": _truncated,
    "cot": _over_one("tan", "cot"),
    "sec": _over_one("cos", "sec"),
    "csc": _over_one("sin", "csc"),
    "try_divide": _quotient("try_divide"),
    "bit_get": _bit("bit_get"),
    "getbit": _bit("getbit"),
    "positive": _positive,
}


# Texts.

_TEXTS = (Kind.STRING, Kind.NULL)


def _number(value: int) -> Literal:
    return Literal(value, BIGINT)


def _whole(operator: str, left: Expression, right: Expression) -> Call:
    return Call(operator, (cast_to(left, BIGINT), cast_to(right, BIGINT)), BIGINT)


def _locate(name: str) -> Callable[[list[Expression]], Expression]:
    """`locate(part, text [, from])`, which takes the part first."""

    def build(given: list[Expression]) -> Expression:
        if not 2 <= len(given) <= 3:
            raise takes(name, "part, text [, from]")
        part, whole, *begin = given
        if not begin:
            return called("strpos", [whole, part], name)
        rest = called("substr", [whole, *begin], name)
        found = called("strpos", [rest, part], name)
        place = _whole("subtract", _whole("add", found, begin[0]), _number(1))
        nowhere = Call("eq", (found, _number(0)), BOOLEAN)
        early = Call("lt", (cast_to(begin[0], BIGINT), _number(1)), BOOLEAN)
        branches = ((early, _number(0)), (nowhere, _number(0)))
        return Case(branches, place, BIGINT)

    return build


def _text_position(_: list[Expression]) -> Expression:
    raise BindError(
        "position with a comma has the part first in Spark, and the text first elsewhere",
        expected="position(part IN text)",
        hint="strpos(text, part), or locate(part, text)",
    )


def _overlay(given: list[Expression]) -> Expression:
    """`overlay(text, other, from [, length])`: replace a part of a text."""
    if not 3 <= len(given) <= 4 or any(each.type.kind not in _TEXTS for each in given[:2]):
        raise takes("overlay", "text, text, from [, length]")
    whole, other, begin, *length = given
    size = length[0] if length else called("length", [other])
    if not (begin.type.is_integer and size.type.is_integer):
        raise takes("overlay", "text, text, from [, length]")
    before = called("left", [whole, _whole("subtract", begin, _number(1))])
    behind = called("substr", [whole, _whole("add", begin, size)])
    return called("concat", [before, other, behind])


def _trimmed(name: str, side: str) -> Callable[[list[Expression]], Expression]:
    def build(given: list[Expression]) -> Expression:
        if len(given) == 2:
            raise BindError(
                f"{name} with a comma has the characters first in Spark, and the text first"
                " elsewhere",
                expected=f"{name}(text)",
                hint=f"TRIM({side} 'x' FROM text)",
            )
        return called(name, given)

    return build


def _space(given: list[Expression]) -> Expression:
    return called("repeat", [text(" "), *given], "space")


def _whole_match(name: str) -> Callable[[list[Expression]], Expression]:
    def build(given: list[Expression]) -> Expression:
        if len(given) != 2 or not isinstance(given[1], Literal) or given[1].type != STRING:
            raise takes(name, "text, 'regular expression'")
        pattern = Literal(rf"\A(?:{given[1].value})\z", STRING, span=given[1].span)
        return called("regexp_like", [given[0], pattern], name)

    return build


def _json_exists(given: list[Expression]) -> Expression:
    if len(given) != 2:
        raise takes("json_exists", "text, '$.path'")
    return _there(given[0], given[1], "json_exists")


def json_valid(given: list[Expression]) -> Expression:
    if len(given) != 1:
        raise takes("json_valid", "text")
    return _there(given[0], text("$"), "json_valid")


def _there(value: Expression, path: Expression, name: str) -> Expression:
    found = Call("is_null", (called("json_get", [value, path], name),), BOOLEAN)
    unknown = Call("is_null", (value,), BOOLEAN)
    answer = Call("not", (found,), BOOLEAN)
    return Case(((unknown, Literal(None, BOOLEAN)),), answer, BOOLEAN)


def _bits(given: list[Expression]) -> Expression:
    return _whole("multiply", called("octet_length", given, "bit_length"), _number(8))


TEXTS: dict[str, Callable[[list[Expression]], Expression]] = {
    "locate": _locate("locate"),
    "charindex": _locate("charindex"),
    "position": _text_position,
    "overlay": _overlay,
    "trim": _trimmed("trim", "BOTH"),
    "ltrim": _trimmed("ltrim", "LEADING"),
    "rtrim": _trimmed("rtrim", "TRAILING"),
    "space": _space,
    "bit_length": _bits,
    "regexp_full_match": _whole_match("regexp_full_match"),
    "json_exists": _json_exists,
    "json_valid": json_valid,
}


# Arrays: functions that make one of others, or read all items of one.


def concatenated(given: list[Expression], name: str = "array_concat") -> Expression:
    if not given or any(each.type.kind not in (Kind.ARRAY, Kind.NULL) for each in given):
        if name != "||":
            raise takes(name, "ARRAY, ARRAY, …")
        [other, *_] = [each for each in given if each.type.kind is not Kind.ARRAY]
        raise BindError(
            f"an ARRAY || {other.type.a}: only ARRAYs are put together",
            span=other.span,
            expected="an ARRAY on both sides",
            hint="ARRAY[1] || [4], or array_append(array, value)",
        )
    converted = alike(given, "put together")
    return Call("array_concat", converted, converted[0].type)


def _with_one(name: str, first: bool) -> Callable[[list[Expression]], Expression]:
    """Add an item before or behind all others of an ARRAY; the types of the arguments tell which is
    the item."""

    def build(given: list[Expression]) -> Expression:
        arrays = [each for each in given if each.type.kind is Kind.ARRAY]
        if len(given) != 2 or len(arrays) != 1:
            raise takes(name, "ARRAY, value")
        array = arrays[0]
        item = given[1] if given[0] is array else given[0]
        if common_type(array.type.item, item.type) != array.type.item:
            raise BindError(
                f"{item.type.a} cannot be in {array.type.a}",
                span=item.span,
                expected=array.type.item.a,
            )
        one = Call("array", (cast_to(item, array.type.item),), array.type)
        return concatenated([one, array] if first else [array, one], name)

    return build


def _of_one(
    name: str, function: str, result: Callable[[Type], Type], ordered: bool = True
) -> Callable[[list[Expression]], Expression]:
    def build(given: list[Expression]) -> Expression:
        if len(given) != 1 or given[0].type.kind is not Kind.ARRAY:
            raise takes(name, "ARRAY")
        array = given[0]
        if ordered and array.type.item.kind in (Kind.BINARY, *NESTED):
            raise BindError(f"{name} cannot compare the items of {array.type.a}", span=array.span)
        return Call(function, (array,), result(array.type))

    return build


def _reverse(given: list[Expression]) -> Expression:
    if len(given) == 1 and given[0].type.kind is Kind.ARRAY:
        return Call("array_reverse", (given[0],), given[0].type)
    return called("reverse", given)


def _array_position(given: list[Expression]) -> Expression:
    if len(given) != 2 or given[0].type.kind is not Kind.ARRAY:
        raise takes("array_position", "ARRAY, value")
    item = given[0].type.item
    if item.is_nested or common_type(item, given[1].type) != item:
        raise BindError(
            f"{given[1].type.a} cannot be in {given[0].type.a}", span=given[1].span, expected=item.a
        )
    return Call("array_position", (given[0], cast_to(given[1], item)), BIGINT)


def _bounds(given: list[Expression], name: str, third: str) -> list[int]:
    constants = [each.value for each in given[1:] if isinstance(each, Literal)]
    whole = [each for each in constants if isinstance(each, int) and not isinstance(each, bool)]
    if len(given) != 3 or given[0].type.kind is not Kind.ARRAY or len(whole) != 2:
        raise takes(name, f"ARRAY, first, {third}, which are constants")
    return whole


def _sliced(array: Expression, begin: int, end: int) -> Expression:
    bounds = (Literal(begin, BIGINT), Literal(end, BIGINT))
    return Call("array_slice", (array, *bounds), array.type)


def _slice(given: list[Expression]) -> Expression:
    """`slice(array, first, length)` of Spark."""
    begin, size = _bounds(given, "slice", "length")
    if begin == 0 or size < 0:
        raise takes("slice", "ARRAY, first from 1 or from -1, length from 0")
    end = begin + size - 1
    if size == 0:
        return _sliced(given[0], 1, 0)
    return _sliced(given[0], begin, -1 if begin < 0 <= end else end)


def _from_to(given: list[Expression]) -> Expression:
    """`array_slice(array, first, last)` of DuckDB and Flink."""
    begin, end = _bounds(given, "array_slice", "last")
    return _sliced(given[0], begin, end)


def _has_key(given: list[Expression]) -> Expression:
    if len(given) != 2 or given[0].type.kind is not Kind.MAP:
        raise takes("map_contains_key", "MAP, key")
    from penstock.sql.binder.operators import COMPOSED_NESTED as OTHERS

    return OTHERS["array_contains"]([called("map_keys", given[:1]), given[1]])


_APPEND, _PREPEND = _with_one("array_append", first=False), _with_one("array_prepend", first=True)
ARRAYS: dict[str, Callable[[list[Expression]], Expression]] = {
    **dict.fromkeys(("array_concat", "array_cat", "list_concat", "list_cat"), concatenated),
    **dict.fromkeys(("array_append", "list_append"), _APPEND),
    **dict.fromkeys(("array_prepend", "list_prepend"), _PREPEND),
    "array_reverse": _of_one("array_reverse", "array_reverse", lambda given: given, False),
    "list_reverse": _of_one("list_reverse", "array_reverse", lambda given: given, False),
    "reverse": _reverse,
    "array_distinct": _of_one("array_distinct", "array_distinct", lambda given: given),
    "array_position": _array_position,
    "slice": _slice,
    **dict.fromkeys(("array_slice", "list_slice"), _from_to),
    "map_contains_key": _has_key,
    **{
        f"{prefix}_{name}": _of_one(f"{prefix}_{name}", f"array_{name}", lambda given: given.item)
        for prefix in ("array", "list")
        for name in ("max", "min")
    },
}


# Operands of `||`, and the table of all functions.

MOST_PADDED = 10_000  # characters


def as_text(value: Expression) -> Expression:
    """Convert an operand of `||` to a text; everything but bytes can be."""
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
    """Concatenate the texts that are not NULL, with separators."""
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
    """Natural logarithm, or that to a base, which is the first argument."""
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
    **COMPOSED_NESTED,
    **ARRAYS,
}


def escaped(pattern: str, character: str, span: Span | None) -> str:
    """Rewrite a pattern of LIKE with another escape character to one with the backslash.

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
