"""Names that are no scalar functions, and what is said of each."""

from __future__ import annotations

from penstock.errors import BindError, Span
from penstock.plan.nodes.over_calls import NumberKind, StandingKind

_NOT_DETERMINED = {
    "now",
    "proctime",
    "current_timestamp",
    "current_date",
    "current_time",
    "rand",
    "random",
    "uuid",
}
_BEFORE_OVER = {
    *(kind.value for kind in NumberKind),
    *(kind.value for kind in StandingKind),
    *("lag", "lead", "nth_value"),
}
_WINDOWS = {
    "window": "GROUP BY window(ts, '10 minutes'), or FROM TABLE(TUMBLE(TABLE s, …))",
    "session_window": "GROUP BY session_window(ts, '5 minutes')",
    "tumble": "GROUP BY TUMBLE(ts, INTERVAL '10' MINUTE)",
    "hop": "GROUP BY HOP(ts, INTERVAL '1' MINUTE, INTERVAL '10' MINUTE)",
    "session": "GROUP BY SESSION(ts, INTERVAL '5' MINUTE)",
    "cumulate": "FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(ts), …))",
}


def refuse_undetermined(name: str, span: Span | None) -> None:
    if name.lower() in _NOT_DETERMINED:
        raise BindError(
            f"{name} would make the answer depend on when it is computed",
            span=span,
            hint="PROGRESS ON ts INTERNAL stamps tuples as they enter",
        )


def refuse_no_scalar(name: str, span: Span | None) -> None:
    """What others know by this name, and where it stands."""
    refuse_undetermined(name, span)
    if name.lower() in _BEFORE_OVER:
        raise BindError(
            f"{name} looks at other rows, so it stands before OVER",
            span=span,
            hint=f"{name}(…) OVER (PARTITION BY k ORDER BY ts)",
        )
    if name.lower() in _WINDOWS:
        raise BindError(
            f"{name} makes windows of groups, and no value of a tuple",
            span=span,
            hint=_WINDOWS[name.lower()],
        )
