"""The prompt of the shell: lines with history and colours, completed with words of the language and
names of the catalogue."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.shell.session import LeavingError, ShellSession, command_in
from penstock.cli.stopping import EndingError, orders_kept
from penstock.errors import PenstockError
from penstock.local.live.engine import SETTINGS
from penstock.model.durations import MICROSECONDS
from penstock.plan.catalog import Catalog
from penstock.sql.keywords import function_names, is_complete, words
from penstock.sql.parser.statements import SECOND_WORDS

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

COMMANDS = (
    *(
        "\\finish",
        "\\help",
        "\\quit",
        "\\read",
        "\\schedule",
        "\\stall",
        "\\streams",
        "\\top",
        "\\unwatch",
        "\\wait",
        "\\watch",
    ),
)
_STARTS = ("ALTER", "CREATE", "DROP", "EXPLAIN", "SELECT", "SHOW", "SPLIT")
_BEFORE_RELATIONS = ("FROM", "JOIN", "SPLIT")
_OF_QUERIES = ("\\schedule", "\\stall", "\\unwatch", "\\wait", "\\watch")
_UNITS = tuple(f"{unit}S" for unit in reversed(MICROSECONDS))
_TOKEN = re.compile(r"\\?\w+(?:\.\w*)?|[^\s\w]")


def completions(before: str, catalog: Catalog) -> tuple[str, list[str]]:
    """Position of the last word, and its completions, the most likely ones first.

    >>> completions("CREATE STREAM s (k INT) PROG", Catalog())
    ('PROG', ['PROGRESS'])
    """
    statement = before.rpartition(";")[2]
    typed = re.search(r"\\?[\w.]*\Z", statement)
    assert typed is not None
    begun, earlier = typed.group(), _TOKEN.findall(statement[: typed.start()])
    if "." in begun:
        relation, _, column = begun.partition(".")
        return column, _with_prefix(column, _columns(catalog, _aliased_relation(relation, earlier)))
    return begun, _with_prefix(begun, _candidates(earlier, begun, catalog))


def _candidates(earlier: Sequence[str], begun: str, catalog: Catalog) -> Iterable[str]:
    if not earlier:
        return COMMANDS if begun.startswith("\\") else _STARTS
    last = earlier[-1]
    if len(earlier) == 1 and last.upper() in SECOND_WORDS:
        return SECOND_WORDS[last.upper()]
    queries = [name for name, _ in catalog.queries.values()]
    streams = [each.name for each in catalog.streams.values()]
    before = [each.upper() for each in earlier[-2:]]
    if earlier[0] in _OF_QUERIES or before in (["DROP", "QUERY"], ["ALTER", "QUERY"]):
        return queries
    if before in (["DROP", "STREAM"], ["DROP", "TABLE"]):
        return streams
    if earlier[0].upper() == "ALTER" and last.upper() == "SET":
        return [each.upper() for each in SETTINGS]
    if last.upper() in _BEFORE_RELATIONS:
        return [*streams, *queries]
    read = [each for each in earlier if each.casefold() in (*catalog.streams, *catalog.queries)]
    columns = [name for relation in read for name in _columns(catalog, relation)]
    if not read:  # SELECT comes before FROM
        known = (*catalog.streams, *catalog.queries)
        columns = [name for relation in known for name in _columns(catalog, relation)]
    relations = [*streams, *queries] if last == "," else []
    units = _UNITS if last.isdecimal() else ()
    return [*units, *columns, *relations, *words(), *function_names(), *catalog.aggregates]


def _aliased_relation(alias: str, earlier: Sequence[str]) -> str:
    """Name of the relation with an alias: `packets AS p`, `packets p`."""
    for place, each in enumerate(earlier):
        if each.casefold() == alias.casefold() and place:
            before = earlier[place - 1]
            return earlier[place - 2] if before.upper() == "AS" and place > 1 else before
    return alias


def _columns(catalog: Catalog, relation: str) -> list[str]:
    key = relation.casefold()
    if key not in catalog.streams and key not in catalog.queries:
        return []
    return [field.name for field in catalog.relation(relation).schema]


def _with_prefix(begun: str, candidates: Iterable[str]) -> list[str]:
    """Names that begin with a prefix; words in the case of the prefix."""
    start = begun.casefold()
    found = [each for each in dict.fromkeys(candidates) if each.casefold().startswith(start)]
    lower = bool(begun) and begun == begun.lower()
    spoken = {*words(), *_UNITS}
    return [each.lower() if lower and each in spoken else each for each in found]


# The prompt: lines with history, completion and colours.
#
# prompt_toolkit is imported only for a prompt on a terminal: scripts do not need it.

PROMPT, MORE = "penstock> ", "     ...> "
HISTORY = "PENSTOCK_HISTORY"  # an environment variable: where lines are remembered
_HELLO = "SQL ends with a semicolon; \\help says more, \\quit or Ctrl-D leaves"


def converse(session: ShellSession) -> None:
    """Ask for statements and commands until the user leaves; only `\\finish` closes windows."""
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
            text = _read(lines)
            session.carry_out(text)
        except EndingError:
            raise
        except KeyboardInterrupt:  # what was typed, or was being done, is forgotten
            continue
        except EOFError:
            raise LeavingError from None


def _read(lines: PromptSession[str]) -> str:
    """Read the next statement or command. A signal to end closes the prompt, even one that comes
    before it is open."""
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
    """Whether Enter executes the text, instead of beginning another line.

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
        """Completions of prompt_toolkit, from the words of the language and the catalogue."""

        def get_completions(
            self,
            document: Document,
            complete_event: CompleteEvent,  # noqa: ARG002
        ) -> Iterator[Completion]:
            begun, found = completions(document.text_before_cursor, catalog)
            for each in found:
                yield Completion(each, start_position=-len(begun))

    return FromCatalog()
