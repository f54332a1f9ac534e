"""A file to read: its place on disk, its name in messages, and its failures as `SourceError`s."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.errors import SourceError

_HEAD = 4096


@dataclass(frozen=True, slots=True)
class DataFile:
    path: Path
    name: str

    def open(self) -> pa.NativeFile:
        """The bytes, decompressed if the name ends in .gz, .bz2 or .zst."""
        return pa.input_stream(str(self.path), compression="detect")

    def refuse_binary(self, wanted: str) -> None:
        """Text has no NUL bytes; UTF-16, images and other formats have them early on."""
        with self.open() as stream:
            head = stream.read(_HEAD)
        if b"\0" in head:
            raise SourceError(
                f"{self.name} is not a text file: it holds NUL bytes",
                expected=f"{wanted} text in UTF-8",
            )

    @contextmanager
    def reading(self, wanted: str) -> Iterator[None]:
        """Say which file it was when the system or Arrow fails."""
        try:
            yield
        except PermissionError as error:
            raise SourceError(
                f"{self.name} may not be read: permission denied",
                hint="chmod +r, or run as a user who may read it",
            ) from error
        except FileNotFoundError as error:
            raise SourceError(f"{self.name} does not exist (any more)") from error
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            first_line = str(error).partition("\n")[0]
            raise SourceError(
                f"{self.name} cannot be read: {first_line}", expected=f"a {wanted} file"
            ) from error
