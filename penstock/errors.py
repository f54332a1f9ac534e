"""All errors that Penstock raises on purpose, and how they point at the mistake in the SQL text.

One base class, one subclass per stage. A message says what was found; `expected` says what would
have been right, `hint` what to try; `span` places a caret once the SQL text is known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters in an SQL text, with the text itself where it is known: a
    plan may be built from several."""

    start: int
    end: int
    text: str | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not a span: {self.start}..{self.end}")


_LONGEST = 5_000  # characters of a part of a message; names and texts in it may be of any length


class PenstockError(Exception):
    """The base of all errors that a user can cause."""

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.expected = expected
        self.hint = hint
        self.text: str | None = None

    def with_text(self, text: str) -> PenstockError:
        """Remember the SQL text for a span that does not know its own; the innermost wins."""
        if self.text is None:
            self.text = text
        return self

    def __str__(self) -> str:
        lines = [shortened(self.message, _LONGEST)]
        if self.span is not None:
            text = self.span.text if self.span.text is not None else self.text
            if text is not None:
                lines += _excerpt(text, self.span)
        if self.expected:
            lines.append(f"  expected: {shortened(self.expected, _LONGEST)}")
        if self.hint:
            lines.append(f"  try: {shortened(self.hint, _LONGEST)}")
        return "\n".join(lines)


class ParseError(PenstockError):
    """The text is not a statement of the dialect."""


class BindError(PenstockError):
    """A name, a type or a clause does not fit what is known about the streams."""


class PlanError(PenstockError):
    """A plan node is configured in a way that has no meaning."""


class SourceError(PenstockError):
    """A source cannot be read, or does not hold what its stream declares.

    Names of files may hold any character; in a message they are one line."""

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        message, expected = one_line(message), expected and one_line(expected)
        super().__init__(message, span=span, expected=expected, hint=hint and one_line(hint))


class RunError(PenstockError):
    """An expression has no answer for a tuple (overflow, a cast that fails)."""


class CheckpointError(PenstockError):
    """A checkpoint cannot be written, or does not fit the run that restores it."""


class SinkError(PenstockError):
    """Results cannot be written where they should go."""


class EngineError(PenstockError):
    """The chosen engine cannot run the query."""


def nearest(
    name: str, candidates: Iterable[str], limit: int = 3, cutoff: float = 0.65
) -> list[str]:
    """Return the candidates that are most similar to `name`, best first, ignoring case."""
    by_folded = {candidate.casefold(): candidate for candidate in candidates}
    close = difflib.get_close_matches(name.casefold(), list(by_folded), n=limit, cutoff=cutoff)
    return [by_folded[key] for key in close]


def one_line(text: str) -> str:
    """Escape everything in the text that a terminal would interpret as a control character.

    >>> one_line("a\\nb\\x1b[2J.csv")
    'a\\\\nb\\\\x1b[2J.csv'
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def shortened(text: str, width: int = 200) -> str:
    """Cut a text to a width that fits a message."""
    return text if len(text) <= width else text[: width - 1] + "…"


def described(value: object) -> str:
    """Describe a value of the wrong kind for a message: its type, and its text.

    >>> described(5), described([1]), described(None)
    ('the int 5', 'the list [1]', 'None')
    """
    if value is None or isinstance(value, bool):
        return repr(value)
    return f"the {type(value).__name__} {shortened(repr(value), 60)}"


_WIDTH = 120


def _excerpt(text: str, span: Span) -> list[str]:
    """The line that `span` starts in, cut to a readable width, with a caret line below it."""
    start = min(span.start, len(text))
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    line_number = text.count("\n", 0, start) + 1
    column = start - line_start
    width = max(1, min(span.end, line_end) - start)

    line = text[line_start:line_end].replace("\t", " ").rstrip("\r")
    left = max(0, column - _WIDTH // 2) if len(line) > _WIDTH else 0
    shown = line[left : left + _WIDTH]
    lead = "…" if left else ""
    tail = "…" if left + _WIDTH < len(line) else ""
    caret_at = len(lead) + column - left
    width = min(width, max(1, len(lead) + len(shown) - caret_at))
    gutter = f"  {line_number} | "
    return [
        f"  at line {line_number}, column {column + 1}:",
        gutter + lead + shown + tail,
        " " * (len(gutter) + caret_at) + "^" * width,
    ]
