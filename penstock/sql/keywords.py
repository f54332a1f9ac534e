"""The words of the language, for prompts that complete them, and where the statements of a text
end.

The words are collected from the code of the parser, so that no list falls behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import CodeType, FunctionType, ModuleType

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from penstock.functions.aggregate_functions import AGGREGATES
from penstock.functions.scalar_functions import SCALARS
from penstock.model.types import Epoch
from penstock.sql import parser
from penstock.sql.parser.parser import Penstock

_WORD = re.compile(r"[A-Z][A-Z_]+")
_NOT_KEYWORDS = frozenset(["RECURSIVE", "WORDY"])
"""One that the parser knows in order to refuse it, and one that is only a name in its code."""
_OF_SQLGLOT = frozenset(
    [
        *("BY", "CUBE", "FILTER", "GROUPING", "NULLS", "ROLLUP", "ROWS", "SETS"),
        *("ASC", "CURRENT", "DESC", "FOLLOWING", "LAST", "OVER", "PARTITION", "PRECEDING"),
        *("GROUPS", "IGNORE", "RESPECT", "UNBOUNDED", "TIES", "OTHERS", "SIZE"),
    ]
)
"""Words that sqlglot's code looks for, or that stand in tables."""


@cache
def words() -> tuple[str, ...]:
    """All keywords of the language, sorted.

    >>> {"SELECT", "RANGE", "PROGRESS", "SLACK", "SEMI"} <= set(words())
    True
    """
    found = {word for module in _parser_modules() for word in _in_module(module)}
    units = {each.value for each in Epoch}  # EPOCH SECONDS: the parser has them from the model
    return tuple(sorted((found | _OF_SQLGLOT | units) - _NOT_KEYWORDS))


def _parser_modules() -> Iterator[ModuleType]:
    for module in iter_modules(parser.__path__):
        yield import_module(f"{parser.__name__}.{module.name}")


@cache
def function_names() -> tuple[str, ...]:
    """Names of all aggregate and scalar functions, sorted.

    >>> {"count", "lower"} <= set(function_names())
    True
    """
    return tuple(sorted({*AGGREGATES, *SCALARS}))


def is_complete(sql: str) -> bool:
    """Whether a text ends with the semicolon of its last statement, not with one in a string or
    behind two dashes.

    >>> is_complete("SELECT 1;"), is_complete("SELECT ';"), is_complete("SELECT 1 -- ;")
    (True, False, False)
    """
    try:
        tokens = Penstock().tokenize(sql)
    except TokenError:
        return False
    return bool(tokens) and tokens[-1].token_type is TokenType.SEMICOLON


def is_closed(sql: str) -> bool:
    """Whether no string or comment of a text is left open at its end.

    >>> is_closed("SELECT 1"), is_closed("SELECT 'a"), is_closed("/* a")
    (True, False, False)
    """
    try:
        found = Penstock().tokenize(f"{sql}\n;")
    except TokenError:
        return False
    return bool(found) and found[-1].token_type is TokenType.SEMICOLON


def is_between_statements(sql: str) -> bool:
    """Whether another statement may begin behind a text.

    >>> [is_between_statements(each) for each in ("-- a", "SELECT 1;", "SELECT 1", "/* a")]
    [True, True, False, False]
    """
    return is_closed(sql) and (is_complete(sql) or not Penstock().tokenize(sql))


def statements_of(sql: str) -> list[str]:
    """Split a text into its statements, verbatim. A text that cannot be tokenized is one statement.

    >>> statements_of("SELECT ';' AS a; SELECT 2")
    ["SELECT ';' AS a;", 'SELECT 2']
    """
    try:
        tokens = Penstock().tokenize(sql)
    except TokenError:
        return [sql]
    found, begin = [], 0
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            found.append(sql[begin : token.end + 1].strip())
            begin = token.end + 1
    return [each for each in (*found, sql[begin:].strip()) if each.strip(";").strip()]


def _in_module(module: ModuleType) -> Iterator[str]:
    for value in vars(module).values():
        if getattr(value, "__module__", module.__name__) != module.__name__:
            continue  # it belongs to another one
        if isinstance(value, FunctionType):
            yield from _in_constants(value.__code__)
        elif isinstance(value, type):
            for each in vars(value).values():
                if isinstance(each, FunctionType):
                    yield from _in_constants(each.__code__)
        else:
            yield from _in_constants(value)


def _in_constants(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if _WORD.fullmatch(value):
            yield value
    elif isinstance(value, CodeType):
        yield from _in_constants(value.co_consts)
    elif isinstance(value, tuple | list | frozenset | dict):
        for each in value:
            yield from _in_constants(each)
