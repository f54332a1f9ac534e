"""Figures 8-9 and 8-10 of the thesis: the state of tumbling joins over unions whose inputs lag.

Q8-3 joins two unions, one input of each of which lags: the same tuples are kept, in unions or in
the join, which forgets them in larger pieces.  In Q8-4 one side has a few late tuples; the join
forgets the others sooner if they come to it at once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from benchmarks.result import Bar, Result
from benchmarks.skew import Link, Query, compared, plot


def _joined(left: tuple[str, ...], right: tuple[str, ...], range_: int) -> str:
    """Packets of one direction with those of the other one."""
    sides = [
        f"(SELECT src, dst, ts FROM {names[0]}"
        + "".join(f" UNION ALL SELECT src, dst, ts FROM {name}" for name in names[1:])
        + ")"
        for names in (left, right)
    ]
    return (
        f"SELECT l.src, l.dst, l.ts AS ts, r.ts AS back FROM {sides[0]} AS l, {sides[1]} AS r"
        f" [RANGE TUMBLING {range_}, WA ts] WHERE l.src = r.dst AND l.dst = r.src"
    )


_FLOWS = 4_000
Q8_3 = Query(
    "8-9",
    _joined(("a", "b"), ("c", "d"), 10_000),
    {
        "a": Link(100, _FLOWS),
        "b": Link(100, _FLOWS, lags=True),
        "c": Link(100, _FLOWS, back=True),
        "d": Link(100, _FLOWS, back=True, lags=True),
    },
    (0, 20, 40, 60, 80, 100),
    140,
)
Q8_4 = Query(
    "8-10",
    _joined(("m1",), ("m2", "c"), 10_000),
    {
        "m1": Link(400, _FLOWS),
        "m2": Link(400, _FLOWS, back=True),
        "c": Link(1, _FLOWS, back=True, lags=True),
    },
    (0, 2, 4, 6, 8, 10),
    60,
)


def run(quick: bool = False) -> Result:
    rows, agreed = [], {}
    for query in (Q8_3, Q8_4):
        if quick:
            links = {
                name: replace(link, per_second=2, flows=4) for name, link in query.links.items()
            }
            query = replace(query, links=links, skews=query.skews[:2], seconds=30)
        found, same = compared(query)
        rows += found
        agreed |= same
    title = "Figures 8-9 and 8-10: peak of the state of tumbling joins over unions, by arrival skew"
    names = {"8-9": "both sides lag (Q8-3)", "8-10": "a few late tuples (Q8-4)"}
    titles = {(figure, what): name for figure, name in names.items() for what in ("MB", "tuples")}
    drawn = partial(plot, rows, titles, "Joins over unions (thesis, figures 8-9 and 8-10)")
    bars = []
    for figure, what, limit in (("8-9", "MB", 1.2), ("8-10", "tuples", 1.0)):
        last = [row for row in rows if row["figure"] == figure][-1]
        against = last[f"OOP {what}"] / last[f"IOP {what}"]
        bars.append(Bar(f"{what} of OOP against IOP, most skew, {figure}", limit, against))
    return Result("figure_8_9", title, rows, agreed, [] if quick else bars, drawn)
