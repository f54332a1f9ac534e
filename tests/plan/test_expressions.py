"""What is said not to fail does not, on the values at the ends of the types: every function and
operator, and every cast."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

import penstock as ps
from penstock.errors import RunError
from penstock.expressions.evaluation import evaluator
from penstock.functions.scalar_functions import SCALARS
from penstock.functions.signatures import Family
from penstock.plan.expressions import may_fail
from penstock.plan.nodes.node import Project
from tests.local.helpers import locally
from tests.local.test_provisional import Running
from tests.reference.helpers import Stream, ask, bag, tuples

WHOLE = [-(2**63), 2**63 - 1, -1, 1]
SMALL = [-(2**31), 2**31 - 1, -1, 1]
NINES = Decimal(10**38 - 1)
COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "b": ("BIGINT", WHOLE),
    "i": ("INT", SMALL),
    "d": ("DOUBLE", [1e308, float("nan"), float("-inf"), 0.5]),
    "e": ("DECIMAL(38,0)", [NINES, NINES.copy_negate(), Decimal(0)]),
    "f": ("DECIMAL(9,2)", [Decimal("9999999.99"), Decimal("-9999999.99")]),
    "g": ("DECIMAL(38,37)", [Decimal("9." + "9" * 37), Decimal(0)]),
    "s": ("STRING", ["", "99999999999999999999", "x"]),
    "t": ("TIMESTAMP", WHOLE),
    "u": ("DATE", SMALL),
    "c": ("BOOLEAN", [True, False]),
}
TYPES = ["BIGINT", "INT", "DOUBLE", "DECIMAL(38,0)", "DECIMAL(9,2)", "STRING", "TIMESTAMP", "DATE"]
FAMILIES = {
    Family.STRING: ["s", "'week'"],
    Family.INTEGER: ["b", "-1", "3"],
    Family.NUMBER: ["b", "i", "d", "e", "f", "g"],
    Family.DOUBLE: ["d", "b"],
    Family.TIME: ["t", "u"],
    Family.TIMESTAMP: ["t"],
    Family.BOOLEAN: ["c"],
    Family.INTERVAL: ["INTERVAL 1 DAY"],
    Family.ALIKE: ["b", "i", "e", "f", "t"],
    Family.ANY: ["b"],
    Family.ARRAY: ["ARRAY[b, 1]"],
    Family.MAP: ["MAP['k', b]"],
    Family.COLLECTION: ["ARRAY[b]", "MAP['k', b]"],
    Family.TEXTS: ["ARRAY[s]"],
}


def calls(name: str) -> Iterator[str]:
    if name in ("to_timestamp", "try_to_timestamp"):  # whose formats are constants
        yield f"{name}(s, 'yyyy-MM-dd')"
        return
    if name in ("json_get", "json_text"):
        yield f"{name}(s, '$.a')"
        return
    if name == "at_time_zone":
        yield f"{name}(t, 'UTC')"
        return
    signature = SCALARS[name].signature
    given = [FAMILIES[family] for family in signature.families]
    for count in range(len(given) - signature.optional, len(given) + 1):
        for arguments in product(*given[:count]):
            yield f"{name}({', '.join(arguments)})"


def operations(operator: str) -> Iterator[str]:
    for left, right in product(COLUMNS, [*COLUMNS, "1", "-1", "0.5", "INTERVAL 1 DAY"]):
        yield f"{left} {operator} {right}"


CASTS = [f"CAST({name} AS {sql_type})" for name, sql_type in product(COLUMNS, TYPES)]


@pytest.mark.parametrize(
    "expressions",
    [
        *(list(calls(name)) for name in SCALARS),
        *(list(operations(operator)) for operator in ("+", "-", "*", "/", "DIV", "%")),
        [f"-{name}" for name in COLUMNS],
        CASTS,
    ],
    ids=[*SCALARS, *("add", "subtract", "multiply", "divide", "div", "mod", "negate", "casts")],
)
def test_no_value_makes_it_fail(expressions: list[str]) -> None:
    schema = ", ".join(f"{name} {sql_type}" for name, (sql_type, _) in COLUMNS.items())
    db = ps.connect("reference")
    db.stream("s", [], schema=schema)
    bound = 0
    for text in expressions:
        try:
            query = db.sql(f"SELECT {text} AS y FROM s")
        except ps.BindError:
            continue  # there is no such expression
        assert isinstance(query, ps.Query)
        node = query.plan.input
        assert isinstance(node, Project)
        bound += 1
        expression = node.columns[0].expression
        if may_fail(expression):
            continue
        value = evaluator(expression, node.input.schema)
        used = [name for name in COLUMNS if name in text.replace("CAST", "").split("AS")[0]]
        for chosen in product(*(COLUMNS[name][1] for name in used)):
            given = dict(zip(used, chosen, strict=True))
            value(tuple(given.get(name) for name in COLUMNS))
    assert bound


@pytest.mark.parametrize("cut", [1, None])
def test_a_provisional_result_that_cannot_be_rounded_is_not_given_out(cut: int | None) -> None:
    rows = [(2**63 - 1, 1), (-7, 2)]
    stream = Stream("x BIGINT, t INT", rows, ps.progress("t", delay=100))
    sql = "SELECT round(sum(x), -1) AS z [RANGE 4, SLIDE 4, WA t] FROM s EMIT EARLY EVERY 1 SECOND"
    expected = bag(tuples(ask(sql, s=stream).collect()))
    assert bag(tuples(locally(sql, cut, Running(), s=stream).table)) == expected
    with pytest.raises(RunError):
        locally(sql, cut, Running(), s=Stream("x BIGINT, t INT", rows[:1], stream.progress))
