"""Directories with a file for every epoch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import SinkError
from penstock.io.sinks.file_sinks import PartFiles
from penstock.io.sinks.output import OutputFormat
from penstock.io.sinks.sink import Ledger


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int64())})


def found(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.glob("part-*"))}


def test_an_epoch_again(tmp_path: Path) -> None:
    sink = PartFiles(tmp_path / "out", OutputFormat.JSONL, "me")
    for number in (1, 2):
        sink.write(rows(number))
        sink.commit(number)
    sink.commit(3)
    sink = PartFiles(tmp_path / "out", OutputFormat.JSONL, "me")
    sink.commit(2)  # this time nothing came out
    sink.write(rows(3))
    sink.commit(3)
    assert found(tmp_path / "out") == {
        "part-00000001.jsonl": '{"n": 1}\n',
        "part-00000003.jsonl": '{"n": 3}\n',
    }


def test_files_of_epochs_that_never_were(tmp_path: Path) -> None:
    sink = PartFiles(tmp_path, OutputFormat.JSONL, "me")
    for number in range(5):
        sink.write(rows(number))
        sink.commit(number)
    sink = PartFiles(tmp_path, OutputFormat.JSONL, "me")  # on a checkpoint that was set back
    sink.write(rows(9))
    sink.commit(2)
    assert list(found(tmp_path)) == [f"part-0000000{number}.jsonl" for number in range(3)]


def test_columns_that_differ(tmp_path: Path) -> None:
    """Late tuples of different operators."""
    sink = PartFiles(tmp_path, OutputFormat.JSONL, "me")
    sink.write(rows(1))
    sink.write(pa.RecordBatch.from_pydict({"m": ["x"]}))
    sink.commit(0)
    lines = found(tmp_path)["part-00000000.jsonl"].splitlines()
    assert lines == ['{"n": 1, "m": null}', '{"n": null, "m": "x"}']


def test_a_run_that_was_killed_before_its_first_epoch(tmp_path: Path) -> None:
    """It may not even have written down who it was."""
    PartFiles(tmp_path, OutputFormat.JSONL, "killed").write(rows(1))
    sink = PartFiles(tmp_path, OutputFormat.JSONL, "me")
    sink.write(rows(2))
    sink.commit(0)
    assert found(tmp_path) == {"part-00000000.jsonl": '{"n": 2}\n'}


def test_parts_that_a_kill_has_interrupted(tmp_path: Path) -> None:
    """Those of the owner; in the directory of another nothing is touched."""
    sink = PartFiles(tmp_path / "mine", OutputFormat.JSONL, "me")
    sink.write(rows(1))
    sink.commit(1)
    PartFiles(tmp_path / "yours", OutputFormat.JSONL, "you").commit(1)
    for name in ("mine", "yours"):
        for left in (".part-00000002.jsonl.x1_y", ".part-note", ".other"):
            (tmp_path / name / left).write_text("half")
    PartFiles(tmp_path / "mine", OutputFormat.JSONL, "me").commit(2)
    with pytest.raises(SinkError, match="holds results of another run"):
        PartFiles(tmp_path / "yours", OutputFormat.JSONL, "me")
    hidden = [
        sorted(each.name for each in (tmp_path / name).glob(".*")) for name in ("mine", "yours")
    ]
    assert hidden[0] == [".other", ".part-note"]
    assert hidden[1] == [".other", ".part-00000002.jsonl.x1_y", ".part-note"]


def test_two_who_begin_at_once(tmp_path: Path) -> None:
    first, second = (PartFiles(tmp_path, OutputFormat.JSONL, name) for name in ("me", "you"))
    first.commit(0)
    with pytest.raises(SinkError, match="holds results of another run"):
        second.commit(0)


def test_an_owner_is_known_before_anything_is_his(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "outputs.json")
    ledger.write()
    assert Ledger(tmp_path / "outputs.json").owner == ledger.owner


def test_the_directory_of_another(tmp_path: Path) -> None:
    sink = PartFiles(tmp_path, OutputFormat.JSONL, "me")
    sink.write(rows(1))
    sink.commit(0)
    with pytest.raises(SinkError, match="holds results of another run"):
        PartFiles(tmp_path, OutputFormat.JSONL, "you")
    (tmp_path / "_penstock.json").unlink()
    with pytest.raises(SinkError, match="holds results of another run"):
        PartFiles(tmp_path, OutputFormat.JSONL, "me")
