"""The check that all other tests have around their operators notices a promise that is broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.kernel.batch import Batch
from penstock.kernel.joins.oa_join import OaJoin
from penstock.kernel.operator import Item, Progress
from penstock.kernel.windows.paned import Paned
from penstock.model.punctuation import JointPunctuation
from tests.local.helpers import locally
from tests.promises_kept import Kept
from tests.reference.helpers import Stream, ask
from tests.spark.test_every_cut import run_in_cuts
from tests.spark.without_spark import WithoutSpark


def batch(*rows: tuple[int, int]) -> Batch:
    return Batch(pa.record_batch({"t": [t for t, _ in rows], "u": [u for _, u in rows]}))


BROKEN: dict[str, list[Item]] = {
    "t below 5": [Progress({"t": 5}), batch((5, 0)), batch((6, 0), (4, 0))],
    "t goes back from 5 to 3": [Progress({"t": 5}), Progress({"t": 3})],
    "t goes back from 5 to -inf": [Progress({"t": 5}), Progress()],
    "rows after the end": [Progress(ended=True), batch((1, 1))],
    "a row below both of": [
        Progress(joint=(JointPunctuation(("t", "u"), (5, 7)),)),
        batch((4, 7), (5, 6)),
        batch((4, 6)),
    ],
}


@pytest.mark.parametrize("message", BROKEN)
def test_what_breaks_a_promise(message: str) -> None:
    *before, last = BROKEN[message]
    kept = Kept()
    for item in before:
        kept.see(item)
    with pytest.raises(AssertionError, match=message):
        kept.see(last)


def test_who_breaks_the_promise_of_its_source_says_so() -> None:
    kept = Kept()
    kept.see(Progress({"t": 5}))
    late = replace(batch((4, 0)), broken={"t": pa.array([5])}, numbers=np.array([0]))
    kept.see(late)


S = Stream("k STRING, t INT", [("a", 1), ("a", 4), ("a", 9)], ps.progress("t", delay=6))
OF_WINDOWS = "SELECT /*+ PANED */ count(*) AS n [RANGE 2, SLIDE 2, WA t] FROM s"
OF_JOINS = "SELECT s.t FROM s [RANGE 5], s AS r [RANGE 5] WHERE s.k = r.k"


def promising_too_much(operator: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    honest = operator.on_progress

    def on_progress(self: Any, port: int, progress: Progress) -> list[Item]:
        made = honest(self, port, progress)
        return [
            replace(each, bounds={name: bound + 20 for name, bound in each.bounds.items()})
            if isinstance(each, Progress)
            else each
            for each in made
        ]

    monkeypatch.setattr(operator, "on_progress", on_progress)


@pytest.mark.parametrize(
    ("operator", "sql"), [(Paned, OF_WINDOWS), (OaJoin, OF_JOINS)], ids=["windows", "join"]
)
def test_every_run_in_process_is_checked(
    operator: type[Any], sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    promising_too_much(operator, monkeypatch)
    with pytest.raises(AssertionError, match=r"(t|window_\w+) below"):
        locally(sql, 1, s=S)


def test_every_bucket_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    promising_too_much(OaJoin, monkeypatch)
    query = ask(OF_JOINS, s=S)
    with pytest.raises(AssertionError, match="t below"):
        run_in_cuts(WithoutSpark(query.plan, 1), query, {"s": [(0, 1), (1, 2), (2, 3)]}, 1, set())
