"""What holds for every kind of window: the laws that tie windows, extent and wids together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.plan.window_kinds import (
    AnyWindow,
    Category,
    Landmark,
    Order,
    RowWindow,
    Session,
    SlideByTuple,
    Sliding,
    WindowId,
    WindowItem,
    ascending,
    number,
)

LENGTH = st.integers(1, 12)
ORIGIN = st.integers(-40, 40)
ORDER = st.sampled_from(Order)
# Partitions that neither compare nor print alike, as NULL and a text do not.
ITEM = st.builds(WindowItem, st.integers(-30, 30), st.sampled_from([None, "a", ("b", 1)]))
STREAM = st.lists(ITEM, max_size=25)

SESSION = st.builds(Session, LENGTH, LENGTH | st.none())

KINDS: dict[str, st.SearchStrategy[AnyWindow | Session]] = {
    "sliding": st.builds(Sliding, LENGTH, LENGTH, ORIGIN),
    "landmark": st.builds(Landmark, LENGTH, ORIGIN),
    "rows": st.builds(RowWindow, LENGTH, LENGTH, ORDER, st.booleans()),
    "all rows": st.builds(RowWindow, st.none(), LENGTH, ORDER, st.booleans()),
    "slide by tuple": st.builds(SlideByTuple, LENGTH, LENGTH, ORDER, st.booleans()),
    "session": SESSION,
}
# Those whose meaning does not depend on the order of arrival.
BY_VALUE: dict[str, st.SearchStrategy[AnyWindow | Session]] = {
    "sliding": KINDS["sliding"],
    "landmark": KINDS["landmark"],
    "rows by rank": st.builds(
        RowWindow, LENGTH | st.none(), LENGTH, st.just(Order.RANK), st.booleans()
    ),
    "slide by every tuple": st.builds(SlideByTuple, LENGTH, st.just(1), ORDER, st.booleans()),
    "slide by rank": st.builds(SlideByTuple, LENGTH, LENGTH, st.just(Order.RANK), st.booleans()),
    "session": SESSION,
}


def draw(
    data: st.DataObject, kinds: dict[str, st.SearchStrategy[AnyWindow | Session]], kind: str
) -> AnyWindow | Session:
    return data.draw(kinds[kind], label="window")


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), stream=STREAM)
def test_extent_and_wids_are_inverses(
    kind: str, data: st.DataObject, stream: list[WindowItem]
) -> None:
    window = draw(data, KINDS, kind)
    by_tuple = {(t, w) for t in range(len(stream)) for w in window.wids(t, stream)}
    by_window = {(t, w) for w in window.windows(stream) for t in window.extent(w, stream)}
    assert by_tuple == by_window


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), stream=STREAM)
def test_windows_is_the_union_of_wids(
    kind: str, data: st.DataObject, stream: list[WindowItem]
) -> None:
    window = draw(data, KINDS, kind)
    windows = window.windows(stream)
    assert set(windows) == {w for t in range(len(stream)) for w in window.wids(t, stream)}
    assert len(windows) == len(set(windows))
    assert all(window.extent(w, stream) for w in windows)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), stream=STREAM)
def test_ids_and_arrival_numbers_ascend(
    kind: str, data: st.DataObject, stream: list[WindowItem]
) -> None:
    window = draw(data, KINDS, kind)
    windows = window.windows(stream)
    assert [*map(number, windows)] == sorted(map(number, windows))
    for t in range(len(stream)):
        wids = window.wids(t, stream)
        assert [*map(number, wids)] == sorted({*map(number, wids)})
    for w in windows:
        assert window.extent(w, stream) == sorted(set(window.extent(w, stream)))


@pytest.mark.parametrize("kind", ["sliding", "rows"])
@given(data=st.data(), stream=STREAM)
def test_windows_that_are_not_listed_are_empty(
    kind: str, data: st.DataObject, stream: list[WindowItem]
) -> None:
    """Landmark windows go on for ever, and slide-by-tuple windows exist only where one opens."""
    window = draw(data, KINDS, kind)
    ids: list[WindowId] = [*range(-90, 90)]
    if isinstance(window, RowWindow) and window.partitioned:
        ids = [(w, item.partition) for item in stream for w in range(-20, 40)]
    for w in set(ids) - set(window.windows(stream)):
        assert window.extent(w, stream) == []


@pytest.mark.parametrize("kind", BY_VALUE)
@given(data=st.data(), stream=STREAM)
def test_arrival_order_does_not_matter(
    kind: str, data: st.DataObject, stream: list[WindowItem]
) -> None:
    window = draw(data, BY_VALUE, kind)
    shuffled = data.draw(st.permutations(stream))

    def contents(arrived: list[WindowItem]) -> dict[WindowId, list[int]]:
        return {
            w: sorted(arrived[t].value for t in window.extent(w, arrived))
            for w in window.windows(arrived)
        }

    assert contents(stream) == contents(shuffled)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), stream=STREAM)
def test_everything_in_a_window_lies_below_its_close(
    kind: str, data: st.DataObject, stream: list[WindowItem]
) -> None:
    window = draw(data, KINDS, kind)
    values = [item.value for item in stream]
    ticks = window.row_numbers(stream) if isinstance(window, RowWindow) else values
    for w in window.windows(stream):
        end = window.closes_at(w, stream) if isinstance(window, Session) else window.closes_at(w)
        assert all(ticks[t] < end for t in window.extent(w, stream))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_the_empty_stream_has_no_windows(kind: str, data: st.DataObject) -> None:
    assert draw(data, KINDS, kind).windows([]) == []


def test_equal_numbers_stay_in_the_order_of_arrival() -> None:
    assert ascending([(2, None), (1, "b"), (1, None), (2, None)]) == [
        (1, "b"),
        (1, None),
        (2, None),
    ]


@pytest.mark.parametrize(
    ("window", "category"),
    [
        (Sliding(2, 1), Category.CONTEXT_FREE),
        (Landmark(1), Category.CONTEXT_FREE),
        (RowWindow(2, 1), Category.CONTEXT_FREE),
        (RowWindow(2, 1, partitioned=True), Category.FORWARD_CONTEXT_FREE),
        (RowWindow(2, 1, Order.RANK), Category.FORWARD_CONTEXT_AWARE),
        (Session(2), Category.FORWARD_CONTEXT_AWARE),
        (RowWindow(None, 1, Order.RANK, True), Category.FORWARD_CONTEXT_AWARE),
        (SlideByTuple(2), Category.FORWARD_CONTEXT_AWARE),
    ],
)
def test_categories(window: AnyWindow | Session, category: Category) -> None:
    assert window.category is category


def test_categories_have_readable_names() -> None:
    assert [str(category) for category in Category] == [
        "context-free",
        "forward-context-free",
        "forward-context-aware",
    ]
