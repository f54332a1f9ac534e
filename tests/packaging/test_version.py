"""The version stands in one place, and the command says it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import penstock
from penstock.cli.main import main

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_command_says_it(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["penstock", option])
    with pytest.raises(SystemExit) as caught:
        main()
    assert not caught.value.code
    assert capsys.readouterr().out == f"penstock {penstock.__version__}\n"


def test_the_package_is_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "--version"], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"penstock {penstock.__version__}\n"), done.stderr


def test_the_project_takes_it_from_the_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in settings["project"]
    assert settings["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "penstock.__version__"}


def test_what_changed_is_told_for_this_version() -> None:
    assert f"\n## [{penstock.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
