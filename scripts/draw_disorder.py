"""Draw docs/images/disorder.svg: the packets of the demo, the bound, and the windows it releases.

Everything in the picture is taken from a run of the local engine: the packets are handed to it one
after the other, and behind each one the bound of the stream and the results so far are read.

    python scripts/draw_disorder.py [FILE]
"""

from __future__ import annotations

import csv
import queue
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.api.started_query import StartedQuery

ROOT = Path(__file__).resolve().parent.parent
PACKETS = ROOT / "penstock" / "cli" / "demo" / "packets.csv"
PICTURE = ROOT / "docs" / "images" / "disorder.svg"

SCHEMA = "link STRING, srcIP STRING, len INT, ts TIMESTAMP"
QUERY = (
    "SELECT count(*) AS packets [RANGE 1 MINUTE, SLIDE 30 SECONDS, WA ts] FROM packets LATE SIDE"
)


@dataclass(frozen=True)
class Packet:
    arrival: int
    link: str
    at: float  # seconds since 1970
    late: bool


@dataclass(frozen=True)
class Released:
    """A window, with the number of the packet behind which it was released."""

    arrival: int
    start: float
    end: float
    packets: int


@dataclass(frozen=True)
class Run:
    packets: list[Packet]
    bounds: list[float | None]  # behind every arrival
    released: list[Released]


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def run() -> Run:
    """Hand the packets of the demo to a query, and record what follows each of them."""
    with PACKETS.open(encoding="utf-8") as file:
        read: list[dict[str, Any]] = list(csv.DictReader(file))
    rows = [row | {"len": int(row["len"])} for row in read if row["len"].isdigit()]  # one is not
    waiting: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def arriving() -> Iterator[dict[str, Any]]:
        while (row := waiting.get()) is not None:
            yield row

    db = ps.connect()
    progress = ps.progress("ts", delay="10 seconds", per="link")
    db.stream("packets", arriving(), schema=SCHEMA, progress=progress)
    results: list[dict[str, Any]] = []
    query = db.sql(QUERY)
    assert isinstance(query, ps.Query)
    started = query.start(results.append, rows=True)
    bounds: list[float | None] = []
    released: list[Released] = []

    def record(arrival: int) -> None:
        released.extend(
            Released(
                arrival,
                result["window_start"].timestamp(),
                result["window_end"].timestamp(),
                result["packets"],
            )
            for result in results[len(released) :]
        )

    for number, row in enumerate(rows, start=1):
        waiting.put(row)
        state = _settled(started, number, results)
        (source,) = state.sources
        bounds.append(None if source.low_text is None else source.low / 1e6)
        record(number)
    waiting.put(None)
    started.wait()
    record(len(rows) + 1)
    late = {row["ts"].timestamp() for row in started.late.to_pylist()}
    packets = [
        Packet(number, row["link"], _seconds(row["ts"]), _seconds(row["ts"]) in late)
        for number, row in enumerate(rows, start=1)
    ]
    return Run(packets, bounds, released)


def _settled(started: StartedQuery, read: int, results: list[Any]) -> Any:
    """The progress of a run when it has handled so many rows."""
    while started.active:
        state = started.progress()
        if state.read == read and state.rows == len(results):
            time.sleep(0.02)  # a result may be on its way
            if started.progress().rows == len(results) == state.rows:
                return started.progress()
        time.sleep(0.002)
    started.wait()  # raises what it failed with
    raise RuntimeError("the run ended before its input")


# The drawing, in SVG by hand: a picture of a few kilobytes, the same in every run.

WIDTH, HEIGHT = 900, 420
LEFT, RIGHT, TOP, BOTTOM = 84, 74, 48, 46
COLOURS = {"Main1": "#2b6cb0", "Main2": "#dd8a1c", "Control": "#2f8f5b"}


def draw(found: Run) -> str:
    first = 1_769_860_800.0 - 30
    last = first + 245
    arrivals = len(found.bounds)

    def x(arrival: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (arrival - 0.5) / arrivals

    def y(at: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (at - first) / (last - first)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="sans-serif" font-size="12" fill="#333">',
        "<title>Packets out of order, the bound of their stream, and the windows that it"
        " releases</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for step in range(7):
        at = first + 30 + 30 * step
        parts.append(
            f'<path d="M{LEFT} {y(at):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
            f'<text x="{LEFT - 8}" y="{y(at) + 4:.1f}" text-anchor="end">'
            f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}</text>"
        )
    parts.append(_bound(found.bounds, x, y, first))
    parts.extend(_window(each, arrivals, x, y) for each in found.released)
    parts.extend(_packet(each, x, y) for each in found.packets)
    parts.append(_labels(found, x))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _bound(bounds: list[float | None], x: Any, y: Any, first: float) -> str:
    points: list[str] = []
    for arrival, bound in enumerate(bounds, start=1):
        height = y(max(first, first if bound is None else bound))
        points.append(f"{x(arrival - 0.5):.1f} {height:.1f}L{x(arrival + 0.5):.1f} {height:.1f}")
    line = "L".join(points)
    area = f"M{x(0.5):.1f} {y(first):.1f}L{line}L{x(len(bounds) + 0.5):.1f} {y(first):.1f}Z"
    return (
        f'<path d="{area}" fill="#eef1f5"/>'
        f'<path d="M{line}" fill="none" stroke="#555" stroke-width="1.6"/>'
    )


def _window(window: Released, last: int, x: Any, y: Any) -> str:
    """A bar from the start to the end of a window, where it was released."""
    aside = 14 * ((window.end // 30 + 1) % 3) if window.arrival > last else 0  # several at the end
    left = x(window.arrival + 0.5) + aside
    top, height = y(window.end), y(window.start) - y(window.end)
    return (
        f'<rect x="{left - 3.5:.1f}" y="{top:.1f}" width="7" height="{height:.1f}" rx="2"'
        ' fill="#7c5cbf" fill-opacity="0.35" stroke="#7c5cbf" stroke-width="0.8"/>'
        f'<text x="{left:.1f}" y="{top - 4:.1f}" text-anchor="middle" fill="#5b3f9e"'
        f' font-weight="bold">{window.packets}</text>'
    )


def _packet(packet: Packet, x: Any, y: Any) -> str:
    cx, cy, colour = x(packet.arrival), y(packet.at), COLOURS[packet.link]
    dot = f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="3.4" fill="{colour}"/>'
    if not packet.late:
        return dot
    ring = f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="7.5" fill="none" stroke="#c53030"'
    text = f'<text x="{cx:.1f}" y="{cy + 20:.1f}" text-anchor="middle" fill="#c53030">late</text>'
    return f'{dot}{ring} stroke-width="1.8"/>{text}'


def _labels(found: Run, x: Any) -> str:
    parts, left = [], LEFT
    for link, colour in COLOURS.items():
        parts.append(
            f'<circle cx="{left + 4}" cy="20" r="3.4" fill="{colour}"/>'
            f'<text x="{left + 13}" y="24">{link}</text>'
        )
        left += 68
    parts.append(
        f'<path d="M{left} 20h22" stroke="#555" stroke-width="1.6"/>'
        f'<text x="{left + 29}" y="24">bound: no packet below expected</text>'
    )
    left += 250
    parts.append(
        f'<rect x="{left}" y="12" width="7" height="16" rx="2" fill="#7c5cbf" fill-opacity="0.35"'
        f' stroke="#7c5cbf" stroke-width="0.8"/>'
        f'<text x="{left + 14}" y="24">one-minute window where it is released, its'
        " count</text>"
    )
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">packets in the order of'
        " arrival</text>"
        f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">time of the'
        " packet</text>"
        f'<text x="{x(len(found.bounds) + 0.9):.1f}" y="{HEIGHT - BOTTOM + 14}"'
        ' font-size="11">end of input</text>'
    )
    return "\n".join(parts)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    target.write_text(draw(run()), encoding="utf-8")
