"""What stands in the brackets of a window, before any name is looked up."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import Span
from penstock.language.syntax.names import Quantity


@dataclass(frozen=True, slots=True)
class Attribute:
    """`ts`, `M1.ts`, `row-num` (no column) or `rank(ts)`."""

    column: exp.Expr | None
    ranked: bool
    span: Span


@dataclass(frozen=True, slots=True)
class WindowClause:
    """The brackets: what was written, in whatever order."""

    span: Span
    range: Quantity | None = None
    range_all: bool = False
    tumbling: bool = False
    slide: Quantity | None = None
    attribute: Attribute | None = None
    range_attribute: Attribute | None = None
    slide_attribute: Attribute | None = None
    partition: tuple[exp.Expr, ...] = ()
    origin: exp.Expr | None = None
    gap: Quantity | None = None
    longest: Quantity | None = None
    offset: Quantity | None = None  # how far from the origin windows begin, as peers write it
    by_start: bool = False  # windows start, not end, at multiples of the slide, as those of peers
