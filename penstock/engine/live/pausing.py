"""Queries that are paused: their sources are held, so nothing is lost where a source can wait.

What has been read waits where it is.  Files and data of the program are simply not read on; sockets
and asynchronous rows wait as if somebody were slow, or are dropped if the engine was told to drop
what comes too fast.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.engine.graph.query_graph import QueryGraph
from penstock.errors import EngineError
from penstock.runs.outlet import Outlet

_SAID = {"true": True, "false": False}


def is_to_pause(text: str) -> bool:
    found = _SAID.get(text.strip().lower())
    if found is None:
        raise EngineError(f"{text!r} does not say whether to pause", expected="TRUE or FALSE")
    return found


def hold(
    graph: QueryGraph, outlets: Collection[Outlet], names: Mapping[Outlet, str], held: bool
) -> None:
    """Hold the sources of some queries, or let them go on.  Those that others read as well cannot
    be held for one and not for the other."""
    sources = {source: None for outlet in outlets for source in graph.queries[outlet].sources}
    for source in sources:
        others = [names[each] for each in source.outlets if each not in outlets]
        if others and source.held is not held:
            stream, verb = source.ingest.stream.name, "pause" if held else "resume"
            mine = [names[each] for each in outlets if each in source.outlets]
            shown = ", ".join(others[:3]) + (f" and {len(others) - 3:,} more" * (len(others) > 3))
            together = ", ".join(map(repr, (*mine, *others[:3])))
            raise EngineError(
                f"query {mine[0]} reads {stream} together with {shown}",
                expected=f"queries that share a reading to {verb} together",
                hint=f"live.{verb}({together}{', …' * (len(others) > 3)})",
            )
    for source in sources:
        source.held = held
