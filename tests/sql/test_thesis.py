"""The queries of the thesis and of the Nile paper, in their own spelling, mean what they say."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest

import penstock as ps
from penstock.plan.join_windows import BandJoin, TumblingJoin
from penstock.plan.nodes.aggregation import GroupAggregate, WindowAggregate
from penstock.plan.nodes.join import Bands, Join, Ranges, Tumbling
from penstock.plan.nodes.node import Filter, Node, Project, Scan, Union
from penstock.plan.window_kinds import Category, Landmark, Order, RowWindow, SlideByTuple, Sliding

FOLDER = Path(__file__).parents[1] / "fixtures" / "thesis"
NAMES = [
    *("q1-1", "q1-2", "q2-1", "q3-1"),
    *(f"q5-{n}" for n in range(1, 9)),
    *(f"q6-{n}" for n in range(1, 9)),
    *("q7-1", "q7-2"),
    *(f"q8-{n}" for n in range(1, 6)),
    "nile",
]
SECOND, MINUTE = 1_000_000, 60_000_000
N = TypeVar("N", bound=Node)


def bound(name: str) -> ps.Query:
    """The one query of a file."""
    text = (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    (query,) = [result for result in ps.connect("reference").script(text) if result is not None]
    assert isinstance(query, ps.Query)
    return query


def only(name: str, kind: type[N]) -> N:
    (found,) = [node for node in bound(name).plan.walk() if isinstance(node, kind)]
    return found


def kinds(node: Node) -> list[str]:
    return [type(each).__name__ for each in node.walk()]


def streams(node: Node) -> list[str]:
    return [each.stream.name for each in node.walk() if isinstance(each, Scan)]


def test_every_query_of_the_thesis_has_a_file() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_asks_and_explains(name: str) -> None:
    assert (FOLDER / f"{name}.sql").read_text(encoding="utf-8").startswith("-- ")
    query = bound(name)
    shown = query.explain()
    for node in query.plan.walk():
        assert node.details()[0] in shown
    assert [field.name for field in query.schema] == [f.qualified for f in query.plan.schema]


# --- aggregates ----------------------------------------------------------------------------------

CF, FCF, FCA = Category
SOURCE = ("srcIP",)
PAIR = ("srcIP", "destIP")
AGGREGATES = {
    "q1-1": (Sliding(10 * MINUTE, MINUTE), CF, SOURCE, "count(*)", ["M"]),
    "q1-2": (Sliding(MINUTE, MINUTE), CF, (), "count(*)", ["Control", "Main1", "Main2"]),
    "q5-1": (Sliding(10 * MINUTE, MINUTE), CF, SOURCE, "count(*)", ["Main"]),
    "q5-2": (RowWindow(1000, 10, partitioned=True), FCF, SOURCE, "max(Main.length)", ["Main"]),
    "q5-3": (RowWindow(1000, 10), CF, SOURCE, "max(Main.length)", ["Main"]),
    "q5-4": (Landmark(MINUTE), CF, SOURCE, "count(*)", ["Main1"]),
    "q5-5": (SlideByTuple(5 * MINUTE, 1), FCA, (), "max(Main.length)", ["Main"]),
    "q5-6": (SlideByTuple(5 * MINUTE, 5, Order.RANK), FCA, (), "count(*)", ["Main"]),
    "q6-1": (Sliding(10 * MINUTE, MINUTE), CF, SOURCE, "count(*)", ["Main"]),
    "q6-2": (Sliding(4 * MINUTE, MINUTE), CF, (), "max(Main.length)", ["Main"]),
    "q6-3": (Sliding(4 * MINUTE, MINUTE), CF, SOURCE, "count(*)", ["packets"]),
    "q6-4": (
        Sliding(10 * MINUTE, MINUTE),
        CF,
        (),
        "heavy_hitters(packets.srcIP, 0.05)",
        ["packets"],
    ),
    "q6-5": (Sliding(5 * MINUTE, MINUTE), CF, SOURCE, "count(*)", ["M1"]),
    "q6-6": (Sliding(10 * SECOND, SECOND), CF, SOURCE, "sum(packets.len)", ["packets"]),
    "q6-7": (Sliding(SECOND, SECOND), CF, SOURCE, "sum(Main.len)", ["Main"]),
    "q6-8": (Sliding(10 * SECOND, SECOND), CF, SOURCE, "count(*)", ["Main2", "Main1", "Control"]),
    "q7-2": (Sliding(MINUTE, MINUTE), CF, (), "count(*)", ["M1", "M2"]),
    "q8-1": (Sliding(MINUTE, MINUTE), CF, PAIR, "count(*)", ["Main"]),
    "q8-2": (Sliding(MINUTE, MINUTE), CF, PAIR, "count(*)", ["M1", "M2"]),
    "q8-5": (Sliding(5 * MINUTE, MINUTE), CF, (), "count(*)", ["M1", "M2", "C"]),
    "nile": (
        SlideByTuple(10 * MINUTE, 1),
        FCA,
        (),
        "count(DISTINCT S.ItemType)",
        ["SensorReadings1", "SensorReadings2"],
    ),
}


@pytest.mark.parametrize("name", AGGREGATES)
def test_the_window_the_keys_and_the_aggregate(name: str) -> None:
    window, category, keys, aggregate, read = AGGREGATES[name]
    node = only(name, WindowAggregate)
    assert node.window == window
    assert node.window.category is category
    # in an order of their own, whatever GROUP BY says
    assert tuple(key.expression.name for key in node.keys) == tuple(sorted(keys))  # type: ignore[union-attr]
    assert [str(each) for each in node.aggregates] == [aggregate]
    assert streams(node) == read


@pytest.mark.parametrize("name", AGGREGATES)
def test_which_column_the_window_is_over(name: str) -> None:
    special = {
        "q5-2": None,
        "q5-3": None,
        "q7-2": "M1.ts",
        "nile": "greatest(S.ts, T.ts)",
    }
    node = only(name, WindowAggregate)
    attribute = None if node.attribute is None else str(node.attribute)
    alias = " ∪ ".join(streams(node))
    assert attribute == special.get(name, f"{alias}.ts")


def test_pa_splits_the_stream_and_group_by_the_window() -> None:
    split, grouped = only("q5-2", WindowAggregate), only("q5-3", WindowAggregate)
    assert split.partition == split.keys
    assert split.progress == ()  # every source counts its own rows
    assert grouped.partition == ()
    assert grouped.progress


def test_plain_aggregates_have_nothing_below_them_but_the_stream() -> None:
    assert kinds(bound("q5-1").plan) == ["QueryPlan", "Project", "WindowAggregate", "Scan"]


def test_the_union_is_read_as_it_is_bracketed() -> None:
    outer, inner = [n for n in bound("q6-8").plan.walk() if isinstance(n, Union)]
    assert [type(branch) for branch in outer.branches] == [Scan, Union]
    assert streams(inner) == ["Main1", "Control"]
    flat = only("q1-2", Union)
    assert [type(branch) for branch in flat.branches] == [Scan, Scan, Scan]


# --- group by the time itself --------------------------------------------------------------------


def test_q2_1_is_complete_when_its_minute_is_over() -> None:
    node = only("q2-1", GroupAggregate)
    assert [str(key) for key in node.keys] == ["Main1.srcIP", "Main1.ts"]
    assert [each.field.name for each in node.progress] == ["Main1.ts"]
    (filter_,) = [each for each in node.walk() if isinstance(each, Filter)]
    assert str(filter_.predicate) == (
        "((Main1.srcIP = '202.101.0.0') OR (Main1.srcIP = '202.101.0.1'))"
    )


def test_q7_1_groups_pairs_by_both_times() -> None:
    node = only("q7-1", GroupAggregate)
    assert [str(key) for key in node.keys] == ["S0.ts", "S1.ts"]
    assert [each.field.name for each in node.progress] == ["S0.ts", "S1.ts"]
    assert only("q7-1", Join).window == Bands(((0, 1, BandJoin(-2 * MINUTE, 2 * MINUTE)),))
    # each input is filtered by what concerns it alone, before the join
    assert kinds(only("q7-1", Join)) == ["Join", "Filter", "Scan", "Filter", "Scan"]


# --- joins ---------------------------------------------------------------------------------------

FLOW = (
    "((M1.srcIP = {0}.destIP) AND (M1.destIP = {0}.srcIP) "
    "AND (M1.srcPort = {0}.destPort) AND (M1.destPort = {0}.srcPort))"
)
OPPOSITE = "(Main1.srcIP = Main2.destIP)"
JOINS = {
    "q3-1": (Ranges((3 * MINUTE, 2 * MINUTE)), OPPOSITE, ["Main1", "Main2"]),
    "q5-7": (Tumbling(TumblingJoin(5 * MINUTE)), OPPOSITE, ["Main1", "Main2"]),
    "q5-8": (Ranges((3 * MINUTE, 2 * MINUTE)), OPPOSITE, ["Main1", "Main2"]),
    "q7-2": (Ranges((5 * SECOND, 5 * SECOND)), FLOW.format("M2"), ["M1", "M2"]),
    "q8-3": (Tumbling(TumblingJoin(10 * SECOND)), FLOW.format("M2"), ["A", "B", "C", "D"]),
    "q8-4": (Tumbling(TumblingJoin(MINUTE)), FLOW.format("M3"), ["M1", "M2", "C"]),
    "nile": (
        Ranges((10 * MINUTE, 10 * MINUTE)),
        "(S.ItemType = T.ItemType)",
        ["SensorReadings1", "SensorReadings2"],
    ),
}


@pytest.mark.parametrize("name", JOINS)
def test_the_window_and_the_condition_of_the_join(name: str) -> None:
    window, condition, read = JOINS[name]
    node = only(name, Join)
    assert node.window == window
    assert str(node.condition) == condition
    assert streams(node) == read
    assert {attribute.name for attribute in node.attributes} == {"ts"}


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("q5-7", "Main1.srcIP Main1.destIP Main2.srcIP Main2.destIP ts"),
        ("q5-8", "Main1.srcIP Main1.destIP Main2.srcIP Main2.destIP ts"),
        ("q8-3", "srcIP destIP ts"),
        ("q8-4", "srcIP destIP ts"),
    ],
)
def test_the_columns_of_a_join(name: str, columns: str) -> None:
    """Names are told apart by their stream only where that is needed."""
    assert bound(name).schema.names == columns.split()


def test_a_star_takes_all_columns_of_both_streams() -> None:
    names = bound("q3-1").schema.names
    assert len(names) == 12
    assert names[0] == "Main1.srcIP"
    assert names[-1] == "Main2.ts"


def test_an_alias_names_the_whole_union() -> None:
    left, right = only("q8-3", Join).branches
    assert isinstance(left, Union)
    assert isinstance(right, Union)
    assert (left.alias, right.alias) == ("M1", "M2")
    assert (streams(left), streams(right)) == (["A", "B"], ["C", "D"])
    assert isinstance(only("q8-4", Join).branches[0], Scan)


def test_nothing_is_left_between_a_join_and_its_columns() -> None:
    assert kinds(bound("q5-8").plan) == ["QueryPlan", "Project", "Join", "Scan", "Scan"]
    assert len(only("q5-8", Project).columns) == 5
