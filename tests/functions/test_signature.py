"""Signatures: which arguments fit, what they become, and what is said when they do not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import BindError
from penstock.functions.signatures import Family, Signature, accept
from penstock.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    Type,
    array_of,
    decimal_type,
    map_of,
)
from tests.model.strategies import all_types

CENTS = decimal_type(9, 2)
EVERY = [NULL, BOOLEAN, INT, BIGINT, CENTS, DOUBLE, STRING, BINARY, DATE, TIMESTAMP, INTERVAL]
# What each family makes of the types above; a type that is not listed does not fit.
ACCEPTED: dict[Family, dict[Type, Type]] = {
    Family.ANY: {each: each for each in EVERY},
    Family.ALIKE: {each: each for each in EVERY},
    Family.ORDERED: {each: each for each in EVERY if each != BINARY},
    Family.NUMBER: {NULL: BIGINT, INT: INT, BIGINT: BIGINT, CENTS: CENTS, DOUBLE: DOUBLE},
    Family.DOUBLE: dict.fromkeys([NULL, INT, BIGINT, CENTS, DOUBLE], DOUBLE),
    Family.INTEGER: dict.fromkeys([NULL, INT, BIGINT], BIGINT),
    Family.STRING: dict.fromkeys([NULL, STRING], STRING),
    Family.BOOLEAN: dict.fromkeys([NULL, BOOLEAN], BOOLEAN),
    Family.TIME: {NULL: TIMESTAMP, DATE: DATE, TIMESTAMP: TIMESTAMP},
    Family.TIMESTAMP: dict.fromkeys([NULL, DATE, TIMESTAMP], TIMESTAMP),
    Family.INTERVAL: dict.fromkeys([NULL, INTERVAL], INTERVAL),
    Family.ARRAY: {NULL: array_of(STRING)},
    Family.COLLECTION: {NULL: array_of(STRING)},
    Family.TEXTS: {NULL: array_of(STRING)},
    Family.MAP: {NULL: map_of(STRING, STRING)},
}


@pytest.mark.parametrize("family", Family)
def test_accept(family: Family) -> None:
    found = {each: accept(family, each) for each in EVERY}
    assert {each: to for each, to in found.items() if to is not None} == ACCEPTED[family]


@given(st.sampled_from(Family), all_types)
def test_what_was_accepted_is_accepted_again(family: Family, given_type: Type) -> None:
    once = accept(family, given_type)
    assert once is None or accept(family, once) == once


def test_convert() -> None:
    signature = Signature((Family.STRING, Family.DOUBLE, Family.INTEGER))
    assert signature.convert("f", [STRING, INT, NULL]) == (STRING, DOUBLE, BIGINT)


def test_optional_arguments() -> None:
    signature = Signature((Family.STRING, Family.INTEGER, Family.INTEGER), optional=1)
    assert signature.convert("f", [STRING, INT]) == (STRING, BIGINT)
    assert signature.convert("f", [STRING, INT, INT]) == (STRING, BIGINT, BIGINT)
    for wrong in ([], [STRING], [STRING, INT, INT, INT]):
        with pytest.raises(BindError, match=f"f does not take {len(wrong)} argument"):
            signature.convert("f", wrong)


def test_variadic_arguments() -> None:
    signature = Signature((Family.STRING,), variadic=True)
    assert signature.convert("f", [STRING] * 4) == (STRING,) * 4
    with pytest.raises(BindError, match="f does not take 0 arguments"):
        signature.convert("f", [])


def test_one_argument_is_not_arguments() -> None:
    with pytest.raises(BindError) as caught:
        Signature((Family.STRING, Family.STRING)).convert("f", [STRING])
    assert caught.value.message == "f does not take 1 argument"
    assert caught.value.expected == "f(a STRING, a STRING)"


def test_the_argument_that_does_not_fit() -> None:
    with pytest.raises(BindError) as caught:
        Signature((Family.STRING, Family.TIME)).convert("date_trunc", [STRING, INT])
    assert caught.value.message == "argument 2 of date_trunc is an INT"
    assert caught.value.expected == "a TIMESTAMP or DATE"


def test_alike_arguments_get_a_common_type() -> None:
    signature = Signature((Family.BOOLEAN, Family.ALIKE, Family.ALIKE))
    assert signature.convert("if", [BOOLEAN, INT, CENTS]) == (
        BOOLEAN,
        decimal_type(12, 2),
        decimal_type(12, 2),
    )
    assert signature.convert("if", [NULL, NULL, DATE]) == (BOOLEAN, DATE, DATE)
    assert signature.convert("if", [NULL, NULL, NULL]) == (BOOLEAN, NULL, NULL)
    with pytest.raises(BindError, match="if mixes INT and STRING"):
        signature.convert("if", [BOOLEAN, INT, STRING])


def alike(types: Sequence[Type]) -> set[Type] | None:
    """The types that alike arguments get, or None if they have nothing in common."""
    try:
        return set(Signature((Family.ALIKE,), variadic=True).convert("f", types))
    except BindError:
        return None


@given(st.lists(all_types, min_size=1, max_size=4).flatmap(lambda each: both_orders(each)))
def test_alike_arguments_end_up_alike_in_any_order(orders: tuple[list[Type], list[Type]]) -> None:
    one, other = map(alike, orders)
    assert one == other
    assert one is None or len(one) == 1


def both_orders(types: list[Type]) -> st.SearchStrategy[tuple[list[Type], list[Type]]]:
    return st.tuples(st.just(types), st.permutations(types))


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        (Signature(()), "()"),
        (Signature((Family.NUMBER, Family.INTEGER), optional=1), "(a number, [a whole number])"),
        (Signature((Family.STRING,), variadic=True), "(a STRING, …)"),
    ],
)
def test_as_text(signature: Signature, text: str) -> None:
    assert str(signature) == text
