"""CREATE STREAM, TABLE and QUERY, SPLIT, ALTER QUERY, SHOW, DESCRIBE, DROP, EXPLAIN and plain
queries."""

from __future__ import annotations

from typing import NoReturn

from sqlglot.tokenizer_core import TokenType

from penstock.errors import nearest
from penstock.language.parsing.parser import Parser
from penstock.language.parsing.progress_clause import progress_clause
from penstock.language.parsing.relations import column_names
from penstock.language.parsing.select import emit_when_complete, query, under_names
from penstock.language.parsing.tokens import SyntaxAt
from penstock.language.parsing.written_rows import written_rows
from penstock.language.syntax.names import Name, Quantity, meant_type
from penstock.language.syntax.relations import ValuesSyntax
from penstock.language.syntax.statements import (
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
    Show,
    SocketSyntax,
    Split,
    SplitBranch,
    Statement,
)

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
