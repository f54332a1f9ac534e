"""Parses queries: SELECT with all its clauses, WITH, and the modifiers of a whole query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from math import prod
from typing import NamedTuple, TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.errors import Span
from penstock.sql.parser.parser import Parser
from penstock.sql.parser.relations import GENERATORS, from_clause
from penstock.sql.parser.tokens import MAX_COLUMNS, SyntaxAt
from penstock.sql.parser.windows import window_clause
from penstock.sql.syntax import (
    CommonTable,
    ConsistencySyntax,
    JoinChain,
    LimitClause,
    Name,
    OrderItem,
    Quantity,
    QuerySyntax,
    Select,
    SelectItem,
    SubqueryRelation,
    WindowClause,
)


def common_tables(parser: Parser) -> tuple[CommonTable, ...]:
    """with ::= WITH table {',' table}"""
    if not parser.accept("WITH"):
        return ()
    if parser.at("RECURSIVE") and parser.next_word != "AS":
        parser.refuse(
            "a query that reads itself would never be complete", hint="WITH, without RECURSIVE"
        )
    return parser.list_of(lambda: _table(parser))


def _table(parser: Parser) -> CommonTable:
    """table ::= name ['(' column {',' column} ')'] AS [[NOT] MATERIALIZED] '(' query ')'"""

    start = parser.here()
    name = parser.name("a name for the query")
    columns: tuple[Name, ...] = ()
    if not parser.at("AS"):
        parser.open_paren("the names of the columns, or AS")
        columns = parser.list_of(lambda: parser.name("a column"))
        parser.close_paren()
    parser.expect("AS")
    if not parser.accept("NOT", "MATERIALIZED"):  # which is nothing that an answer depends on
        parser.accept("MATERIALIZED")
    parser.open_paren("the query")
    asked = query(parser)
    parser.close_paren()
    return CommonTable(name, columns, asked, parser.since(start))


# GROUP BY: keys, and several sets of them at once.

KeySet: TypeAlias = tuple[exp.Expr, ...]
MAX_SETS = 128
_MOST_OF_A_CUBE = 7


class Grouping(NamedTuple):
    """All keys, and the grouping sets; no sets: one set of all keys."""

    keys: KeySet = ()
    sets: tuple[KeySet, ...] = ()


def group_by(parser: Parser) -> Grouping:
    """group ::= GROUP BY item {',' item} [WITH (ROLLUP | CUBE) | GROUPING SETS '(' … ')']
    item  ::= key | GROUPING SETS '(' set {',' set} ')' | ROLLUP '(' keys ')' | CUBE '(' keys ')'

    Several items stand for all combinations of their sets.
    """
    if not parser._match(TokenType.GROUP_BY):
        return Grouping()
    items = parser.list_of(lambda: _grouping_item(parser))
    if parser.accept("WITH"):
        items = (_behind(parser, items),)
    elif parser._curr.token_type is TokenType.GROUPING_SETS:
        return Grouping(
            _joined([key for sets in items for key in sets]), tuple(_grouping_item(parser))
        )
    if all(len(sets) == 1 for sets in items):
        return Grouping(tuple(key for (only,) in items for key in only))
    if prod(map(len, items)) > MAX_SETS:
        parser.refuse(f"rows are grouped by up to {MAX_SETS} sets of keys")
    made = [_joined(several) for several in product(*items)]
    return Grouping(_joined(made), tuple(made))


def _grouping_item(parser: Parser) -> list[KeySet]:
    if parser._match(TokenType.GROUPING_SETS):
        parser.open_paren("sets of keys")
        found = parser.list_of(lambda: _sets(parser))
        parser.close_paren()
        return [each for several in found for each in several]
    return _sets(parser)


def _sets(parser: Parser) -> list[KeySet]:
    if parser._match(TokenType.ROLLUP):
        return _rollup(_parts(parser))
    if parser._match(TokenType.CUBE):
        return _cube(_parts(parser))
    return [_keys(parser)]


def _parts(parser: Parser) -> tuple[KeySet, ...]:
    """'(' part {',' part} ')', each a key or several in parentheses"""
    parser.open_paren("the keys")
    parts = parser.list_of(lambda: _keys(parser))
    parser.close_paren()
    return parts


def _keys(parser: Parser) -> KeySet:
    """A key, several in parentheses, or none: '()'."""
    if parser._curr.token_type is TokenType.L_PAREN and _is_list(parser):
        parser._advance()
        if parser._match(TokenType.R_PAREN):
            return ()
        keys = parser.list_of(lambda: parser.scalar("a column to group by"))
        parser.close_paren()
        return keys
    return (parser.scalar("a column to group by"),)


def _is_list(parser: Parser) -> bool:
    """Whether parentheses hold keys, and not the beginning of an expression such as `(a + b) *
    2`."""
    depth = 0
    for place in range(parser._index, len(parser._tokens)):
        kind = parser._tokens[place].token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if kind is TokenType.COMMA and depth == 1:
            return True
        if depth == 0:
            return place == parser._index + 1
    return False


def _behind(parser: Parser, items: tuple[list[KeySet], ...]) -> list[KeySet]:
    """GROUP BY a, b WITH ROLLUP, as Spark and MySQL write it"""
    parts = tuple(keys for sets in items for keys in sets)
    if parser._match(TokenType.ROLLUP):
        return _rollup(parts)
    if not parser._match(TokenType.CUBE):
        parser.refuse(f"expected ROLLUP or CUBE after WITH, found {parser.found()}")
    return _cube(parts)


def _rollup(parts: tuple[KeySet, ...]) -> list[KeySet]:
    """Sets of ROLLUP: all keys, then one less, and so on."""
    return [_joined(parts[:size]) for size in range(len(parts), -1, -1)]


def _cube(parts: tuple[KeySet, ...]) -> list[KeySet]:
    """Sets of CUBE: every subset of the keys."""
    if len(parts) > _MOST_OF_A_CUBE:
        return [()] * (MAX_SETS + 1)  # which are too many
    sizes = range(len(parts), -1, -1)
    return [_joined(some) for size in sizes for some in combinations(parts, size)]


def _joined(several: tuple[KeySet, ...] | list[KeySet]) -> KeySet:
    """All keys of some sets, without duplicates."""
    return tuple(dict.fromkeys(key for keys in several for key in keys))


# Clauses that compare rows of one result: WINDOW w AS (…), QUALIFY, ORDER BY, LIMIT n BY …


class RowClauses(NamedTuple):
    """The clauses behind HAVING."""

    windows: tuple[exp.Window, ...]
    qualify: exp.Expr | None
    order_by: tuple[OrderItem, ...]
    limit: LimitClause | None


def row_clauses(parser: Parser) -> RowClauses:
    """[WINDOW name AS '(' … ')' {',' …}] [QUALIFY condition] [ORDER BY …]
    [LIMIT n [OFFSET m] [BY key, …]]"""
    windows = _named_windows(parser)
    qualify = parser.scalar("a condition") if parser.accept("QUALIFY") else None
    windows = windows or _named_windows(parser)
    order_by = _order_by(parser)
    limit = _limit(parser)
    return RowClauses(windows, qualify, order_by, limit)


def at_named_window(parser: Parser) -> bool:
    """Whether `WINDOW w AS (…)` follows, and not `WINDOW 10 MINUTES`."""
    return parser.at("WINDOW") and bool(parser.next_word) and parser.word_after(2) == "AS"


def _named_windows(parser: Parser) -> tuple[exp.Window, ...]:
    if not at_named_window(parser):
        return ()
    parser.expect("WINDOW")
    return parser.list_of(lambda: _named_window(parser))


def _named_window(parser: Parser) -> exp.Window:
    made = parser._parse_named_window()
    if not isinstance(made, exp.Window):
        parser.refuse(f"expected a window, found {parser.found()}", hint="w AS (PARTITION BY …)")
    return made


def _order_by(parser: Parser) -> tuple[OrderItem, ...]:
    """ORDER BY expression [ASC | DESC] [NULLS (FIRST | LAST)] {',' …}"""
    if not parser.accept("ORDER BY"):
        return ()
    return parser.list_of(lambda: _order_item(parser))


def _order_item(parser: Parser) -> OrderItem:
    start = parser.here()
    found = parser.scalar("a column to order by")
    descending = parser.accept("DESC")
    if not descending:
        parser.accept("ASC")
    nulls_first = descending
    if parser.accept("NULLS"):
        nulls_first = parser.accept("FIRST")
        if not nulls_first:
            parser.expect("LAST")
    return OrderItem(found, descending, parser.since(start), nulls_first)


def _limit(parser: Parser) -> LimitClause | None:
    """limit ::= LIMIT n [OFFSET m] [BY key {',' key}] [OFFSET m]
    | OFFSET m [ROW | ROWS] [fetch] [BY …] | fetch [BY …]
    fetch ::= FETCH (FIRST | NEXT) n (ROW | ROWS) ONLY"""
    start = parser.here()
    if not parser.at("LIMIT", "OFFSET", "FETCH"):
        return None
    rows = _count(parser, "LIMIT", least=1) if parser.accept("LIMIT") else None
    offset = _offset(parser)
    if rows is None:
        rows = _fetch(parser)
    by: tuple[exp.Expr, ...] = ()
    if parser.accept("BY"):
        by = parser.list_of(lambda: parser.scalar("a key"))
    if offset is None:
        offset = _offset(parser)
    if rows is None and not offset:
        raise SyntaxAt("OFFSET 0 leaves all rows", parser.since(start), "LIMIT n OFFSET 0")
    return LimitClause(rows, by, parser.since(start), offset or 0)


def _offset(parser: Parser) -> int | None:
    if not parser.accept("OFFSET"):
        return None
    return _count(parser, "OFFSET", least=0)


def _fetch(parser: Parser) -> int | None:
    if not parser.accept("FETCH"):
        return None
    if not (parser.accept("FIRST") or parser.accept("NEXT")):
        parser.refuse(f"expected FIRST or NEXT after FETCH, found {parser.found()}")
    rows = 1 if parser.at("ROW", "ROWS") else _count(parser, "FETCH", least=1)
    _ = parser.accept("ROWS") or parser.accept("ROW")
    parser.expect("ONLY")
    return rows


def _count(parser: Parser, clause: str, least: int) -> int:
    quantity = parser.quantity()
    rows = int(quantity.amount)
    if rows != quantity.amount or rows < least or not (quantity.unit is None or quantity.is_rows):
        raise SyntaxAt(f"{clause} is {quantity}", quantity.span, f"a whole number from {least} on")
    return rows


# SELECT … [window] FROM … WHERE … GROUP BY … HAVING … WINDOW … LATE … EMIT …


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
        items.append(_select_item(parser))
        if len(items) > MAX_COLUMNS:
            parser.refuse(f"a SELECT has up to {MAX_COLUMNS:,} columns")
        found = window_clause(parser)
        if found is not None and window is not None:
            parser.refuse("a SELECT has one window")
        window = window or found
        if not parser._match(TokenType.COMMA):
            return tuple(items), window


def _select_item(parser: Parser) -> SelectItem:
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
    """Parse EMIT ON WINDOW CLOSE (RisingWave) or EMIT FINAL (ksqlDB), which ask for the default:
    results are emitted when they are complete."""
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
