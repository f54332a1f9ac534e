"""Files that grow epoch by epoch: whatever was not committed is cut off."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import CheckpointError, SinkError
from penstock.io.durable_files import read_json, write_json
from penstock.io.sinks.file_sinks import AppendedFile, PartFiles
from penstock.io.sinks.output import OutputFormat
from penstock.io.sinks.sink import Ledger


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int64())})


def opened(folder: Path, name: str = "out.jsonl") -> tuple[AppendedFile, Ledger]:
    """The file as a run finds it."""
    ledger = Ledger(folder / "outputs.json")
    chosen = OutputFormat(Path(name).suffix[1:])
    sink = AppendedFile(folder / name, chosen, ledger, "rows")
    sink.begin(rows().schema)
    return sink, ledger


def epoch(sink: AppendedFile, ledger: Ledger, number: int, *numbers: int) -> None:
    sink.write(rows(*numbers))
    sink.commit(number)
    ledger.write()


def found(folder: Path) -> list[int]:
    lines = (folder / "out.jsonl").read_text().splitlines()
    return [json.loads(line)["n"] for line in lines]


def test_epoch_by_epoch(tmp_path: Path) -> None:
    sink, ledger = opened(tmp_path)
    sink.write(rows(1))
    assert not (tmp_path / "out.jsonl").exists()
    epoch(sink, ledger, 1, 2)
    assert found(tmp_path) == [1, 2]
    epoch(sink, ledger, 2)
    epoch(sink, ledger, 3, 3)
    assert found(tmp_path) == [1, 2, 3]


def test_an_epoch_that_comes_again(tmp_path: Path) -> None:
    """The state of the run was not saved after the second epoch."""
    sink, ledger = opened(tmp_path)
    epoch(sink, ledger, 1, 1)
    epoch(sink, ledger, 2, 2, 3)
    sink, ledger = opened(tmp_path)
    epoch(sink, ledger, 2, 2)
    epoch(sink, ledger, 3, 3)
    assert found(tmp_path) == [1, 2, 3]


def test_the_first_epoch_comes_again(tmp_path: Path) -> None:
    epoch(*opened(tmp_path), 1, 1, 2)
    epoch(*opened(tmp_path), 1, 1)
    sink, ledger = opened(tmp_path)
    epoch(sink, ledger, 2, 2)
    assert found(tmp_path) == [1, 2]


def test_rows_that_nobody_noted(tmp_path: Path) -> None:
    sink, ledger = opened(tmp_path)
    epoch(sink, ledger, 1, 1)
    sink.write(rows(7, 8))
    sink.commit(2)  # killed before the ledger was written
    sink, ledger = opened(tmp_path)
    epoch(sink, ledger, 2, 2)
    assert found(tmp_path) == [1, 2]


def test_rows_that_were_not_saved_before_another_place_was_named(tmp_path: Path) -> None:
    """They come again there, so they must not stay here."""
    sink, ledger = opened(tmp_path)
    epoch(sink, ledger, 1, 1)
    epoch(sink, ledger, 2, 2)  # killed before the state was saved
    epoch(*opened(tmp_path, "other.jsonl"), 2, 2)
    assert found(tmp_path) == [1]
    assert (tmp_path / "other.jsonl").read_text() == '{"n": 2}\n'
    epoch(*opened(tmp_path), 3, 3)
    assert found(tmp_path) == [1, 3]


@pytest.mark.parametrize("first", ["out.jsonl", "out"])
def test_from_a_file_to_a_directory_and_back(first: str, tmp_path: Path) -> None:
    def kept(name: str) -> tuple[AppendedFile | PartFiles, Ledger]:
        if name != "out":
            return opened(tmp_path, name)
        ledger = Ledger(tmp_path / "outputs.json")
        path = tmp_path / name
        return PartFiles(path, OutputFormat.JSONL, ledger.owner, ledger, "rows"), ledger

    second = "out" if first != "out" else "out.jsonl"
    for name, number in ((first, 1), (first, 2), (second, 2), (first, 3)):
        sink, ledger = kept(name)
        sink.begin(rows().schema)
        sink.write(rows(number))
        sink.commit(number)
        ledger.write()
    parts = [part.name for part in sorted((tmp_path / "out").glob("part-*"))]
    numbers = [1, 3] if first == "out" else [2]
    assert parts == [f"part-0000000{number}.jsonl" for number in numbers]
    assert found(tmp_path) == ([2] if first == "out" else [1, 3])


def test_a_kill_between_creating_a_file_and_noting_it(tmp_path: Path) -> None:
    sink, _ = opened(tmp_path)
    sink.write(rows(1))
    sink.prepare(1)  # the ledger has not been written since
    assert (tmp_path / "out.jsonl").exists()
    with pytest.raises(SinkError, match="is there already"):
        AppendedFile(
            tmp_path / "out.jsonl", OutputFormat.JSONL, Ledger(tmp_path / "others.json"), "rows"
        )
    epoch(*opened(tmp_path), 1, 1)
    assert found(tmp_path) == [1]
    assert {each.name for each in tmp_path.iterdir()} == {"out.jsonl", "outputs.json"}


def test_a_kill_between_noting_and_writing(tmp_path: Path) -> None:
    """Of what was noted, nothing or a part may be there."""
    sink, ledger = opened(tmp_path)
    epoch(sink, ledger, 1, 1)
    for written in (0, 5):
        sink, ledger = opened(tmp_path)
        sink.write(rows(2, 3))
        sink.prepare(2)
        ledger.write()
        with (tmp_path / "out.jsonl").open("ab") as file:
            file.write(b'{"n": 2}'[:written])
    epoch(*opened(tmp_path), 2, 2)
    assert found(tmp_path) == [1, 2]


def test_file_systems_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "link", refuse)
    epoch(*opened(tmp_path), 1, 1)
    epoch(*opened(tmp_path), 2, 2)
    assert found(tmp_path) == [1, 2]
    with pytest.raises(SinkError, match="is there already"):
        AppendedFile(
            tmp_path / "out.jsonl", OutputFormat.JSONL, Ledger(tmp_path / "others.json"), "rows"
        )
    assert {each.name for each in tmp_path.iterdir()} == {"out.jsonl", "outputs.json"}


def test_a_ledger_of_an_earlier_version(tmp_path: Path) -> None:
    """Its marks were noted after the rows were written: there may be more of them."""
    epoch(*opened(tmp_path), 1, 1)
    path = tmp_path / "outputs.json"
    content = read_json(path)
    assert content is not None
    output = content["outputs"]["rows"]
    for added in ("kind", "ahead", "former"):
        del output[added]
    write_json(path, content | {"format": 2})
    with (tmp_path / "out.jsonl").open("a") as file:
        file.write('{"n": 7}\n')
    epoch(*opened(tmp_path), 2, 2)
    assert found(tmp_path) == [1, 2]


def test_the_header_of_a_csv_comes_once(tmp_path: Path) -> None:
    sink, ledger = opened(tmp_path, "out.csv")
    epoch(sink, ledger, 1)
    assert (tmp_path / "out.csv").read_text() == "n\n"
    sink, ledger = opened(tmp_path, "out.csv")
    epoch(sink, ledger, 2, 1)
    epoch(sink, ledger, 3, 2)
    assert (tmp_path / "out.csv").read_text() == "n\n1\n2\n"


def test_other_columns_in_a_csv(tmp_path: Path) -> None:
    epoch(*opened(tmp_path, "out.csv"), 1, 1)
    sink = AppendedFile(
        tmp_path / "out.csv", OutputFormat.CSV, Ledger(tmp_path / "outputs.json"), "rows"
    )
    with pytest.raises(SinkError, match="has the columns n, and the rows have m, n"):
        sink.begin(pa.schema([("m", pa.int64()), ("n", pa.int64())]))


def test_a_file_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("mine\n")
    with pytest.raises(SinkError, match="is there already"):
        opened(tmp_path)
    assert (tmp_path / "out.jsonl").read_text() == "mine\n"


def test_a_file_that_was_moved_with_its_checkpoint(tmp_path: Path) -> None:
    """Both, and what was not noted is cut off as it would have been."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    sink, ledger = opened(before)
    epoch(sink, ledger, 1, 1)
    epoch(sink, ledger, 2, 2)
    sink.write(rows(7))
    sink.commit(3)
    before.rename(after)
    epoch(*opened(after), 3, 3)
    assert found(after) == [1, 2, 3]
    epoch(*opened(after), 4, 4)
    assert found(after) == [1, 2, 3, 4]


@pytest.mark.parametrize("epochs", [0, 1, 2])
def test_a_file_that_was_copied_with_its_checkpoint(epochs: int, tmp_path: Path) -> None:
    """Both go on; a file without rows is nobody else's either."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    sink, ledger = opened(before)
    sink.commit(1)
    ledger.write()
    for number in range(epochs):
        epoch(sink, ledger, 2 + number, number)
    shutil.copytree(before, after)
    for folder in (before, after):
        epoch(*opened(folder), 2 + epochs, epochs)
        epoch(*opened(folder), 3 + epochs, epochs + 1)
        assert found(folder) == list(range(epochs + 2))


def test_the_empty_file_of_another(tmp_path: Path) -> None:
    """Of two checkpoints that have written nothing yet: whoever comes first takes it."""
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        sink, ledger = opened(folder)
        sink.commit(1)
        ledger.write()
        if folder == one:  # killed before its rows were written
            sink.write(rows(1, 2, 3))
            sink.prepare(2)
            ledger.write()
    place = one / "out.jsonl"

    def taken() -> tuple[AppendedFile, Ledger]:
        ledger = Ledger(other / "outputs.json")
        sink = AppendedFile(place, OutputFormat.JSONL, ledger, "rows")
        sink.begin(rows().schema)
        return sink, ledger

    epoch(*taken(), 2, 7)
    with pytest.raises(SinkError, match="is not the file that this checkpoint has written"):
        opened(one)
    epoch(*taken(), 3, 8)
    assert found(one) == [7, 8]


def test_the_empty_file_of_another_for_one_who_has_a_directory(tmp_path: Path) -> None:
    sink, ledger = opened(tmp_path)
    sink.commit(1)
    ledger.write()
    others = Ledger(tmp_path / "others.json")
    parts = PartFiles(tmp_path / "out", OutputFormat.JSONL, others.owner, others, "rows")
    parts.commit(1)
    with pytest.raises(SinkError, match="knows nothing of it: its rows are in"):
        AppendedFile(tmp_path / "out.jsonl", OutputFormat.JSONL, others, "rows")


@pytest.mark.parametrize("name", ["out.jsonl", "out"])
def test_a_copy_that_goes_on_elsewhere(name: str, tmp_path: Path) -> None:
    """It leaves alone what the first one has written since."""

    def kept(ledger: Path, name: str) -> tuple[AppendedFile | PartFiles, Ledger]:
        known = Ledger(ledger)
        if name.endswith(".jsonl"):
            return AppendedFile(tmp_path / name, OutputFormat.JSONL, known, "rows"), known
        path = tmp_path / name
        return PartFiles(path, OutputFormat.JSONL, known.owner, known, "rows"), known

    def wrote(ledger: Path, name: str, number: int) -> None:
        sink, known = kept(ledger, name)
        sink.begin(rows().schema)
        sink.write(rows(number))
        sink.commit(number)
        known.write()

    first, second = tmp_path / "outputs.json", tmp_path / "copy.json"
    wrote(first, name, 1)
    shutil.copy(first, second)
    wrote(first, name, 2)
    wrote(second, "elsewhere", 2)
    parts = sorted((tmp_path / "out").glob("part-*"))
    assert len(parts) == 2 if name == "out" else found(tmp_path) == [1, 2]


def test_another_file_where_the_checkpoint_was_moved_to(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    epoch(*opened(before), 1, 1)
    (before / "outputs.json").rename(after / "outputs.json")
    (after / "out.jsonl").write_text('{"n": 2}\n')
    with pytest.raises(SinkError, match=r"knows nothing of it: its rows are in .*before"):
        opened(after)
    assert found(after) == [2]


@pytest.mark.parametrize("left", [None, 3])
def test_a_file_that_was_taken_away_or_cut(left: int | None, tmp_path: Path) -> None:
    sink, ledger = opened(tmp_path)
    epoch(sink, ledger, 1, 1)
    epoch(sink, ledger, 2)
    if left is None:
        (tmp_path / "out.jsonl").unlink()
    else:
        (tmp_path / "out.jsonl").write_text("xxx")
    with pytest.raises(SinkError, match=r"had 9 bytes when the checkpoint was saved"):
        opened(tmp_path)
    sink, ledger = opened(tmp_path, "other.jsonl")  # where the rows go on
    epoch(sink, ledger, 3, 2)
    assert (tmp_path / "other.jsonl").read_text() == '{"n": 2}\n'


def test_a_file_that_was_taken_away_after_its_first_epoch(tmp_path: Path) -> None:
    epoch(*opened(tmp_path), 1, 1)
    (tmp_path / "out.jsonl").unlink()
    with pytest.raises(SinkError, match=r"had 9 bytes when the checkpoint was saved"):
        epoch(*opened(tmp_path), 2, 2)


def test_a_checkpoint_that_was_set_back(tmp_path: Path) -> None:
    sink, ledger = opened(tmp_path)
    for number in range(5):
        epoch(sink, ledger, number, number)
    sink, ledger = opened(tmp_path)
    with pytest.raises(SinkError, match="is ahead of the checkpoint"):
        epoch(sink, ledger, 2, 2)
    assert found(tmp_path) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ["out.parquet", "out.table"])
def test_formats_that_end(name: str, tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="cannot be gone on with"):
        opened(tmp_path, name)


def test_a_ledger_that_was_edited(tmp_path: Path) -> None:
    epoch(*opened(tmp_path), 1, 1)
    ledger = tmp_path / "outputs.json"
    content = json.loads(ledger.read_text())
    content["outputs"]["rows"]["marks"][-1][1] -= 1
    ledger.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match="its checksum does not fit"):
        opened(tmp_path)
