"""What may be meant by what has been typed: words of the language, names of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from penstock.engine.live.altering import SETTINGS
from penstock.language.parsing.statements import SECOND_WORDS
from penstock.language.words import function_names, words
from penstock.model.duration import MICROSECONDS
from penstock.plan.catalog import Catalog

COMMANDS = (
    *(
        "\\finish",
        "\\help",
        "\\quit",
        "\\read",
        "\\schedule",
        "\\stall",
        "\\streams",
        "\\top",
        "\\unwatch",
        "\\wait",
        "\\watch",
    ),
)
_STARTS = ("ALTER", "CREATE", "DROP", "EXPLAIN", "SELECT", "SHOW", "SPLIT")
_BEFORE_RELATIONS = ("FROM", "JOIN", "SPLIT")
_OF_QUERIES = ("\\schedule", "\\stall", "\\unwatch", "\\wait", "\\watch")
_UNITS = tuple(f"{unit}S" for unit in reversed(MICROSECONDS))
_TOKEN = re.compile(r"\\?\w+(?:\.\w*)?|[^\s\w]")


def completions(before: str, catalog: Catalog) -> tuple[str, list[str]]:
    """The beginning of the last word, and what it may become: what is most likely comes first.

    >>> completions("CREATE STREAM s (k INT) PROG", Catalog())
    ('PROG', ['PROGRESS'])
    """
    statement = before.rpartition(";")[2]
    typed = re.search(r"\\?[\w.]*\Z", statement)
    assert typed is not None
    begun, earlier = typed.group(), _TOKEN.findall(statement[: typed.start()])
    if "." in begun:
        relation, _, column = begun.partition(".")
        return column, _beginning(column, _columns(catalog, _meant(relation, earlier)))
    return begun, _beginning(begun, _candidates(earlier, begun, catalog))


def _candidates(earlier: Sequence[str], begun: str, catalog: Catalog) -> Iterable[str]:
    if not earlier:
        return COMMANDS if begun.startswith("\\") else _STARTS
    last = earlier[-1]
    if len(earlier) == 1 and last.upper() in SECOND_WORDS:
        return SECOND_WORDS[last.upper()]
    queries = [name for name, _ in catalog.queries.values()]
    streams = [each.name for each in catalog.streams.values()]
    before = [each.upper() for each in earlier[-2:]]
    if earlier[0] in _OF_QUERIES or before in (["DROP", "QUERY"], ["ALTER", "QUERY"]):
        return queries
    if before in (["DROP", "STREAM"], ["DROP", "TABLE"]):
        return streams
    if earlier[0].upper() == "ALTER" and last.upper() == "SET":
        return [each.upper() for each in SETTINGS]
    if last.upper() in _BEFORE_RELATIONS:
        return [*streams, *queries]
    read = [each for each in earlier if each.casefold() in (*catalog.streams, *catalog.queries)]
    columns = [name for relation in read for name in _columns(catalog, relation)]
    if not read:  # SELECT comes before FROM
        known = (*catalog.streams, *catalog.queries)
        columns = [name for relation in known for name in _columns(catalog, relation)]
    relations = [*streams, *queries] if last == "," else []
    units = _UNITS if last.isdecimal() else ()
    return [*units, *columns, *relations, *words(), *function_names(), *catalog.aggregates]


def _meant(alias: str, earlier: Sequence[str]) -> str:
    """The relation that goes by another name: `packets AS p`, `packets p`."""
    for place, each in enumerate(earlier):
        if each.casefold() == alias.casefold() and place:
            before = earlier[place - 1]
            return earlier[place - 2] if before.upper() == "AS" and place > 1 else before
    return alias


def _columns(catalog: Catalog, relation: str) -> list[str]:
    key = relation.casefold()
    if key not in catalog.streams and key not in catalog.queries:
        return []
    return [field.name for field in catalog.relation(relation).schema]


def _beginning(begun: str, candidates: Iterable[str]) -> list[str]:
    """Those that begin so, in the case that the reader has chosen for words."""
    start = begun.casefold()
    found = [each for each in dict.fromkeys(candidates) if each.casefold().startswith(start)]
    lower = bool(begun) and begun == begun.lower()
    spoken = {*words(), *_UNITS}
    return [each.lower() if lower and each in spoken else each for each in found]
