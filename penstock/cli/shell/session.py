"""A session of the shell: statements and commands are executed on a live engine, and rows of
watched queries are printed as they come."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pyarrow as pa

from penstock.api.database import Database
from penstock.api.display import Explanation
from penstock.api.live import Live, LiveQuery
from penstock.cli.report import count, out_of_memory, readable
from penstock.cli.stopping import EndingError
from penstock.cli.top import (
    Picture,
    draw_until_stopped,
    dropped_lines,
    graph_tables,
    stream_lines,
    wide_console,
)
from penstock.errors import PenstockError, SourceError, nearest
from penstock.io.access import refuse_file
from penstock.io.sinks.sink import column_texts
from penstock.io.sinks.text import TableWriter
from penstock.sql.keywords import statements_of

_SHOWN = 20  # rows of one batch: a terminal is slower than an engine


class Watching:
    """Prints the rows of watched queries as they come, while the user writes the next one."""

    def __init__(self, live: Live, out: TextIO) -> None:
        self._live = live
        self._out = out
        self._leaving: dict[str, Callable[[], None]] = {}

    def watch(self, name: str) -> None:
        if name in self._leaving:
            raise PenstockError(f"{name} is watched already", hint=f"\\unwatch {name}")
        self._leaving[name] = self._live.subscribe(name, lambda batch: self._show(name, batch))

    def unwatch(self, name: str) -> None:
        if name not in self._leaving:
            close = nearest(name, self._leaving)
            raise PenstockError(f"{name} is not watched", hint=close[0] if close else None)
        self._leaving.pop(name)()

    def _show(self, name: str, batch: pa.RecordBatch) -> None:
        self._out.write(lines_of(name, batch))
        self._out.flush()


def lines_of(name: str, batch: pa.RecordBatch) -> str:
    """
    >>> print(lines_of("q", pa.record_batch({"k": ["a", None], "n": [1, 2]})), end="")
    q │ k a, n 1
    q │ k NULL, n 2
    """
    some = batch.slice(0, _SHOWN)
    columns = [
        [f"{column} {'NULL' if text is None else text}" for text in column_texts(values)]
        for column, values in zip(some.schema.names, some.columns, strict=True)
    ]
    lines = [f"{name} │ {', '.join(row)}" for row in zip(*columns, strict=True)]
    if batch.num_rows > _SHOWN:
        lines.append(f"{name} │ … {batch.num_rows - _SHOWN:,} more")
    return "".join(f"{readable(line)}\n" for line in lines)


# The session: statements and commands are executed on a live engine, and answered.

HELP = """\
SQL ends with a semicolon and may have many lines.
  CREATE STREAM | TABLE …;                 name what is to be read
  CREATE QUERY name AS SELECT … ;          start a query in the background
  ALTER QUERY name SET SHARE | STRATEGY | ETS | BREAKS | PAUSED …;   change how it is worked on
  DROP QUERY name;                         stop it
  SELECT …;                                rows as they come, until the end or Ctrl-C
  EXPLAIN [PHYSICAL | SCHEDULE | DATAFLOW | CONFLICTS | ANALYZE] SELECT …;
  SHOW QUERIES | STREAMS | TABLES | VIEWS;
  DESCRIBE name;                           its columns
Commands are for the shell itself:
  \\watch NAME      print the rows of a query as they come, above the prompt
  \\unwatch NAME    no longer
  \\stall NAME      what its open windows wait for
  \\schedule [NAME] by which rules operators follow each other now
  \\top             a live table of queries and operators, until Ctrl-C
  \\wait [NAME]     until a query, or all of them, have ended
  \\streams         how far the streams have come
  \\read FILE       carry out a script
  \\d [NAME]        what there is, or its columns; \\dt, \\i and \\? are known as well
  \\quit            stop all queries and leave; so do \\q, quit and exit
  \\finish          the same, and give out what is open as if the streams had ended"""
_WORDS = {"exit": "\\quit", "quit": "\\quit", "help": "\\help"}
"""What people say to other shells, where a statement may begin."""
_DONE = {"ALTER": "altered", "CREATE": "created", "DROP": "dropped", "SPLIT": "split"}
_OF_SOMETHING = {
    "\\i": "a file",
    "\\read": "a file",
    "\\stall": "a query",
    "\\unwatch": "a query",
    "\\watch": "a query",
}
_PATIENCE = 0.1  # seconds, so that Ctrl-C is heard


def command_in(text: str) -> str | None:
    """Return the command in a text, None if it is SQL.

    >>> [command_in(each) for each in ("\\\\wait q;", "Exit;", "SHOW TABLES;")]
    ['\\\\wait q', '\\\\quit', None]
    """
    line = text.strip().rstrip(";").strip()
    return line if line.startswith("\\") else _WORDS.get(line.lower())


def _unquoted(file: str) -> str:
    """Remove the quotes of a name, which are those of SQL."""
    quoted = len(file) > 1 and file[0] == file[-1] and file[0] in "'\""
    return file[1:-1] if quoted else file


class LeavingError(Exception):
    """The user leaves the shell; if it is `final`, open windows are to be closed."""

    def __init__(self, final: bool = False) -> None:
        super().__init__()
        self.final = final


class ShellSession:
    """Executes statements and commands. Answers are written to `out`, notes to `err`. A `talkative`
    session also confirms statements that have no answer."""

    def __init__(
        self,
        database: Database,
        live: Live,
        out: TextIO,
        err: TextIO,
        talkative: bool = False,
    ) -> None:
        self.database = database
        self.talkative = talkative
        self._live = live
        self._out = out
        self._err = err
        self._watching = Watching(live, out)
        self._reported: dict[str, str] = {}  # what was said of queries that no longer run
        self._commands: dict[str, Callable[[str], None]] = {
            "\\?": self._help,
            "\\d": self._describe,
            "\\dt": self._describe,
            "\\finish": self._finish,
            "\\help": self._help,
            "\\i": self._read,
            "\\q": self._quit,
            "\\quit": self._quit,
            "\\read": self._read,
            "\\schedule": self._schedule,
            "\\stall": self._stall,
            "\\streams": self._streams,
            "\\top": self._top,
            "\\unwatch": self._unwatch,
            "\\wait": self._wait,
            "\\watch": self._watch,
        }

    def carry_out(self, text: str) -> bool:
        """Execute statements or a command. Errors are reported; False if there was one."""
        try:
            if (command := command_in(text)) is not None:
                self._command(command)
            else:
                for statement in statements_of(text):
                    self._statement(statement)
        except PenstockError as error:
            self._err.write(f"error: {readable(str(error))}\n")
            return False
        except MemoryError as error:
            self._err.write(f"error: {readable(str(out_of_memory(error)))}\n")
            return False
        except EndingError:
            raise
        except KeyboardInterrupt:
            self._err.write("stopped\n")
            return False
        finally:
            self._out.flush()
        return True

    # --- SQL -------------------------------------------------------------------------------------

    def _statement(self, text: str) -> None:
        result = self._live.sql(text, TableWriter(self._out))
        if isinstance(result, Explanation):
            self._out.write(f"{result.text}\n")
        elif isinstance(result, LiveQuery):
            self._follow(result)
        else:
            self._confirm(_DONE.get(text.split()[0].upper(), "done"))

    def _confirm(self, done: str) -> None:
        if self.talkative:
            self._err.write(f"{done}\n")

    def _follow(self, query: LiveQuery) -> None:
        """Run a SELECT, and write its rows as they come."""
        over = False
        try:
            while not (over := query.wait(_PATIENCE)):
                pass
        finally:
            # after an interrupt, rows that wait are not wanted any more
            account = query.stop(drain=over)
        told = [count(account.late, "late tuple")] if account.late else []
        told += [f"{count(account.rejected, 'row')} rejected"] if account.rejected else []
        if told:
            self._err.write(f"{', '.join(told)}\n")

    # --- commands --------------------------------------------------------------------------------

    def _command(self, text: str) -> None:
        name, _, argument = text.partition(" ")
        found = self._commands.get(name)
        if found is None:
            known = [each.removeprefix("\\") for each in self._commands]
            close = nearest(name.removeprefix("\\"), known, limit=1)
            hint = f"\\{close[0]}" if close else "\\help"
            raise PenstockError(f"there is no command {name}", hint=hint)
        told = argument.strip()
        if not told and name in _OF_SOMETHING:
            raise PenstockError(
                f"{name} of what?", expected=f"{name} and the name of {_OF_SOMETHING[name]}"
            )
        found(told)

    def _help(self, _: str) -> None:
        self._out.write(f"{HELP}\n")

    def _quit(self, _: str) -> None:
        raise LeavingError

    def _finish(self, _: str) -> None:
        raise LeavingError(final=True)

    def _read(self, file: str) -> None:
        file = _unquoted(file)
        allowed = self.database.allowed
        if allowed is not None and not allowed.file(Path(file)):
            raise refuse_file(allowed, file)
        try:
            text = Path(file).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SourceError(f"cannot read {file}: {reason}") from None
        for statement in statements_of(text):
            self._statement(statement)

    def _describe(self, name: str) -> None:
        self._statement(f"DESCRIBE {name}" if name else "SHOW TABLES")

    def _stall(self, name: str) -> None:
        self._out.write(f"{self._live.explain_stall(name)}\n")

    def _schedule(self, name: str) -> None:
        self._out.write(f"{self._live.explain_schedule(name or None)}\n")

    def _streams(self, _: str) -> None:
        for line in stream_lines(self._live.graph_status()):
            self._out.write(f"{line}\n")

    def _top(self, _: str) -> None:
        console = wide_console(self._out)
        if console.is_terminal:
            draw_until_stopped(Picture(self._live.graph_status, console), console)
        else:
            console.print(graph_tables(self._live.graph_status(), width=console.width))

    def _watch(self, name: str) -> None:
        self._watching.watch(name)
        self._confirm(f"rows of {name} are shown as they come, until \\unwatch {name}")

    def _unwatch(self, name: str) -> None:
        self._watching.unwatch(name)
        self._confirm("no longer shown")

    def _wait(self, name: str) -> None:
        while not self._live.wait(name or None, _PATIENCE):
            pass

    # --- what happens meanwhile ------------------------------------------------------------------

    def tell_news(self, ended: bool = True) -> None:
        """Report the queries that have failed, or `ended`, since the last call."""
        found = {
            each.name: each.state if each.error is None else f"{each.state}: {each.error}"
            for each in self._live.status()
            if each.error is not None or (ended and each.state not in ("running", "paused"))
        }
        for name, state in found.items():
            if self._reported.get(name) != state:
                self._err.write(f"query {name} has {readable(state)}\n")
        self._reported = found

    def tell_dropped(self) -> None:
        """Report the rows that were dropped under overload."""
        for line in dropped_lines(self._live.graph_status()):
            self._err.write(f"{line}\n")
