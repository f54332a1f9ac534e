"""Access rules: the files and hosts that SQL may read, and addresses of hosts with ports."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import PenstockError, SourceError, shortened

_ADDRESS = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]+)):(\d{1,5})")


def parse_address(text: str) -> tuple[str, int] | None:
    """Parse a host and a port.

    >>> parse_address("localhost:9000"), parse_address("[::1]:9000"), parse_address("localhost")
    (('localhost', 9000), ('::1', 9000), None)
    """
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or not 0 < int(found[3]) < 1 << 16:
        return None
    return found[1] or found[2], int(found[3])


# Access rules: all files and hosts, or a list of them, for programs that run the SQL of others.
#
# Paths are compared as the system resolves them, through `..` and links, when a stream is created
# and again when a file is opened.

_SOCKET = "socket://"
_SPECIAL = set("*?[")


@dataclass(frozen=True, slots=True)
class Allowed:
    """Files and directories with their contents, and hosts with a port, or with any (None).

    >>> allowed = Allowed.of(["/data/today", "socket://localhost:9000"], Path("/"))
    >>> allowed.file(Path("/data/today/a.csv")), allowed.file(Path("/data/today/../b.csv"))
    (True, False)
    >>> str(allowed)
    '/data/today, socket://localhost:9000'
    """

    paths: tuple[Path, ...]
    hosts: tuple[tuple[str, int | None], ...]
    given: tuple[str, ...]

    @staticmethod
    def of(given: Iterable[str | Path], base: Path) -> Allowed:
        """Parse a list of paths and addresses; relative paths start at `base`."""
        paths, hosts, texts = [], [], []
        for each in given:
            text = str(each)
            texts.append(text)
            if text.startswith(_SOCKET):
                hosts.append(_host(text))
            elif not text:
                raise PenstockError(
                    "'' cannot be allowed", expected="a path, or socket://host:port"
                )
            else:
                found = resolve(base / text)
                if found is None:
                    raise PenstockError(f"{text!r} leads nowhere", expected="a path")
                paths.append(found)
        return Allowed(tuple(paths), tuple(hosts), tuple(texts))

    def file(self, path: Path) -> bool:
        found = resolve(path)
        return found is not None and any(
            found == each or each in found.parents for each in self.paths
        )

    def pattern(self, directory: Path, pattern: str) -> bool:
        """Whether every path that a pattern can match is allowed: its part before the first special
        character is in an allowed place, and no `..` follows. Links are checked file by file."""
        pieces = list((directory / pattern).parts)
        fixed = next((i for i, each in enumerate(pieces) if _SPECIAL & set(each)), len(pieces))
        if ".." in pieces[fixed:]:
            return False
        return self.file(Path(*pieces[:fixed]))

    def socket(self, host: str, port: int) -> bool:
        return not {(host.casefold(), port), (host.casefold(), None)}.isdisjoint(self.hosts)

    def refusal(self, what: str) -> str:
        return f"{what} is not allowed here"

    def __str__(self) -> str:
        return shortened(", ".join(self.given), 400) if self.given else "nothing"


def resolve(path: Path) -> Path | None:
    """Resolve a path through links; None for links in a circle and for text that is no path."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return None


def _host(text: str) -> tuple[str, int | None]:
    address = text.removeprefix(_SOCKET)
    found = parse_address(address)
    if found is not None:
        return found[0].casefold(), found[1]
    bare = address.removesuffix(":*")
    if parse_address(f"{bare}:1") is None:
        raise PenstockError(
            f"{text!r} is not an address", expected="socket://host:port, or socket://host:*"
        )
    return bare.strip("[]").casefold(), None


class NotAllowedError(SourceError):
    """SQL names a file or host that it may not read."""


def refuse_file(allowed: Allowed, name: str) -> NotAllowedError:
    """Make the error for a file that is not allowed. It does not reveal whether the file exists:
    `name` is the text in SQL."""
    return NotAllowedError(allowed.refusal(name), expected=f"what is allowed: {allowed}")
