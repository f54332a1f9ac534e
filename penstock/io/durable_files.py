"""Durable files: they appear whole or not at all, survive a crash, and carry checksums; and locks
on them."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any
from zlib import crc32

from penstock.errors import CheckpointError

_CHECK = "check"
_FULL = (errno.ENOSPC, errno.EDQUOT)


def make_room(path: Path, error: OSError | None = None) -> str | None:
    """Hint for a full disk; None if the error is another one."""
    if error is not None and error.errno not in _FULL:
        return None
    directory = path if path.is_dir() else path.parent
    return f"make room in {directory} and run again: what was saved before is kept"


def refuse_no_directory(path: Path) -> None:
    """Refuse a path that is a file or lies in one; a directory that does not exist yet is fine."""
    for each in (path, *path.parents):
        if each.exists():
            if not each.is_dir():
                raise CheckpointError(f"{each} is not a directory", hint="name one for checkpoints")
            return


def write_whole(path: Path, content: bytes, sync: bool = True) -> None:
    """Replace a file atomically; it is on disk when this returns, unless `sync` is False."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        temporary.replace(path)
        if sync:
            sync_directory(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        reason = f"cannot write {path}: {error.strerror}"
        raise CheckpointError(reason, hint=make_room(path, error)) from None


def create_whole(path: Path, content: bytes, token: str) -> bool:
    """Create a file that must not exist; False if another process has created it first.

    Its content appears together with its name. Until `settle` is called, a second name of the file
    with the `token` in it tells after a crash which run has created it."""
    temporary = _second_name(path, token)
    try:
        if _is_same(temporary, path):
            return True
        temporary.unlink(missing_ok=True)
        _write_new(temporary, content)
        os.link(temporary, path)
    except FileExistsError:
        temporary.unlink(missing_ok=True)
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with suppress(OSError):
            temporary.unlink()
        try:
            _write_new(path, content)
        except FileExistsError:
            return False
    sync_directory(path.parent)
    return True


def replace_empty(path: Path, token: str) -> bool:
    """Replace an empty file by a new one; False if it is not empty any more. A process that appends
    to the old file notices when it compares the file with its name afterwards."""
    aside = _second_name(path, f"{token}.empty")
    path.replace(aside)
    if aside.stat().st_size:
        os.link(aside, path)
    created = create_whole(path, b"", token)
    aside.unlink()  # not before: the new file must not get its number
    return created


def has_created(path: Path, token: str) -> bool:
    """Whether a file was created with a token, and has not been settled."""
    with suppress(OSError):
        return _is_same(_second_name(path, token), path)
    return False


def settle(path: Path, token: str) -> None:
    """Drop the second name of a file that `create_whole` has created."""
    with suppress(OSError):  # where a name cannot be so long, there is none
        _second_name(path, token).unlink()


# file systems without hard links, or for which the second name is too long
_NO_LINKS = (
    *(errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS),
    *(errno.EMLINK, errno.ENAMETOOLONG, errno.EACCES, errno.EINVAL),
)


def _second_name(path: Path, token: str) -> Path:
    return path.with_name(f".{path.name}.{token}")


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except FileNotFoundError:
        return False


def _write_new(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Bring the names of the files in a directory to disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, content: Mapping[str, Any], sync: bool = True) -> None:
    """Write a record with a checksum."""
    write_whole(path, _record(content), sync)


def create_json(path: Path, content: Mapping[str, Any], token: str) -> bool:
    """Write a record that must not be there yet: see `create_whole`."""
    created = create_whole(path, _record(content), token)
    settle(path, token)
    return created


def _record(content: Mapping[str, Any]) -> bytes:
    text = json.dumps({**content, _CHECK: _checked(content)}, indent=1)
    return text.encode() + b"\n"


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a record that `write_json` wrote; None if it does not exist."""
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
        hint="restore the checkpoint from a copy, or start over with another one",
    )


def lock(path: Path, what: str) -> IO[bytes]:
    """Hold a lock as long as the file is open; the system releases it when the process dies."""
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
