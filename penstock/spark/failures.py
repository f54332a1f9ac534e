"""What went wrong in a worker of Spark, said as it would have been said here."""

from __future__ import annotations

import re

from penstock import errors
from penstock.errors import EngineError, PenstockError

# the name of an error and what it says: a line, and those below it that are set in
_SAID = re.compile(r"^(?:[\w.]+: )*penstock\.errors\.(\w+): (.*(?:\n  .*)*)", re.MULTILINE)
_RAISED = re.compile(
    r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)(?:: .*)?)$", re.MULTILINE
)
_EXPECTED, _TRY = "\n  expected: ", "\n  try: "


def failure(error: BaseException) -> PenstockError:
    """Spark hands over the trace of a worker as text; what Penstock said is at its end."""
    if isinstance(error, PenstockError):
        return error
    said = _SAID.findall(str(error))
    if said:
        name, text = said[-1]
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, PenstockError):
            text, _, hint = text.partition(_TRY)
            message, _, expected = text.partition(_EXPECTED)
            return kind(message, expected=expected or None, hint=hint or None)
    raised = _RAISED.findall(str(error)) if "Traceback" in str(error) else []
    return EngineError(f"the query failed on Spark: {raised[-1] if raised else first_line(error)}")


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
