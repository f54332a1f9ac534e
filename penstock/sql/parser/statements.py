"""Parses statements: CREATE, SPLIT, ALTER, SHOW, DESCRIBE, DROP, EXPLAIN, and PROGRESS clauses;
`ParseError` is the only error of a text that is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import ParseError, PenstockError, Span, nearest
from penstock.sql.parser.parser import Parser, Penstock, with_struct_types
from penstock.sql.parser.relations import column_names, written_rows
from penstock.sql.parser.select import emit_when_complete, query, under_names
from penstock.sql.parser.tokens import Parameters, SyntaxAt, check_length, check_tokens
from penstock.sql.syntax import (
    AlterQuery,
    ColumnSyntax,
    CreateQuery,
    CreateStream,
    CreateView,
    Describe,
    Drop,
    Explain,
    FilesSyntax,
    IntoPlaces,
    Name,
    ProgressClause,
    Quantity,
    Show,
    SocketSyntax,
    Split,
    SplitBranch,
    Statement,
    ValuesSyntax,
    meant_type,
)

EVENT_TIME = "event_time"  # what the values of an expression are called
_WORDS = (
    "ORDERED",
    "DELAY",
    "SLACK",
    "PUNCTUATED",
    "PER",
    "IDLE",
    "SKEW",
    "FUTURE",
    "EXTERNAL",
    "INTERNAL",
    "LATENT",
)


def progress_clause(parser: Parser) -> ProgressClause | None:
    """progress ::= PROGRESS ON (column | expression [AS name]) [EXTERNAL | INTERNAL | LATENT]
    [rule] [PER (FILE | expr)] [IDLE AFTER length] [SKEW length] [FUTURE LIMIT length]

    rule ::= ORDERED | DELAY length | SLACK n ROWS | PUNCTUATED WHEN condition BOUND expression

    PUNCTUATED … FOR column, … is a punctuation of groups, and may be combined with one of the
    rules."""
    start = parser.here()
    if not parser.accept("PROGRESS"):
        return None
    parser.expect("ON")
    attribute, parts = _attribute(parser)
    while word := parser.word:
        if word not in _WORDS:
            close = nearest(word, _WORDS)
            parser.refuse(
                f"expected {', '.join(_WORDS)}, found {parser.found()}",
                hint=close[0] if close else None,
            )
        parser._advance()
        for key, value in _part(parser, word).items():
            if key in parts:
                what = "punctuation" if key == "when" else key.replace("_", " ")
                beside = word == "PUNCTUATED" and key == "rule"
                parser.refuse(
                    f"the progress clause says its {what} twice",
                    hint="PUNCTUATED … FOR columns may stand beside a rule" if beside else None,
                )
            parts[key] = value
    return ProgressClause(attribute, parser.since(start), **parts)


def _attribute(parser: Parser) -> tuple[Name, dict[str, Any]]:
    """Parse the progressing column, or an expression and the name of its values."""
    if not _is_expression(parser):
        return parser.name("a column"), {}
    start = parser.here()
    expression = parser.scalar("a column or an expression")
    name = Name(EVENT_TIME, parser.since(start))
    if parser.accept("AS"):
        name = parser.name("a name for the values")
    return name, {"expression": expression}


def _is_expression(parser: Parser) -> bool:
    """Whether a text is an expression; a name alone is a column."""
    if parser.word in ("CASE", "NOT") or parser._curr.token_type is TokenType.L_PAREN:
        return True
    after = parser._next
    if after is None or after.token_type in (TokenType.SEMICOLON, TokenType.R_PAREN):
        return False
    return not after.text[:1].isalpha() or after.text.upper() in ("AT", "AS")


def _part(parser: Parser, word: str) -> dict[str, Any]:
    match word:
        case "EXTERNAL" | "INTERNAL" | "LATENT":
            return {"timestamps": word}
        case "ORDERED":
            return {"rule": word}
        case "DELAY" | "SLACK":
            return {"rule": word, "amount": parser.quantity()}
        case "PUNCTUATED":
            parser.expect("WHEN")
            when = parser.scalar("a condition")
            parser.expect("BOUND")
            said = {"when": when, "bound": parser.scalar("a bound")}
            if not parser.accept("FOR"):
                return {"rule": word, **said}
            return {**said, "groups": parser.list_of(lambda: parser.name("a column"))}
        case "PER":
            if parser.accept("FILE"):
                return {"per_file": True}
            return {"per": parser.scalar("what tells sub-sources apart")}
        case "IDLE":
            parser.expect("AFTER")
            return {"idle_after": parser.quantity()}
        case "SKEW":
            return {"skew": parser.quantity()}
        case _:
            parser.expect("LIMIT")
            return {"future_limit": parser.quantity()}


# CREATE STREAM, TABLE and QUERY, SPLIT, ALTER QUERY, SHOW, DESCRIBE, DROP, EXPLAIN and plain
# queries.

TYPES = (
    "BOOLEAN",
    "INT",
    "BIGINT",
    "DOUBLE",
    "DECIMAL(p,s)",
    "STRING",
    "BINARY",
    "DATE",
    "TIMESTAMP",
)
_STARTS = ("CREATE", "SPLIT", "ALTER", "SHOW", "DESCRIBE", "DROP", "WITH", "SELECT", "EXPLAIN")
_EXPLAINED = ("PHYSICAL", "SCHEDULE", "DATAFLOW", "CONFLICTS", "ANALYZE")
_CREATED = ("STREAM", "TABLE", "VIEW", "QUERY")
_SHOWN = ("STREAMS", "TABLES", "VIEWS", "QUERIES")
SECOND_WORDS = {
    "ALTER": ("QUERY",),
    "CREATE": _CREATED,
    "DROP": _CREATED,
    "EXPLAIN": (*_EXPLAINED, "SELECT", "WITH"),
    "SHOW": _SHOWN,
}
"""What may follow the word that a statement begins with, where these are words."""


def statement(parser: Parser) -> Statement | None:
    """statement ::= create-stream | create-table | create-view | create-query | alter-query
    | split | drop
    | SHOW (STREAMS | TABLES | VIEWS | QUERIES)
    | (DESCRIBE | DESC) (name | query)
    | EXPLAIN [PHYSICAL | SCHEDULE | DATAFLOW | CONFLICTS | ANALYZE] query
    | query"""
    parser._match(TokenType.SEMICOLON)  # sqlglot leaves one in if a comment follows it
    if not parser._tokens_left():
        return None
    return _statement(parser)


def _statement(parser: Parser) -> Statement:
    start = parser.here()
    if parser.at("SELECT", "WITH") or parser._curr.token_type is TokenType.L_PAREN:
        return query(parser)
    if parser.accept("EXPLAIN"):
        asked = next((each for each in _EXPLAINED if parser.accept(each)), None)
        chosen = {} if asked is None else {asked.lower(): True}
        return Explain(query(parser), parser.since(start), **chosen)
    if parser.accept("CREATE", "STREAM"):
        return _create_stream(parser)
    if parser.accept("CREATE", "TABLE"):
        return _create_table(parser)
    if parser.accept("CREATE", "QUERY"):
        return _create_query(parser)
    if (view := _create_view(parser)) is not None:
        return view
    if parser.accept("ALTER"):
        return _alter_query(parser)
    if parser.accept("SHOW"):
        return _show(parser)
    if parser.accept("DESCRIBE") or parser.accept("DESC"):
        return _describe(parser)
    if parser.accept("SPLIT"):
        return _split(parser)
    if parser.accept("DROP"):
        return _drop(parser)
    return _no_statement(parser)


_CHANGED = "ALTER QUERY name SET …, for a query that runs; files and streams are read as they are"
_INSTEAD = {  # of statements of others; in small letters, for these are no words of the language
    "insert": "SELECT …, with --output rows.jsonl; or CREATE QUERY name AS SELECT …"
    " INTO 'rows.jsonl'",
    "set": "options of the command (penstock run --help) or of connect(…); ALTER QUERY name SET …,"
    " for a query that runs",
    "use": "names without a database before them; there is one",
    "values": "SELECT * FROM (VALUES (1, 'a')) AS t (x, y)",
    "from": "SELECT * FROM …",
    **dict.fromkeys(("update", "delete", "merge", "truncate"), _CHANGED),
    **dict.fromkeys(("start", "run"), "CREATE QUERY name AS SELECT …, on a live engine"),
}


def _no_statement(parser: Parser) -> NoReturn:
    if parser.accept("CREATE"):
        close = nearest(parser.word, _CREATED, cutoff=0.6)
        parser.refuse(
            f"expected STREAM, TABLE, VIEW or QUERY after CREATE, found {parser.found()}",
            hint=close[0] if close else None,
        )
    close = nearest(parser._curr.text, _STARTS, cutoff=0.6)
    hint = _INSTEAD.get(parser.word.lower()) or (close[0] if close else None)
    parser.refuse(
        f"a statement begins with {', '.join(_STARTS[:-1])} or {_STARTS[-1]}, not {parser.found()}",
        hint=hint,
    )


def _create_view(parser: Parser) -> CreateView | None:
    """create-view ::= CREATE [OR REPLACE] [TEMP | TEMPORARY | MATERIALIZED] VIEW [IF NOT EXISTS]
    name ['(' column {',' column} ')'] AS query"""
    start = parser.here()
    for replaces in (False, True):
        before = ("CREATE", *(("OR", "REPLACE") if replaces else ()))
        for kind in ((), ("TEMP",), ("TEMPORARY",), ("MATERIALIZED",)):
            if parser.accept(*before, *kind, "VIEW"):
                if_not_exists = parser.accept("IF", "NOT", "EXISTS")
                name = parser.name("a name for the view")
                columns = column_names(parser)
                emit_when_complete(parser)
                parser.expect("AS")
                asked = query(parser)
                if columns:
                    asked = under_names(asked, name, columns)
                span, materialized = parser.since(start), kind == ("MATERIALIZED",)
                return CreateView(name, asked, replaces, span, if_not_exists, materialized)
    return None


def _create_query(parser: Parser) -> CreateQuery:
    """create-query ::= CREATE QUERY name AS query [INTO place {',' place}]
    place ::= [LATE | REJECTED] 'file'"""
    start = parser.here()
    name = parser.name("a name for the query")
    parser.expect("AS")
    asked = query(parser)
    places = _places(parser) if parser.accept("INTO") else {}
    return CreateQuery(name, asked, parser.since(start), IntoPlaces(**places))


def _places(parser: Parser) -> dict[str, Name]:
    places: dict[str, Name] = {}
    while True:
        side = parser.word if parser.at("LATE", "REJECTED") else "ROWS"
        if side.lower() in places:
            parser.refuse(f"INTO says twice where {side} go")
        parser.accept(side)
        places[side.lower()] = parser.text("a file or directory")
        if not parser._match(TokenType.COMMA):
            return places


def _alter_query(parser: Parser) -> AlterQuery:
    """alter-query ::= ALTER QUERY name SET setting value"""
    start = parser.here()
    parser.expect("QUERY")
    name = parser.name("a query")
    parser.expect("SET")
    setting = parser.name("a setting", allow_reserved=True)
    value = parser.text("a value") if parser.at_text() else _number_or_truth(parser)
    return AlterQuery(name, setting, value, parser.since(start))


def _number_or_truth(parser: Parser) -> Name:
    start, token = parser.here(), parser._curr
    if not parser._match_set((TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE)):
        parser.refuse(f"expected a number, TRUE, FALSE or a text in quotes, found {parser.found()}")
    return Name(token.text, start)


def _show(parser: Parser) -> Show:
    start, what = parser.here(), parser.word
    if what not in _SHOWN:
        close = nearest(what, _SHOWN, cutoff=0.6)
        parser.refuse(
            f"expected STREAMS, TABLES, VIEWS or QUERIES after SHOW, found {parser.found()}",
            hint=close[0] if close else None,
        )
    parser._advance()
    return Show(what, parser.since(start))


def _describe(parser: Parser) -> Describe:
    start = parser.here()
    if parser.at("SELECT", "WITH") or parser._curr.token_type is TokenType.L_PAREN:
        return Describe(query(parser), parser.since(start))
    return Describe(parser.name("a stream, table, view or query"), parser.since(start))


def _drop(parser: Parser) -> Drop:
    start = parser.here()
    kind = parser.word
    if kind not in _CREATED:
        parser.refuse(f"expected STREAM, TABLE, VIEW or QUERY after DROP, found {parser.found()}")
    parser._advance()
    if_exists = parser.accept("IF", "EXISTS")
    return Drop(kind, parser.name(f"a {kind.lower()}"), if_exists, parser.since(start))


def _split(parser: Parser) -> Split:
    """split ::= SPLIT name INTO branch {',' branch}
    branch ::= name WHERE condition | name OTHERWISE"""
    start = parser.here()
    source = parser.name("a stream, table or query")
    parser.expect("INTO")
    return Split(source, parser.list_of(lambda: _branch(parser)), parser.since(start))


def _branch(parser: Parser) -> SplitBranch:
    name = parser.name("a name for a part")
    if parser.accept("OTHERWISE"):
        return SplitBranch(name, None)
    if not parser.accept("WHERE"):
        parser.refuse(f"expected WHERE or OTHERWISE, found {parser.found()}")
    return SplitBranch(name, parser.scalar("a condition"))


def _create_stream(parser: Parser) -> CreateStream:
    """create-stream ::= CREATE STREAM name '(' column {',' column} ')' [source] [progress]"""
    start = parser.here()
    name = parser.name("a name for the stream")
    parser.open_paren("the columns")
    columns = parser.list_of(lambda: column(parser))
    parser.close_paren()
    source = _source(parser)
    progress = progress_clause(parser)
    return CreateStream(name, columns, source, progress, parser.since(start))


def _create_table(parser: Parser) -> CreateStream:
    """create-table ::= CREATE TABLE name '(' column {',' column} ')' [source]"""
    start = parser.here()
    name = parser.name("a name for the table")
    parser.open_paren("the columns")
    columns = parser.list_of(lambda: column(parser))
    parser.close_paren()
    if parser.at("FROM") and parser.next_word == "SOCKET":
        parser.refuse(
            "a table is read to its end before anything else, and a socket may have none",
            hint="CREATE STREAM",
        )
    source = _source(parser)
    if parser.at("PROGRESS"):
        parser.refuse(
            "a table does not progress: it is complete",
            hint="CREATE STREAM, and JOIN … AS OF, for what changes",
        )
    return CreateStream(name, columns, source, None, parser.since(start), is_table=True)


def column(parser: Parser) -> ColumnSyntax:
    start = parser.here()
    name = parser.name("a column", allow_reserved=True)
    sql_type = parser._parse_types(schema=True, allow_identifiers=False)
    if sql_type is None:
        hint = meant_type(parser._curr.text) or " or ".join(TYPES)
        if name.text.upper() == "WATERMARK" and parser.at("FOR"):
            hint = "CREATE STREAM …, with PROGRESS ON ts DELAY 5 SECONDS at its end"
        parser.refuse(f"expected a type for {name.text}, found {parser.found()}", hint=hint)
    if parser.at("EPOCH"):
        parser.refuse(
            "EPOCH does not say what the numbers count",
            hint="EPOCH SECONDS, MILLISECONDS, MICROSECONDS or NANOSECONDS; EPOCH DAYS of a DATE",
        )
    return ColumnSyntax(name, sql_type, parser.since(start))


def _source(parser: Parser) -> FilesSyntax | SocketSyntax | ValuesSyntax | None:
    """source ::= FROM FILES 'pattern' [FORMAT name] [row-limit] | FROM SOCKET 'host:port'
    [row-limit] | FROM VALUES '(' … ')' {',' '(' … ')'}"""
    if not parser.accept("FROM"):
        return None
    if parser.accept("FILES") or parser.accept("FILE"):
        pattern = parser.text("a file name or pattern")
        file_format = parser.name("a format") if parser.accept("FORMAT") else None
        return FilesSyntax(pattern, file_format, _row_limit(parser))
    if parser.accept("SOCKET"):
        return SocketSyntax(parser.text("an address"), _row_limit(parser))
    if not parser.accept("VALUES"):
        parser.refuse(
            f"there is no source called {parser.found()}",
            hint="FROM FILES 'pattern', FROM SOCKET 'host:port' or FROM VALUES (…); from Python,"
            " db.stream also takes rows, Arrow, pandas and Polars data, asynchronous iterables and"
            " Spark DataFrames, such as those that read Kafka",
        )
    return written_rows(parser)


def _row_limit(parser: Parser) -> Quantity | None:
    """row-limit ::= ROW LIMIT number (BYTES | KB | MB | GB)"""
    if not parser.accept("ROW", "LIMIT"):
        return None
    start = parser.here()
    amount = parser.quantity()
    for unit in ("BYTES", "KB", "MB", "GB"):
        if amount.unit == unit or (amount.unit is None and parser.accept(unit)):
            return Quantity(amount.amount, unit, parser.since(start))
    span = parser.since(start)
    raise SyntaxAt(f"ROW LIMIT is {amount}", span, "ROW LIMIT 16 MB, or BYTES, KB, GB")


# SQL text to syntax.  Whatever the text is, the outcome is statements or a `ParseError`.

T = TypeVar("T")


def parse_script(sql: str, parameters: Mapping[str, object] | None = None) -> list[Statement]:
    """Parse the statements of a script, separated by semicolons; `:name` is the parameter of that
    name, and there are no others."""
    given = Parameters(parameters or {})
    with pointing_into(sql):
        tokens = _tokenize(sql)
        check_tokens(tokens)
        found = [each for each in _parse(sql, tokens, statement, given) if each is not None]
        given.refuse_unused()
        return found


def parse_expression(sql: str) -> exp.Expr:
    """Parse one scalar expression."""
    return _parse_one(sql, lambda parser: parser.scalar())


def parse_quantity(sql: str) -> Quantity:
    """Parse one length: `5 seconds`, `100 rows`, `7`."""
    return _parse_one(sql, lambda parser: parser.quantity())


def parse_columns(sql: str) -> tuple[ColumnSyntax, ...]:
    """Parse columns as in CREATE STREAM: `a INT, ts TIMESTAMP`."""
    return _parse_one(sql, lambda parser: parser.list_of(lambda: column(parser)))


def _parse_one(sql: str, rule: Callable[[Parser], T]) -> T:
    with pointing_into(sql):
        tokens = _tokenize(sql)
        check_tokens(tokens)
        found = _parse(sql, tokens, rule)
        if len(found) != 1:
            raise ParseError("expected one expression", span=Span(0, len(sql)))
        return found[0]


@contextmanager
def pointing_into(sql: str) -> Iterator[None]:
    """Give every error of the block the text that its span is in."""
    try:
        yield
    except RecursionError:
        message = "the query is nested too deeply"
        raise ParseError(message, hint="sub-queries in FROM").with_text(sql) from None
    except PenstockError as error:
        error.with_text(sql)
        raise


@contextmanager
def pointing_at(span: Span) -> Iterator[None]:
    """Give errors of the block without a span this one."""
    try:
        yield
    except PenstockError as error:
        if error.span is None:
            error.span = span
        raise


def _tokenize(sql: str) -> list[Token]:
    check_length(sql)
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise ParseError(
            "the text holds half a character", span=Span(error.start, error.end)
        ) from None
    try:
        return with_struct_types(Penstock().tokenize(sql))
    except TokenError as error:
        raise _unterminated(sql, error) from None


def _unterminated(sql: str, error: TokenError) -> ParseError:
    cause = str(error.__cause__ or error)
    match = re.search(r"Missing (\S+) from \d+:(\d+)", cause)
    if not match and (comment := sql.rfind("/*")) >= 0 and "*/" not in sql[comment:]:
        match = re.match(r"(\S+) (\d+)", f"*/ {comment}")
    if not match:
        start = max(0, min(error.start or 0, len(sql)))
        return ParseError("this cannot be read as SQL", span=Span(start, start))
    quote, start = match[1], min(int(match[2]), len(sql))
    what = {"`": "a quoted name", "*/": "a comment"}.get(quote, "a string")
    return ParseError(
        f"{what} is not terminated",
        span=Span(start, start + 1),
        expected=f"a closing {quote}",
    )


def _parse(
    sql: str, tokens: list[Token], rule: Callable[[Parser], T], given: Parameters | None = None
) -> list[T]:
    parser = Parser(dialect=Penstock())
    parser.parameters = given or Parameters({})
    try:
        return parser._parse(rule, tokens, sql)  # type: ignore[arg-type, return-value]
    except SyntaxAt as error:
        raise ParseError(error.message, span=error.span, hint=error.hint) from None
    except SqlglotError as error:
        raise ParseError(str(error).splitlines()[0], span=parser.here()) from None
