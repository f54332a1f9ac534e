"""Warnings about queries that are allowed and hardly meant: once for each place, when a statement
has been bound.

They go to the logger `penstock`, as what a run says about rejected rows does."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from penstock.errors import BindError, Span

_LOG = logging.getLogger("penstock")
_found: ContextVar[dict[tuple[str, Span | None], BindError] | None] = ContextVar(
    "penstock_warnings", default=None
)


def warn(message: str, span: Span | None, hint: str) -> None:
    """Remember a warning; an expression may be bound several times."""
    found = _found.get()
    if found is not None:
        found.setdefault((message, span), BindError(message, span=span, hint=hint))


@contextmanager
def said_at_the_end() -> Iterator[None]:
    """Log the warnings of a statement; those of its sub-queries are among them."""
    if _found.get() is not None:
        yield
        return
    found: dict[tuple[str, Span | None], BindError] = {}
    token = _found.set(found)
    try:
        yield
    finally:
        _found.reset(token)
    for each in found.values():
        _LOG.warning("warning: %s", each)
