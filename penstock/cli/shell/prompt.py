"""The prompt itself: lines with history, completion and colours.

prompt_toolkit is imported when somebody sits at a terminal: scripts do without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.shell.completion import completions
from penstock.cli.shell.session import LeavingError, ShellSession, command_in
from penstock.cli.stopping import EndingError, orders_kept
from penstock.errors import PenstockError
from penstock.language.words import is_complete
from penstock.plan.catalog import Catalog

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

PROMPT, MORE = "penstock> ", "     ...> "
HISTORY = "PENSTOCK_HISTORY"  # an environment variable: where lines are remembered
_HELLO = "SQL ends with a semicolon; \\help says more, \\quit or Ctrl-D leaves"


def converse(session: ShellSession) -> None:
    """Ask for the next thing to do until somebody leaves; how he does, only `\\finish` says."""
    try:
        lines = _lines(session.database.catalog)
    except ImportError:
        raise PenstockError(
            "a prompt needs prompt_toolkit, which is not installed",
            hint="pip install 'penstock[shell]'; -c SQL, and SQL on standard input, do without it",
        ) from None
    session.talkative = True
    print(_HELLO)
    while True:
        try:
            session.tell_news()
            text = _asked(lines)
            session.carry_out(text)
        except EndingError:
            raise
        except KeyboardInterrupt:  # what was typed, or was being done, is forgotten
            continue
        except EOFError:
            raise LeavingError from None


def _asked(lines: PromptSession[str]) -> str:
    """What somebody says next.  An order to end closes the prompt, also one that comes before it
    is open."""
    from prompt_toolkit.patch_stdout import patch_stdout

    ordered = False

    def close() -> None:
        if ordered and lines.app.is_running and not lines.app.is_done:
            lines.app.exit(result="")

    def end() -> None:
        nonlocal ordered
        ordered = True
        if lines.app.loop is not None:
            lines.app.loop.call_soon_threadsafe(close)

    with orders_kept(end), patch_stdout():  # rows of watched queries go above the prompt
        return lines.prompt(PROMPT, pre_run=close)


def _lines(catalog: Catalog) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    place = Path(os.environ.get(HISTORY) or "~/.penstock_history").expanduser()
    return PromptSession(
        history=FileHistory(str(place)),
        auto_suggest=AutoSuggestFromHistory(),
        completer=_completer(catalog),
        complete_while_typing=False,  # Tab asks for it
        lexer=PygmentsLexer(SqlLexer),
        key_bindings=_keys(),
        multiline=True,
        prompt_continuation=MORE,
        enable_open_in_editor=True,
    )


def is_finished(text: str) -> bool:
    """Whether Enter carries it out, and does not begin another line.

    >>> [is_finished(each) for each in ("SELECT k", "SELECT k FROM s;", "\\\\top", "quit", "")]
    [False, True, True, True, True]
    """
    return not text.strip() or command_in(text) is not None or is_complete(text)


def _keys() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()
    keys.add("enter")(_enter)
    return keys


def _enter(event: KeyPressEvent) -> None:
    buffer = event.current_buffer
    if is_finished(buffer.text):
        buffer.validate_and_handle()
    else:
        buffer.insert_text("\n")


def _completer(catalog: Catalog) -> Completer:
    from prompt_toolkit.completion import Completer, Completion

    class FromCatalog(Completer):
        def get_completions(
            self,
            document: Document,
            complete_event: CompleteEvent,  # noqa: ARG002
        ) -> Iterator[Completion]:
            begun, found = completions(document.text_before_cursor, catalog)
            for each in found:
                yield Completion(each, start_position=-len(begun))

    return FromCatalog()
