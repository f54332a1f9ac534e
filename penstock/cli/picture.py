"""A table of a graph that is drawn again and again: rates are those of about the last second."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from time import monotonic
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live as LiveDisplay

from penstock.cli.graph_tables import graph_tables
from penstock.cli.stopping import EndingError
from penstock.engine.status import GraphStatus

_EVERY = 4  # pictures in a second
_LONG = 120  # characters of a line, where nobody says how long it may be
_LATELY = 1.0  # seconds that rates are of


class Picture:
    def __init__(self, look: Callable[[], GraphStatus], console: Console) -> None:
        self._look = look
        self._console = console
        self._earlier: list[tuple[float, GraphStatus]] = []
        self._last = Group()

    def __call__(self) -> Group:
        try:
            now, told = monotonic(), self._look()
        except RuntimeError:  # what it looks at has changed meanwhile: the next picture is soon
            return self._last
        self._earlier.append((now, told))
        while len(self._earlier) > 2 and now - self._earlier[1][0] >= _LATELY:
            del self._earlier[0]
        before = self._earlier[0][1]
        lately = told.since(before) if before is not told else told
        self._last = graph_tables(told, lately, self._console.width)
        return self._last

    def whole(self) -> Group:
        """Of all the time."""
        return graph_tables(self._look(), width=self._console.width)


@contextmanager
def drawing(picture: Picture, console: Console) -> Iterator[None]:
    """Draw it, on a terminal, as long as something lasts."""
    with LiveDisplay(
        console=console,
        get_renderable=picture,
        refresh_per_second=_EVERY,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ):
        yield


def draw_until_stopped(picture: Picture, console: Console) -> None:
    """Until Ctrl-C; what was seen last stays."""
    try:
        with drawing(picture, console):
            Event().wait()
    except EndingError:
        raise
    except KeyboardInterrupt:
        console.print(picture())


def wide_console(out: TextIO | None = None) -> Console:
    """Where it is no terminal, lines may be long."""
    out = out or sys.stdout
    return Console(file=out) if out.isatty() else Console(file=out, width=_LONG)
