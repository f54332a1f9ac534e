"""Which filters rows pass, by cells and by the filters themselves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.expressions.compiler import compile_predicate
from penstock.kernel.filter_sets import FilterCells, Holds
from penstock.plan.expressions import Expression
from penstock.plan.nodes.node import Filter

ROW = st.tuples(
    st.sampled_from([None, -(2**63), -1, 0, 1, 2, 3, 2**63 - 1]),
    st.sampled_from([None, float("nan"), float("-inf"), -0.0, 0.0, 0.5, float("inf")]),
    st.sampled_from([None, "", "a", "b", "ä"]),
)
COMPARED = st.builds(
    "{} {} {}".format,
    st.sampled_from(["x", "y", "x + 0.0"]),
    st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
    st.sampled_from(["0", "1", "2", "0.5"]),
)
LEAF = st.one_of(
    COMPARED,
    st.sampled_from(["x >= 9223372036854775807", "x > 9223372036854775807", "1 < x"]),
    st.sampled_from(["z = 'a'", "z <> 'b'", "z IN ('a', 'ä')", "z < 'b'", "z LIKE 'a%'"]),
    st.sampled_from(["x IN (0, 3)", "x IS NULL", "y IS NOT NULL", "x IN (1, NULL)", "x = NULL"]),
    st.sampled_from(["TRUE", "FALSE", "x > y", "x BETWEEN 0 AND 2"]),
)
CONDITION = st.one_of(
    LEAF,
    st.builds("NOT ({})".format, LEAF),
    st.builds("({}) AND ({})".format, LEAF, LEAF),
    st.builds("({}) OR ({})".format, LEAF, LEAF),
)


@settings(deadline=None, max_examples=80)
@given(texts=st.lists(CONDITION, min_size=1, max_size=8), parts=st.lists(st.lists(ROW), max_size=3))
def test_rows_pass_what_their_cells_pass(texts: list[str], parts: list[list[object]]) -> None:
    db = ps.connect()
    db.sql("CREATE STREAM s (x BIGINT, y DOUBLE, z STRING)")
    plans = [db.sql(f"SELECT x FROM s WHERE {text}").plan for text in texts]  # type: ignore[union-attr]
    schema = next(each for each in plans[0].walk() if not each.inputs).schema
    filters: dict[Expression | None, Holds | None] = {}
    for plan in plans:
        found = [each.predicate for each in plan.walk() if isinstance(each, Filter)]
        filters |= {each: compile_predicate(each, schema) for each in found} or {None: None}
    cells = FilterCells(filters, schema)
    for rows in parts:
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        types = (pa.int64(), pa.float64(), pa.string())
        arrays = [pa.array(each, type_) for each, type_ in zip(columns, types, strict=True)]
        batch = pa.record_batch(arrays, schema.arrow.names)
        if not batch.num_rows:
            continue
        numbers = cells.of(batch)
        assert numbers is not None
        for place, each in enumerate(filters):
            if each is None:
                passed = np.ones(len(numbers), np.bool_)
            else:
                passed = np.asarray(compile_predicate(each, schema)(batch))
            for number, own in zip(numbers.tolist(), passed.tolist(), strict=True):
                assert own == bool(number >= 0 and cells.passing[number][place])
