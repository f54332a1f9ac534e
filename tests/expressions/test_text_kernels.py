"""Characters beyond ASCII: case, and positions that are not byte positions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.model.types import BIGINT, STRING, Schema
from penstock.plan.expressions import Call, Column, Literal

TEXT, NUMBER = Column("c0", STRING), Column("c1", BIGINT)


@pytest.mark.parametrize("name", ["upper", "lower"])
def test_the_case_of_every_letter(
    agree: Callable[..., None], schema_of: Callable[..., Schema], name: str
) -> None:
    letters = [(chr(code),) for code in range(0x1F000) if not 0xD800 <= code < 0xE000]
    cased = [row for row in letters if row[0].upper() != row[0] or row[0].lower() != row[0]]
    in_context = [(f"{before}{row[0]}{after}",) for row in cased for before, after in ("aΣ", "Σ ")]
    call = Call(name, (TEXT,), STRING)
    agree(call, schema_of(STRING), [*cased, *in_context, (None,), ("",), ("a",)])
    agree(call, schema_of(STRING), [("é\0é",), ("x",)])  # holds what separates the others


@pytest.mark.parametrize("start", [-9, -3, -1, 0, 1, 2, 5, 9, None])
@pytest.mark.parametrize("size", [-1, 0, 1, 3, 9, None])
def test_substr_in_columns_is_substr_of_constants(
    agree: Callable[..., None],
    schema_of: Callable[..., Schema],
    start: int | None,
    size: int | None,
) -> None:
    rows = [(text, start, size) for text in ("", "a", "aé😀", "😀 long é text", None)]
    schema = schema_of(STRING, BIGINT, BIGINT)
    literals = [Literal(value, BIGINT) for value in (start, size)]
    in_columns = [Column("c1", BIGINT), Column("c2", BIGINT)]
    for positions in (literals, in_columns, [in_columns[0], literals[1]], literals[:1]):
        agree(Call("substr", (TEXT, *positions), STRING), schema, rows, before=3)
    constant = Literal("aé😀b", STRING)
    agree(Call("substr", (constant, *in_columns), STRING), schema, rows)
