"""How a run that is the last one closes what is open, and what that means for those after it.

Where a promise is enough, it is an ordinary punctuation beyond the highest tuple, and others can go
on from the checkpoint: tuples below the promise are late.  Otherwise the streams end, for good.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.errors import CheckpointError
from penstock.model.domain import Domain
from penstock.plan.closing import closing_reach, last_tick
from penstock.plan.query import QueryPlan
from penstock.runs.options import AVAILABLE_NOW
from penstock.spark.run.books import Books
from penstock.spark.sources.feeds import Feeds


@dataclass(frozen=True, slots=True)
class FinalClosing:
    """By a promise that many ticks beyond the highest tuple; None: by the end of the streams."""

    reach: int | None

    @staticmethod
    def of(query: QueryPlan, ends: bool) -> FinalClosing:
        """Where nobody goes on from the checkpoint anyway, the streams can as well end."""
        return FinalClosing(None if ends else closing_reach(query))

    def at_once(self, feeds: Feeds) -> None:
        """What can be said before the streams have been read: those that are fed end."""
        if self.reach is None:
            for name in feeds.own:
                feeds.by_name[name].end()

    def at_last(self, feeds: Feeds, books: Books) -> bool:
        """What is left to be said when they have been read; whether there is anything."""
        every = list(feeds.by_name.values())
        if self.reach is None:
            said = [feed.end() for feed in every]
        elif books.high is None:
            return False
        elif books.high + self.reach > min(map(last_tick, feeds.streams.values())):
            said = [feed.end() for feed in every]  # no value says such a promise
        else:
            said = [feed.promise(books.high + self.reach) for feed in every]
        return any(said)


def closed_before(feeds: Feeds, books: Books, checkpoint: Path, bounded: bool) -> str | None:
    """What a final run has left behind for those after it, in a sentence.  If nothing can go on, an
    error; a final run that was interrupted can be brought to its end."""
    if feeds.ending:
        if books.ended:
            raise CheckpointError(
                f"the checkpoint {checkpoint} was ended by a final run: nothing can go on from it",
                hint="another --checkpoint, or delete the directory to begin anew",
            )
        if not bounded:
            raise CheckpointError(
                f"the checkpoint {checkpoint} is being ended by a final run that was interrupted",
                expected=f"a run with the trigger {AVAILABLE_NOW}, which brings it to its end",
            )
        return "the checkpoint is being ended by a final run: what has come since is not read"
    promised = feeds.promised
    if promised is None:
        return None
    stream = next(each for each in feeds.streams.values() if each.progress is not None)
    text = Domain(stream.attribute.type).format(promised).replace(".000000Z", "Z")
    return f"the checkpoint was closed by a final run: rows below {text} are late"
