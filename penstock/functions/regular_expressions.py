"""Regular expressions of RE2, as Arrow computes them: in time linear in the length of the text for
any pattern, and alike on all engines.

A single text is a column of one. Patterns and replacements are constants of a column.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RunError, shortened

_FLAGS = {"i": "i", "s": "s", "m": "m", "c": "", "g": ""}  # c is the default, and so is g
_TEXT = pa.string()


def matching(texts: pa.Array, pattern: str, flags: str = "") -> pa.BooleanArray:
    return _run(pc.match_substring_regex, texts, _flagged(pattern, flags))


def counted(texts: pa.Array, pattern: str, flags: str = "") -> pa.Array:
    return _run(pc.count_substring_regex, texts, _flagged(pattern, flags)).cast(pa.int64())


def extracted(texts: pa.Array, pattern: str, group: int = 0, flags: str = "") -> pa.Array:
    """Text that the group has matched, NULL where the pattern does not match; group 0 is the whole
    match.
    """
    named = _flagged(_with_one_group(pattern, group), flags)
    return pc.struct_field(_run(pc.extract_regex, texts, named), [0])


def replaced(texts: pa.Array, pattern: str, replacement: str, flags: str = "") -> pa.Array:
    r"""Replace all matches; `$1` and `\1` in the replacement stand for the match of the first
    group.
    """
    rewrite = rewrite_of(replacement)
    return _run(pc.replace_substring_regex, texts, _flagged(pattern, flags), replacement=rewrite)


def at_most_replaced(
    texts: pa.Array, pattern: str, replacement: str, flags: str = ""
) -> npt.NDArray[np.int64]:
    """Upper bound on the bytes of `replaced`: every match becomes the replacement, in which a
    group may be the whole text.
    """
    rewrite = rewrite_of(replacement)
    groups = sum(each.isdigit() for each in re.findall(r"\\\\(.)", rewrite))
    matches: npt.NDArray[np.int64] = counted(texts, pattern, flags).fill_null(0).to_numpy()
    sizes: npt.NDArray[np.int64] = pc.binary_length(texts).fill_null(0).cast(pa.int64()).to_numpy()
    most: npt.NDArray[np.int64] = sizes * (1 + groups) + matches * len(rewrite.encode())
    return most


REGULAR_EXPRESSIONS: dict[str, Callable[..., pa.Array]] = {
    "regexp_like": matching,
    "regexp_count": counted,
    "regexp_extract": extracted,
    "regexp_replace": replaced,
}


def on_one_text(name: str) -> Callable[..., Any]:
    compute = REGULAR_EXPRESSIONS[name]
    return lambda text, *constants: compute(pa.array([text], _TEXT), *constants)[0].as_py()


def _run(function: Callable[..., pa.Array], texts: pa.Array, pattern: str, **options: Any) -> Any:
    try:
        return function(texts, pattern=pattern, **options)
    except pa.ArrowInvalid as error:
        reason = str(error).partition(": ")[2] or str(error)
        raise RunError(f"{shortened(reason)} is not a regular expression of RE2") from None


@lru_cache(256)
def _flagged(pattern: str, flags: str) -> str:
    unknown = [each for each in flags if each not in _FLAGS]
    if unknown:
        raise RunError(
            f"{unknown[0]!r} is no flag of a regular expression", expected="i, m, s, c or g"
        )
    known = "".join(dict.fromkeys(_FLAGS[each] for each in flags))
    return f"(?{known}){pattern}" if known else pattern


def groups_of(pattern: str) -> int:
    """Number of groups of a pattern.

    >>> groups_of(r"(a)(?:b)[(](?P<name>c)\\(")
    2
    """
    return _split(pattern)[1]


@lru_cache(256)
def _with_one_group(pattern: str, group: int) -> str:
    """Rewrite a pattern so that it captures one group only: Arrow wants names for all.

    >>> _with_one_group("(a)|(b)", 2)
    '(?:a)|(?P<found>b)'
    """
    parts, groups = _split(pattern)
    if not 0 <= group <= groups:
        raise RunError(
            f"there is no group {group} in the regular expression {shortened(pattern)}",
            expected=f"0 to {groups}",
        )
    opening: dict[int | None, str] = {None: "", group: "(?P<found>"}
    whole = "".join(text + opening.get(number, "(?:") for text, number in parts)
    return whole if group else f"(?P<found>{whole})"


@lru_cache(256)
def _split(pattern: str) -> tuple[list[tuple[str, int | None]], int]:
    """Split a pattern where groups open: pairs of the text before and the number of the group, and
    the number of groups.
    """
    parts: list[tuple[str, int | None]] = []
    begin = place = groups = 0
    while place < len(pattern):
        match pattern[place]:
            case "\\" if pattern.startswith("\\Q", place):
                end = pattern.find("\\E", place)
                place = len(pattern) if end < 0 else end + 2
            case "\\":
                place += 2
            case "[":
                place = _after_class(pattern, place)
            case "(":
                named = pattern.startswith(("(?P<", "(?<"), place)
                if named or not pattern.startswith("(?", place):
                    groups += 1
                    parts.append((pattern[begin:place], groups))
                    end = pattern.find(">", place) if named else place
                    begin = place = (len(pattern) if end < 0 else end) + 1
                else:
                    place += 1
            case _:
                place += 1
    return [*parts, (pattern[begin:], None)], groups


def _after_class(pattern: str, place: int) -> int:
    place += 1 + pattern.startswith("^", place + 1)
    place += pattern.startswith("]", place)  # as the first of its characters
    while place < len(pattern) and pattern[place] != "]":
        named = pattern.find(":]", place) if pattern.startswith("[:", place) else -1
        place = named + 2 if named >= 0 else place + 1 + (pattern[place] == "\\")
    return place + 1


@lru_cache(256)
def rewrite_of(replacement: str) -> str:
    r"""Translate a replacement into the syntax of RE2.

    >>> print(rewrite_of(r"$1-\2 \$5 $"))
    \1-\2 $5 $
    """
    made, place = "", 0
    while place < len(replacement):
        one, two = replacement[place], replacement[place : place + 2]
        digit = two[1:].isascii() and two[1:].isdigit()
        place += 2 if one == "\\" or (one == "$" and digit) else 1
        if one == "\\":
            if not digit and two not in ("\\\\", "\\$"):
                raise RunError(
                    f"{two} means nothing in the replacement {shortened(replacement)}",
                    expected="\\1 or $1 for a group, \\\\ for a backslash, \\$ for a dollar",
                )
            made += "$" if two == "\\$" else two
        else:
            made += f"\\{two[1]}" if one == "$" and digit else one
    return made
