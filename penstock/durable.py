"""Files that survive a crash: they appear whole or not at all, and say when they were changed."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from zlib import crc32

from penstock.errors import CheckpointError

_CHECK = "check"


def refuse_no_directory(path: Path) -> None:
    """What is to be a directory may be there or not, but neither it nor what it is in is a file."""
    for each in (path, *path.parents):
        if each.exists():
            if not each.is_dir():
                raise CheckpointError(f"{each} is not a directory", hint="name one for checkpoints")
            return


def write_whole(path: Path, content: bytes, sync: bool = True) -> None:
    """Replace a file at once; it is on disk when this returns, unless `sync` is of no use."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    beside.replace(path)
    if sync:
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """The names of files are on disk, too."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, content: Mapping[str, Any], sync: bool = True) -> None:
    """Write a record with a checksum."""
    text = json.dumps({**content, _CHECK: _checked(content)}, indent=1)
    write_whole(path, text.encode() + b"\n", sync)


def read_json(path: Path) -> dict[str, Any] | None:
    """A record that `write_json` wrote; None if it is not there."""
    try:
        content = json.loads(path.read_bytes())
        check = content.pop(_CHECK)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise _damaged(path, str(error) or "it is not what Penstock writes") from None
    if check != _checked(content):
        raise _damaged(path, "its checksum does not fit")
    return dict(content)


def _checked(content: Mapping[str, Any]) -> int:
    return crc32(json.dumps(content, sort_keys=True).encode())


def _damaged(path: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"{path} was damaged or edited: {why}",
        hint="restore the checkpoint from a copy, or begin anew with another one",
    )


def lock(path: Path, what: str) -> IO[bytes]:
    """Hold a lock as long as the file is open; the system lets go of it when the process dies."""
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise CheckpointError(
            f"{what} is in use by another run",
            hint="wait until that has ended or stop it, or name another checkpoint",
        ) from None
    return file
