"""The package and its documentation are written in the words of the field.

`CONTRIBUTING.md` says which; those listed here make a sentence hard to find and to understand.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AVOIDED = re.compile(
    r"\b(whoever|whomever|nobody|somebody|anybody|of ours|anew|beside|he|him|his"
    r"|looks? at what|what is there|as it is|shown to)\b",
    re.IGNORECASE,
)
CLAUSE = re.compile(r"(What|Of|Where|How|Which|Who|The same|It|Not|Than|Towards)\b")
MOST_CLAUSES = 60
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> list[Path]:
    return sorted((ROOT / "penstock").rglob("*.py"))


def documented(path: Path) -> Iterator[tuple[int, ast.AST, str | None]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, DOCUMENTED):
            yield getattr(node, "lineno", 1), node, ast.get_docstring(node)


def place(path: Path, line: int, text: str) -> str:
    return f"{path.relative_to(ROOT)}:{line}: {text.strip().splitlines()[0]}"


def test_docstrings() -> None:
    found = [
        place(path, line, text)
        for path in modules()
        for line, _, text in documented(path)
        if text and AVOIDED.search(text)
    ]
    assert not found, "\n".join(found)


def test_docstrings_are_sentences_or_name_their_subject() -> None:
    found = [
        place(path, line, text)
        for path in modules()
        for line, _, text in documented(path)
        if text and CLAUSE.match(text)
    ]
    assert len(found) <= MOST_CLAUSES, "\n".join(found)


def test_comments() -> None:
    found = [
        place(path, number, line)
        for path in modules()
        for number, line in enumerate(path.read_text().split("\n"), 1)
        if re.match(r"\s*#", line) and AVOIDED.search(line)
    ]
    assert not found, "\n".join(found)


def test_public_classes_say_what_they_are_for() -> None:
    found = [
        place(path, line, node.name)
        for path in modules()
        for line, node, text in documented(path)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not text
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_pages(page: Path) -> None:
    found = [
        place(page, number, line)
        for number, line in enumerate(page.read_text().split("\n"), 1)
        if AVOIDED.search(line)
    ]
    assert not found, "\n".join(found)
