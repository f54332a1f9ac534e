"""The table for people: aligned in any script, and one line per row whatever cells hold."""

from __future__ import annotations

import io
from decimal import Decimal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.io.sinks.text import write_table


def shown(table: pa.Table) -> str:
    out = io.StringIO()
    write_table(table, out)
    return out.getvalue()


def test_numbers_to_the_right_everything_else_to_the_left() -> None:
    table = pa.table(
        {
            "name": ["a", "bcd", None],
            "count": pa.array([1, 22, None], pa.int32()),
            "price": pa.array([Decimal("1.50"), None, Decimal("-10.00")], pa.decimal128(9, 2)),
            "share": [0.5, 1e300, None],
            "ok": [True, False, None],
        }
    )
    assert shown(table) == (
        "name  count   price   share  ok\n"
        "────  ─────  ──────  ──────  ─────\n"
        "a         1    1.50     0.5  true\n"
        "bcd      22    NULL  1e+300  false\n"
        "NULL   NULL  -10.00    NULL  NULL\n"
        "(3 rows)\n"
    )


def test_wide_characters_take_two_places_and_combining_ones_none() -> None:
    table = pa.table({"s": ["日本", "ｅ", "e\u0301", "abcd"], "n": [1, 2, 3, 4]})
    assert shown(table) == (
        "s     n\n────  ─\n日本  1\nｅ    2\ne\u0301     3\nabcd  4\n(4 rows)\n"
    )


def test_a_wide_name() -> None:
    assert shown(pa.table({"名前": ["a"], "x": ["b"]})) == ("名前  x\n────  ─\na     b\n(1 row)\n")


def test_control_characters_are_shown_not_obeyed() -> None:
    hostile = "a\tb\nc\r\x1b[31mred\x00\x7f\u202e\u2028"
    lines = shown(pa.table({"s": [hostile, "z"], "n": [1, 2]})).split("\n")
    assert lines[2].startswith(r"a\tb\nc\r\x1b[31mred\x00\x7f\u202e\u2028  1")
    assert lines[3] == "z" + " " * (len(lines[2]) - 2) + "2"


@given(st.lists(st.text(), max_size=5))
@settings(deadline=None)
def test_one_printable_line_per_row(texts: list[str]) -> None:
    written = shown(pa.table({"s": pa.array(texts, pa.string())}))
    assert written.count("\n") == len(texts) + 3
    assert all(char.isprintable() for char in written.replace("\n", ""))


def test_control_characters_in_a_name() -> None:
    assert shown(pa.table({"a\nb": [1]})).split("\n")[0] == r"a\nb"


def test_no_rows_and_one_row() -> None:
    assert shown(pa.table({"a": pa.array([], pa.int32())})) == "a\n─\n(0 rows)\n"
    assert shown(pa.table({"a": [7]})) == "a\n─\n7\n(1 row)\n"


def test_many_rows_are_counted_readably() -> None:
    assert shown(pa.table({"a": range(1234)})).endswith("\n(1,234 rows)\n")


def test_no_spaces_at_the_end_of_a_line() -> None:
    written = shown(pa.table({"n": [1, 2], "s": ["a", "long"]}))
    assert all(line == line.rstrip() for line in written.split("\n"))
