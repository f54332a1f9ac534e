"""Advice for a run of which most rows were late, or rejected for one reason: one line."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.io.sources.rejects import Reject, RejectKind
from penstock.model.punctuation import Delay, Ordered, Slack
from penstock.model.ticks import Domain
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties import scans_of
from penstock.plan.streams import StreamDefinition
from penstock.runs.answer import Account

# Texts that other programs write where there is no value.
_NO_VALUES = ("null", "none", "nil", "na", "n/a", "nan", "-", "--", "?", "\\n", "\\\\n")


def advice_on_late(account: Account, query: QueryPlan) -> str | None:
    """Advice for a query of which most tuples were late."""
    streams = [scan.stream for scan in scans_of(query) if scan.stream.progress is not None]
    if account.late * 2 <= account.read or not streams:
        return None
    return f"most tuples were late: {' '.join(dict.fromkeys(map(_more_patience, streams)))}"


def _more_patience(stream: StreamDefinition) -> str:
    assert stream.progress is not None
    progress, name = stream.progress, stream.progress.attribute
    match progress.policy.rule:
        case Ordered():
            help_ = f"{stream.name} is not ORDERED; PROGRESS ON {name} DELAY … waits for them"
        case Delay(ticks):
            length = Domain(stream.attribute.type).format_length(ticks)
            help_ = f"a DELAY longer than {length} waits for those of {stream.name}"
        case Slack(rows):
            help_ = f"a SLACK of more than {rows:,} ROWS waits for those of {stream.name}"
        case _:
            return f"the punctuations of {stream.name} promise too much."
    if progress.per is None and not progress.per_file:
        help_ += ", PER column if its sources have clocks of their own"
    return help_ + "."


def advice_on_rejects(account: Account, first: Sequence[Reject]) -> str | None:
    """Advice for a run of which most rows were rejected, the first ones all for one reason."""
    reasons = {(each.kind, each.stream, each.column) for each in first}
    if account.rejected * 2 <= account.read or len(reasons) != 1:
        return None
    ((kind, stream, column),) = reasons
    most = f"most rows of {stream} were rejected"
    match kind:
        case RejectKind.FUTURE:
            return (
                f"{most}: a longer FUTURE LIMIT lets them in; if {column} is a number, look at its"
                " EPOCH"
            )
        case RejectKind.NO_PROGRESS:
            return f"{most}: {column} is NULL in them; a stream progresses on a column with values"
        case RejectKind.BAD_ROW | RejectKind.BAD_TABLE_ROW if column is not None:
            if "EPOCH" in first[0].reason:
                return None  # which says it itself
            text = _no_value(first)
            if text is not None:
                return (
                    f"{most} for its column {column}: if {text!r} stands for NULL, declare"
                    f" {column} STRING, and read it as TRY_CAST({column} AS …)"
                )
            return f"{most} for its column {column}: is its type the right one?"
    return None


def _no_value(rejects: Sequence[Reject]) -> str | None:
    """Text that all of them have, if other systems write it for NULL."""
    texts = {each.reason.partition("' is not ")[0].removeprefix("'") for each in rejects}
    if len(texts) == 1 and (text := texts.pop()).strip().casefold() in _NO_VALUES:
        return text
    return None
