"""Who holds back whom, in words."""

from __future__ import annotations

import penstock as ps
from penstock.api.display import explain_stall
from penstock.model.punctuation import BEGINNING
from penstock.plan.streams import StreamDefinition
from penstock.runs.status import SourceStatus


def streams(*names: str) -> dict[str, StreamDefinition]:
    db = ps.connect()
    for name in names:
        db.stream(name, [{"t": 1}], progress=ps.progress("t", delay=5))
    return dict(db.catalog.streams)


def test_the_skew_between_sources_is_told() -> None:
    sources = [
        SourceStatus("a", 40, 45, False, [], "40", "45"),
        SourceStatus("b", 7, 12, False, [], "7", "12"),
    ]
    said = explain_stall(sources, streams("a", "b"))
    assert "stream b waits for its only source, which is 5 behind" in said
    assert said.endswith("; a is 33 ahead")


def test_a_source_that_never_began_holds_back_the_others() -> None:
    sources = [
        SourceStatus("a", 40, 45, False, [], "40", "45"),
        SourceStatus("b", BEGINNING, BEGINNING, False, []),
    ]
    assert explain_stall(sources, streams("a", "b")) == (
        "stream b has promised nothing yet: it waits for its only source; a has come to 40"
    )


def test_all_that_never_began_are_told() -> None:
    silent = [SourceStatus(name, BEGINNING, BEGINNING, False, []) for name in "ab"]
    assert explain_stall(silent, streams("a", "b")) == "streams a, b have promised nothing yet"


def test_nothing_is_held_back_by_what_has_ended() -> None:
    assert explain_stall([], {}) == "nothing has been read yet"
    ended = SourceStatus("a", 40, 45, True, [])
    assert explain_stall([ended], streams("a")) == "nothing is held back"
