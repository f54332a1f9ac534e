"""Runs on an event loop: the work in a thread, sources and sinks of the program on its loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from penstock.api.running import Running
from penstock.runs.targets import Outcome
from penstock.sources.asynchronous import HOST
from penstock.sources.pumps import Host


async def drive_on_loop(running: Running) -> list[Outcome]:
    """Drive a run without holding up the loop; to cancel it is to stop it."""
    told = HOST.set(Host(asyncio.get_running_loop(), waits=True))
    try:
        work = asyncio.create_task(asyncio.to_thread(running.drive, beside=True))
    finally:
        HOST.reset(told)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        running.stop()
        await asyncio.wait([work])
        raise


def calling_on(
    loop: asyncio.AbstractEventLoop, function: Callable[[Any], object]
) -> Callable[[Any], object]:
    """The function as the thread of a run may call it: it runs on the loop, and is waited for."""

    async def call(argument: Any) -> None:
        outcome = function(argument)
        if inspect.isawaitable(outcome):
            await outcome

    @wraps(function)
    def hand_over(argument: Any) -> None:
        asyncio.run_coroutine_threadsafe(call(argument), loop).result()

    return hand_over
