"""CSV: header, NULLs, malformed rows and cells with their numbers, and bytes that are no text."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SourceError
from penstock.io.formats import csv_files
from penstock.io.formats.csv_files import BLOCK, read_delimited
from penstock.io.formats.data_file import DataFile
from penstock.io.sources.files import FileSource
from penstock.io.sources.rejects import RejectLog
from penstock.io.sources.source import Attention
from penstock.kernel.state import MemoryStore
from penstock.local.graph.source_node import Reading
from penstock.model.types import INT, STRING, Field, Schema


def test_columns_by_name(read_file: Any) -> None:
    rows, log = read_file("a.csv", "x,id,name\n9,1,a\n9,2,b\n", name="STRING", id="INT")
    assert rows == [("a", 1), ("b", 2)]
    assert not len(log)


def test_every_type(read_file: Any) -> None:
    text = (
        "b,i,l,d,x,s,y,t,u\ntrue,1,2,1.50,0.5,hi,0xff,1970-01-02,1970-01-01T00:00:01Z\n,,,,,,,,\n"
    )
    rows, log = read_file(
        "a.csv",
        text,
        b="BOOLEAN",
        i="INT",
        l="BIGINT",
        d="DECIMAL(5,2)",
        x="DOUBLE",
        s="STRING",
        y="BINARY",
        t="DATE",
        u="TIMESTAMP",
    )
    assert [str(each) for each in rows[0][:4]] == ["True", "1", "2", "1.50"]
    assert rows[0][4:] == (0.5, "hi", b"\xff", 1, 1_000_000)
    assert rows[1] == (None,) * 9
    assert not len(log)


def test_header_in_another_case_and_with_spaces(read_file: Any) -> None:
    assert read_file("a.csv", "ID, Name \n1,a\n", id="INT", name="STRING")[0] == [(1, "a")]


def test_exact_header_wins(read_file: Any) -> None:
    assert read_file("a.csv", "ID,id\n1,2\n", id="INT")[0] == [(2,)]


def test_ambiguous_header(read_file: Any) -> None:
    with pytest.raises(SourceError) as caught:
        read_file("a.csv", "ID,Id\n1,2\n", id="INT")
    assert str(caught.value) == (
        "a.csv: 2 columns are called id\n  expected: one column id; the columns are: ID, Id"
    )
    with pytest.raises(SourceError, match="2 columns are called id"):
        read_file("a.csv", "id,id\n1,2\n", id="INT")


def test_missing_column(read_file: Any) -> None:
    with pytest.raises(SourceError) as caught:
        read_file("a.csv", "time,tmperature\n1,2\n", temperature="INT")
    assert str(caught.value) == (
        "a.csv: there is no column temperature\n"
        "  expected: one of its columns: time, tmperature\n"
        "  try: tmperature"
    )


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_another_separator(read_file: Any, separator: str) -> None:
    with pytest.raises(SourceError, match="cells seem to be separated by") as caught:
        read_file("a.csv", f"id{separator}Name\n1{separator}x\n", id="INT", name="STRING")
    assert f"pandas.read_csv(…, sep={separator!r})" in str(caught.value)
    rows, _ = read_file("a.csv", f"id{separator}a\n1\n", **{f"id{separator}a": "INT"})
    assert rows == [(1,)]


def test_nulls_and_quoted_empty_strings(read_file: Any) -> None:
    rows, log = read_file("a.csv", 'n,s\n,\n"",""\n1,x\n', n="INT", s="STRING")
    assert rows == [(None, None), (None, ""), (1, "x")]
    assert not len(log)


@pytest.mark.parametrize(
    "text", ["", "\n\n", "id,name", "id,name\n", "\ufeffid,name\r\n", "id,name\n\n\r\n\n"]
)
def test_files_without_rows(read_file: Any, text: str) -> None:
    assert read_file("a.csv", text, id="INT", name="STRING")[0] == []


def test_header_is_checked_without_rows(read_file: Any) -> None:
    with pytest.raises(SourceError, match="there is no column name"):
        read_file("a.csv", "id", name="INT")


def test_line_ends_quotes_and_byte_order_mark(read_file: Any) -> None:
    text = '\ufeffid,name\r\n1,"a\r\nb"\r\n\r\n2,"say ""hi"""\r\n3,last'
    rows, _ = read_file("a.csv", text, id="INT", name="STRING")
    assert rows == [(1, "a\r\nb"), (2, 'say "hi"'), (3, "last")]


def test_bad_cells_reject_the_row(read_file: Any) -> None:
    rows, log = read_file("a.csv", "id,name,z\n1,a,\nabc,b,\n\n99999999999,,\n4,d,\n", id="INT")
    assert rows == [(1,), (4,)]
    assert [(each.source, each.row, each.column, each.reason, each.content) for each in log] == [
        ("a.csv", 2, "id", "'abc' is not an INT", '{"id": "abc"}'),
        ("a.csv", 3, "id", "'99999999999' does not fit INT", '{"id": "99999999999"}'),
    ]


def test_first_bad_cell_is_named(read_file: Any, listed: Any) -> None:
    rows, log = read_file("a.csv", "a,b\n1,x\ny,x\n", a="INT", b="INT")
    assert rows == []
    assert listed(log) == [(1, "b", "'x' is not an INT"), (2, "a", "'y' is not an INT")]


def test_malformed_rows(read_file: Any, listed: Any) -> None:
    text = 'id,name\n1\n2,b\n3,c,"x\ny"\nq,d\n5,e\n6\n'
    rows, log = read_file("a.csv", text, id="INT", name="STRING")
    assert rows == [(2, "b"), (5, "e")]
    assert listed(log) == [
        (1, None, "1 cells instead of 2"),
        (3, None, "3 cells instead of 2"),
        (4, "id", "'q' is not an INT"),
        (6, None, "1 cells instead of 2"),
    ]
    assert [json.loads(each.content) for each in log] == [
        ["1"],
        ["3", "c", "x\ny"],
        {"id": "q", "name": "d"},
        ["6"],
    ]


@pytest.mark.parametrize("row", ['2,"b', '"2""', ',,"x,""y""', '"2"b,c"d,"'])
def test_a_quote_that_is_not_closed(row: str, read_file: Any, listed: Any) -> None:
    text = f"id,x,y,z\n1,a,b,c\n{row}\n3,a,b,c\n4,a,b,c\n"
    rows, log = read_file("a.csv", text, id="INT")
    assert rows == [(1,)]
    [(number, column, reason)] = listed(log)
    assert (number, column) == (2, None)
    assert reason.endswith(
        'cells instead of 4, because a quote (") is not closed: the row takes the rest of the file'
    )


@pytest.mark.parametrize("row", ['2,b"', '"2""",x', '"2"b"c,d', '2,"b,c"'])
def test_quotes_that_need_not_be_closed(row: str, read_file: Any, listed: Any) -> None:
    rows, log = read_file("a.csv", f"id,x,y,z\n1,a,b,c\n{row}\n3,a,b,c\n", id="INT")
    assert rows == [(1,), (3,)]
    assert listed(log) == [(2, None, "2 cells instead of 4")]


def test_strict_names_the_first_bad_row(tmp_path: Path, schema: Any, read: Any) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,a\nx,b\n3\n")
    with pytest.raises(SourceError, match=r"stream s: a\.csv, row 2, column id: 'x' is not an INT"):
        read(FileSource("a.csv", base=tmp_path), schema(id="INT", name="STRING"), strict=True)


ROWS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 99).map(str), st.text("ab\n,\"' ", max_size=4)),
        st.tuples(st.sampled_from(["x", "1.5"]), st.just("bad cell")),
        st.tuples(st.integers(0, 99).map(str)),
        st.tuples(st.just("1"), st.just("2"), st.just("3")),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(ROWS, st.integers(40, 200))
def test_row_numbers_over_many_blocks(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, ...]], block: int
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(["id", "name"])
    writer.writerows(rows)
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_text(text.getvalue(), newline="")
    log = RejectLog()
    schema = Schema((Field("id", INT), Field("name", STRING)))
    batches = list(read_delimited(DataFile(path, "a.csv"), schema, log.of("s"), block))
    read = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert read == [(int(row[0]), row[1]) for row in rows if len(row) == 2 and row[0].isdigit()]
    assert [each.row for each in log] == [
        number for number, row in enumerate(rows, start=1) if len(row) != 2 or not row[0].isdigit()
    ]


def test_row_numbers_with_real_blocks(tmp_path: Path, schema: Any) -> None:
    count = 20_000
    odd = {7: "7", 6_000: "x,bad", 6_001: "1,2,3", 19_999: "y,bad", 20_000: "z"}
    lines = [odd.get(number, f"{number},{'v' * 20}") for number in range(1, count + 1)]
    path = tmp_path / "a.csv"
    path.write_text("id,name\n" + "\n".join(lines))
    log = RejectLog()
    columns = schema(id="INT", name="STRING")
    batches = list(read_delimited(DataFile(path, "a.csv"), columns, log.of("s"), 1 << 16))
    assert len(batches) > 3
    assert sum(batch.num_rows for batch in batches) == count - len(odd)
    assert [each.row for each in log] == sorted(odd)


def test_invalid_utf8_is_rejected(read_file: Any, listed: Any) -> None:
    data = b"id,name,other\n1,gr\xfcn,x\n2,gr\xc3\xbcn,\xff\n3,\xe2\x82,x\n\xff\n5,ok,\xc3"
    rows, log = read_file("a.csv", data, id="INT", name="STRING")
    assert rows == [(2, "grün"), (5, "ok")]
    assert listed(log) == [
        (1, "name", "'gr�n' is not UTF-8"),
        (3, "name", "'�' is not UTF-8"),
        (4, None, "1 cells instead of 3"),
    ]
    assert [json.loads(each.content) for each in log] == [
        {"id": "1", "name": "gr�n"},
        {"id": "3", "name": "�"},
        ["�"],
    ]


def test_replacement_characters_in_the_data_are_text(read_file: Any) -> None:
    assert read_file("a.csv", "s\n\ufffd\n", s="STRING")[0] == [("\ufffd",)]


def test_invalid_utf8_in_the_header(read_file: Any) -> None:
    assert read_file("a.csv", b"id,gr\xfcn\n1,2\n", id="INT")[0] == [(1,)]
    with pytest.raises(SourceError, match="there is no column grün"):
        read_file("a.csv", b"id,gr\xfcn\n1,2\n", grün="INT")


def test_binary_in_a_csv(read_file: Any) -> None:
    for data in (b"\x89PNG\r\n\0\0", "id,name\n1,2\n".encode("utf-16")):
        with pytest.raises(SourceError) as caught:
            read_file("a.csv", data, id="INT")
        assert str(caught.value) == (
            "a.csv is not a text file: it holds NUL bytes\n  expected: CSV text in UTF-8"
        )


def test_row_longer_than_a_block(tmp_path: Path, schema: Any) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,name\n1,"never closed\n' + "x,y\n" * 1000)
    log = RejectLog()
    read = read_delimited(DataFile(path, "a.csv"), schema(id="INT"), log.of("s"), 512)
    assert sum(batch.num_rows for batch in read) == 0
    assert [(each.row, each.reason) for each in log] == [
        (
            1,
            'the row has 4,016 bytes, and a row may have 512 (ROW LIMIT), because a quote (") is'
            " not closed: the row takes the rest of the file",
        )
    ]


def test_header_that_cannot_be_one(read_file: Any) -> None:
    with pytest.raises(SourceError, match=r"a\.csv has no CSV header"):
        read_file("a.csv", "x" * 200_000, id="INT")


def test_long_cells_in_rows_are_fine(read_file: Any) -> None:
    assert csv_files.BLOCK > 1_000_000
    rows, _ = read_file("a.csv", "s\n" + "x" * 1_000_000 + "\n", s="STRING")
    assert len(rows[0][0]) == 1_000_000


def test_one_column_twice_declared(read_file: Any) -> None:
    assert read_file("a.csv", "id\n1\n", id="INT", ID="STRING")[0] == [(1, "1")]


def test_blocks_of_wide_files_hold_many_rows(tmp_path: Path, schema: Any) -> None:
    """To look at a column costs something in every block."""
    columns, rows = 3_000, 800
    names = [f"c{number}" for number in range(columns)]
    line = ",".join("1" for _ in names)
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join(names), *[line] * rows]))
    assert path.stat().st_size > BLOCK
    log = RejectLog()
    wide = schema(**dict.fromkeys(names, "INT"))
    batches = list(read_delimited(DataFile(path, "wide.csv"), wide, log.of("s")))
    assert [batch.num_rows for batch in batches] == [rows]


# --- files that grow -----------------------------------------------------------------------------

CELLS = st.sampled_from(["1", "20", "x", "é€", "𝄞", "", '"a,b"', '"say ""hi"""', '"two\nlines"'])
ODD_CELLS = CELLS | st.sampled_from(['5" pipe', '"a"b', '"a"b"c', '"\r\n"', '""', "a b"])
ENDS = st.sampled_from(["\n", "\r\n"])


def as_it_grows(path: Path, text: bytes, sizes: list[int | None]) -> tuple[list[Any], list[int]]:
    """The rows of a file that is looked at when it has come to some sizes, the last of them None:
    it will not grow any more; and how many there were after every look."""
    schema = Schema((Field("a", STRING), Field("b", STRING)))
    rows: list[Any] = []
    after = []
    reading, store = Reading(FileSource(str(path))), MemoryStore()
    for size in sizes:
        path.write_bytes(text[:size])
        log = RejectLog()
        chunks = reading.chunks(schema, log.of("s"), size is not None, Attention())
        for chunk in chunks:
            rows += [tuple(row.values()) for row in chunk.batch.to_pylist()]
            reading.fed(chunk)
        reading.rejected(log.take())
        after.append(len(rows))
        reading.save(store)
        reading = Reading(reading.source)
        reading.load(store)
    return rows, after


@settings(max_examples=60, deadline=None)
@given(
    header=st.sampled_from(["a,b", '"a","b"', "\ufeffa,b", '\ufeff"a",b']),
    lines=st.lists(st.tuples(ODD_CELLS, ODD_CELLS, ENDS), max_size=8),
    ended=st.booleans(),
    cuts=st.lists(st.integers(0, 200), max_size=6),
)
def test_a_file_that_grows_byte_by_byte(
    header: str,
    lines: list[tuple[str, str, str]],
    ended: bool,
    cuts: list[int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """In any pieces, it has the rows of the whole."""
    path = tmp_path_factory.mktemp("grows") / "a.csv"
    text = header + "\n" + "".join(f"{a},{b}{end}" for a, b, end in lines)
    whole = (text if ended else text.rstrip("\r\n")).encode()
    found, _ = as_it_grows(path, whole, [*sorted(cut for cut in cuts if cut <= len(whole)), None])
    expected, _ = as_it_grows(path, whole, [None])
    assert found == expected


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        (b"a,b\n1,2\n3,1", 1),
        (b"a,b\n1,2\n3,10\n", 2),
        (b"a,b\r\n1,2\r\n3,4\r", 1),
        (b'a,b\n1,2\n3,"x\ny', 1),
        (b'a,b\n1,2\n3,"x\ny\n', 1),
        (b'a,b\n1,"2"\n3,"x""\n', 1),
        (b'a,b\n1,5" pipe\n3,4\n', 2),
        (b"a,b\n1,2\n3,\xe2\x82", 1),
        (b"a,b\n1,2\n\n\n", 1),
        (b"a,b\n", 0),
        (b"a,b", 0),
        (b"a,", 0),
        (b"", 0),
    ],
)
def test_what_is_complete_of_a_file_that_grows(text: bytes, complete: int, tmp_path: Path) -> None:
    _, after = as_it_grows(tmp_path / "a.csv", text, [len(text)] * 2)
    assert after == [complete, complete]


def test_a_row_that_never_ends_is_not_waited_for(tmp_path: Path) -> None:
    """It would be waited for without a word: it is a rejected row, and what follows is read."""
    long = b'a,b\n1,2\n3,"' + b"x\n" * BLOCK
    sizes: list[int | None] = [len(long), len(long) + 2, None]
    rows, after = as_it_grows(tmp_path / "a.csv", long + b'"\n5,6\n', sizes)
    assert rows == [("1", "2"), ("5", "6")]
    assert after == [1, 1, 2]
