"""Hints after SELECT: how windows and joins are to be computed."""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.errors import BindError, Span, nearest
from penstock.language.syntax.names import Name
from penstock.plan.algorithms import Algorithm, JoinAlgorithm


class Hints(NamedTuple):
    """One algorithm of each kind at most."""

    window: Algorithm | None = None
    join: JoinAlgorithm | None = None
    span: Span | None = None


def bind_hints(hint: Name | None) -> Hints:
    """`/*+ WID */`, `/*+ OPOB */`, or one of each with a comma between them."""
    if hint is None:
        return Hints()
    found = Hints(span=hint.span)
    for word in re.split(r"[\s,]+", hint.text.upper()):
        if word in Algorithm.__members__ and found.window is None:
            found = found._replace(window=Algorithm[word])
        elif word in JoinAlgorithm.__members__ and found.join is None:
            found = found._replace(join=JoinAlgorithm[word])
        else:
            raise _unknown(word, hint)
    return found


def refuse_useless(hints: Hints, windows: bool, joins: bool) -> None:
    """A hint that nothing in the query can follow."""
    if hints.window is not None and not windows:
        raise BindError("the hint is for an aggregate over a window", span=hints.span)
    if hints.join is not None and not joins:
        raise BindError("the hint is for a join of streams", span=hints.span)


def _unknown(word: str, hint: Name) -> BindError:
    windows, joins = list(Algorithm.__members__), list(JoinAlgorithm.__members__)
    if word in windows or word in joins:
        return BindError("there are two hints for the same", span=hint.span)
    close = nearest(word, [*windows, *joins])
    return BindError(
        f"{word!r} is not an algorithm",
        span=hint.span,
        expected=f"one of {', '.join(windows)} for windows, {', '.join(joins)} for joins",
        hint=f"/*+ {close[0]} */" if close else None,
    )
