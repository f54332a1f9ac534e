"""IDLE AFTER: sub-sources that have been silent for too long no longer hold back the others."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

from penstock.model.arrays import Ints
from penstock.model.clock import Clock
from penstock.model.progress import Delay, ProgressPolicy
from penstock.model.punctuation import BEGINNING, Bound
from penstock.promises.running_bounds import RunningBounds
from penstock.state.chunks import Tree


class IdleSubSources:
    """Who of a live source spoke when.

    A silent sub-source is left out of the bound of the whole.  When it speaks again it comes back
    like a newcomer.  If all of them are silent, the bound of the whole moves on with the clock.
    """

    def __init__(self, bounds: RunningBounds, policy: ProgressPolicy, clock: Clock) -> None:
        assert policy.idle_after is not None
        self._bounds = bounds
        self._clock = clock
        self._idle_after = policy.idle_after
        self._delay = policy.rule.ticks if isinstance(policy.rule, Delay) else 0
        self._heard: dict[Hashable, int] = {}  # when, the longest silence first
        self._last = clock.now()

    def heard(self, keys: list[Hashable], codes: Ints) -> None:
        """Some sub-sources are about to speak."""
        self._last = now = self._clock.now()
        spoken = keys if len(keys) == 1 else [keys[code] for code in np.unique(codes).tolist()]
        for key in spoken:
            self._heard.pop(key, None)
            self._heard[key] = now

    def forget(self, key: Hashable) -> None:
        """Nobody waits for it anyway."""
        self._heard.pop(key, None)

    def look(self) -> None:
        """Leave out the sub-sources that are silent while others speak."""
        now = self._clock.now()
        while len(self._heard) > 1:
            key = next(iter(self._heard))
            if now - self._heard[key] < self._idle_after:
                break
            del self._heard[key]
            self._bounds.leave_out(key)

    def wait(self, high: Bound) -> None:
        """Nobody speaks.  What is promised after a silence: the highest value so far, moved on with
        the clock, less the delay; by the clock alone if nobody has ever spoken."""
        self.look()
        now = self._clock.now()
        silence = now - self._last
        if silence < self._idle_after:
            return
        reached = now if high == BEGINNING else int(high) + silence
        self._bounds.raise_to(reached - self._delay)

    def due(self) -> int:
        """When to look next: somebody may have been silent for long enough, or all of them are."""
        heard = next(iter(self._heard.values())) if len(self._heard) > 1 else self._last
        return min(heard, self._last) + self._idle_after

    def begin_anew(self, keys: Iterable[Hashable]) -> None:
        """Nobody could be heard while nothing ran, which is no silence of theirs."""
        self._last = now = self._clock.now()
        self._heard = dict.fromkeys(keys, now)

    def save(self) -> Tree:
        return {"heard": [[key, when] for key, when in self._heard.items()], "last": self._last}

    def load(self, saved: Tree) -> None:
        self._heard = {() if key == [] else key: when for key, when in saved["heard"]}
        self._last = saved["last"]
