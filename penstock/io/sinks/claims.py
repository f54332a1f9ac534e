"""Ownership of outputs: which checkpoint a file or directory belongs to, what was saved of it, and
how rows that were not saved are removed.

A file belongs to the checkpoint that has created it, as the ledger of that checkpoint says; the end
of a file is compared before it is written to, so that one that has been exchanged is refused. A
directory has a record in it that names its owner."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from penstock.io.durable_files import read_json
from penstock.io.sinks.sink import Ledger, Mark, OutputKind

OWNER = "_penstock.json"  # Spark and others pass over names that begin so
_PART = re.compile(r"part-(\d+)\.\w+")
_UNFINISHED = re.compile(r"\.part-\d+\.\w+\.\w+")  # parts that a kill has interrupted
_ENDING = 4_096  # bytes that tell one file from another


# Files.


def ending_of(path: Path, length: int, added: bytes = b"") -> str:
    """Checksum of the last bytes before a position in a file, with bytes to be `added` there."""
    last = added[-_ENDING:]
    begin = max(0, length - (_ENDING - len(last)))
    if begin < length:
        with path.open("rb") as file:
            file.seek(begin)
            last = file.read(length - begin) + last
    return hashlib.sha256(last).hexdigest()


def number_of(path: Path) -> str:
    """Identify a file within its file system."""
    return f"file {path.stat().st_ino}"


def is_as_marked(path: Path, marks: Sequence[Mark]) -> bool:
    """Whether a file is the one that marks describe, as far as they say. A file without bytes to
    compare is identified by its number, which a copy does not have."""
    size = path.stat().st_size
    there = [mark for mark in marks if 0 < mark.length <= size]
    if there:
        # earlier versions have not marked how a file ended
        return all(mark.ending in ("", ending_of(path, mark.length)) for mark in there)
    return not size or any(mark.ending in ("", number_of(path)) for mark in marks)


def cut_file(path: Path, length: int) -> None:
    with path.open("r+b") as file:
        file.truncate(length)
        os.fsync(file.fileno())


# Directories.


def parts_of(directory: Path) -> list[tuple[Path, int]]:
    """Files of a directory, with their epochs."""
    found = [(path, _PART.fullmatch(path.name)) for path in directory.iterdir()]
    return [(path, int(match[1])) for path, match in found if match is not None]


def drop_parts(directory: Path, epoch: int) -> None:
    """Remove the parts of an epoch and of later ones, and those that a kill has interrupted."""
    for path, number in parts_of(directory):
        if number >= epoch:
            path.unlink()
    for path in directory.iterdir():
        if _UNFINISHED.fullmatch(path.name):
            path.unlink(missing_ok=True)


def belongs_to(directory: Path, owner: str, output: str) -> bool | None:
    """Whether a directory belongs to an output of an owner; None if it has no record of one."""
    found = read_json(directory / OWNER)
    if found is None:
        return None
    return bool(found["owner"] == owner) and found.get("output", output) == output


# Places where an output was before.


def leave(ledger: Ledger, name: str, epoch: int, owner: str) -> None:
    """Remove the rows of an epoch and of later ones from the former place of an output: they are
    written again at another place. A place that has changed since is not touched."""
    former = ledger.place(name)
    if former is None:
        return
    path, marks = Path(former), ledger.all_marks(name)
    if ledger.kind(name) is OutputKind.DIRECTORY:
        if path.is_dir() and belongs_to(path, owner, name):
            # and no others: of a copied checkpoint, the place may be where the first one goes on
            noted = {mark.epoch for mark in marks if mark.epoch >= epoch}
            for part, number in parts_of(path):
                if number in noted:
                    part.unlink()
        return
    saved = [mark for mark in marks if mark.epoch < epoch]
    if not saved:
        return
    if path.is_file() and is_as_marked(path, marks):
        size = path.stat().st_size
        if saved[-1].length <= size and (size <= marks[-1].length or not ledger.is_ahead(name)):
            cut_file(path, saved[-1].length)
    ledger.set_back(name, saved[-1])


def remove_empty(place: Path, kind: OutputKind, marks: list[Mark]) -> None:
    """Remove a file that was created and never written to, or a directory without parts."""
    if kind is OutputKind.DIRECTORY:
        if place.is_dir() and not parts_of(place):
            (place / OWNER).unlink(missing_ok=True)
    elif place.is_file() and not place.stat().st_size and not any(mark.length for mark in marks):
        place.unlink()
