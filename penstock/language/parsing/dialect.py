"""The dialect: what is quoted how, and which words are tokens of their own."""

from __future__ import annotations

from typing import ClassVar

import sqlglot.tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import TokenType

from penstock.language.parsing.parser import Parser

_OTHERS = frozenset(
    [
        "SESSION",  # a function of peers
        *("STR", "CLOB", "LONGVARCHAR", "VARCHAR2", "NVARCHAR2", "NVARCHAR", "NCHAR"),
        *("NUMBER", "FIXED"),  # whose digits others count otherwise
        *("INT1", "INT8"),  # of 8 bits here, and of 64 there
    ]
)
"""Words that are no key words and no types in this dialect."""


class Penstock(Dialect):
    """Texts in single or double quotes, names in back quotes, as in Spark SQL."""

    NULL_ORDERING = "nulls_are_large"

    class Tokenizer(sqlglot.tokens.Tokenizer):
        QUOTES = ["'", '"']
        IDENTIFIERS = ["`"]
        STRING_ESCAPES = ["'", '"']
        COMMANDS: ClassVar[set[TokenType]] = set()
        KEYWORDS = {
            **{
                word: kind
                for word, kind in sqlglot.tokens.Tokenizer.KEYWORDS.items()
                if not word.startswith("{") and word not in _OTHERS
            },
            "GROUPBY": TokenType.GROUP_BY,
            "GROUP-BY": TokenType.GROUP_BY,
            "∪": TokenType.UNION,
        }

    Parser = Parser
