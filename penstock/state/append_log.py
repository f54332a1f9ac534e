"""Tuples that wait, as chunks: what comes is appended, what has been passed is dropped.

An operator may sort, join and cut the tuples that it keeps; the log does not follow.  It only knows
from which bound on nobody needs a piece any more, so a save never writes a piece twice.  What has
been passed within a piece, the operator sets aside again when it loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.model.punctuation import Bound
from penstock.state.chunks import ChunkStore, Tree, required


class AppendLog:
    """Nothing is held here until there has been a first save, which asks for all that is kept."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._used = False
        self._pending: list[tuple[Tree, Bound]] = []
        self._passed: Bound | None = None
        self._until: dict[int, Bound] = {}  # the chunks of the store: needed below this bound
        self._next = 0
        self._outdated = False

    def append(self, piece: Tree, until: Bound) -> None:
        """A piece that is needed while the bound is below `until`."""
        if self._used:
            self._pending.append((piece, until))

    def pass_(self, bound: Bound) -> None:
        """Forget the pieces that are not needed at a bound."""
        self._passed = bound
        self._pending = [each for each in self._pending if each[1] > bound]

    def begin_anew(self) -> None:
        """The pieces do not say any more what is kept: the next save asks for all of it."""
        self._used = False
        self._outdated = True
        self._pending = []

    def save(self, store: ChunkStore, kept: Callable[[], Iterable[tuple[Tree, Bound]]]) -> None:
        if not self._used:
            self._pending = list(kept())
            self._used = True
        gone = [
            number
            for number, until in self._until.items()
            if self._outdated or (self._passed is not None and until <= self._passed)
        ]
        for number in gone:
            store.drop(f"{self._name}/{number}")
            del self._until[number]
        if self._pending:
            until = max(bound for _, bound in self._pending)
            pieces = [piece for piece, _ in self._pending]
            store.put(f"{self._name}/{self._next}", {"until": until, "pieces": pieces})
            self._until[self._next] = until
            self._next += 1
        self._pending, self._outdated = [], False

    def load(self, store: ChunkStore) -> list[Tree]:
        """The pieces in the order in which they were appended."""
        prefix = f"{self._name}/"
        names = [name for name in store.names() if name.startswith(prefix)]
        numbers = sorted(int(name[len(prefix) :]) for name in names)
        pieces: list[Tree] = []
        for number in numbers:
            chunk = required(store, f"{prefix}{number}")
            self._until[number] = chunk["until"]
            pieces += chunk["pieces"]
        self._next = numbers[-1] + 1 if numbers else 0
        self._used = True
        return pieces
