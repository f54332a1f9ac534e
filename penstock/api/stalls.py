"""Who holds back whom, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.model.domain import Domain
from penstock.model.punctuation import BEGINNING, END
from penstock.model.types import Kind
from penstock.plan.streams import StreamDefinition
from penstock.runs.status import SourceStatus, names_of

_UNITS = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000, 1_000)  # days to milliseconds


def explain_stall(sources: Sequence[SourceStatus], streams: Mapping[str, StreamDefinition]) -> str:
    """Which source holds back the oldest window that is still open, and what would help."""
    found = [each for each in sources if not each.ended]
    if not found:
        return "nothing is held back" if sources else "nothing has been read yet"
    slowest = min(found, key=lambda each: each.low)
    stream = streams[slowest.stream]
    if stream.progress is None:
        return f"stream {stream.name} makes no promises; nothing waits for it"
    domain = Domain(stream.attribute.type)
    who = names_of(slowest.waits_for, slowest.waits_for_others) or "its only source"
    others = _ahead_of(slowest, found, domain)
    if slowest.low == BEGINNING:
        silent = [each.stream for each in found if each.low == BEGINNING]
        if len(silent) > 1:
            return f"streams {', '.join(silent)} have promised nothing yet{others}"
        return f"stream {stream.name} has promised nothing yet: it waits for {who}{others}"
    at = domain.format(int(slowest.low))
    behind = _about(int(slowest.high) - int(slowest.low), domain)
    idle = stream.progress.policy.idle_after
    advice = (
        "it is left out when it has been silent for as long as IDLE AFTER says"
        if idle is not None
        else "IDLE AFTER would leave it out when it is silent"
    )
    return (
        f"windows that end after {at} are open: stream {stream.name} waits for {who},"
        f" which is {behind} behind the highest value; {advice}{others}"
    )


def _ahead_of(slowest: SourceStatus, all_of_them: Sequence[SourceStatus], domain: Domain) -> str:
    """The streams that have come further, and how far: what they bring is kept until then."""
    told = []
    for each in all_of_them:
        if each.low <= slowest.low or each.low == END:
            continue
        if slowest.low == BEGINNING:
            told.append(f"{each.stream} has come to {each.low_text}")
        else:
            told.append(f"{each.stream} is {_about(int(each.low - slowest.low), domain)} ahead")
    return f"; {', '.join(told)}" if told else ""


def _about(ticks: int, domain: Domain) -> str:
    """A length that somebody reads: microseconds of a day say nothing.

    >>> from penstock.model.types import TIMESTAMP
    >>> _about(984_779, Domain(TIMESTAMP)), _about(5_000_000, Domain(TIMESTAMP))
    ('about 984 MILLISECONDS', '5 SECONDS')
    """
    if domain.type.kind is Kind.TIMESTAMP:
        unit = next((each for each in _UNITS if ticks >= 10 * each), 1)
        if ticks % unit:
            return f"about {domain.format_length(ticks - ticks % unit)}"
    return domain.format_length(ticks)
