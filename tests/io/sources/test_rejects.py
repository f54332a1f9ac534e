"""The reject log: it keeps what it is told, tells it as a table, or raises when strict."""

import datetime
import json
from decimal import Decimal

import pytest

from penstock.errors import SourceError
from penstock.io.sources.rejects import Reject, RejectKind, RejectLog, quoted, row_as_json


def test_keeps_rejects_in_order() -> None:
    log = RejectLog()
    log.of("a").bad_row("x.csv", 3, "n", "'q' is not an INT", '{"n": "q"}')
    log.of("b").add(RejectKind.FUTURE, "", 9, "t", "too late", "{}")
    assert list(log) == [
        Reject(RejectKind.BAD_ROW, "a", "x.csv", 3, "n", "'q' is not an INT", '{"n": "q"}'),
        Reject(RejectKind.FUTURE, "b", "", 9, "t", "too late", "{}"),
    ]
    assert len(log) == log.count() == 2
    assert log.count(RejectKind.FUTURE) == 1
    assert log.count(RejectKind.NO_PROGRESS) == 0


def test_table() -> None:
    log = RejectLog()
    assert log.table().num_rows == 0
    log.of("a").bad_row("x.csv", 3, None, "2 cells instead of 3", '["1", "2"]')
    assert log.table().to_pylist() == [
        {
            "kind": "bad row",
            "stream": "a",
            "source": "x.csv",
            "row": 3,
            "column": None,
            "reason": "2 cells instead of 3",
            "content": '["1", "2"]',
        }
    ]


def test_strict_log_raises() -> None:
    log = RejectLog(strict=True)
    with pytest.raises(SourceError) as caught:
        log.of("a").bad_row("x.csv", 3, "n", "'q' is not an INT", '{"n": "q"}')
    assert str(caught.value) == (
        "stream a: x.csv, row 3, column n: 'q' is not an INT\n"
        "  expected: rows that fit the stream, because the run is strict\n"
        '  try: mend the row: {"n": "q"}'
    )
    assert log.count() == 0


def test_strict_message_is_short() -> None:
    with pytest.raises(SourceError) as caught:
        RejectLog(strict=True).of("a").bad_row("", 1, None, "odd", '"' + "x" * 10_000 + '"')
    assert "stream a: row 1: odd" in str(caught.value)
    assert len(str(caught.value)) < 400


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_any_row_has_json() -> None:
    circle: list[object] = []
    circle.append(circle)
    odd: list[object] = [
        {"t": datetime.datetime(2020, 1, 1), "d": Decimal("1.50"), "b": b"\x01\xff"},
        {("tuple", "key"): 1},
        circle,
        {"x": "\ud800"},
        {"n": 10**5000},
        {"rude": Rude()},
        Rude(),
    ]
    for row in odd:
        text = row_as_json(row)
        text.encode()
        json.loads(text)
    assert row_as_json(odd[0]) == '{"t": "2020-01-01 00:00:00", "d": "1.50", "b": "01ff"}'
    assert row_as_json({"ü": "✓"}) == '{"ü": "✓"}'


def test_quoted_is_short() -> None:
    assert quoted("abc") == "'abc'"
    assert len(quoted("x" * 1000)) == 80
    assert quoted(10**5000) == "<int>"
