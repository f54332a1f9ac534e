"""One run at a time on a checkpoint: a lock that the system lets go when its process ends."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.errors import EngineError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_NAME = "lock"


class CheckpointLock:
    """Held from when it is made until it is released, or nobody has it any more."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file: int | None = os.open(directory / _NAME, os.O_RDWR | os.O_CREAT, 0o666)
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.release()
            raise EngineError(
                f"the checkpoint {directory.parent} is in use by another run",
                expected="one run at a time",
                hint="wait for it, stop it, or take another --checkpoint",
            ) from None

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        self.release()
