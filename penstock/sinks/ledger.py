"""What the outputs of a run held when it was last saved, so that a run that goes on goes on there.

A run with a checkpoint works in epochs.  At the end of each, its outputs are brought to disk and
noted here, and then the state of the run is saved.  After a crash in between, the state is one
epoch behind, and the outputs go back to what they held then.
"""

from __future__ import annotations

import uuid
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from penstock.durable import read_json, write_json
from penstock.errors import CheckpointError

FORMAT = 2
_READ = (1, FORMAT)  # marks of format 1 say only how long an output was
_EPOCHS = 2  # that are remembered: the one that is being saved, and the one before it


@dataclass(frozen=True, slots=True)
class Mark:
    """How long an output was after an epoch, and a checksum of its last bytes: a file that has been
    moved together with the checkpoint is known by them."""

    epoch: int
    length: int
    ending: str = ""


class Ledger:
    """The outputs of one checkpoint, by name; `owner` tells checkpoints apart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        found = read_json(path)
        self._changed = found is None  # since it was written
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

    def move(self, name: str, place: str) -> None:
        """An output is at another place now."""
        self._outputs[name]["place"] = place
        self._changed = True

    def marks(self, name: str, place: str) -> list[Mark]:
        """What is known of an output at a place, oldest first; nothing if it was elsewhere."""
        return self.all_marks(name) if self.place(name) == place else []

    def all_marks(self, name: str) -> list[Mark]:
        """The same, wherever it was."""
        return [Mark(*each) for each in self._outputs.get(name, {}).get("marks", [])]

    def columns(self, name: str, place: str) -> list[str] | None:
        return self._outputs[name]["columns"] if self.place(name) == place else None

    def note(self, name: str, place: str, mark: Mark, columns: list[str] | None = None) -> None:
        """An output is on disk as far as a mark says."""
        kept = [each for each in self.marks(name, place) if each.epoch < mark.epoch]
        marks = [astuple(each) for each in [*kept, mark][-_EPOCHS:]]
        known = columns or self.columns(name, place)
        self._outputs[name] = {"place": place, "columns": known, "marks": marks}
        self._changed = True

    def forget(self, name: str) -> str:
        """An output that belongs to nobody any more; where it was."""
        self._changed = True
        return str(self._outputs.pop(name)["place"])

    def write(self) -> None:
        """Before an output says whose it is, because a run after a crash has to be the same owner;
        and before the state of the run is saved."""
        if not self._changed:
            return
        self._changed = False
        write_json(self._path, {"format": FORMAT, "owner": self.owner, "outputs": self._outputs})
