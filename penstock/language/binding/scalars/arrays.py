"""Functions that make an ARRAY of others, or look at all items of one."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import BindError
from penstock.language.binding.scalars.calls import called, takes
from penstock.language.binding.scalars.coercion import alike
from penstock.model.types import BIGINT, NESTED, Kind, Type, common_type
from penstock.plan.expressions import Call, Expression, Literal, cast_to


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
    """An item more, before or behind all others; which argument it is, its type says."""

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


def _position(given: list[Expression]) -> Expression:
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
    from penstock.language.binding.scalars.nested import NESTED as OTHERS

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
    "array_position": _position,
    "slice": _slice,
    **dict.fromkeys(("array_slice", "list_slice"), _from_to),
    "map_contains_key": _has_key,
    **{
        f"{prefix}_{name}": _of_one(f"{prefix}_{name}", f"array_{name}", lambda given: given.item)
        for prefix in ("array", "list")
        for name in ("max", "min")
    },
}
