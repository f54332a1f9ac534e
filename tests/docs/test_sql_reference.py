"""docs/sql.md leaves nothing out: functions, key words, types, formats, options and errors.

The tables of functions are checked row by row: the names and aliases of the catalogue, its
arguments, and an example `expression` → `value` that is computed over the stream of the section.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

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

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
GRAMMAR = "\n".join(re.findall(r"^```ebnf\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))

_ROW = re.compile(r"\| ((?:`\w+`(?:, )?)+) \| (.*?) \| .+ \| `(.+)` → `(.*)` \|")
_WORDS = {
    Family.ALIKE: "alike",
    Family.DOUBLE: "a number (as DOUBLE)",
    Family.ORDERED: "any type but BINARY",
}


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(title: str) -> dict[str, tuple[list[str], str, str, str]]:
    """By the name of the function: its aliases, arguments, example and value."""
    found = {}
    for line in section(title).splitlines():
        if match := _ROW.fullmatch(line):
            name, *others = re.findall(r"\w+", match[1])
            found[name] = (others, match[2], match[3], match[4])
    return found


def arguments(signature: Signature) -> str:
    words = [_WORDS.get(family, family.value) for family in signature.families]
    required = len(words) - signature.optional
    shown = words[:required] + [f"[{word}]" for word in words[required:]]
    return ", ".join(shown) + (", …" if signature.variadic else "")


KINDS: list[tuple[str, dict[str, Any], dict[str, str], str]] = [
    (
        "Scalar functions",
        dict(scalar_functions.SCALARS),
        scalar_functions.ALIASES,
        "SELECT {} AS v FROM one",
    ),
    (
        "Aggregate functions",
        dict(aggregate_functions.AGGREGATES),
        aggregate_functions.ALIASES,
        "SELECT {} AS v [RANGE 10, SLIDE 10, WA t] FROM five",
    ),
]
FUNCTIONS = [
    pytest.param(title, name, function, query, id=name)
    for title, functions, _, query in KINDS
    for name, function in functions.items()
]


@pytest.mark.parametrize(("title", "functions", "aliases", "_"), KINDS)
def test_every_name_has_its_row(
    title: str, functions: dict[str, Any], aliases: dict[str, str], _: str
) -> None:
    found = rows(title)
    assert list(found) == list(functions)
    assert {alias: name for name, row in found.items() for alias in row[0]} == aliases


@pytest.mark.parametrize(("title", "name", "function", "query"), FUNCTIONS)
def test_the_row_of_a_function_is_true(title: str, name: str, function: Any, query: str) -> None:
    _, said, example, value = rows(title)[name]
    assert said == arguments(function.signature)
    assert example.startswith(f"{name}(")
    database = penstock.connect()
    database.sql(section(title).split("```sql\n")[1].split("```")[0])
    answer = database.sql(query.format(example))
    assert isinstance(answer, penstock.Query)
    (computed,) = column_texts(answer.collect().column("v"))
    assert ("NULL" if computed is None else computed) == value


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
