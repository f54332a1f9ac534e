"""Every aggregate against the reference's definition: folded at once, in pieces that are merged in
any order, and with pieces taken back."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import RunError
from penstock.functions.aggregate_functions import AGGREGATES, PAIR_STATISTICS
from penstock.kernel.aggregates.aggregate import Aggregate
from penstock.kernel.aggregates.build import _BUILDERS, build
from penstock.kernel.state import pack, unpack
from penstock.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    EXACT,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
    decimal_type,
)
from penstock.model.values import to_arrow, to_python
from penstock.plan.expressions import AggregateCall, Column, Literal
from penstock.reference.aggregates import Input, aggregate

DECIMAL = decimal_type(38, 3)
GROUPS = 3
TRIALS = 12

# The interesting values, and how to draw others.
VALUES: dict[Type, tuple[list[Any], Callable[[Random], Any]]] = {
    BOOLEAN: ([True, False], lambda r: r.random() < 0.5),
    INT: ([-(2**31), 2**31 - 1, 0, 1], lambda r: r.randrange(-(2**31), 2**31)),
    BIGINT: ([-(2**63), 2**63 - 1, 0, 1], lambda r: r.randrange(-(2**63), 2**63)),
    DOUBLE: (
        [0.0, -0.0, 1.0, 0.1, math.nan, math.inf, -math.inf, 1e16, 1e308, -1e308, 5e-324],
        lambda r: r.gauss(0, 1) * 10.0 ** r.randrange(-300, 300),
    ),
    DECIMAL: (
        [Decimal("0.000"), Decimal("0.100"), Decimal("-1.500"), Decimal("1" + "0" * 34 + ".000")],
        lambda r: EXACT.scaleb(Decimal(r.randrange(-(10**37), 10**37)), -3),
    ),
    STRING: (["", "a", "b", "ab", "é", "0"], lambda r: r.choice("xyz")),
    BINARY: ([b"", b"a", b"b", b"\x00\xff"], lambda r: r.randbytes(2)),
    DATE: ([0, -1, 1], lambda r: r.randrange(-1000, 1000)),
    TIMESTAMP: ([0, -1, 1], lambda r: r.randrange(-(2**60), 2**60)),
    INTERVAL: ([0, -1, 1], lambda r: r.randrange(-(2**60), 2**60)),
}
ANY = list(VALUES)
ORDERED = [each for each in ANY if each is not BINARY]
NUMBERS = [INT, BIGINT, DOUBLE, DECIMAL]
ON: dict[str, list[Type]] = {
    "count": ANY,
    "sum": NUMBERS,
    "avg": NUMBERS,
    "min": ORDERED,
    "max": ORDERED,
    "first": ANY,
    "last": ANY,
    "mode": ORDERED,
    "any_value": ORDERED,
    "bool_and": [BOOLEAN],
    "bool_or": [BOOLEAN],
    "string_agg": [STRING],
    "histogram": ANY,
    "array_agg": ANY,
    **{name: [BIGINT] for name in ("bit_and", "bit_or", "bit_xor")},
    "top_k": ANY,
    "heavy_hitters": ANY,
    "approx_count_distinct": ANY,
    "approx_top_k": ANY,
    "approx_heavy_hitters": ANY,
}
CONSTANTS: dict[str, list[Literal]] = {
    "quantile": [Literal(share, DOUBLE) for share in (0.0, 0.25, 0.1, 0.3, 1.0)],
    "quantile_disc": [Literal(share, DOUBLE) for share in (0.0, 0.25, 0.1, 0.3, 1.0)],
    "approx_quantile": [Literal(0.5, DOUBLE), Literal(0.9, DOUBLE)],
    "string_agg": [Literal(", ", STRING), Literal("", STRING)],
    "top_k": [Literal(1, INT), Literal(2, INT)],
    "heavy_hitters": [Literal(share, DOUBLE) for share in (0.1, 0.3, 0.5, 1.0)],
    "approx_top_k": [Literal(2, INT)],
    "approx_heavy_hitters": [Literal(0.3, DOUBLE)],
}


# of two columns: see test_extremes_by, test_every_way and test_pairs
BESIDE = ("min_by", "max_by", *PAIR_STATISTICS)


class Tuple(NamedTuple):
    group: int
    value: Any
    position: int


def call(name: str, argument: Type, constant: Literal | None, distinct: bool) -> AggregateCall:
    function = AGGREGATES[name]
    arguments = (Column("x", argument), *([constant] if constant else []))
    result = function.returns(tuple(each.type for each in arguments))
    return AggregateCall(function, arguments, result, distinct)


def title(each: AggregateCall) -> str:
    return f"{each} {each.arguments[0].type}"


CALLS = [
    call(name, argument, constant, distinct)
    for name in AGGREGATES
    if name not in BESIDE
    for argument in ON.get(name, [DOUBLE])
    for constant in CONSTANTS.get(name, [None])
    for distinct in (False, True)
]


MARKED = [pytest.param(each, id=title(each)) for each in CALLS]


def test_none_is_left_out() -> None:
    assert set(_BUILDERS) == set(AGGREGATES)


def rows_for(random: Random, sql_type: Type) -> list[Tuple]:
    special, draw = VALUES[sql_type]
    pool = random.sample(special, random.randrange(len(special)))  # so that values recur
    pool += [draw(random) for _ in range(random.choice([1, 1, 6]))]
    return [
        Tuple(random.randrange(GROUPS), random.choice(pool), random.randrange(-3, 4))
        for _ in range(random.choice([0, 1, 2, 5, 24]))
    ]


def folded(what: Aggregate[Any], rows: list[Tuple], sql_type: Type) -> Any:
    partial = what.new(1)
    what.grow(partial, GROUPS)
    codes = np.array([row.group for row in rows], np.int64)
    column = to_arrow([row.value for row in rows], sql_type)
    what.fold(partial, codes, [column], np.array([row.position for row in rows], np.int64))
    return partial


def finished(what: Aggregate[Any], partial: Any, each: AggregateCall) -> list[Any] | str:
    try:
        column = what.finish(partial, np.arange(GROUPS))
    except RunError:
        return "too large"
    assert len(column) == GROUPS
    return exactly(to_python(column.cast(each.type.arrow), each.type))


def expected(each: AggregateCall, rows: list[Tuple]) -> list[Any] | str:
    found = []
    for group in range(GROUPS):
        inputs = [Input((row.value,), row.position) for row in rows if row.group == group]
        try:
            found.append(aggregate(each, inputs))
        except RunError:
            return "too large"
    return exactly(found)


def exactly(values: list[Any]) -> list[Any]:
    """Texts that tell -0.0 from 0.0, and make NaN equal NaN."""
    return [repr(value) for value in values]


@pytest.mark.parametrize("each", MARKED)
def test_definition(each: AggregateCall) -> None:
    sql_type = each.arguments[0].type
    random, what = Random(title(each)), build(each)
    for _ in range(TRIALS):
        rows = rows_for(random, sql_type)
        assert finished(what, folded(what, rows, sql_type), each) == expected(each, rows), rows


@pytest.mark.parametrize("each", MARKED)
def test_pieces(each: AggregateCall) -> None:
    """Merged in any order; a differential one also without the pieces that are taken back."""
    sql_type = each.arguments[0].type
    random, what = Random(title(each)), build(each)
    for _ in range(TRIALS):
        pieces = [rows_for(random, sql_type) for _ in range(random.randrange(1, 5))]
        partials = [folded(what, piece, sql_type) for piece in pieces]
        total = what.new(1)
        what.grow(total, GROUPS)
        for partial in random.sample(partials, len(partials)):
            what.merge(total, partial)
        if what.differential:
            kept = random.randrange(len(pieces) + 1)
            for partial in random.sample(partials[kept:], len(partials) - kept):
                what.subtract(total, partial)
            pieces = pieces[:kept]
        rows = [row for piece in pieces for row in piece]
        assert finished(what, total, each) == expected(each, rows), pieces


@pytest.mark.parametrize("each", CALLS, ids=title)
def test_merging_leaves_the_other_alone(each: AggregateCall) -> None:
    """A pane is merged into one window after another."""
    sql_type = each.arguments[0].type
    what = build(each)
    value = _some(sql_type)
    pane = folded(what, [Tuple(0, value, 1), Tuple(1, value, 2)], sql_type)
    before = finished(what, pane, each)
    for _ in range(3):
        total = what.new(GROUPS)
        what.merge(total, pane)
        what.merge(total, folded(what, [Tuple(0, value, 0)], sql_type))
    assert finished(what, pane, each) == before


@pytest.mark.parametrize("each", MARKED)
def test_groups_move_and_partials_are_saved(each: AggregateCall) -> None:
    """Some groups, under other numbers, through bytes and back."""
    sql_type = each.arguments[0].type
    random, what = Random(title(each)), build(each)
    for _ in range(TRIALS):
        rows = rows_for(random, sql_type)
        partial = folded(what, rows, sql_type)
        codes = random.sample(range(GROUPS), 2)
        taken = what.take(partial, np.array(codes))
        loaded = what.load(unpack(pack(what.save(taken))))
        places = random.sample(range(GROUPS), 2)
        spread = what.spread(loaded, np.array(places), GROUPS)
        moved = dict(zip(codes, places, strict=True))
        more = rows_for(random, sql_type)
        what.merge(spread, folded(what, more, sql_type))
        kept = [row._replace(group=moved[row.group]) for row in rows if row.group in moved]
        assert finished(what, spread, each) == expected(each, kept + more), (rows, moved, more)
        assert finished(what, partial, each) == expected(each, rows), rows


def _some(sql_type: Type) -> Any:
    match sql_type.kind:
        case Kind.STRING:
            return "a"
        case Kind.BINARY:
            return b"a"
        case Kind.DECIMAL:
            return Decimal("1.500")
        case Kind.BOOLEAN:
            return True
        case Kind.DOUBLE:
            return 1.5
        case _:
            return 3


def test_count_of_tuples() -> None:
    what = build(AggregateCall(AGGREGATES["count"], (), BIGINT))
    partial = what.new(2)
    what.fold(partial, np.array([0, 0, 1]), [], np.zeros(3, np.int64))
    assert what.finish(partial, np.array([1, 0])).to_pylist() == [1, 2]


def test_infinities_leave_a_sliding_sum_again() -> None:
    each = call("sum", DOUBLE, None, False)
    what = build(each)
    special = folded(what, [Tuple(0, math.inf, 0), Tuple(1, math.nan, 0)], DOUBLE)
    total = folded(what, [Tuple(0, 0.1, 0), Tuple(1, 0.2, 0)], DOUBLE)
    what.merge(total, special)
    assert finished(what, total, each) == ["inf", "nan", "None"]
    what.subtract(total, special)
    assert finished(what, total, each) == ["0.1", "0.2", "None"]


def test_partials_grow_with_the_groups() -> None:
    for each in CALLS:
        sql_type = each.arguments[0].type
        what = build(each)
        partial = folded(what, [Tuple(0, _some(sql_type), 0)], sql_type)
        what.grow(partial, 50)
        column = to_arrow([_some(sql_type)], sql_type)
        what.fold(partial, np.array([49]), [column], np.array([1]))
        result = what.finish(partial, np.array([0, 49, 7]))
        assert isinstance(result, pa.Array)
        ends = to_python(result.cast(each.type.arrow), each.type)
        assert ends[0] == ends[1]
        assert ends[2] == (0 if each.function.name == "count" else None)
