"""Decision 12 by brute force: a tuple misses exactly the windows whose end the bound before it had
reached.  What the bound is follows from `promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

import penstock as ps
from tests.reference.helpers import Row, Stream, ask, bag, tuples
from tests.reference.promises import RULES, Arrival, Rule, arrivals, random_rows, stream

IDS = range(-60, 80)  # enough for the windows of all times below
by_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())


def late_rows(query: ps.Query) -> list[Row]:
    return bag(tuples(query.late))


# --- windows over values, each with the ids that a tuple belongs to ------------------------------


class Model(NamedTuple):
    """`ids` are the windows of a value, given the highest; `end` is the first tick after one."""

    window: str
    ids: Callable[[int, int], list[int]]
    end: Callable[[int], int]


def sliding(length: int, slide: int) -> Model:
    return Model(
        f"RANGE {length}, SLIDE {slide}, WA t",
        lambda t, _: [w for w in IDS if (w + 1) * slide - length <= t < (w + 1) * slide],
        lambda w: (w + 1) * slide,
    )


def landmark(slide: int) -> Model:
    return Model(
        f"RANGE ALL, SLIDE {slide}, WA t",
        lambda t, high: [w for w in IDS if t < (w + 1) * slide and w * slide <= high],
        lambda w: (w + 1) * slide,
    )


GRACE = {"DROP": 0, "SIDE": 0, "AMEND": 10**6, "AMEND FOR 3": 3}
MODELS = [sliding(5, 5), sliding(9, 3), sliding(8, 3), sliding(2, 5), landmark(4), landmark(1)]


@by_rule
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.window)
def test_windows(model: Model, rule: Rule) -> None:
    """WHERE: tuples that it leaves out are never late, but they do advance the bound."""
    for seed in range(18):
        per, where = seed % 2 == 0, seed % 12 < 6
        mode = ["DROP", "SIDE", "AMEND", "AMEND FOR 3"][seed // 2 % 4]
        rows = random_rows(seed)
        data = arrivals(rows, rule, per)
        of_all = "punctuated" in rule.given and "punctuated_for" not in rule.given
        said = [t - 2 for kind, _, _, t in rows if kind == "p" and of_all]
        # a punctuation of all tuples has passed whatever lies below it
        high = max([*(each.t for each in data), *(bound - 1 for bound in said)], default=0)
        sums: dict[int, int] = {}
        late = []
        for each in data:
            if where and each.x % 3 == 2:
                continue
            ids = model.ids(each.t, high)
            missed = [w for w in ids if model.end(w) <= each.bound]
            counts = [w for w in ids if model.end(w) > each.bound - GRACE[mode]]
            if missed:
                amended = [counts == ids] if "FOR" in mode else []
                late.append((*each.row, each.bound, missed[0], missed[-1], *amended))
            for w in counts:
                sums[w] = sums.get(w, 0) + each.x
        query = ask(
            f"SELECT window_id, sum(x) [{model.window}] FROM s "
            f"{'WHERE x % 3 <> 2' if where else ''} LATE {mode}",
            s=stream(rows, rule, per),
        )
        assert tuples(query.collect()) == sorted(sums.items()), seed
        assert late_rows(query) == bag(late), seed
        assert query.account.late == len(late)


@by_rule
@pytest.mark.parametrize("every", [1, 3])
def test_slide_by_tuple(every: int, rule: Rule) -> None:
    """A late tuple opens no window, but counts in the windows at or above its bound."""
    length = 6
    for seed in range(20):
        per, rows = seed % 2 == 0, random_rows(seed)
        mode = ["DROP", "AMEND", "AMEND FOR 3"][seed // 2 % 3]
        data = arrivals(rows, rule, per)

        def counts_in(each: Arrival, end: int, mode: str = mode) -> bool:
            return end - length < each.t <= end and end + 1 > each.bound - GRACE[mode]

        expected = [
            (opener.t, sum(each.x for each in data if counts_in(each, opener.t)))
            for opener in data[::every]
            if opener.t >= opener.bound - GRACE[mode]
        ]
        late = [
            (
                *(*each.row, each.bound, each.t, min(each.bound - 1, each.t + length - 1)),
                *([each.t >= each.bound - 3] if "FOR" in mode else []),
            )
            for each in data
            if not each.in_time
        ]
        query = ask(
            f"SELECT window_id, sum(x) [RANGE {length}, RATTR t, SLIDE {every} ROWS] FROM s "
            f"LATE {mode}",
            s=stream(rows, rule, per),
        )
        assert bag(tuples(query.collect())) == bag(expected), seed
        assert late_rows(query) == bag(late), seed
        assert query.account.late == len(late)


# --- operators where a tuple below the bound is late as a whole ----------------------------------

AS_A_WHOLE = {
    "rows by rank": "SELECT window_id, sum(x) [RANGE 4 ROWS, SLIDE 3 ROWS, WA rank(t)] FROM s",
    "rows by rank in partitions": "SELECT window_id, k, sum(x) "
    "[RANGE 2 ROWS, SLIDE 1 ROW, WA rank(t), PA k] FROM s",
    "slide by rank": "SELECT window_id, sum(x) "
    "[RANGE 5, RATTR t, SLIDE 2 ROWS, SATTR rank(t)] FROM s",
    "group by time": "SELECT t, sum(x) FROM s GROUP BY t",
    "distinct": "SELECT DISTINCT kind, k, x, t FROM s",
    "join": "SELECT s.x, u.x FROM s [RANGE 3, WA t], u [RANGE 6, WA t]",
    "tumbling join": "SELECT s.x, u.x FROM s [RANGE TUMBLING 4, WA t], u WHERE s.k = u.k",
    "band join": "SELECT s.x, u.x FROM s, u WHERE u.t BETWEEN s.t - 1 AND s.t + 4",
    "recent": "SELECT s.x, u.x FROM SEQUENCE(s THEN u MODE RECENT)",
    "chronicle": "SELECT s.x, u.x FROM SEQUENCE(s THEN u MODE CHRONICLE WITHIN 9)",
    "difference": "SELECT x, changed_at FROM s [RANGE 9, WA t] EXCEPT ON (k) u [RANGE 3, WA t]",
    "endless difference": "SELECT x, changed_at FROM s EXCEPT ON (k) u",
}


@by_rule
@pytest.mark.parametrize("sql", AS_A_WHOLE.values(), ids=AS_A_WHOLE.keys())
def test_late_as_a_whole(sql: str, rule: Rule) -> None:
    """DROP gives the answer over the tuples in time, AMEND the one over all that are data."""
    patient = Rule({"delay": 1000}, max)
    for seed in range(6):
        per, rows = seed % 2 == 0, [random_rows(seed), random_rows(seed + 100)]
        sides = [arrivals(each, rule, per) for each in rows]
        used = sides if " u" in sql else sides[:1]
        missed = [each for side in used for each in side if not each.in_time]

        def over(given: list[list[Row]], mode: str, how: Rule, apart: bool = False) -> ps.Query:
            s, u = (stream(each, how, apart) for each in given)
            return ask(f"{sql} LATE {mode}", s=s, u=u)

        for mode in ("DROP", "AMEND", "AMEND FOR 3"):
            counted = [
                [each.row for each in side if each.t >= each.bound - GRACE[mode]] for side in sides
            ]
            late = [
                (*each.row, each.bound, None, None, *([each.t >= each.bound - 3] * ("FOR" in mode)))
                for each in missed
            ]
            query, expected = over(rows, mode, rule, per), over(counted, "DROP", patient)
            assert bag(tuples(query.collect())) == bag(tuples(expected.collect())), seed
            assert late_rows(query) == bag(late), seed
            assert query.account.late == len(late)
            assert expected.account.late == 0


@by_rule
def test_rows_by_arrival_are_never_late(rule: Rule) -> None:
    for seed in range(10):
        rows = random_rows(seed)
        data = arrivals(rows, rule, per=True)
        query = ask(
            "SELECT window_id, sum(x) [RANGE 2 ROWS, SLIDE 2 ROWS, WA row-num] FROM s LATE DROP",
            s=stream(rows, rule, per=True),
        )
        pairs = [sum(each.x for each in data[i : i + 2]) for i in range(0, len(data), 2)]
        assert tuples(query.collect()) == list(enumerate(pairs))
        assert query.account.late == query.late.num_rows == 0


@by_rule
def test_a_union_promises_for_each_input(rule: Rule) -> None:
    for seed in range(10):
        left, right, per = random_rows(seed), random_rows(seed + 100), seed % 2 == 0
        sums: dict[int, int] = {}
        late = []
        for each in arrivals(left, rule, per) + arrivals(right, rule, per):
            w = each.t // 5
            if (w + 1) * 5 <= each.bound:
                late.append((*each.row, each.bound, w, w))
            else:
                sums[w] = sums.get(w, 0) + each.x
        query = ask(
            "SELECT window_id, sum(x) [RANGE 5, SLIDE 5, WA t] FROM s UNION u LATE DROP",
            s=stream(left, rule, per),
            u=stream(right, rule, per),
        )
        assert tuples(query.collect()) == sorted(sums.items())
        assert late_rows(query) == bag(late)


@by_rule
def test_bounds_go_through_expressions(rule: Rule) -> None:
    """A window over an expression that rises with t closes by the expression of the bound."""
    for seed in range(10):
        rows, per = random_rows(seed), seed % 2 == 0
        sums: dict[int, int] = {}
        late = []
        for each in arrivals(rows, rule, per):
            v, bound = each.t * 2 + 7, each.bound * 2 + 7
            if (v // 6 + 1) * 6 <= bound:
                late.append((each.x, v, bound, v // 6, v // 6))
            else:
                sums[v // 6] = sums.get(v // 6, 0) + each.x
        query = ask(
            "SELECT window_id, sum(x) [RANGE 6, SLIDE 6, WA v] "
            "FROM (SELECT x, t * 2 + 7 AS v FROM s) LATE DROP",
            s=stream(rows, rule, per),
        )
        assert tuples(query.collect()) == sorted(sums.items())
        assert late_rows(query) == bag(late)


# --- accounts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [name for name, rule in RULES.items() if "punctuated" not in rule.given]
)
def test_every_tuple_is_accounted_for(name: str) -> None:
    """Of every fifth tuple the time is lost."""
    for seed in range(10):
        times = [t if x % 31 != 4 else None for _, _, x, t in random_rows(seed)]
        query = ask(
            "SELECT count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s LATE DROP",
            s=Stream("t INT", [(t,) for t in times], ps.progress("t", **RULES[name].given)),
        )
        counted = sum(query.collect().column("n").to_pylist())
        account = query.account
        assert account.read == len(times)
        assert account.rejected == query.rejected.num_rows == times.count(None) > 0
        assert account.late == query.late.num_rows
        assert counted + account.late + account.rejected == account.read


def test_what_a_join_filters_is_never_late() -> None:
    """Conditions on one input come before the join: 3 is left out, 4 is late."""
    rows = [("d", 9), ("x", 3), ("d", 4)]
    promise = ps.progress("t", ordered=True)
    query = ask(
        "SELECT s.t, u.t FROM s [RANGE 9, WA t], u [RANGE 9, WA t] WHERE s.kind = 'd'",
        s=Stream("kind STRING, t INT", rows, promise),
        u=Stream("kind STRING, t INT", [("d", 5)], promise),
    )
    assert tuples(query.collect()) == [(9, 5)]
    assert tuples(query.late) == [("d", 4, 9, None, None)]


def test_the_newcomer_starts_at_the_slowest() -> None:
    """When c comes, a has promised 20 and b 7: at 6 it is late, at 7 it is not."""
    rows = [("a", 5), ("b", 7), ("a", 20), ("c", 6), ("c", 7), ("d", 3)]
    query = ask(
        "SELECT t, k FROM s GROUP BY t, k LATE SIDE",
        s=Stream("k STRING, t INT", rows, ps.progress("t", ordered=True, per="k")),
    )
    assert tuples(query.late) == [("c", 6, 7, None, None), ("d", 3, 7, None, None)]
    assert bag(tuples(query.collect())) == bag([(5, "a"), (7, "b"), (20, "a"), (7, "c")])
