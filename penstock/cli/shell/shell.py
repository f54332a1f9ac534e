"""`penstock shell`: executes a script first, then given commands, or opens a prompt; rows are
written above it."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import TextIO, cast

from penstock.api.database import Database
from penstock.cli.shell.prompt import converse
from penstock.cli.shell.session import LeavingError, ShellSession, command_in
from penstock.runs.run_options import RunOptions
from penstock.sql.keywords import is_between_statements, is_closed


class CurrentOutput(io.TextIOBase):
    """A stream that writes to the current `sys.stdout` or `sys.stderr`, which a prompt exchanges.

    >>> CurrentOutput("stdout").write("rows\\n")
    rows
    5
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def write(self, text: str) -> int:
        written: int = getattr(sys, self._name).write(text)
        return written

    def flush(self) -> None:
        getattr(sys, self._name).flush()

    def isatty(self) -> bool:
        return bool(getattr(sys, self._name).isatty())


# The command: a script first, then commands that were given, or a prompt.

_FAILED = 1


def run_shell(
    database: Database,
    script: str | None,
    commands: Sequence[str],
    options: RunOptions | None = None,
    final: bool = False,
    overload: str = "block",
) -> int:
    """Run the shell, and return its exit code. Without a terminal there is no prompt: a script on
    standard input ends at its first error, commands that are given are independent of each other.
    If this is `final`, open windows are closed when the shell ends."""
    options = options or RunOptions()
    with database.live(
        overload=overload, checkpoint=options.checkpoint, trigger=options.trigger
    ) as live:
        out, err = (cast("TextIO", CurrentOutput(name)) for name in ("stdout", "stderr"))
        session = ShellSession(database, live, out, err)
        if script is not None and not session.carry_out(script):
            return _FAILED
        given = list(commands)
        is_script = not given and not sys.stdin.isatty()
        if is_script:
            given = _parts_of_script(sys.stdin.read())
        well: list[bool] = []
        try:
            if not given and not is_script:
                converse(session)
            for each in given:
                well.append(session.carry_out(each))  # one of them may leave
                if is_script and not well[-1]:
                    break
        except LeavingError as leaving:
            final = final or leaving.final
        live.stop(final=final)
        if given:
            session.tell_news(ended=False)
        session.tell_dropped()
        return 0 if all(well) else _FAILED


def _parts_of_script(text: str) -> list[str]:
    """Split a script into statements and commands: lines that begin with a backslash outside of
    quotes, and words such as quit between statements."""
    said: list[str] = []
    lines: list[str] = []
    for line in text.splitlines():
        if command_in(line) is not None and _may_be_command(line, before := "\n".join(lines)):
            said += [before, line]
            lines = []
        else:
            lines.append(line)
    return [each for each in (*said, "\n".join(lines)) if each.strip()]


def _may_be_command(line: str, before: str) -> bool:
    if line.startswith("\\"):
        return is_closed(before)
    return is_between_statements(before)
