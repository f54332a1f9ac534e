"""What the outputs of a run held when it was last saved, so that a run that goes on goes on there.

A run with a checkpoint works in epochs.  At the end of each, its outputs are brought to disk and
noted here, and then the state of the run is saved.  After a crash in between, the state is one
epoch behind, and the outputs go back to what they held then.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.durable import read_json, write_json
from penstock.errors import CheckpointError

FORMAT = 1
_EPOCHS = 2  # that are remembered: the one that is being saved, and the one before it


@dataclass(frozen=True, slots=True)
class Mark:
    """How long an output was after an epoch."""

    epoch: int
    length: int


class Ledger:
    """The outputs of one checkpoint, by name; `owner` tells checkpoints apart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        found = read_json(path) or {"format": FORMAT, "owner": uuid.uuid4().hex, "outputs": {}}
        if found["format"] != FORMAT:
            raise CheckpointError(
                f"{path} has format {found['format']}, and this version of Penstock reads {FORMAT}",
                hint="run it with the version that wrote it, or a later one",
            )
        self.owner: str = found["owner"]
        self._outputs: dict[str, dict[str, Any]] = found["outputs"]
        self._changed = True  # since it was written

    @property
    def names(self) -> list[str]:
        return list(self._outputs)

    def marks(self, name: str, place: str) -> list[Mark]:
        """What is known of an output at a place, oldest first; nothing if it was elsewhere."""
        output = self._outputs.get(name)
        if output is None or output["place"] != place:
            return []
        return [Mark(*each) for each in output["marks"]]

    def columns(self, name: str, place: str) -> list[str] | None:
        output = self._outputs.get(name)
        return output["columns"] if output is not None and output["place"] == place else None

    def note(self, name: str, place: str, mark: Mark, columns: list[str] | None = None) -> None:
        """An output is on disk as far as a mark says."""
        kept = [each for each in self.marks(name, place) if each.epoch < mark.epoch]
        marks = [[each.epoch, each.length] for each in [*kept, mark][-_EPOCHS:]]
        known = columns or self.columns(name, place)
        self._outputs[name] = {"place": place, "columns": known, "marks": marks}
        self._changed = True

    def forget(self, name: str) -> str:
        """An output that belongs to nobody any more; where it was."""
        self._changed = True
        return str(self._outputs.pop(name)["place"])

    def write(self) -> None:
        """Before the state of the run is saved."""
        if not self._changed:
            return
        self._changed = False
        write_json(self._path, {"format": FORMAT, "owner": self.owner, "outputs": self._outputs})
