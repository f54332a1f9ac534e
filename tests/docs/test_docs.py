"""Run every example of README.md and docs/, and look for every file and link they name.

What the fenced blocks of a page mean:

* `sql` is a script.  The `text` block right below it is what `penstock run` prints for it: first
  the rows, then what goes to standard error.  Without a `text` block it prepares the examples that
  follow it, up to the next heading of level two: they find its streams and queries.  What stands
  above the first heading of level two prepares the whole page.
* `python` is a session with prompts, compared as doctest compares.  Its names live as long as the
  page.
* `console` holds commands after `$ `, each followed by what it prints.  The commands are
  `penstock …` and `cat FILE`.
* A block with a name behind the language, such as `csv packets.csv`, is a file for the examples.
* `sh` holds commands for the reader that are not run: `make` with targets of the Makefile,
  `pip install` of this folder with extras that there are, and examples that are there.
* `ebnf` is grammar and `plain` a drawing; they are not run.

Every page starts in an empty directory.  A page without an example that was run fails.

Run as a program, this file writes the outputs of `sql` and `console` blocks anew.  Read the
difference before you believe it.
"""

from __future__ import annotations

import contextlib
import difflib
import doctest
import io
import os
import re
import runpy
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from penstock.api import spark_execution
from penstock.api.database import Database
from penstock.api.execution import ENGINES
from penstock.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SQL = DOCS / "sql"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(SQL.glob("*.md"))]
DECISIONS = sorted((DOCS / "decisions").glob("*.md"))  # not all of them have examples
OTHERS = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md")]
# pages with examples that need it
ON_SPARK = {DOCS / "life-of-a-query.md", DOCS / "spark.md", SQL / "command.md"}

_FENCE = re.compile(r"```(\S*) ?(.*)")
_LANGUAGES = {"sql", "text", "python", "console", "sh", "csv", "json", "ebnf", "plain"}
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*(?:/|\.(?:py|md|toml|txt|sql|csv|jsonl?|parquet))")


@dataclass(frozen=True)
class Block:
    language: str
    name: str
    first: int  # the number of its first line within the page, from 0
    lines: tuple[str, ...]
    section: int  # how many headings of level two are above it

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def end(self) -> int:
        """The number of the line that closes it."""
        return self.first + len(self.lines)


def blocks_and_prose(page: str) -> tuple[list[Block], list[str]]:
    """The fenced blocks of a page, and its other lines (empty where a block was)."""
    blocks: list[Block] = []
    prose: list[str] = []
    opened: tuple[str, str, int] | None = None
    inside: list[str] = []
    section = 0
    for number, line in enumerate(page.splitlines()):
        fence = _FENCE.fullmatch(line)
        if opened is None and fence:
            opened, inside = (fence[1], fence[2], number + 1), []
        elif opened is None:
            section += line.startswith("## ")
        elif line == "```":
            blocks.append(Block(*opened, tuple(inside), section))
            opened = None
        else:
            inside.append(line)
        prose.append(line if opened is None and not fence else "")
    assert opened is None, f"the block that begins in line {opened[2]} is not closed"
    return blocks, prose


@dataclass
class Example:
    """Something that was run, with what the page says about it and what came out."""

    block: Block
    expected: str
    actual: str

    def __str__(self) -> str:
        if not self.expected:
            return self.actual
        lines = difflib.unified_diff(
            self.expected.splitlines(), self.actual.splitlines(), "page", "run", lineterm="", n=99
        )
        return f"line {self.block.first + 1}:\n" + "\n".join(list(lines)[3:])


@dataclass
class Session:
    """Runs the blocks of one page, in a directory of its own."""

    directory: Path
    examples: list[Example] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    prepared: list[str] = field(default_factory=list)
    prepared_for_all: list[str] = field(default_factory=list)  # above the first section
    section: int = 0

    def run(self, page: str) -> None:
        blocks, prose = blocks_and_prose(page)
        for block, after in zip_longest(blocks, blocks[1:]):
            if block.section != self.section:
                if self.section == 0:
                    self.prepared_for_all = self.prepared
                self.section, self.prepared = block.section, [*self.prepared_for_all]
            answered = (
                after is not None
                and after.language == "text"
                and not any(line.strip() for line in prose[block.end + 1 : after.first - 1])
            )
            with contextlib.chdir(self.directory):
                self._run(block, after if answered else None)

    def _run(self, block: Block, answer: Block | None) -> None:
        match block.language:
            case _ if block.language not in _LANGUAGES:
                self._complain(block, f"{block.language!r} is not a language of the pages")
            case _ if block.name:
                Path(block.name).parent.mkdir(parents=True, exist_ok=True)
                Path(block.name).write_text(block.text, encoding="utf-8")
            case "sql" if answer is not None:
                Path("example.sql").write_text(block.text, encoding="utf-8")
                printed = self.penstock(["run", "example.sql"])
                self.examples.append(Example(answer, answer.text, printed))
            case "sql":
                self.prepared.append(block.text)
                if any(result is not None for result in Database().script(self._preparation())):
                    self._complain(block, "a query without the text that it prints")
            case "console":
                self.examples.append(Example(block, block.text, self._console(block)))
            case "python":
                self.examples.append(Example(block, "", self._python(block)))
            case "sh":
                self._shell(block)
            case "csv" | "json":
                self._complain(block, "data without the name of a file")

    def _preparation(self) -> str:
        return "".join(self.prepared)

    def _database(self, *arguments: Any, **options: Any) -> Database:
        """What `penstock run` sees instead of an empty database."""
        database = Database(*arguments, **options)
        for text in self.prepared:
            database.sql(text)
        return database

    def penstock(self, arguments: list[str]) -> str:
        """What the command prints: standard output, then standard error."""
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            contextlib.suppress(SystemExit),
            mock.patch.object(sys, "argv", ["penstock", *arguments]),
            mock.patch("penstock.cli.main.Database", self._database),
        ):
            main()
        return out.getvalue() + err.getvalue()

    def _console(self, block: Block) -> str:
        printed = []
        for line in block.lines:
            if not line.startswith("$ "):
                continue
            printed.append(f"{line}\n")
            match shlex.split(line[2:]):
                case ["penstock", *arguments]:
                    printed.append(self.penstock(arguments))
                case ["cat", name]:
                    printed.append(Path(name).read_text(encoding="utf-8"))
                case _:
                    self._complain(block, f"the pages do not run {line[2:]!r}")
        return "".join(printed)

    def _python(self, block: Block) -> str:
        """What doctest complains about."""
        test = doctest.DocTestParser().get_doctest(
            block.text, self.names, f"line {block.first}", "page", block.first
        )
        if not test.examples:
            self._complain(block, "Python without prompts")
        complaints: list[str] = []
        doctest.DocTestRunner(verbose=False).run(test, out=complaints.append, clear_globs=False)
        self.names = test.globs
        return "".join(complaints)

    def _shell(self, block: Block) -> None:
        for line in block.lines:
            command = shlex.split(line, comments=True)
            if command and not _is_known(command):
                self._complain(block, f"{line!r} does not work")

    def _complain(self, block: Block, what: str) -> None:
        self.problems.append(f"line {block.first}: {what}")


def _is_known(command: list[str]) -> bool:
    match command:
        case ["make", target]:
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            return target in re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
        case ["pip", "install", *_, place]:
            project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
                "project"
            ]
            extras = re.fullmatch(r"\.(?:\[([a-z,]+)\])?", place)
            asked = set((extras[1] or "").split(",")) - {""} if extras else {place}
            return asked <= project["optional-dependencies"].keys()
        case ["python", path] | ["penstock", "run", path, *_]:
            return (ROOT / path).exists()
    return False


def wrong_examples(page: str, directory: Path) -> list[str]:
    """What is wrong with the examples of a page."""
    session = Session(directory)
    session.run(page)
    if not session.examples:
        session.problems.append("no example was run")
    wrong = [str(each) for each in session.examples if each.expected != each.actual]
    return session.problems + wrong


def broken_references(page: str, place: Path) -> list[str]:
    """Links and file names of a page that lead nowhere; `place` is where the page stands."""
    blocks, prose = blocks_and_prose(page)
    own = {block.name for block in blocks if block.name}
    own |= set(re.findall(r"--(?:output|late|rejected) (\S+)", page))
    broken = []
    for number, line in enumerate(prose, start=1):
        for target, anchor in _LINK.findall(_CODE.sub("", line)):
            path = (place.parent / target).resolve() if target else place
            if "://" in target or not path.exists():
                broken.append(f"line {number}: no file {target}")
            elif anchor and anchor not in _anchors(path.read_text() if target else page):
                broken.append(f"line {number}: no heading {target}#{anchor}")
        for name in _CODE.findall(line):
            places = (ROOT, ROOT / "penstock", place.parent)
            there = name in own or any((directory / name).exists() for directory in places)
            if _PATH.fullmatch(name) and not there:
                broken.append(f"line {number}: no file {name}")
    return broken


def _anchors(page: str) -> Iterator[str]:
    for line in blocks_and_prose(page)[1]:
        if line.startswith("#"):
            heading = line.lstrip("#").strip().lower()
            yield re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def assert_right(page: Path, directory: Path) -> None:
    wrong = wrong_examples(page.read_text(encoding="utf-8"), directory)
    assert not wrong, "\n\n".join([name_of(page), *wrong])


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ON_SPARK], ids=name_of)
def test_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError(f"{name_of(page)} uses Spark, and is not listed in ON_SPARK")

    monkeypatch.setattr(spark_execution, "session", refuse)
    assert_right(page, tmp_path)


@pytest.mark.parametrize("page", [page for page in PAGES if page in ON_SPARK], ids=name_of)
def test_examples_on_spark(page: Path, tmp_path: Path, spark: Any) -> None:
    """In the session of the tests, which they find as they would find any that is there."""
    assert_right(page, tmp_path)


@pytest.mark.parametrize("page", OTHERS, ids=name_of)
def test_pages_without_examples(page: Path, tmp_path: Path) -> None:
    assert wrong_examples(page.read_text(encoding="utf-8"), tmp_path) == ["no example was run"]


@pytest.mark.parametrize("page", DECISIONS, ids=name_of)
def test_decisions(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    wrong = [each for each in wrong_examples(text, tmp_path) if each != "no example was run"]
    assert not wrong, "\n\n".join([page.name, *wrong])


def test_the_index_of_decisions_lists_all_of_them() -> None:
    index = (ROOT / "docs" / "decisions" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"\| (\d{3}) \| \[.+\]\((\1-[\w-]+\.md)\) \|", index)
    pages = [page for page in DECISIONS if page.name != "index.md"]
    assert sorted(name for _, name in listed) == [page.name for page in pages]
    for page in pages:
        headings = [line for line in page.read_text().splitlines() if line.startswith("## ")]
        assert headings == ["## Context", "## Decision", "## Consequences"], page.name


@pytest.mark.parametrize("page", [*PAGES, *DECISIONS, *OTHERS], ids=name_of)
def test_references(page: Path) -> None:
    broken = broken_references(page.read_text(encoding="utf-8"), page)
    assert not broken, "\n".join([name_of(page), *broken])


def test_the_glossary_knows_the_engines_and_the_words_of_the_hosts() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    entries = {
        name.lower(): text
        for name, text in re.findall(r"^\*\*(.+?)\.\*\* (.*)$", page, re.MULTILINE)
    }
    assert all(f"`{engine}`" in entries["engine"] for engine in ENGINES)
    words = "physical plan, host, port, batch, bucket, stage, register, outlet, epoch, ledger"
    assert {*words.split(", "), "checkpoint", "operator", "sink"} <= entries.keys()


def test_the_life_of_a_query_goes_through_every_room() -> None:
    page = (ROOT / "docs" / "life-of-a-query.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\(\.\./penstock/([\w/]+)/\w+\.py\)", page))
    rooms = "cli api sql/parser sql/binder plan functions optimizer kernel expressions io model"
    hosts = "local/graph local/scheduling runs reference spark/tasks spark/stateful spark/run"
    for room in [*rooms.split(), *hosts.split()]:
        assert any(f"{place}/".startswith(f"{room}/") for place in named), room


def test_the_picture_shows_a_run() -> None:
    """What `scripts/draw_disorder.py` draws follows from the data alone."""
    drawing = runpy.run_path(str(ROOT / "scripts" / "draw_disorder.py"))
    drawn = drawing["draw"](drawing["run"]())
    assert drawn == (DOCS / "images" / "disorder.svg").read_text(encoding="utf-8")


def test_the_site_has_every_page() -> None:
    listed = set(
        re.findall(r"- (?:[^:\n]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    )
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    decisions = {page for page in pages if page.startswith("decisions/")}
    assert listed - {"index.md", "papers.md"} == pages - decisions - {"papers.md"}


def test_the_tables_of_the_reference_name_every_page() -> None:
    linked = {target for target, _ in _LINK.findall((SQL / "index.md").read_text(encoding="utf-8"))}
    assert {path.name for path in SQL.glob("*.md")} - {"index.md"} <= linked


def test_all_pages_are_there() -> None:
    names = {name_of(page) for page in PAGES}
    assert names >= {"README.md", "docs/sql/index.md", "docs/architecture.md", "docs/glossary.md"}


def test_the_layers_of_the_architecture_are_those_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["type"] == "layers")
    blocks, _ = blocks_and_prose((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    drawing = next(block.lines for block in blocks if block.language == "plain")
    drawn = [re.split(r" {2,}", line)[0] for line in drawing]
    assert drawn == [layer.replace("penstock.", "") for layer in contract["layers"]]


GOOD = """
## First

```sql
CREATE STREAM s (x INT) FROM VALUES (1);
```

```sql
SELECT x FROM s;
```

```text
x
─
1
(1 row)
```
"""


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        (GOOD, None),
        (GOOD.replace("1\n(", "2\n("), "-2\n+1"),
        (GOOD.replace("(1 row)", "(1 row)\n1 late tuple"), "-1 late tuple"),
        (GOOD.replace("```sql\nSELECT", "## Next\n\n```sql\nSELECT"), "no stream, table, view"),
        (
            GOOD.replace("## First\n\n", "").replace("```sql\nSELECT", "## Next\n\n```sql\nSELECT"),
            None,
        ),
        (GOOD.replace("```text", "Words.\n\n```text"), "a query without the text"),
        (GOOD.replace("```text", "```txt"), "'txt' is not a language"),
        ("Words, and no example.\n", "no example was run"),
        ("```sh\nmake coffee\n```\n", "'make coffee' does not work"),
        ("```python\n>>> 1 + 1\n3\n```\n", "Expected:\n    3\nGot:\n    2"),
        ("```python\n1 + 1\n```\n", "Python without prompts"),
        ("```csv a.csv\nx\n1\n```\n\n```console\n$ cat a.csv\nx\n1\n2\n```\n", "-2"),
        ("```console\n$ penstock run no.sql\n```\n", "+error: cannot read no.sql"),
    ],
)
def test_wrong_examples_are_found(page: str, complaint: str | None, tmp_path: Path) -> None:
    wrong = "\n".join(wrong_examples(page, tmp_path))
    assert wrong == "" if complaint is None else complaint in wrong


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        ("See [the design](docs/sql/index.md#pages) and `penstock/api/database.py`, `docs/`.", 0),
        ("See [the design](docs/nowhere.md).", 1),
        ("See [the design](docs/sql/types.md#nowhere).", 1),
        ("See [below](#nowhere).", 1),
        ("See `penstock/nowhere.py` and `nowhere/`.", 2),
        ("See [elsewhere](https://example.org/).", 1),
    ],
)
def test_broken_references_are_found(line: str, broken: int) -> None:
    assert len(broken_references(line, ROOT / "README.md")) == broken


def rewrite(page: Path) -> None:
    """Put what the examples print now into the page."""
    with tempfile.TemporaryDirectory() as directory:
        session = Session(Path(directory))
        session.run(page.read_text(encoding="utf-8"))
    lines = page.read_text(encoding="utf-8").splitlines()
    for example in reversed(session.examples):
        if example.block.language != "python":
            lines[example.block.first : example.block.end] = example.actual.splitlines()
    page.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("PENSTOCK_ENGINE", "local")  # as in the tests
    for each in [Path(name).resolve() for name in sys.argv[1:]] or [*PAGES, *DECISIONS]:
        rewrite(each)
