"""Functions on texts by the names of other systems, made of functions that there are."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import BindError
from penstock.language.binding.scalars.calls import called, takes, text
from penstock.model.types import BIGINT, BOOLEAN, STRING, Kind
from penstock.plan.expressions import Call, Case, Expression, Literal, cast_to

_TEXTS = (Kind.STRING, Kind.NULL)


def _number(value: int) -> Literal:
    return Literal(value, BIGINT)


def _whole(operator: str, left: Expression, right: Expression) -> Call:
    return Call(operator, (cast_to(left, BIGINT), cast_to(right, BIGINT)), BIGINT)


def _locate(name: str) -> Callable[[list[Expression]], Expression]:
    """`locate(part, text [, from])`: the part comes first."""

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


def _position(_: list[Expression]) -> Expression:
    raise BindError(
        "position with a comma has the part first in Spark, and the text first elsewhere",
        expected="position(part IN text)",
        hint="strpos(text, part), or locate(part, text)",
    )


def _overlay(given: list[Expression]) -> Expression:
    """`overlay(text, other, from [, length])`: the other text in the place of a part."""
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
    "position": _position,
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
