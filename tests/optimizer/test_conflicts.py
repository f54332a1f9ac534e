"""Items on their ways at the same time, with a container: any order of steps gives the results of a
serial execution, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.optimizer.conflicts import ConcurrentItems, Look, RaisedStep, Record

COLUMNS = {"r": "ab", "s": "bc", "t": "ac"}
# the first example of section 3.1: r and s write w_rs, and t reads it
KEPT: dict[str, Sequence[RaisedStep]] = {
    "r": (Record("r"), Look("s"), Record("rs"), Look("t")),
    "s": (Record("s"), Look("r"), Record("rs"), Look("t")),
    "t": (Record("t"), Look("rs")),
}
ITEMS = st.lists(
    st.tuples(st.sampled_from("rst"), st.integers(0, 1), st.integers(0, 1)), max_size=8
)


def run(
    items: list[tuple[str, int, int]], turns: list[int], raises: bool = True
) -> Counter[tuple[tuple[str, object], ...]]:
    """All items arrive, and take steps in turns; what is left of them follows in order."""
    running = ConcurrentItems(KEPT, raises)
    for number, (stream, one, other) in enumerate(items):
        columns = COLUMNS[stream]
        running.arrive(stream, {columns[0]: one, columns[1]: other, stream: number})
    for turn in turns:
        if items:
            running.step(turn % len(items))
    for number in range(len(items)):
        while running.step(number):
            pass
    return Counter(tuple(sorted(each.items())) for each in running.results)


@settings(deadline=None)
@given(items=ITEMS, turns=st.lists(st.integers(0, 7), max_size=60))
def test_any_order_of_steps_has_the_results_of_a_serial_execution(
    items: list[tuple[str, int, int]], turns: list[int]
) -> None:
    serial = run(items, [])
    assert run(items, turns) == serial
    assert all(count == 1 for count in serial.values())


def test_serial_results_are_those_of_the_join() -> None:
    items = [("t", 0, 0), ("r", 0, 1), ("s", 1, 0), ("t", 0, 0), ("r", 0, 1)]
    found = run(items, [])
    expected = {(t, r, s) for t in (0, 3) for r in (1, 4) for s in (2,)}
    assert {(row["t"], row["r"], row["s"]) for row in map(dict, found)} == expected


def test_without_raising_results_are_lost() -> None:
    """The item of t looks before what r and s have in common is written: with its old timestamp,
    that would look only for what came before s."""
    items = [("r", 0, 1), ("s", 1, 0), ("t", 0, 0)]
    ahead = [0, 0, 2, 2]  # r is done; t looks at w_rs before s has written it
    assert run(items, ahead) == run(items, [])
    assert sum(run(items, ahead, raises=False).values()) == 0
    assert sum(run(items, [], raises=False).values()) == 1
