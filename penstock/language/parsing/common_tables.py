"""WITH: queries that have a name inside of one statement."""

from __future__ import annotations

from penstock.language.parsing.parser import Parser
from penstock.language.syntax.names import Name
from penstock.language.syntax.queries import CommonTable


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
    from penstock.language.parsing.select import query  # which begins with these

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
