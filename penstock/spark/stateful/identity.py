"""Whose state it is, in the state itself: every bucket of every stage says so before it is read.

Whatever wrote a checkpoint, with or without Penstock's own files beside it, another query finds out
before it has taken anything in, and its micro-batch fails before it is committed.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import CheckpointError
from penstock.plan.identity.belonging import (
    check_algorithms,
    check_buckets,
    check_format,
    check_query,
)
from penstock.plan.identity.identity import without_windows
from penstock.state.chunks import FORMAT, ChunkStore, required

_CHUNK = "identity"
_WHERE = "the state in Spark's checkpoint"


@dataclass(frozen=True, slots=True)
class StateIdentity:
    plan: tuple[str, ...]
    algorithms: tuple[str, ...]
    stage: int  # which one of the plan, from 1 on
    buckets: int

    def write(self, store: ChunkStore, operator: str | None = None) -> None:
        """`operator` is the kind of operator that the state is of."""
        store.put(
            _CHUNK,
            {
                "format": FORMAT,
                "plan": self.plan,
                "algorithms": self.algorithms,
                "stage": self.stage,
                "buckets": self.buckets,
                "operator": operator,
            },
        )

    def owns(self, store: ChunkStore) -> bool:
        """Whether there is state, which then is this query's: otherwise it is an error."""
        found = store.get(_CHUNK)
        if found is None:
            if list(store.names()):
                raise CheckpointError(
                    f"{_WHERE} was made by an earlier version of Penstock: it does not say whose "
                    "it is",
                    hint="run it with the version that wrote it; or another checkpoint",
                )
            return False
        check_format(found["format"], FORMAT, _WHERE)
        check_query(found["plan"], list(self.plan), _WHERE)
        of, own = list(found["algorithms"]), list(self.algorithms)
        if found.get("operator") is not None:  # then it moves, if need be
            of, own = without_windows(of), without_windows(own)
        check_algorithms(of, own, _WHERE)
        check_buckets(found["buckets"], self.buckets, _WHERE)
        if found["stage"] != self.stage:
            raise CheckpointError(
                f"{_WHERE} is that of stage {found['stage']}, where stage {self.stage} looks for "
                "its own",
                hint="restore the checkpoint, or delete its directory to begin anew",
            )
        return True

    def operator(self, store: ChunkStore) -> str | None:
        """The kind of operator that the state is of, if it says so."""
        found = required(store, _CHUNK).get("operator")
        return None if found is None else str(found)
