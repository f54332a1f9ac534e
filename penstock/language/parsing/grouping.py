"""GROUP BY: keys, and several sets of them at once."""

from __future__ import annotations

from itertools import combinations, product
from math import prod
from typing import NamedTuple, TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.language.parsing.parser import Parser

KeySet: TypeAlias = tuple[exp.Expr, ...]
MAX_SETS = 128
_MOST_OF_A_CUBE = 7


class Grouping(NamedTuple):
    """All keys, and the sets of them that rows are grouped by; no sets: by all keys."""

    keys: KeySet = ()
    sets: tuple[KeySet, ...] = ()


def group_by(parser: Parser) -> Grouping:
    """group ::= GROUP BY item {',' item} [WITH (ROLLUP | CUBE) | GROUPING SETS '(' … ')']
    item  ::= key | GROUPING SETS '(' set {',' set} ')' | ROLLUP '(' keys ')' | CUBE '(' keys ')'

    Several items stand for all combinations of their sets.
    """
    if not parser._match(TokenType.GROUP_BY):
        return Grouping()
    items = parser.list_of(lambda: _item(parser))
    if parser.accept("WITH"):
        items = (_behind(parser, items),)
    elif parser._curr.token_type is TokenType.GROUPING_SETS:
        return Grouping(_joined([key for sets in items for key in sets]), tuple(_item(parser)))
    if all(len(sets) == 1 for sets in items):
        return Grouping(tuple(key for (only,) in items for key in only))
    if prod(map(len, items)) > MAX_SETS:
        parser.refuse(f"rows are grouped by up to {MAX_SETS} sets of keys")
    made = [_joined(several) for several in product(*items)]
    return Grouping(_joined(made), tuple(made))


def _item(parser: Parser) -> list[KeySet]:
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
    """Whether parentheses hold keys, and not a part of an expression such as `(a + b) * 2`."""
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
    """All of them, then one less, and so on."""
    return [_joined(parts[:size]) for size in range(len(parts), -1, -1)]


def _cube(parts: tuple[KeySet, ...]) -> list[KeySet]:
    """Every choice of them."""
    if len(parts) > _MOST_OF_A_CUBE:
        return [()] * (MAX_SETS + 1)  # which are too many
    sizes = range(len(parts), -1, -1)
    return [_joined(some) for size in sizes for some in combinations(parts, size)]


def _joined(several: tuple[KeySet, ...] | list[KeySet]) -> KeySet:
    """All keys of some sets, each once."""
    return tuple(dict.fromkeys(key for keys in several for key in keys))
