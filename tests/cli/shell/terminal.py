"""A pseudo-terminal with the shell in it: what is typed, and what is to be seen."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from tests.signals import heard

ROOT = Path(__file__).parents[3]
UP, TAB, CTRL_C, CTRL_D = "\x1b[A", "\t", "\x03", "\x04"
PROMPT = "penstock> "
_ORDERS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[=>]|\r")
_LONGEST = 30  # seconds, on a machine that does much else


class Terminal:
    def __init__(self, directory: Path, *arguments: str) -> None:
        self._own, other = os.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
        # not `preexec_fn`: what is done between fork and exec can wait for ever for a lock that
        # another thread of the tests, or of Arrow, had at that moment
        with heard():
            self.process = subprocess.Popen(
                ["setsid", "--ctty", sys.executable, "-m", "penstock", "shell", *arguments],
                stdin=other,
                stdout=other,
                stderr=other,
                cwd=directory,
                env={
                    **kept,
                    "PYTHONPATH": os.pathsep.join([str(ROOT), *_packages()]),
                    "PYTHONIOENCODING": "utf-8",
                    "TERM": "xterm-256color",
                    "PROMPT_TOOLKIT_NO_CPR": "1",
                    "PENSTOCK_HISTORY": str(directory / "history"),
                },
            )
        os.close(other)
        self._seen = b""

    def __enter__(self) -> Terminal:
        self.see(PROMPT)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(_LONGEST)
        os.close(self._own)

    def type(self, keys: str) -> None:
        os.write(self._own, keys.encode())

    def say(self, line: str) -> None:
        """A line, and Enter."""
        self.type(f"{line}\r")

    def see(self, text: str) -> None:
        """Wait until a text is to be seen.  Where there is space, a terminal may have been told to
        move on instead, so it does not count."""
        until = monotonic() + _LONGEST
        while not self._has_seen(text):
            if not self._look(until - monotonic()):
                raise AssertionError(f"no {text!r} in {self._seen[-2_000:]!r}")

    def see_after(self, doing: Callable[[], object], text: str) -> None:
        """The same; something is done again and again meanwhile, because it may come too early."""
        until = monotonic() + _LONGEST
        while not self._has_seen(text):
            doing()
            if monotonic() > until:
                raise AssertionError(f"no {text!r} in {self._seen[-2_000:]!r}")
            self._look(0.5)

    def _has_seen(self, text: str) -> bool:
        plain = _ORDERS.sub(b"", self._seen).decode(errors="ignore")
        wanted = "".join(text.split())
        _, found, rest = "".join(plain.split()).partition(wanted)
        if found:
            self._seen = rest.encode()
        return bool(found)

    def _look(self, seconds: float) -> bool:
        """Whether anything more has come within so many seconds."""
        ready, _, _ = select.select([self._own], [], [], max(0, seconds))
        if not ready:
            return False
        try:
            self._seen += os.read(self._own, 65_536)
        except OSError:  # the other side is closed
            return False
        return True

    def leaves(self) -> int:
        """What the shell exits with, when it does."""
        while self.process.poll() is None and self._look(0.5):
            pass
        return self.process.wait(_LONGEST)


def _packages() -> list[str]:
    return [each for each in sys.path if each.endswith("site-packages")]
