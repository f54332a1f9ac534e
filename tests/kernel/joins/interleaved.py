"""Queries over several streams whose chunks come in any order, with restarts in between.

Operators are watched: none may break what it has promised, or say anything after its end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Several
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import penstock as ps
import penstock.local.graph.query_graph as query_graph
from penstock.io.sinks.sink import Collected
from penstock.io.sources.source import Chunk
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import to_ticks
from penstock.kernel.build import operator_for
from penstock.kernel.operator import Item, Operator, Progress
from penstock.kernel.state import MemoryStore
from penstock.local.checkpoint import load_run, save_run
from penstock.local.graph.source_node import SourceNode
from penstock.local.run import LocalRun
from penstock.model.clock import ManualClock
from penstock.model.punctuation import BEGINNING, Bound, sign_name
from penstock.optimizer.rewrite import with_inputs
from penstock.plan.nodes.join import Sequence
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import PhysicalNode
from penstock.reference.engine import answer
from penstock.runs.answer import Outlet, join_tables
from penstock.runs.collected_answer import final_rows
from tests.planning import in_process
from tests.reference.helpers import Row, bag, tuples

CUTS = (1, 7, 1000)


@dataclass(frozen=True)
class Given:
    """A stream: its columns, its rows as they come, and what it promises."""

    schema: pa.Schema
    rows: Several[Row]
    promise: dict[str, Any]

    def batches(self, cut: int) -> list[pa.RecordBatch]:
        names = self.schema.names
        return [
            pa.RecordBatch.from_pylist(
                [dict(zip(names, row, strict=True)) for row in self.rows[at : at + cut]],
                self.schema,
            )
            for at in range(0, len(self.rows), cut)
        ]


class Outcome(NamedTuple):
    rows: list[Row]
    late: list[Row]


def planned(
    sql: str, streams: dict[str, Given], cut: int, change: Change | None = None
) -> QueryPlan:
    """`change` makes another plan of what SQL says."""
    said = json.dumps([[name, given.promise] for name, given in streams.items()])
    schemas = tuple(given.schema for given in streams.values())
    plan, data = _planned(sql, said, schemas, change)
    for batches, given in zip(data, streams.values(), strict=True):
        batches[:] = given.batches(cut)
    return plan


Change = Callable[[QueryPlan], QueryPlan]


@cache
def _planned(
    sql: str, said: str, schemas: tuple[pa.Schema, ...], change: Change | None
) -> tuple[QueryPlan, list[list[pa.RecordBatch]]]:
    """A plan, and the batches that its streams will be read from: parsing takes a while."""
    db = ps.connect("reference")
    data = []
    for (name, promise), schema in zip(json.loads(said), schemas, strict=True):
        data.append([pa.RecordBatch.from_pylist([], schema)])
        db.stream(name, data[-1], progress=ps.progress("t", **promise))
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return (query.plan if change is None else change(query.plan)), data


@cache
def keeping(first: bool, second: bool) -> Change:
    """Plans whose sequences keep tuples without a partner."""

    def change(node: Node) -> Node:
        node = with_inputs(node, change)
        return replace(node, keeps=(first, second)) if isinstance(node, Sequence) else node

    return lambda query: with_inputs(query, change)


def defined(plan: QueryPlan) -> Outcome:
    found = answer(plan, ManualClock())
    return Outcome(tuples(found.table), bag(tuples(found.late)))


def ran(plan: QueryPlan, turns: Several[int] = (), every: int | None = None) -> Outcome:
    """The answer when the chunks of streams come in turns, which name the streams by number and
    are gone through again and again; saved and begun anew after so many chunks."""
    store = MemoryStore()
    rows, late = [], []
    fed, more = 0, True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query_graph, "operator_for", lambda *given: Watched(*given))
        while more:
            kept, aside = Collected(), Collected()
            outlet = Outlet(plan, kept, aside)
            run = LocalRun([in_process(plan)], [outlet], ManualClock(), resumable=True)
            load_run(run, store)
            more = False
            for number, (scan, chunk) in enumerate(_in_turns(run.scans, turns, fed)):
                if number == every:
                    more = True
                    break
                fed += 1
                if chunk is None:
                    run.end(scan)
                else:
                    run.feed(scan, chunk)
            save_run(run, store)
            rows.append(kept.table)
            late += [pa.Table.from_batches([each]) for each in aside.batches]
    table = pa.concat_tables(rows)
    if plan.revises and not plan.signed:
        table = final_rows(table, sign_name(plan.schema.arrow.names))
    return Outcome(tuples(table), bag(tuples(join_tables(late, plan))))


def _in_turns(
    scans: Several[SourceNode], turns: Several[int], at: int
) -> Iterator[tuple[SourceNode, Chunk | None]]:
    """Of each scan what is left, and None for its end."""
    left = {n: _all_of(scan) for n, scan in enumerate(scans) if not scan.ingest.ended}
    while left:
        numbers = sorted(left)
        chosen = numbers[(turns[at % len(turns)] if turns else 0) % len(numbers)]
        at += 1
        chunk = next(left[chosen])
        if chunk is None:
            del left[chosen]
        yield scans[chosen], chunk


def _all_of(scan: SourceNode) -> Iterator[Chunk | None]:
    yield from scan.chunks()
    yield None


class Watched:
    """An operator that is held to what it promises."""

    def __init__(self, node: PhysicalNode, clock: ManualClock) -> None:
        self._operator: Operator = operator_for(node, clock)
        self._fields = {each.field.qualified: each.field for each in node.logical.progress}
        self._promised: dict[str, Bound] = {}
        self._ended = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operator, name)

    def on_batch(self, port: int, batch: Batch) -> list[Item]:
        return self._checked(self._operator.on_batch(port, batch))

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        return self._checked(self._operator.on_progress(port, progress))

    def _checked(self, items: list[Item]) -> list[Item]:
        for item in items:
            if isinstance(item, Progress):
                assert not self._ended
                self._ended = item.ended
                for name in self._fields:
                    bound = item.bounds.get(name, BEGINNING)
                    assert self._ended or bound >= self._promised.get(name, BEGINNING)
                    self._promised[name] = bound
            elif isinstance(item, Batch):
                assert not self._ended
                assert item.num_rows
                self._check_rows(item)
        return items

    def _check_rows(self, batch: Batch) -> None:
        for name, bound in self._promised.items():
            if bound == BEGINNING:
                continue
            place = batch.rows.schema.names.index(name)
            found = to_ticks(batch.rows.column(place), self._fields[name].type)
            if batch.broken is not None and name in batch.broken:
                found = found[batch.broken[name].is_null().to_numpy(zero_copy_only=False)]
            assert not len(found) or found.min() >= bound, (name, bound, found)


def check(
    sql: str,
    streams: dict[str, Given],
    turns: Several[int],
    every: int | None = None,
    change: Change | None = None,
    in_order: bool = False,
) -> None:
    """The rows, signs and late tuples of the reference, whatever the cut; its order, too, if that
    is asked for."""
    expected = defined(planned(sql, streams, 1000, change))
    for cut in CUTS:
        found = ran(planned(sql, streams, cut, change), turns, every)
        if in_order:
            assert list(map(repr, found.rows)) == list(map(repr, expected.rows)), (
                f"batches of {cut}"
            )
        assert bag(found.rows) == bag(expected.rows), f"rows of batches of {cut}"
        assert found.late == expected.late, f"late tuples of batches of {cut}"
