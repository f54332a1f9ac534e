"""Names and amounts, as they were written."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from penstock.errors import Span, nearest

ROW_UNITS = ("ROW", "ROWS", "TUPLE", "TUPLES")
_TYPES = (
    *("BOOLEAN", "INT", "INTEGER", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "VARCHAR", "BINARY"),
    *("DATE", "TIMESTAMP", "ARRAY", "STRUCT", "MAP"),
)
_MEANT = {  # what others call a type, or Python does
    **dict.fromkeys(("STR", "CLOB", "VARCHAR2", "NVARCHAR", "NVARCHAR2", "NCHAR"), "STRING"),
    **dict.fromkeys(("INT8", "UINT", "UBIGINT"), "BIGINT"),
    **dict.fromkeys(("NUMBER", "FIXED"), "DECIMAL(p,s)"),
    "BYTES": "BINARY",
}


def meant_type(word: str) -> str | None:
    """The type that is called so elsewhere, or looks most like it.

    >>> meant_type("str"), meant_type("BIGINTT")
    ('STRING', 'BIGINT')
    """
    close = nearest(word, _TYPES, limit=1, cutoff=0.7)
    return _MEANT.get(word.upper()) or (close[0] if close else None)


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Quantity:
    """`5 MINUTES`, `1000 ROWS`, `100`, `'1 hour'`; the unit is upper-case or None."""

    amount: Decimal
    unit: str | None
    span: Span

    @property
    def is_rows(self) -> bool:
        return self.unit in ROW_UNITS

    def __str__(self) -> str:
        return f"{self.amount} {self.unit}" if self.unit else str(self.amount)
