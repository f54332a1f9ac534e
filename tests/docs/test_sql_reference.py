"""docs/sql/ leaves nothing out: functions, key words, types, formats, options and errors.

The tables of functions are generated from the catalogue: names, aliases and arguments come from
there, values are computed over the stream of the page.  A page says in words of its own what a
function gives, and which expression is its example.  A function without a row gets one, with the
line that the catalogue has about it and no example; write one, and run this file again.

Run as a program, this file writes the tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

import penstock
from penstock.cli.main import app
from penstock.functions import aggregate_functions, scalar_functions
from penstock.functions.signatures import Family, Signature
from penstock.io.sinks.output import OutputFormat
from penstock.io.sinks.sink import column_texts
from penstock.io.sources.files import _ENDINGS, FileFormat
from penstock.io.sources.rejects import RejectKind
from penstock.model.durations import MICROSECONDS
from penstock.plan.algorithms import Algorithm
from penstock.sql.binder.literals import TYPE_NAMES
from penstock.sql.parser import statements as progress_clause
from penstock.sql.parser.parser import WINDOW_PARTS

SQL = Path(__file__).resolve().parents[2] / "docs" / "sql"
PAGE = "\n".join(path.read_text(encoding="utf-8") for path in sorted(SQL.glob("*.md")))
GRAMMAR = "\n".join(re.findall(r"^```ebnf\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))

_ROW = re.compile(r"\| ((?:`\w+`(?:, )?)+) \| (.*?) \| (.+) \| (?:`(.+)` → `(.*)`)? ?\|")
_HEAD = "arguments | result | example |\n|---|---|---|---|\n"
_WORDS = {
    Family.ALIKE: "alike",
    Family.DOUBLE: "a number (as DOUBLE)",
    Family.ORDERED: "any type but BINARY",
}


class Row(NamedTuple):
    aliases: list[str]
    arguments: str
    about: str
    example: str
    value: str


@dataclass(frozen=True)
class FunctionPage:
    """A page with tables of functions, each below the heading of its part of the catalogue."""

    name: str
    parts: dict[str, dict[str, Any]]  # functions by name, by the heading; "" is the page itself
    aliases: dict[str, str]
    query: str  # over the stream of the page, around an example

    @property
    def text(self) -> str:
        return (SQL / self.name).read_text(encoding="utf-8")

    @property
    def functions(self) -> dict[str, Any]:
        return {name: each for part in self.parts.values() for name, each in part.items()}

    def rows(self) -> dict[str, Row]:
        found = {}
        for line in self.text.splitlines():
            if match := _ROW.fullmatch(line):
                name, *others = re.findall(r"\w+", match[1])
                found[name] = Row(others, match[2], match[3], match[4] or "", match[5] or "")
        return found

    def value(self, example: str) -> str:
        database = penstock.connect()
        database.sql(self.text.split("```sql\n")[1].split("```")[0])
        answer = database.sql(self.query.format(example))
        assert isinstance(answer, penstock.Query)
        (computed,) = column_texts(answer.collect().column("v"))
        return "NULL" if computed is None else computed

    def line(self, name: str, row: Row | None, value: str) -> str:
        """The row of a table that the catalogue asks for."""
        function = self.functions[name]
        names = [name, *(alias for alias, meant in self.aliases.items() if meant == name)]
        about, example = (row.about, row.example) if row else (function.about, "")
        shown = f"`{example}` → `{value}` |" if example else "|"
        called = ", ".join(f"`{each}`" for each in names)
        return f"| {called} | {arguments(function.signature)} | {about} | {shown}"

    def generated(self) -> str:
        """The page with its tables as the catalogue and the engine have them now."""
        text, found = self.text, self.rows()
        for heading, functions in self.parts.items():
            begin = text.index(f"\n## {heading}\n") if heading else 0
            begin = text.index(_HEAD, begin) + len(_HEAD)
            end = text.index("\n\n", begin) + 1
            lines = []
            for name in functions:
                row = found.get(name)
                lines.append(self.line(name, row, self.value(row.example) if row else ""))
            text = text[:begin] + "".join(f"{line}\n" for line in lines) + text[end:]
        return text


def arguments(signature: Signature) -> str:
    words = [_WORDS.get(family, family.value) for family in signature.families]
    required = len(words) - signature.optional
    shown = words[:required] + [f"[{word}]" for word in words[required:]]
    return ", ".join(shown) + (", …" if signature.variadic else "")


def _part(entries: Iterable[tuple[Any, ...]]) -> dict[str, Any]:
    return {entry[0]: scalar_functions.SCALARS[entry[0]] for entry in entries}


SCALARS = FunctionPage(
    "functions.md",
    {
        "Texts": _part(scalar_functions.TEXTS),
        "Numbers": _part(scalar_functions.NUMBERS),
        "Times": _part(scalar_functions.TIMES),
        "NULLs and choices": _part(scalar_functions.CHOICES),
        "Arrays and maps": _part(scalar_functions.NESTED_SIGNATURES),
    },
    scalar_functions.ALIASES,
    "SELECT {} AS v FROM one",
)
AGGREGATES = FunctionPage(
    "aggregates.md",
    {"": dict(aggregate_functions.AGGREGATES)},
    aggregate_functions.ALIASES,
    "SELECT {} AS v [RANGE 10, SLIDE 10, WA t] FROM five",
)
FUNCTION_PAGES = [
    pytest.param(SCALARS, id="scalar functions"),
    pytest.param(AGGREGATES, id="aggregates"),
]
FUNCTIONS = [
    pytest.param(page, name, id=name) for page in (SCALARS, AGGREGATES) for name in page.functions
]


@pytest.mark.parametrize("page", FUNCTION_PAGES)
def test_every_function_of_the_catalogue_has_its_row(page: FunctionPage) -> None:
    found = page.rows()
    assert list(found) == list(page.functions)
    assert {alias: name for name, row in found.items() for alias in row.aliases} == page.aliases


def test_every_part_of_the_catalogue_has_its_table() -> None:
    assert list(SCALARS.functions) == list(scalar_functions.SCALARS)


@pytest.mark.parametrize(("page", "name"), FUNCTIONS)
def test_the_row_of_a_function_is_generated(page: FunctionPage, name: str) -> None:
    row = page.rows()[name]
    assert row.example.startswith(f"{name}("), "write an example, and run this file"
    assert page.line(name, row, page.value(row.example)) in page.text.splitlines()


def test_the_grammar_has_every_word_of_the_parser() -> None:
    statements = "CREATE DROP EXPLAIN SELECT STREAM QUERY DISTINCT FROM WHERE GROUP BY HAVING"
    relations = "JOIN INNER UNION ALL EXCEPT ON SEQUENCE THEN MODE RECENT CHRONICLE WITHIN"
    others = "WINDOW LATE SIDE AMEND EMIT EARLY EVERY IN ORDER FILTER TUMBLING ROWS IF EXISTS"
    wanted = {*progress_clause._WORDS, *WINDOW_PARTS}
    wanted |= set(f"{statements} {relations} {others}".split())
    assert wanted - set(re.findall(r"[A-Z]+", GRAMMAR)) == set()


@pytest.mark.parametrize(
    "name",
    [
        *TYPE_NAMES.split(", "),
        *(f"{unit}S" for unit in MICROSECONDS),
        *(each.value for each in FileFormat),
        *_ENDINGS,
        *(each.value for each in OutputFormat),
        *(each.value for each in RejectKind),
        *(f"/*+ {each.name} */" for each in Algorithm),
        *(error.__name__ for error in penstock.PenstockError.__subclasses__()),
        *(
            option
            for parameter in typer.main.get_command(app).commands["run"].params
            for option in (*parameter.opts, *parameter.secondary_opts)
            if option.startswith("--")
        ),
        *(f"penstock {command}" for command in ("run", "explain", "demo")),
    ],
)
def test_is_named(name: str) -> None:
    assert re.search(rf"`{re.escape(name)}[` ]", PAGE)


if __name__ == "__main__":
    for each in (SCALARS, AGGREGATES):
        (SQL / each.name).write_text(each.generated(), encoding="utf-8")
