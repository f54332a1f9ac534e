"""Patterns of file names against `glob`, links, and walks that are stopped."""

from __future__ import annotations

import glob
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.io.sources.patterns import goes_by, matching

NAMES = ["a.csv", "b.csv", ".h.csv", "d/a.csv", "d/e/a.csv", "d/.x/a.csv", "e/f/g/b.csv", "[a].csv"]
PIECES = ["*", "**", "?.csv", "*.csv", "d", "e", "[ab].csv", "[!a].csv", ".*", "a.csv", "[[]a].csv"]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    for name in NAMES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n1\n")
    return root


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=4),
    start=st.sampled_from(["", "./", "d/../"]),
)
def test_the_same_as_glob(tree: Path, pieces: list[str], start: str) -> None:
    pattern = start + "/".join(pieces)
    if not glob.has_magic(pattern):
        return
    expected = {
        name
        for name in glob.glob(pattern, root_dir=tree, recursive=True)  # noqa: PTH207
        if not (tree / name).is_dir() and not name.endswith("/")  # a file is no directory
    }
    found = {each.name for each in matching(pattern, tree) if not each.is_directory}
    assert found == expected
    for name in found if not start else ():
        assert goes_by(Path(name).parts, Path(pattern).parts)


def test_links(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "in").symlink_to(tree / "d")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "a.csv").write_text("")

    def names(pattern: str) -> list[str]:
        return sorted({each.name for each in matching(pattern, tmp_path)})

    assert names("**/a.csv") == ["a.csv"]  # links to directories are not followed
    assert names("*/a.csv") == ["in/a.csv", "loop/a.csv"]  # but where a name is spelled
    assert names("in/*/a.csv") == ["in/e/a.csv"]
    assert names("g*") == ["gone"]


def test_a_directory_that_may_not_be_entered(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("/e"):
            raise PermissionError(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert {each.name for each in matching("**/*a.csv", tree)} == {"a.csv", "d/a.csv"}


def test_a_walk_that_is_stopped(tree: Path) -> None:
    asked = []

    def stopped() -> bool:
        asked.append(True)
        return len(asked) > 2

    everything = sum(1 for _ in matching("**", tree))
    assert sum(1 for _ in matching("**", tree, stopped)) < everything
    assert len(asked) == 3
