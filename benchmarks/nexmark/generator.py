"""Persons, auctions and bids, made from a seed: of every 50 events, 1, 3 and 46.

Event n happens n ticks after the first.  Half of the bids are for auctions that everybody wants,
three of four are made by people who bid much, and three of four auctions are of people who sell
much; all others are spread over what is recent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.arrays import Ints

BEGIN = 1_767_225_600_000_000  # 2026-01-01, in microseconds
TICK = 10_000  # microseconds between events
PERSONS, AUCTIONS, OF = 1, 3, 50  # in so many events
FIRST = 1_000  # the lowest id of a person, and of an auction
HOT = 100  # of so many persons or auctions in a row, one is hot
OPEN, ACTIVE = 100, 1_000  # auctions that are bid for, people who are there
LONGEST = 40  # seconds that an auction is open, at most

SCHEMAS = {
    "person": "id BIGINT, name STRING, email STRING, credit_card STRING, city STRING,"
    " state STRING, date_time TIMESTAMP, extra STRING",
    "auction": "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT,"
    " reserve BIGINT, date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT,"
    " extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,"
    " date_time TIMESTAMP, extra STRING",
}
_FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah"]
_LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones"]
_CITIES = "Phoenix,Los Angeles,San Francisco,Boise,Portland,Bend,Redmond,Seattle,Kent,Cheyenne"
_STATES = ["AZ", "CA", "CA", "ID", "OR", "OR", "WA", "WA", "WA", "WY"]
_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]


class Events(NamedTuple):
    person: pa.Table
    auction: pa.Table
    bid: pa.Table


def generated(count: int, seed: int = 0, disorder: float = 0.0) -> Events:
    """So many events; each arrives up to `disorder` seconds after others that happened before it.

    >>> [table.num_rows for table in generated(100)]
    [2, 6, 92]
    """
    chance = np.random.default_rng(seed)
    number = np.arange(count)
    rest = number % OF
    persons, auctions = number[rest < PERSONS], number[(rest >= PERSONS) & (rest <= AUCTIONS)]
    made = Events(
        _persons(persons, chance),
        _auctions(auctions, chance),
        _bids(number[rest > AUCTIONS], chance),
    )
    return made if not disorder else Events(*(_shuffled(each, disorder, chance) for each in made))


def _persons(number: Ints, chance: np.random.Generator) -> pa.Table:
    size = len(number)
    first, last = _some(_FIRST_NAMES, size, chance), _some(_LAST_NAMES, size, chance)
    place = chance.integers(0, len(_STATES), size)
    cards = chance.integers(0, 10_000, (4, size))
    return _table(
        "person",
        FIRST + number // OF,
        _joined(first, last, between=" "),
        _joined(first, [f"{each}@example.org" for each in _numbers(cards[0])], between="."),
        _joined(*(_numbers(each + 10_000) for each in cards), between=" "),
        np.array(_CITIES.split(","))[place],
        np.array(_STATES)[place],
        _times(number),
        _extra(size, chance),
    )


def _auctions(number: Ints, chance: np.random.Generator) -> pa.Table:
    size = len(number)
    ids = FIRST + number // OF * AUCTIONS + number % OF - PERSONS
    begin = _prices(size, chance)
    open_for = chance.integers(1_000_000, (LONGEST - 1) * 1_000_000, size)
    return _table(
        "auction",
        ids,
        [f"item {each}" for each in _numbers(chance.integers(0, 10_000, size))],
        _extra(size, chance),
        begin,
        begin + _prices(size, chance),
        _times(number),
        _times(number) + open_for,
        _persons_of(number, 0.75, 0, chance),
        10 + chance.integers(0, 5, size),
        _extra(size, chance),
    )


def _bids(number: Ints, chance: np.random.Generator) -> pa.Table:
    size = len(number)
    newest = (number // OF + 1) * AUCTIONS - 1
    recent = np.maximum(0, newest - chance.integers(0, OPEN, size))
    hot = chance.random(size) < 0.5
    auction = FIRST + np.where(hot, newest // HOT * HOT, recent)
    channel = chance.integers(0, 10_000, size)
    known = chance.random(size) < 0.5
    named = np.array(_CHANNELS)[channel % len(_CHANNELS)]
    numbered = np.array(_numbers(channel), np.str_)
    path = np.array(_numbers(chance.integers(0, 1_000, size)), np.str_)
    address = np.char.add(np.char.add("https://www.example.org/", path), "/item.htm?query=1")
    return _table(
        "bid",
        auction,
        _persons_of(number, 0.75, 1, chance),
        _prices(size, chance),
        np.where(known, named, np.char.add("channel-", numbered)),
        np.where(known, address, np.char.add(np.char.add(address, "&channel_id="), numbered)),
        _times(number),
        _extra(size, chance),
    )


def _persons_of(number: Ints, hot: float, behind: int, chance: np.random.Generator) -> Ints:
    newest = number // OF
    recent = np.maximum(0, newest - chance.integers(0, ACTIVE, len(number)))
    often = np.minimum(newest // HOT * HOT + behind, newest)
    ids: Ints = FIRST + np.where(chance.random(len(number)) < hot, often, recent)
    return ids


def _prices(size: int, chance: np.random.Generator) -> Ints:
    return np.round(10 ** (chance.random(size) * 6) * 100).astype(np.int64)


def _times(number: Ints) -> Ints:
    times: Ints = BEGIN + number * TICK
    return times


def _extra(size: int, chance: np.random.Generator) -> list[str]:
    letters = chance.integers(ord("a"), ord("z") + 1, (size, 12), dtype=np.uint8)
    return [bytes(row).decode() for row in letters]


def _some(names: list[str], size: int, chance: np.random.Generator) -> npt.NDArray[np.str_]:
    return np.array(names)[chance.integers(0, len(names), size)]


def _numbers(values: Ints) -> list[str]:
    return list(map(str, values.tolist()))


def _joined(*columns: object, between: str) -> list[str]:
    return [between.join(map(str, row)) for row in zip(*columns, strict=True)]  # type: ignore[call-overload]


def _table(name: str, *columns: object) -> pa.Table:
    fields = [each.strip().split(" ") for each in SCHEMAS[name].split(",")]
    types = {"BIGINT": pa.int64(), "STRING": pa.string(), "TIMESTAMP": pa.timestamp("us", "UTC")}
    arrays = [
        pa.array(values, types[kind]) for values, (_, kind) in zip(columns, fields, strict=True)
    ]
    return pa.table(arrays, [field for field, _ in fields])


def _shuffled(table: pa.Table, disorder: float, chance: np.random.Generator) -> pa.Table:
    arrival = np.asarray(table.column("date_time").cast(pa.int64())) + chance.integers(
        0, round(disorder * 1_000_000) + 1, table.num_rows
    )
    return table.take(pa.array(np.argsort(arrival, kind="stable")))
