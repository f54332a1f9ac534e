"""The parts of shared panes as they are saved: those that have something that pieces do not say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.operators.windows.shared.pane_part import PanePart
from penstock.plan.expressions import AggregateCall
from penstock.state.chunks import ChunkStore, Tree, Within, required


class SavedParts:
    def __init__(self) -> None:
        self._unsaved: dict[PanePart, None] = {}  # new ones, and those that tuples came to
        self._passed: dict[PanePart, None] = {}  # panes of theirs are gone from now on
        self._gone: list[PanePart] = []

    def touch(self, part: PanePart) -> None:
        """Something has come to it that no piece says, or other queries use it."""
        self._unsaved[part] = None

    def is_saved(self, part: PanePart) -> None:
        """It is as it was saved."""
        self._unsaved.pop(part, None)

    def forget_panes(self, parts: Iterable[PanePart]) -> None:
        """Those that no query needs any more."""
        for part in parts:
            if part.forget():
                self._passed[part] = None

    def without_users(self, parts: Sequence[PanePart]) -> list[PanePart]:
        """Let go of the parts that nobody uses any more; the others."""
        for part in parts:
            if not part.users:
                self._unsaved.pop(part, None)
                self._passed.pop(part, None)
                self._gone.append(part)
        return [part for part in parts if part.users]

    def save(self, store: ChunkStore, turn: int, numbers: Mapping[AggregateCall, int]) -> None:
        """Aggregates are known by their `numbers`."""
        for part in self._gone:
            own = _own(store, part.number)
            part.panes.drop_stored(own)
            own.drop("part")
        for part in self._passed:
            part.panes.save_gone(_own(store, part.number))
        for part in self._unsaved:
            own = _own(store, part.number)
            part.save(own, turn)
            own.put("part", _record(part, numbers))
        self._unsaved, self._passed, self._gone = {}, {}, []


def saved_parts(store: ChunkStore) -> dict[int, Tree]:
    """What a store says of parts, by their numbers."""
    names = [name.split("/") for name in store.names()]
    found = sorted(int(name[1]) for name in names if name[0] == "parts" and name[-1] == "part")
    return {number: required(_own(store, number), "part") for number in found}


def load_panes(part: PanePart, store: ChunkStore, places: Sequence[int] | None = None) -> None:
    """`places` are those of its aggregates among the ones that its panes were saved with, if these
    are others: some may have been of queries that are gone."""

    def chosen(saved: Tree) -> Tree:
        return {**saved, "parts": [saved["parts"][place] for place in places or ()]}

    part.panes.load(_own(store, part.number), None if places is None else chosen)


def drop_part(store: ChunkStore, number: int) -> None:
    """One whose queries are not there."""
    own = _own(store, number)
    for name in list(own.names()):
        own.drop(name)


def _record(part: PanePart, numbers: Mapping[AggregateCall, int]) -> Tree:
    users = {
        user.name: [numbers[each.call] for each in user.node.aggregates] for user in part.users
    }
    calls = [numbers[each.call] for each in part.calls]
    return {"pane": part.pane, "turn": part.turn, "users": users, "calls": calls}


def _own(store: ChunkStore, number: int) -> ChunkStore:
    return Within(store, f"parts/{number}/")
