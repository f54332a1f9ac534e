"""LIKE, ILIKE and regular expressions with constant patterns, each by the simplest kernel that
suffices.

In LIKE, % is any text, _ any character; a backslash escapes the next one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RunError
from penstock.expressions.columns import FAILURES, Builder, Kernel, arrow
from penstock.functions.regular_expressions import REGULAR_EXPRESSIONS as COMPUTE
from penstock.plan.expressions import Call, Literal

_PARTS = re.compile(r"\\.|%|_|[^\\%_]+|\\$", re.DOTALL)
_LAST_CASED = 0x1E943  # no letter after it has another case


class _Pattern(NamedTuple):
    """Texts with wildcards between them: `a_%b` is ("a", "b") with "_%" between."""

    texts: list[str]
    wildcards: list[str]


def _parse(pattern: str) -> _Pattern:
    r"""
    >>> _parse(r"%50\%_x")
    _Pattern(texts=['', '50%', 'x'], wildcards=['%', '_'])
    """
    texts, wildcards = [""], [""]
    for part in _PARTS.findall(pattern):
        if part not in ("%", "_"):
            texts[-1] += part[1:] if part[0] == "\\" and len(part) > 1 else part
            continue
        if texts[-1] or len(texts) == 1:
            texts.append("")
            wildcards.append("")
        wildcards[-1] += part
    # In a row, only the number of _ matters, and whether there is a %.
    runs = ["_" * run.count("_") + "%" * ("%" in run) for run in wildcards[1:]]
    return _Pattern(texts, runs)


def _like(ignoring_case: bool) -> Builder:
    def build(_: Call, literals: Sequence[Literal | None]) -> Kernel | None:
        if literals[1] is None:
            return None
        pattern = _parse(literals[1].value)
        kernel = None
        if not ignoring_case or not any(map(_has_case, pattern.texts)):
            kernel = _plain(pattern)
        kernel = kernel or _regular(pattern, ignoring_case)
        return kernel and (lambda texts, _: kernel(texts))

    return build


def _plain(pattern: _Pattern) -> Kernel | None:
    """Kernel without a regular expression, if there are no wildcards but % at the ends."""
    match pattern:
        case [text], []:
            equal, whole = arrow("equal"), pa.scalar(text)
            return lambda texts: equal(texts, whole)
        case [start, ""], ["%"]:
            return arrow("starts_with", pc.MatchSubstringOptions(start))
        case ["", end], ["%"]:
            return arrow("ends_with", pc.MatchSubstringOptions(end))
        case ["", middle, ""], ["%", "%"]:
            return arrow("match_substring", pc.MatchSubstringOptions(middle))
    return None


def _regular(pattern: _Pattern, ignoring_case: bool) -> Kernel | None:
    pieces = [_literally(pattern.texts[0], ignoring_case)]
    for wildcards, text in zip(pattern.wildcards, pattern.texts[1:], strict=True):
        pieces += [wildcards.replace("_", ".").replace("%", ".*"), _literally(text, ignoring_case)]
    kernel = arrow("match_substring_regex", pc.MatchSubstringOptions(rf"(?s)\A{''.join(pieces)}\z"))
    try:
        kernel(pa.array([""]))
    except FAILURES:  # too large for RE2
        return None
    return kernel


def _literally(text: str, ignoring_case: bool) -> str:
    if ignoring_case:
        return "".join(f"[{''.join(map(_escaped, _cases(character)))}]" for character in text)
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isalnum() else rf"\x{{{ord(character):x}}}"


# --- upper and lower case, as Python's re sees it ------------------------------------------------


def _has_case(text: str) -> bool:
    return any(len(_cases(character)) > 1 for character in text)


@cache
def _cases(character: str) -> str:
    """Characters that are equal when case is ignored: RE2 and Python do not agree on all of them.

    >>> _cases("k"), _cases("7")
    ('Kk\\u212a', '7')
    """
    found = re.findall(re.escape(character), _cased_characters(), re.IGNORECASE)
    return "".join(found) or character


@cache
def _cased_characters() -> str:
    every = map(chr, range(_LAST_CASED + 1))
    return "".join(each for each in every if each.lower() != each or each.upper() != each)


PATTERNS: dict[str, Builder] = {"like": _like(False), "ilike": _like(True)}


# Regular expressions on columns of texts, with constant patterns.


def _on_columns(name: str) -> Builder:
    compute = COMPUTE[name]

    def build(_: Call, literals: Sequence[Literal | None]) -> Kernel | None:
        texts, *constants = literals
        values = [literal.value for literal in constants if literal is not None]
        if texts is not None or len(values) < len(constants):
            return None
        try:
            compute(pa.array([""]), *values)
        except RunError:  # which the first text reports
            return None

        def kernel(column: pa.Array, *_: pa.Scalar) -> pa.Array:
            return compute(column, *values)

        return kernel

    return build


REGULAR_EXPRESSIONS: dict[str, Builder] = {name: _on_columns(name) for name in COMPUTE}
