"""One run at a time on a checkpoint: a lock that the system lets go when its process ends."""

from __future__ import annotations

from pathlib import Path

from penstock.durable import lock


class CheckpointLock:
    """Held from when it is made until it is released, or nobody has it any more."""

    def __init__(self, directory: Path) -> None:
        """Of the checkpoint that the directory is in."""
        directory.mkdir(parents=True, exist_ok=True)
        self._file = lock(directory / "lock", f"the checkpoint {directory.parent}")

    def release(self) -> None:
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.release()
