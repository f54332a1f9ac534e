"""How a run that is the last one closes what is open, and what that means for those after it.

Where a promise is enough, it is an ordinary punctuation beyond the highest tuple, and others can go
on from the checkpoint: tuples below the promise are late.  Otherwise the streams end, for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import CheckpointError
from penstock.model.domain import Domain
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties.closing import closing_reach, last_tick
from penstock.runs.options import AVAILABLE_NOW
from penstock.spark.run.books import Books, have_ended
from penstock.spark.sources.feeds import Feeds, streams_of


@dataclass(frozen=True, slots=True)
class FinalClosing:
    """By a promise to the streams of every query, so many ticks beyond their highest tuple; None:
    by the end of all streams."""

    reaches: tuple[int, ...] | None
    streams: tuple[frozenset[str], ...]

    @staticmethod
    def of(queries: Sequence[QueryPlan], ends: bool) -> FinalClosing:
        """Where nobody goes on from the checkpoint anyway, the streams can as well end."""
        found = [None if ends else closing_reach(query) for query in queries]
        reaches = [reach for reach in found if reach is not None]
        streams = tuple(frozenset(streams_of(query)) for query in queries)
        return FinalClosing(tuple(reaches) if len(reaches) == len(found) else None, streams)

    def at_once(self, feeds: Feeds) -> None:
        """What can be said before the streams have been read: those that are fed end."""
        if self.reaches is None:
            for name in feeds.own:
                feeds.by_name[name].end()

    def at_last(self, feeds: Feeds, books: Sequence[Books]) -> bool:
        """What is left to be said when they have been read; whether there is anything.  What one
        query needs of a stream, the others that read it get as well."""
        promised: dict[str, int] = {}
        beyond = False  # what any value can say
        for reach, streams, own in zip(self.reaches or (), self.streams, books, strict=False):
            if own.high is not None:
                bound = own.high + reach
                beyond = beyond or bound > min(last_tick(feeds.streams[each]) for each in streams)
                promised |= {each: max(bound, promised.get(each, bound)) for each in streams}
        if self.reaches is None or beyond:
            return _end(feeds)
        said = [feeds.by_name[name].promise(bound) for name, bound in promised.items()]
        return any(said)

    def left_open(self, feeds: Feeds, books: Sequence[Books]) -> bool:
        """End the streams if promises have left something open; whether that is new.  A result that
        has no value so far is an error then, as without a checkpoint."""
        return any(own.all.open_windows for own in books) and _end(feeds)


def _end(feeds: Feeds) -> bool:
    said = [feed.end() for feed in feeds.by_name.values()]
    return any(said)


def closed_before(
    feeds: Feeds, books: Sequence[Books], checkpoint: Path, bounded: bool
) -> str | None:
    """What a final run has left behind for those after it, in a sentence.  If nothing can go on, an
    error; a final run that was interrupted can be brought to its end."""
    if feeds.ending:
        if have_ended(books):
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
