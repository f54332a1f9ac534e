"""What the outputs of a run held when it was last saved, so that a run that goes on goes on there.

A run with a checkpoint works in epochs.  At the end of each, what its outputs are going to hold is
noted here, then they are brought to disk, and then the state of the run is saved.  After a crash in
between, the state is one epoch behind, and the outputs go back to what they held then.  A file that
holds more than was noted has rows of somebody else.
"""

from __future__ import annotations

import uuid
from dataclasses import astuple, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from penstock.durable import read_json, write_json
from penstock.errors import CheckpointError

FORMAT = 3
_READ = (1, 2, FORMAT)  # marks of format 1 say only how long an output was
_EPOCHS = 2  # that are remembered: the one that is being saved, and the one before it


class Kind(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"


@dataclass(frozen=True, slots=True)
class Mark:
    """How long an output was after an epoch, and how it ended: a checksum of its last bytes, or as
    long as it has none, which file it is.  So a file is known that has been moved together with the
    checkpoint, and one that has been exchanged."""

    epoch: int
    length: int
    ending: str = ""


class Ledger:
    """The outputs of one checkpoint, by name; `owner` tells checkpoints apart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        found = read_json(path)
        self._changed = found is None  # since it was written
        self._is_written = found is not None
        found = found or {"format": FORMAT, "owner": uuid.uuid4().hex, "outputs": {}}
        if found["format"] not in _READ:
            raise CheckpointError(
                f"{path} has format {found['format']}, and this version of Penstock reads {FORMAT}",
                hint="run it with the version that wrote it, or a later one",
            )
        self.owner: str = found["owner"]
        self._outputs: dict[str, dict[str, Any]] = found["outputs"]

    @property
    def names(self) -> list[str]:
        return list(self._outputs)

    def __contains__(self, name: str) -> bool:
        return name in self._outputs

    def place(self, name: str) -> str | None:
        """Where an output was when it was noted last."""
        output = self._outputs.get(name)
        return None if output is None else output["place"]

    def kind(self, name: str) -> Kind:
        return Kind(self._outputs[name].get("kind", Kind.FILE))

    def is_ahead(self, name: str) -> bool:
        """Whether marks were noted before the output was written: then it holds no more than the
        last of them says.  Versions before format 3 have noted them afterwards."""
        return bool(self._outputs[name].get("ahead", False))

    def move(self, name: str, place: str) -> None:
        """An output is at another place now."""
        self._outputs[name]["place"] = place
        self._changed = True

    def marks(self, name: str, place: str) -> list[Mark]:
        """What is known of an output at a place, oldest first: where it is now, or was before; and
        nothing if it was never there."""
        if self.place(name) == place:
            return self.all_marks(name)
        former = self._former(name).get(place)
        return [] if former is None else [Mark(*former)]

    def all_marks(self, name: str) -> list[Mark]:
        """The same, wherever it is."""
        return [Mark(*each) for each in self._outputs.get(name, {}).get("marks", [])]

    def _former(self, name: str) -> dict[str, list[Any]]:
        """The places where an output was before, with how it was left there."""
        former: dict[str, list[Any]] = self._outputs.get(name, {}).get("former", {})
        return former

    def was_at(self, name: str, place: str) -> bool:
        """Whether an output is at a place, or was there before."""
        return self.place(name) == place or place in self._former(name)

    def columns(self, name: str, place: str) -> list[str] | None:
        return self._outputs[name]["columns"] if self.place(name) == place else None

    def note(
        self,
        name: str,
        place: str,
        mark: Mark,
        columns: list[str] | None = None,
        kind: Kind = Kind.FILE,
    ) -> None:
        """An output is going to be on disk as far as a mark says."""
        kept = [each for each in self.marks(name, place) if each.epoch < mark.epoch]
        marks = [astuple(each) for each in [*kept, mark][-_EPOCHS:]]
        known = columns or self.columns(name, place)
        former, left = dict(self._former(name)), self.place(name)
        if left is not None and left != place:
            former[left] = list(astuple(self.all_marks(name)[-1]))
        former.pop(place, None)
        self._outputs[name] = {
            "place": place,
            "kind": kind,
            "columns": known,
            "marks": marks,
            "ahead": True,
            "former": former,
        }
        self._changed = True

    def set_back(self, name: str, mark: Mark) -> None:
        """An output has been cut back, and holds what a mark says."""
        self._outputs[name] |= {"marks": [astuple(mark)], "ahead": True}
        self._changed = True

    def forget(self, name: str) -> tuple[Path, Kind, list[Mark]]:
        """An output that belongs to nobody any more; where it was, and what was known of it."""
        self._changed = True
        kind, marks = self.kind(name), self.all_marks(name)
        return Path(self._outputs.pop(name)["place"]), kind, marks

    def write(self) -> None:
        """Before an output says whose it is, because a run after a crash has to be the same owner;
        and before the state of the run is saved."""
        if not self._changed:
            return
        write_json(self._path, {"format": FORMAT, "owner": self.owner, "outputs": self._outputs})
        self._changed = False
        self._is_written = True

    def claim(self) -> str:
        """The owner, which is on disk from now on."""
        if not self._is_written:
            self.write()
        return self.owner
