"""IDLE AFTER: sub-sources that have been silent for too long no longer hold back the others."""

from __future__ import annotations

from penstock.model.arrays import Codes
from penstock.model.clock import Clock
from penstock.model.progress import Delay, ProgressPolicy
from penstock.model.punctuation import BEGINNING, Bound
from penstock.promises.last_heard import LastHeard
from penstock.promises.running_bounds import RunningBounds
from penstock.state.chunks import ChunkStore, required


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
        self._heard = LastHeard()
        self._last = clock.now()

    def heard(self, codes: Codes) -> None:
        """Some sub-sources, each named once, are about to speak."""
        self._last = self._clock.now()
        self._heard.put(codes, self._last)

    def forget(self, codes: Codes) -> None:
        """Nobody waits for them anyway."""
        self._heard.drop(codes)

    def look(self) -> None:
        """Leave out the sub-sources that are silent while others speak."""
        now = self._clock.now()
        while len(self._heard) > 1 and now - self._heard.longest_silence >= self._idle_after:
            silent = self._heard.most_silent()
            if len(silent) == len(self._heard):
                silent = silent[:-1]  # somebody is waited for, even if all are silent
            self._heard.drop(silent)
            self._bounds.leave_out(silent)

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
        heard = self._heard.longest_silence if len(self._heard) > 1 else self._last
        return min(heard, self._last) + self._idle_after

    def begin_anew(self) -> None:
        """Nobody could be heard while nothing ran, which is no silence of theirs."""
        self._last = self._clock.now()
        self._heard = LastHeard()
        self._heard.put(self._bounds.known, self._last)

    def save(self, store: ChunkStore) -> None:
        store.put("last", self._last)
        self._heard.save(store)

    def load(self, store: ChunkStore) -> None:
        self._last = required(store, "last")
        self._heard.load(store)
