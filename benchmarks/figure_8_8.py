"""Figures 8-8 and 8-11 of the thesis: the state of window counts over a union whose inputs lag.

Q8-2 counts by source and destination over two links, in windows of a minute; Q8-5 counts over three
links in the last five minutes, one of which has little to say and is late.  Partial results do not
grow with the skew; tuples that wait for their order do.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from benchmarks.result import Bar, Result
from benchmarks.skew import Link, Query, compared, plot

UNION = " UNION ALL ".join(f"SELECT src, dst, ts FROM {name}" for name in ("m1", "m2"))
Q8_2 = Query(
    "8-8",
    "SELECT src, dst, count(*) AS n [RANGE 60000, SLIDE 60000, WA ts]"
    f" FROM ({UNION}) AS u GROUP BY src, dst",
    {"m1": Link(1_000, 600), "m2": Link(1_000, 600, lags=True)},
    (0, 10, 20, 30, 40),
    130,
)
Q8_5 = Query(
    "8-11",
    "SELECT count(*) AS n [RANGE 300000, SLIDE 60000, WA ts]"
    f" FROM ({UNION} UNION ALL SELECT src, dst, ts FROM c) AS u",
    {"m1": Link(400, 100), "m2": Link(400, 100), "c": Link(0.5, 100, lags=True)},
    (0, 2, 4, 6, 8, 10),
    330,
)


def run(quick: bool = False) -> Result:
    rows, agreed = [], {}
    for query in (Q8_2, Q8_5):
        if quick:
            links = {name: replace(link, per_second=1) for name, link in query.links.items()}
            query = replace(query, links=links, skews=query.skews[:2])
        found, same = compared(query)
        rows += found
        agreed |= same
    title = "Figures 8-8 and 8-11: peak of the state of counts over unions, by arrival skew"
    names = {"8-8": "groups, a minute (Q8-2)", "8-11": "the last five minutes (Q8-5)"}
    titles = {(figure, "MB"): name for figure, name in names.items()}
    drawn = partial(plot, rows, titles, "Counts over unions (thesis, figures 8-8 and 8-11)")
    bars = []
    for figure in names:
        first, *_, last = (row for row in rows if row["figure"] == figure)
        grown = last["OOP MB"] / first["OOP MB"]
        bars.append(Bar(f"state of OOP, most skew against none, {figure}", 1.5, grown))
        against = last["OOP MB"] / last["IOP MB"]
        bars.append(Bar(f"state of OOP against IOP, most skew, {figure}", 0.5, against))
    return Result("figure_8_8", title, rows, agreed, [] if quick else bars, drawn)
