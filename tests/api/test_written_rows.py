"""VALUES in FROM and checkpoints: a run goes on with the same rows, and with no others."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.errors import CheckpointError

STREAM = "CREATE STREAM s (k INT, t INT) FROM FILES 's.csv' PROGRESS ON t ORDERED;"
SQL = STREAM + "SELECT place, t FROM s JOIN (VALUES (1, '{}'), (2, 'yard')) AS v (k, place)"


def run(folder: Path, place: str) -> list[str]:
    query = ps.connect(base=folder).sql(f"{SQL.format(place)} ON v.k = s.k")
    assert isinstance(query, ps.Query)
    query.run(folder / "rows.csv", checkpoint=folder / "kept")
    return (folder / "rows.csv").read_text().splitlines()


def test_a_run_goes_on_with_the_same_rows(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("k,t\n1,1\n3,2\n")
    assert run(tmp_path, "hall") == ["place,t", "hall,1"]
    with (tmp_path / "s.csv").open("a") as file:
        file.write("2,3\n1,4\n")
    with pytest.raises(CheckpointError, match="VALUES"):
        run(tmp_path, "cellar")
    assert run(tmp_path, "hall") == ["place,t", "hall,1", "yard,3", "hall,4"]
    assert run(tmp_path, "hall") == ["place,t", "hall,1", "yard,3", "hall,4"]
