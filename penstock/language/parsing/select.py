"""SELECT … [window] FROM … WHERE … GROUP BY … HAVING … WINDOW … LATE … EMIT …"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.errors import Span
from penstock.language.limits import MAX_COLUMNS
from penstock.language.parsing.common_tables import common_tables
from penstock.language.parsing.grouping import group_by
from penstock.language.parsing.joins import from_clause
from penstock.language.parsing.parser import Parser
from penstock.language.parsing.row_clauses import at_named_window, row_clauses
from penstock.language.parsing.unnest import GENERATORS
from penstock.language.parsing.window_clause import window_clause
from penstock.language.syntax.names import Name, Quantity
from penstock.language.syntax.queries import ConsistencySyntax, QuerySyntax, Select, SelectItem
from penstock.language.syntax.relations import JoinChain, SubqueryRelation
from penstock.language.syntax.windows import WindowClause


def query(parser: Parser) -> QuerySyntax:
    """query ::= [with] operand {operation operand} [late] [emit] [consistency]"""
    start = parser.here()
    tables = common_tables(parser)
    selects = [_operand(parser)]
    operations = []
    while (operation := _operation(parser)) is not None:
        operations.append(operation)
        selects.append(_operand(parser))
    said = _modifiers(parser)
    return QuerySyntax(
        tuple(selects),
        said.late,
        said.amend_for,
        said.early,
        said.in_order,
        said.consistency,
        said.span,
        parser.since(start),
        tuple(operations),
        tables,
        said.changes,
        said.keep_for,
    )


def _operand(parser: Parser) -> Select:
    """operand ::= select | '(' query ')'

    before: (SELECT k FROM s ORDER BY k LIMIT 3 BY t) UNION ALL …
    after:  SELECT * FROM (SELECT k FROM s ORDER BY k LIMIT 3 BY t) UNION ALL …
    """
    start = parser.here()
    if not parser._match(TokenType.L_PAREN):
        return _select(parser)
    inner = query(parser)
    parser.close_paren()
    return _all_of(SubqueryRelation(inner, None, None, parser.since(start)))


def under_names(asked: QuerySyntax, name: Name, columns: tuple[Name, ...]) -> QuerySyntax:
    """
    before: a query, with other names for its columns
    after:  SELECT * FROM (query) AS name (columns)

    What is said of the results of the query is said of these.
    """
    inner = QuerySyntax(
        asked.selects,
        *(None, None, None, False, None, None, asked.span, asked.operations, asked.tables),
    )
    select = _all_of(SubqueryRelation(inner, name, None, asked.span, columns))
    return replace(asked, selects=(select,), operations=(), tables=())


def united(
    parts: Sequence[SubqueryRelation], operations: Sequence[Name], span: Span
) -> QuerySyntax:
    """
    before: (query) UNION (query), in FROM
    after:  SELECT * FROM (query) UNION SELECT * FROM (query)
    """
    selects = tuple(map(_all_of, parts))
    return QuerySyntax(
        selects, None, None, None, False, None, None, span, operations=tuple(operations)
    )


def _all_of(relation: SubqueryRelation) -> Select:
    """SELECT * FROM a relation."""
    span = relation.span
    everything = SelectItem(exp.Star(), None, "*", span)
    chain = JoinChain(relation, ())
    return Select((everything,), False, (), None, (chain,), None, (), None, None, (), None, span)


def _operation(parser: Parser) -> Name | None:
    """operation ::= UNION [ALL | DISTINCT] | INTERSECT [DISTINCT] | (EXCEPT | MINUS) [DISTINCT]"""
    start, word = parser.here(), parser.word
    if word not in ("UNION", "INTERSECT", "EXCEPT") and not parser.at_minus():
        return None
    parser._advance()
    every = parser.accept("ALL")
    if every and word != "UNION":
        parser.refuse(f"{word} ALL counts how often rows come", hint=word)
    if not every:
        parser.accept("DISTINCT")
    if word == "EXCEPT" and not parser.at("SELECT", "("):
        parser.refuse(f"expected ON or SELECT after EXCEPT, found {parser.found()}")
    if word == "MINUS":  # of Spark
        word = "EXCEPT"
    return Name("UNION ALL" if every else word, parser.since(start))


def _select(parser: Parser) -> Select:
    start = parser.here()
    parser.expect("SELECT")
    hint = _hint(parser)
    distinct = parser.accept("DISTINCT")
    distinct_on = _distinct_on(parser) if distinct else ()
    parser.accept("ALL")
    if parser.at("TOP") and parser._next.token_type is TokenType.NUMBER:
        instead = f"LIMIT {parser._next.text}, behind FROM"
        parser.refuse("TOP is not part of the dialect", hint=instead)
    items, window = _items(parser)
    if parser._curr.token_type is TokenType.L_PAREN:  # a call whose name was taken for an alias
        name = parser._prev.text
        parser.refuse(f"expected FROM, found {parser.found()}", hint=f"a comma before {name}")
    parser.expect("FROM")
    chains = from_clause(parser)
    window_all = _window_all(parser)
    where = parser.scalar("a condition") if parser.accept("WHERE") else None
    window_all = window_all or _window_all(parser)
    grouped = group_by(parser)
    having = parser.scalar("a condition") if parser.accept("HAVING") else None
    window_all = window_all or _window_all(parser)
    rows = row_clauses(parser)
    return Select(
        items,
        distinct and not distinct_on,
        distinct_on,
        window,
        chains,
        where,
        grouped.keys,
        having,
        window_all,
        rows.order_by,
        hint,
        parser.since(start),
        rows.limit,
        rows.qualify,
        rows.windows,
        grouped.sets,
    )


def _distinct_on(parser: Parser) -> tuple[exp.Expr, ...]:
    """DISTINCT ON '(' key {',' key} ')'"""
    if not parser.accept("ON"):
        return ()
    parser.open_paren("the keys")
    keys = parser.list_of(lambda: parser.scalar("a key"))
    parser.close_paren()
    return keys


def _hint(parser: Parser) -> Name | None:
    """hint ::= '/*+' name '*/'"""
    span = parser.here()
    if not parser._match(TokenType.HINT):
        return None
    return Name(" ".join(parser._prev.comments).strip(), span)


def _items(parser: Parser) -> tuple[tuple[SelectItem, ...], WindowClause | None]:
    """items ::= item {',' item}; the window stands after the last, or after any one of them."""
    items: list[SelectItem] = []
    window: WindowClause | None = None
    while True:
        items.append(_item(parser))
        if len(items) > MAX_COLUMNS:
            parser.refuse(f"a SELECT has up to {MAX_COLUMNS:,} columns")
        found = window_clause(parser)
        if found is not None and window is not None:
            parser.refuse("a SELECT has one window")
        window = window or found
        if not parser._match(TokenType.COMMA):
            return tuple(items), window


def _item(parser: Parser) -> SelectItem:
    start = parser.here()
    if parser._match(TokenType.STAR):
        return _star(parser, exp.Star(), "*", start)
    parsed = parser.scalar("a column or expression")
    span = parser.since(start)
    if isinstance(parsed, exp.Column) and isinstance(parsed.this, exp.Star):
        return _star(parser, parsed, parsed.sql(), start)
    text = re.sub(r"\s+", " ", parser.sql[span.start : span.end])
    text = re.sub(r"^(\w+) \(", r"\1(", text)
    aliases = _aliases(parser, parsed)
    alias = None if aliases else parser.alias()
    return SelectItem(parsed, alias, text, span, aliases=aliases)


def _aliases(parser: Parser, parsed: exp.Expr) -> tuple[Name, ...]:
    """AS '(' column {',' column} ')', behind what gives several columns"""
    several = isinstance(parsed, exp.Anonymous) and str(parsed.name).upper() in GENERATORS
    if not several or not parser.at("AS") or parser._next.token_type is not TokenType.L_PAREN:
        return ()
    parser._advance()
    parser.open_paren("columns")
    columns = parser.list_of(lambda: parser.name("a column", allow_reserved=True))
    parser.close_paren()
    return columns


def _star(parser: Parser, star: exp.Expr, text: str, start: Span) -> SelectItem:
    """star ::= [relation '.'] '*' [(EXCEPT | EXCLUDE) '(' column {',' column} ')']
    [REPLACE '(' expression AS column {',' …} ')'] [RENAME '(' column AS column {',' …} ')']"""
    without: tuple[Name, ...] = ()
    replaced: tuple[SelectItem, ...] = ()
    renamed: tuple[tuple[Name, Name], ...] = ()
    if parser.accept("EXCEPT") or parser.accept("EXCLUDE"):
        parser.open_paren("the columns to leave out")
        without = parser.list_of(lambda: parser.name("a column", allow_reserved=True))
        parser.close_paren()
    if parser.accept("REPLACE"):
        parser.open_paren("what stands for columns")
        replaced = parser.list_of(lambda: _replacement(parser))
        parser.close_paren()
    if parser.accept("RENAME"):
        parser.open_paren("columns and their new names")
        renamed = parser.list_of(lambda: _new_name(parser))
        parser.close_paren()
    return SelectItem(
        star, None, text, parser.since(start), without, replaced=replaced, renamed=renamed
    )


def _replacement(parser: Parser) -> SelectItem:
    start = parser.here()
    found = parser.scalar("an expression")
    parser.expect("AS")
    name = parser.name("a column", allow_reserved=True)
    return SelectItem(found, name, name.text, parser.since(start))


def _new_name(parser: Parser) -> tuple[Name, Name]:
    column = parser.name("a column", allow_reserved=True)
    parser.expect("AS")
    return column, parser.name("a new name", allow_reserved=True)


def _window_all(parser: Parser) -> Quantity | None:
    """WINDOW 10 MINUTES: the same window for every stream in FROM."""
    if at_named_window(parser) or not parser.accept("WINDOW"):
        return None
    if parser.at("TUMBLING", "HOPPING", "SESSION"):
        parser.refuse(
            f"a {parser.word} window stands behind GROUP BY, or in brackets behind the SELECT list",
            hint={
                "TUMBLING": "GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)",
                "HOPPING": "GROUP BY HOP(ts, INTERVAL '1' MINUTE, INTERVAL '10' MINUTE)",
                "SESSION": "GROUP BY SESSION(ts, INTERVAL '5' MINUTE)",
            }[parser.word],
        )
    return parser.quantity()


class _Modifiers(NamedTuple):
    late: Name | None
    amend_for: Quantity | None
    early: Quantity | None
    in_order: bool
    consistency: ConsistencySyntax | None
    span: Span | None
    changes: bool
    keep_for: Quantity | None


def _modifiers(parser: Parser) -> _Modifiers:
    """late ::= LATE (DROP | SIDE | AMEND [FOR length])
    emit ::= EMIT (CHANGES [KEEP FOR length] | [EARLY EVERY length] [IN ORDER])
    consistency ::= CONSISTENCY (SERIAL | LEVEL number | WEAK)"""
    start = parser.here()
    late: Name | None = None
    amend_for: Quantity | None = None
    early: Quantity | None = None
    in_order = changes = False
    consistency: ConsistencySyntax | None = None
    keep_for: Quantity | None = None
    seen: set[str] = set()
    while parser.at("LATE", "EMIT", "CONSISTENCY"):
        if emit_when_complete(parser):
            continue
        if parser.word in seen:
            parser.refuse(f"{parser.word} is said twice")
        seen.add(parser.word)
        if parser.at("CONSISTENCY"):
            consistency = _consistency(parser)
            continue
        if parser.accept("LATE"):
            if not parser.at("DROP", "SIDE", "AMEND"):
                parser.refuse(f"expected DROP, SIDE or AMEND after LATE, found {parser.found()}")
            late = Name(parser.word, parser.here())
            parser._advance()
            if parser.accept("FOR"):
                if late.text != "AMEND":
                    parser.refuse(f"LATE {late.text} keeps nothing that FOR could be said of")
                amend_for = parser.quantity()
            continue
        parser.expect("EMIT")
        if parser.accept("CHANGES"):
            changes = True
            keep_for = parser.quantity() if parser.accept("KEEP", "FOR") else None
            if parser.at("EARLY", "IN"):
                parser.refuse(
                    "what changes is said at once, and not in order", hint="EMIT CHANGES alone"
                )
            continue
        if parser.accept("EARLY"):
            parser.expect("EVERY")
            early = parser.quantity()
        in_order = parser.accept("IN", "ORDER")
        if early is None and not in_order:
            parser.refuse(
                f"expected CHANGES, EARLY EVERY or IN ORDER after EMIT, found {parser.found()}"
            )
    span = parser.since(start) if seen else None
    return _Modifiers(late, amend_for, early, in_order, consistency, span, changes, keep_for)


def emit_when_complete(parser: Parser) -> bool:
    """EMIT ON WINDOW CLOSE of RisingWave, EMIT FINAL of ksqlDB: what nobody asks to see earlier is
    given out so anyway."""
    return parser.accept("EMIT", "ON", "WINDOW", "CLOSE") or parser.accept("EMIT", "FINAL")


def _consistency(parser: Parser) -> ConsistencySyntax:
    start = parser.here()
    parser.expect("CONSISTENCY")
    if not parser.at("SERIAL", "LEVEL", "WEAK"):
        parser.refuse(
            f"expected SERIAL, LEVEL or WEAK after CONSISTENCY, found {parser.found()}",
            hint="CONSISTENCY LEVEL 100",
        )
    following = Name(parser.word, parser.here())
    parser._advance()
    rows = parser.quantity() if following.text == "LEVEL" else None
    return ConsistencySyntax(following, rows, parser.since(start))
