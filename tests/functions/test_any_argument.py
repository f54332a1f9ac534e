"""Every function by every name, with arguments of every type: an error of Penstock, or a value that
is the same one by one and for whole columns."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.expressions.compiler import compile_expression
from penstock.expressions.evaluation import evaluator
from penstock.functions.aggregate_functions import AGGREGATES, REWRITTEN
from penstock.functions.aggregate_functions import ALIASES as AGGREGATE_ALIASES
from penstock.functions.scalar_functions import ALIASES, SCALARS
from penstock.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    Field,
    Schema,
    array_of,
    decimal_type,
    map_of,
    struct_of,
)
from penstock.model.values import to_arrow, to_python
from penstock.plan.catalog import Catalog
from penstock.sql.binder.expressions import ExpressionBinder
from penstock.sql.binder.operators import STRUCTS
from penstock.sql.binder.peer_functions import COMPOSED
from penstock.sql.binder.scope import Scope
from penstock.sql.parser.statements import parse_expression

VALUES: dict[Any, list[Any]] = {
    BOOLEAN: [True, None, False],
    INT: [3, None, -1],
    BIGINT: [0, None, 2**40],
    DOUBLE: [2.675, None, math.nan],
    decimal_type(10, 2): [Decimal("2.50"), None, Decimal("-0.01")],
    STRING: ["a,b", None, "2026-01-31"],
    BINARY: [b"ab", None, b"\xff"],
    DATE: [20_000, None, -1],
    TIMESTAMP: [10**15, None, -1],
    INTERVAL: [3_600_000_000, None, -1],
    array_of(STRING): [("a", None), None, ()],
    array_of(INT): [(1, 2), None, ()],
    map_of(STRING, INT): [(("a", 1),), None, ()],
    struct_of([("p", INT), ("q", STRING)]): [(1, "x"), None, (None, None)],
}
SCHEMA = Schema(tuple(Field(f"c{n}", sql_type) for n, sql_type in enumerate(VALUES)))
BATCH = pa.record_batch(
    [to_arrow(values, sql_type) for sql_type, values in VALUES.items()],
    names=[field.name for field in SCHEMA],
)
ROWS = list(zip(*VALUES.values(), strict=True))
COLUMNS = [field.name for field in SCHEMA]
NAMES = sorted({*SCALARS, *ALIASES, *COMPOSED, *STRUCTS} - {"promised_as"})
CARRIED = [place for place, each in enumerate(VALUES) if each != INTERVAL]  # by a stream
CONSTANTS = ["2", "'a'", "'day'", "NULL", "TRUE", "-1.5"]


def calls(name: str) -> list[str]:
    """Alike in all places, and mixed."""
    chosen = random.Random(name)
    found = [f"{name}()"]
    for column in COLUMNS:
        found += [f"{name}({column})", f"{name}({column}, {column})"]
    for places in (2, 2, 2, 2, 3, 3, 3, 4):
        first = chosen.choice([*COLUMNS, "'a'"])
        rest = [chosen.choice([*COLUMNS, *CONSTANTS, *CONSTANTS]) for _ in range(places - 1)]
        found.append(f"{name}({', '.join([first, *rest])})")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_function(name: str) -> None:
    binder = ExpressionBinder(Scope(SCHEMA), Catalog())
    for text in calls(name):
        try:
            expression = binder.bind(parse_expression(text))
        except ps.PenstockError:
            continue
        by_rows: Any
        try:
            evaluate = evaluator(expression, SCHEMA)
            by_rows = [evaluate(row) for row in ROWS]
        except ps.PenstockError as error:
            by_rows = type(error)
        by_columns: Any
        try:
            column = compile_expression(expression, SCHEMA)(BATCH)
            by_columns = to_python(column, expression.type)
        except ps.PenstockError as error:
            by_columns = type(error)
        assert repr(by_rows) == repr(by_columns), text


@pytest.mark.parametrize("place", CARRIED, ids=lambda place: str(list(VALUES)[place]))
def test_aggregates(place: int) -> None:
    name = COLUMNS[place]
    names = sorted({*AGGREGATES, *AGGREGATE_ALIASES, *REWRITTEN})
    table = pa.table({"ts": pa.array([1, 2, 3]), name: BATCH.column(name)})

    def database(engine: str) -> ps.Database:
        db = ps.connect(engine)
        db.stream("s", table, progress=ps.progress("ts", ordered=True))
        return db

    known, db = [], database("local")
    for each in names:
        for given in (name, f"{name}, {name}", f"{name}, 2", f"{name}, 0.5", f"{name}, ','"):
            call = f"{each}({given})"
            try:
                db.sql(f"SELECT {call} AS x [RANGE 10, SLIDE 10] FROM s")
            except ps.PenstockError:
                continue
            known.append(call)
            break
    items = ", ".join(f"{call} AS c{n}" for n, call in enumerate(known))
    rows = []
    for engine in ("reference", "local"):
        query = database(engine).sql(f"SELECT {items} [RANGE 10, SLIDE 10] FROM s")
        assert isinstance(query, ps.Query)
        try:
            rows.append(repr(query.collect().to_pylist()))
        except ps.PenstockError as error:
            rows.append(error.message)
    assert rows[0] == rows[1]
