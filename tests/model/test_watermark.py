"""Watermarks: the minimum over origins, and how origins come and go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.punctuation import BEGINNING, END
from penstock.reference.scan import HighWatermark, LowWatermark

ORIGINS = "ABC"
MOVE = st.tuples(st.sampled_from(ORIGINS), st.integers(-9, 9) | st.just(END))


@given(st.lists(MOVE))
def test_minimum_over_the_highest_bound_of_every_origin(moves: list[tuple[str, float]]) -> None:
    low = LowWatermark(list(ORIGINS))
    for count, (origin, bound) in enumerate(moves, start=1):
        told = low.advance(origin, bound)
        highest = [
            max([b for o, b in moves[:count] if o == each], default=BEGINNING) for each in ORIGINS
        ]
        assert told == low.value == min(highest)
        assert low.held_back_by == [
            each for each, b in zip(ORIGINS, highest, strict=True) if b == min(highest)
        ]


@given(st.lists(MOVE, min_size=1))
def test_never_moves_back_whoever_joins(moves: list[tuple[str, float]]) -> None:
    low = LowWatermark()
    seen = [low.value]
    for origin, bound in moves:
        seen.append(low.advance(origin, bound))
    assert seen == sorted(seen)


STEP = st.tuples(st.sampled_from(["advance", "leave", "raise"]), MOVE)


@given(st.lists(STEP))
def test_origins_come_and_go(steps: list[tuple[str, tuple[str, float]]]) -> None:
    """The lowest of those that are there, found by looking at all of them."""
    low, bounds, value = LowWatermark(), dict[str, float](), BEGINNING
    for what, (origin, bound) in steps:
        if what == "advance":
            bounds[origin] = max(bounds.get(origin, value), bound)
            low.advance(origin, bound)
        elif what == "leave" and origin in bounds:
            del bounds[origin]
            low.leave(origin)
        elif what == "raise" and bound != END:
            bounds = {each: max(own, bound) for each, own in bounds.items()}
            value = max(value, bound)
            low.raise_to(bound)
        value = max(value, min(bounds.values(), default=value))
        assert low.value == value
        assert sorted(map(str, low.held_back_by)) == sorted(
            each for each, own in bounds.items() if own == value
        )


def test_a_newcomer_joins_at_the_minimum() -> None:
    low = LowWatermark(["A", "B"])
    low.advance("A", 20)
    low.advance("B", 10)
    assert low.add("C") == 10
    assert low.held_back_by == ["B", "C"]
    # what it promises counts from then on, and what lies below is no news
    assert low.advance("B", 15) == 10
    assert low.advance("C", 3) == 10
    assert low.advance("C", 12) == 12


def test_somebody_known_does_not_join_again() -> None:
    low = LowWatermark(["A", "B"])
    low.advance("A", 20)
    assert low.add("A") == 20
    assert low.value == BEGINNING


def test_the_first_of_all_starts_at_the_beginning() -> None:
    low = LowWatermark()
    assert low.value == BEGINNING
    assert low.held_back_by == []
    assert low.add("A") == BEGINNING
    assert low.advance("A", -5) == -5


def test_an_origin_that_ended_holds_nobody_back() -> None:
    low = LowWatermark(["A", "B"])
    assert low.end("A") == BEGINNING
    assert low.advance("B", 7) == 7
    assert low.held_back_by == ["B"]
    assert low.end("B") == END
    assert low.advance("A", 3) == END


@given(st.lists(st.integers(-9, 9)))
def test_high_watermark_is_the_maximum(values: list[int]) -> None:
    high = HighWatermark()
    assert high.value == BEGINNING
    told = [high.observe(value) for value in values]
    assert told == [max(values[: count + 1]) for count in range(len(values))]
