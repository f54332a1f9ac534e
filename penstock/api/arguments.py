"""Checks of arguments of the Python interface: a value of the wrong kind is refused, and never
taken for something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path

from penstock.errors import BindError, described


def check_text(name: str, value: object, hint: str | None = None) -> None:
    if not isinstance(value, str):
        raise BindError(f"{name} is {described(value)}", expected="a text", hint=hint)


def check_name(what: str, value: object) -> None:
    """Check the name of a stream, table, query or function."""
    if not isinstance(value, str) or not value.strip():
        raise BindError(f"the name of {what} is {described(value)}", expected="a text", hint='"s"')


def check_flags(**given: object) -> None:
    for name, value in given.items():
        if not isinstance(value, bool):
            raise BindError(f"{name} is {described(value)}", expected="True or False")


def check_whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BindError(
            f"{name} is {described(value)}", expected=f"a whole number from {least:,} on"
        )


def check_number(name: str, value: object, least: float) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not value >= least:  # type: ignore[operator]
        raise BindError(f"{name} is {described(value)}", expected=f"a number from {least:g} on")


def check_texts(name: str, value: object, hint: str) -> None:
    """Check a list of texts; a single text would be taken for its letters."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise BindError(f"{name} is {described(value)}", expected="a list of texts", hint=hint)
    for each in value:
        check_text(f"one of {name}", each, hint)


def check_paths(name: str, value: object) -> None:
    if isinstance(value, str | bytes | PathLike) or not isinstance(value, Iterable):
        hint = f"{name}=[{str(value)!r}]" if isinstance(value, str | PathLike) else None
        raise BindError(
            f"{name} is {described(value)}", expected="a list of files and directories", hint=hint
        )
    for each in value:
        if not isinstance(each, str | PathLike):
            raise BindError(f"one of {name} is {described(each)}", expected="a path")


def path_of(name: str, value: object) -> Path:
    """Check the path of a file or directory, and return it."""
    if not isinstance(value, str | PathLike) or not str(value):
        raise BindError(f"{name} is {described(value)}", expected="a path: a text or a Path")
    return Path(value)


def check_texts_by_name(name: str, value: object) -> None:
    fits = isinstance(value, Mapping) and all(
        isinstance(part, str) for pair in value.items() for part in pair
    )
    if not fits:
        raise BindError(
            f"{name} is {described(value)}",
            expected="a dict of texts",
            hint='{"spark.sql.shuffle.partitions": "4"}',
        )
