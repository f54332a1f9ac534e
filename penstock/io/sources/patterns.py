"""Patterns of file names: `*`, `?` and `[…]` within a name, `**` for any number of directories.

As a shell has it: hidden files are left alone, a name or a `*` leads through links, and `**` does
not follow links to directories, which may lead back to where it came from.
"""

# ruff: noqa: PTH112, PTH114, PTH118 (paths as texts: there may be 100,000 of them, and Path takes long)

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase, translate
from functools import cache
from glob import has_magic
from pathlib import Path
from typing import NamedTuple

__all__ = ["FoundPath", "goes_by", "has_magic", "matching", "without_magic"]


class FoundPath(NamedTuple):
    """A path that a pattern matches, and what kind of file it is."""

    name: str  # as the pattern spells its directory
    is_directory: bool
    is_regular: bool  # without a link


def matching(
    pattern: str,
    directory: Path,
    stopped: Callable[[], bool] = lambda: False,
    check_link: Callable[[str], None] = lambda _: None,
) -> Iterator[FoundPath]:
    """Yield the paths that match, in no order, possibly more than once. Ends early when it is
    `stopped`; `check_link` is called before a link that matches is followed."""
    parts: list[str] = []
    head = pattern
    while has_magic(head):
        head, tail = os.path.split(head)
        if tail and not (tail == "**" and parts[:1] == ["**"]):
            parts.insert(0, tail)
    pending = [(head, tuple(parts))]
    while pending and not stopped():
        name, rest = pending.pop()
        first, rest = rest[0], rest[1:]
        if first == "**":
            for entry in _entries(directory, name):
                if not entry.name.startswith("."):
                    if entry.is_dir(follow_symlinks=False):
                        pending.append((os.path.join(name, entry.name), ("**", *rest)))
                    elif not rest:
                        if entry.is_symlink():
                            check_link(os.path.join(directory, name, entry.name))
                        yield _found(name, entry)
            if rest:
                pending.append((name, rest))
        elif not has_magic(first):
            path = os.path.join(directory, name, first)
            if os.path.islink(path):
                check_link(path)
            if rest:
                pending.append((os.path.join(name, first), rest))
            elif os.path.lexists(path):
                yield FoundPath(os.path.join(name, first), os.path.isdir(path), False)
        else:
            goes, hidden = _by(first), first.startswith(".")
            for entry in _entries(directory, name):
                if goes(entry.name) and (hidden or not entry.name.startswith(".")):
                    if entry.is_symlink():
                        check_link(os.path.join(directory, name, entry.name))
                    if not rest:
                        yield _found(name, entry)
                    elif _leads_on(entry):
                        pending.append((os.path.join(name, entry.name), rest))


def without_magic(pattern: Path) -> tuple[Path, tuple[str, ...]]:
    """Split a pattern into the directory that it begins in, through links, and the rest."""
    parts = pattern.parts
    plain = next(place for place, part in enumerate(parts) if has_magic(part))
    return Path(*parts[:plain]).resolve(), parts[plain:]


def goes_by(names: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether a path matches a pattern, in which ** is any number of directories.

    >>> goes_by(("a", "b", "c.csv"), ("**", "*.csv"))
    True
    >>> goes_by(("a", "b.csv"), ("*.csv",))
    False
    """
    if not pattern:
        return not names
    if pattern[0] == "**":
        return goes_by(names, pattern[1:]) or (bool(names) and goes_by(names[1:], pattern))
    return (
        bool(names)
        and (not names[0].startswith(".") or pattern[0].startswith("."))
        and fnmatchcase(names[0], pattern[0])
        and goes_by(names[1:], pattern[1:])
    )


def _entries(directory: Path, name: str) -> Iterator[os.DirEntry[str]]:
    """Entries of a directory; none if it is no directory, or may not be entered."""
    try:
        with os.scandir(os.path.join(directory, name)) as entries:
            yield from entries
    except OSError:
        return


def _found(name: str, entry: os.DirEntry[str]) -> FoundPath:
    return FoundPath(
        os.path.join(name, entry.name), _leads_on(entry), entry.is_file(follow_symlinks=False)
    )


def _leads_on(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link in a circle
        return False


@cache
def _by(part: str) -> Callable[[str], object]:
    return re.compile(translate(part)).match
