"""Windows as relations, joined with each other: any disorder, any kind of window and of join, on
every engine; and what follows from the other conditions changes nothing."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.model.clock import ManualClock
from penstock.reference.engine import answer as definition
from tests.local.joining import CUT, PICKS, RESTART, check
from tests.reference.helpers import Row, Stream, ask, bag, tuples

SCHEMA = "k STRING, t INT"
ROWS = st.lists(st.tuples(st.sampled_from(["x", "y"]), st.integers(-6, 24)), max_size=8)
STREAM = st.builds(
    Stream,
    st.just(SCHEMA),
    ROWS,
    st.sampled_from([{"ordered": True}, {"delay": 1}, {"delay": 7}, {"slack": 2}]).map(
        lambda given: ps.progress("t", **given)
    ),
)
LATE = st.sampled_from(["LATE DROP", "LATE SIDE", "LATE AMEND", "LATE AMEND FOR 6"])


class Windows(NamedTuple):
    """A relation, how its windows can be compared, and what follows from each comparison."""

    text: str  # with the name of a stream
    compared: tuple[str, ...]
    follows: tuple[str, ...]


def _of(kind: str, lengths: str, longest: int, *compared: str) -> Windows:
    return Windows(
        f"TABLE({kind}(TABLE {{0}}, DESCRIPTOR(t), {lengths}))",
        compared,
        (
            "{0}.window_start = {1}.window_start",
            "{1}.window_end = {0}.window_end",
            "{0}.window_time = {1}.window_time",
            "{0}.window_start < {1}.window_end",
            f"{{0}}.t BETWEEN {{1}}.t - {longest} AND {{1}}.t + {longest}",
            f"{{0}}.window_end BETWEEN {{1}}.window_start AND {{1}}.window_start + {longest}",
        ),
    )


_ENDS = "{0}.window_end = {1}.window_end"
_STARTS = "{0}.window_start = {1}.window_start"
# results are never late, and where a session ends says where it began
_SESSIONS = Windows(
    "(SELECT k, min(t) AS t, window_start, window_end FROM TABLE(SESSION(TABLE {0} PARTITION BY k,"
    " DESCRIPTOR(t), 3)) GROUP BY k, window_start, window_end)",
    ("{0}.k = {1}.k AND {0}.window_start = {1}.window_start AND {0}.window_end = {1}.window_end",),
    ("{0}.t = {1}.t", "{0}.window_end BETWEEN {1}.window_start AND {1}.window_start + 99"),
)
_COUNTED = Windows(
    "(SELECT k, count(*) AS t, window_start, window_end FROM TABLE(HOP(TABLE {0}, DESCRIPTOR(t), 4,"
    " 8)) GROUP BY k, window_start, window_end)",
    (_ENDS, _STARTS),
    (_ENDS, _STARTS, "{0}.window_start < {1}.window_end"),
)
KINDS = (
    _of("TUMBLE", "5", 5, _ENDS, _STARTS),
    _of("HOP", "4, 8", 8, _ENDS, _STARTS),
    _of("HOP", "3, 8", 9, _ENDS, _STARTS),
    _of("CUMULATE", "5, 15", 15, _ENDS),
    _of("CUMULATE", "4, 8", 8, _ENDS),
    _COUNTED,
    _SESSIONS,
)
JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "SEMI JOIN", "ANTI JOIN", "FULL JOIN")


class Joined(NamedTuple):
    plain: str
    redundant: str  # with conditions that follow from the others


@st.composite
def joins(draw: st.DrawFn) -> Joined:
    """Two relations, or three."""
    windows = draw(st.sampled_from(KINDS))
    names = "abc" if draw(st.booleans()) else "ab"
    kind = draw(st.sampled_from(JOINS)) if len(names) == 2 else "JOIN"
    compared = draw(st.sampled_from(windows.compared))  # one time of each input is the attribute
    conditions: list[tuple[str, str]] = []
    for place, name in enumerate(names[1:]):
        before = draw(st.sampled_from(names[: place + 1]))
        own = compared.format(before, name)
        if draw(st.booleans()):
            own += f" AND {before}.k = {name}.k"
        pairs = [(one, name) for one in names[: place + 1]]
        possible = [each.format(*pair) for each in windows.follows for pair in pairs]
        more = draw(st.lists(st.sampled_from(possible), max_size=3))
        several = draw(st.permutations([own, *more]))
        conditions.append((own, " AND ".join(several)))
    columns = "a.k, a.t, a.window_end"
    if kind not in ("SEMI JOIN", "ANTI JOIN"):
        columns += "".join(f", {name}.k, {name}.t" for name in names[1:])
    texts = []
    for which in range(2):
        text = f"{windows.text.format('s')} AS a"
        for place, name in enumerate(names[1:]):
            source = windows.text.format("rs"[place])
            text += f" {kind} {source} AS {name} ON {conditions[place][which]}"
        texts.append(f"SELECT {columns} FROM {text}")
    return Joined(*texts)


def _rows_and_late(sql: str, **streams: Stream) -> tuple[list[Row], list[Row]]:
    """What is late, too, but not below which bound."""
    query = ask(sql, **streams)
    found = definition(query.plan, ManualClock())
    late = found.late.to_pylist()
    named = [{n: v for n, v in row.items() if not n.startswith("late_bound")} for row in late]
    return bag(tuples(found.table)), bag(tuple(sorted(row.items(), key=repr)) for row in named)


@settings(deadline=None, max_examples=60)
@given(joined=joins(), s=STREAM, r=STREAM, late=LATE)
def test_what_follows_changes_nothing(joined: Joined, s: Stream, r: Stream, late: str) -> None:
    plain = _rows_and_late(f"{joined.plain} {late}", s=s, r=r)
    assert _rows_and_late(f"{joined.redundant} {late}", s=s, r=r) == plain


@settings(deadline=None, max_examples=60)
@given(joined=joins(), s=STREAM, r=STREAM, late=LATE, cut=CUT, restart=RESTART, picks=PICKS)
def test_engines_agree(
    joined: Joined,
    s: Stream,
    r: Stream,
    late: str,
    cut: int | None,
    restart: int | None,
    picks: list[int],
) -> None:
    check(f"{joined.redundant} {late}", cut=cut, restart=restart, picks=picks, s=s, r=r)
