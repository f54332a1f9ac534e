"""PROGRESS ON ts DELAY 5 SECONDS PER link IDLE AFTER 2 SECONDS FUTURE LIMIT 1 HOUR"""

from __future__ import annotations

from typing import Any

from sqlglot.tokenizer_core import TokenType

from penstock.errors import nearest
from penstock.language.parsing.parser import Parser
from penstock.language.syntax.names import Name
from penstock.language.syntax.statements import ProgressClause

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

    PUNCTUATED … FOR column, … speaks of groups, and may stand beside one of the rules."""
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
    """A column, or an expression and what its values are called."""
    if not _is_expression(parser):
        return parser.name("a column"), {}
    start = parser.here()
    expression = parser.scalar("a column or an expression")
    name = Name(EVENT_TIME, parser.since(start))
    if parser.accept("AS"):
        name = parser.name("a name for the values")
    return name, {"expression": expression}


def _is_expression(parser: Parser) -> bool:
    """A name alone is a column, whatever it is called."""
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
