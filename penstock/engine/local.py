"""A straight driver: builds operators for a plan and pushes every item of its sources through them.

What has not been built for this engine yet is refused before anything is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.answer import Answer, join_tables
from penstock.engine.ingest import Ingest
from penstock.errors import EngineError
from penstock.model.clock import Clock
from penstock.operators.adapt_wid import AdaptWid
from penstock.operators.bins import Bins
from penstock.operators.bounds import without_bounds
from penstock.operators.buffering import Buffering
from penstock.operators.distinct import DistinctOperator
from penstock.operators.grouped import GroupedOperator
from penstock.operators.landmark import LandmarkOperator
from penstock.operators.operator import Item, LateRows, Operator, Progress
from penstock.operators.paned import Paned
from penstock.operators.row_windows import RowsOperator
from penstock.operators.stamp import StampOperator
from penstock.operators.stateless import FilterOperator, Meld, ProjectOperator
from penstock.operators.two_level import TwoLevel
from penstock.operators.wid import Wid
from penstock.plan.aggregates import Algorithm, Distinct, GroupAggregate, WindowAggregate
from penstock.plan.node import Node
from penstock.plan.query import Late, Query
from penstock.plan.stateless import Filter, Project, Scan, Stamp, Union
from penstock.sources.rejects import RejectLog
from penstock.windows.landmark import Landmark
from penstock.windows.rows import RowWindow
from penstock.windows.slide_by_tuple import SlideByTuple
from penstock.windows.sliding import Sliding


def answer(query: Query, clock: Clock, strict: bool = False) -> Answer:
    if query.late is Late.AMEND or query.early_every is not None:
        raise EngineError(
            "the local engine does not revise results yet: use LATE SIDE or the reference engine"
        )
    run = _Run(clock, RejectLog(strict))
    batches, late = [], []
    for item in _items(query.input, run):
        if isinstance(item, LateRows):
            late.append(_plainly_named(pa.Table.from_batches([item.batch])))
        elif isinstance(item, pa.RecordBatch):
            batches.append(without_bounds(item))
    table = pa.Table.from_batches(batches, query.schema.arrow)
    if query.in_order:
        table = table.sort_by(query.progress[0].field.qualified)
    delivered = sum(ingest.read for ingest in run.ingests)
    return Answer(table, join_tables(late), run.rejects, delivered)


def _plainly_named(table: pa.Table) -> pa.Table:
    """Columns without the relation before their names, where they can be told apart without it."""
    plain = [name.rpartition(".")[2] for name in table.column_names]
    return table.rename_columns(plain) if len(set(plain)) == len(plain) else table


@dataclass
class _Run:
    clock: Clock
    rejects: RejectLog
    ingests: list[Ingest] = field(default_factory=list)


def _items(node: Node, run: _Run) -> Iterator[Item]:
    if isinstance(node, Scan):
        ingest = Ingest(node, run.clock, run.rejects)
        run.ingests.append(ingest)
        return ingest.items()
    return _through(_operator(node, run.clock), [_items(each, run) for each in node.inputs])


def _through(operator: Operator, inputs: list[Iterator[Item]]) -> Iterator[Item]:
    """Items of the inputs, one input after the other, through an operator."""
    for port, items in enumerate(inputs):
        for item in items:
            match item:
                case LateRows():
                    yield item
                case Progress():
                    yield from operator.on_progress(port, item)
                case _:
                    yield from operator.on_batch(port, item)


def _operator(node: Node, clock: Clock) -> Operator:
    match node:
        case Filter():
            return FilterOperator(node)
        case Project():
            return ProjectOperator(node)
        case Stamp():
            return StampOperator(node, clock)
        case Union():
            return Meld(node)
        case WindowAggregate() if not node.input.signed:
            return _window_operator(node)
        case GroupAggregate() if not node.input.signed:
            return GroupedOperator(node)
        case Distinct():
            return DistinctOperator(node)
    raise EngineError(
        f"the local engine cannot run a {type(node).__name__.lower()} yet: use the reference engine"
    )


_ALGORITHMS: dict[Algorithm, Callable[[WindowAggregate], Operator]] = {
    Algorithm.PANED: Paned,
    Algorithm.WID: Wid,
    Algorithm.ADAPTIVE: AdaptWid,
    Algorithm.TWO_LEVEL: TwoLevel,
    Algorithm.BUFFERING: Buffering,
}


def _window_operator(node: WindowAggregate) -> Operator:
    match node.window:
        case Sliding():
            return _ALGORITHMS[node.algorithm or Algorithm.PANED](node)
        case Landmark():
            return LandmarkOperator(node)
        case RowWindow():
            return RowsOperator(node)
        case SlideByTuple():
            return Bins(node)
