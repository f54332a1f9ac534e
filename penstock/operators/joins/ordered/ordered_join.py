"""What all joins have in common whose results leave in order.

Tuples of an input may wait before they are joined, and results after it; which of them wait is what
tells these joins apart.  The joining itself is that of the OA-Join inside, which is told of
progress as far as no tuple waits that belongs before it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from penstock.errors import CheckpointError
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.schema import Field
from penstock.operators.batch import Batch
from penstock.operators.groups.grouped import InTime
from penstock.operators.joins.join_state import JoinState, Rows
from penstock.operators.joins.oa_join import OaJoin
from penstock.operators.joins.ordered.order import ResultOrder
from penstock.operators.metrics import Metrics, bytes_of
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.operators.operator import Base, Item, LateRows, Progress, at_once
from penstock.operators.ticks import to_ticks
from penstock.operators.waiting import WaitingRows
from penstock.plan.expressions import Column
from penstock.plan.identity.identity import origins
from penstock.plan.nodes.joins import Join
from penstock.state.chunks import ChunkStore, Within

_PIECE = 1 << 16  # results that leave together


class OrderedJoin(Base):
    """An INNER join of two inputs, none of which takes tuples back."""

    def __init__(self, node: Join, by: Sequence[Column], any_order: bool = False) -> None:
        """Results are in the order of the latest of some times, or in the order that a state has
        which is loaded."""
        self._node, self._any_order = node, any_order
        timed = list(zip(node.attributes, node.branches, strict=True))
        inputs = zip(node.times, node.branches, strict=True)
        self._in_time = [InTime(list(times), each) for times, each in inputs]
        self._attributes = [Field(a.name, a.type, a.relation).qualified for a in node.attributes]
        self._types = [attribute.type for attribute in node.attributes]
        self._places = [attribute.position(each.schema) for attribute, each in timed]
        self._columns = [[each.qualified for each in branch.schema] for branch in node.branches]
        self._output = [each.qualified for each in node.schema]
        self._origins = [*(origins(each) for each in node.branches), origins(node)]
        self.order = ResultOrder(node, by)
        self.join = OaJoin(node)
        self.waiting = (WaitingRows(), WaitingRows())  # tuples that have not been joined
        self.held = WaitingRows()  # results that have not been given out
        self._given = [Progress(), Progress()]  # by the inputs
        self._told: list[Progress | None] = [None, None]  # to the join inside
        self._inside = Progress()  # what it has promised
        self._released: Bound = BEGINNING
        self._promised = Progress()

    @abstractmethod
    def waits(self, port: int) -> bool:
        """Whether tuples of an input wait before they are joined."""

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        if self.waits(port):
            given, ticks, late = self._in_time[port].split_signed(batch)
            yield from late
            self.waiting[port].add(given.rows, ticks[0])
        else:
            yield from self._join(port, batch)

    def _join(self, port: int, batch: Batch) -> Iterator[LateRows]:
        """Let tuples meet those that have been joined before; results wait for their turn."""
        for item in self.join.on_batch(port, batch):
            if isinstance(item, Batch):
                self.held.add(item.rows, self.order.ticks(item.rows))
            elif isinstance(item, LateRows):
                yield item

    # --- progress --------------------------------------------------------------------------------

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        self._given[port] = progress
        complete = self.order.complete(self._given)
        for number, waiting in enumerate(self.waiting):
            ready = waiting.take(complete)
            if ready is not None:
                yield from self._join(number, Batch(ready.rows))
        self._tell_inside()
        released = self.held.take(complete)
        self._released = max(complete, self._released)
        if released is not None:
            for begin in range(0, released.rows.num_rows, _PIECE):
                yield Batch(released.rows.slice(begin, _PIECE))
        promised = self._promise()
        if promised != self._promised:
            self._promised = promised
            yield Progress(promised.bounds, self._inside.high, promised.ended, joint=promised.joint)

    def bounds(self) -> list[Bound]:
        """What the inputs have promised about their times."""
        pairs = zip(self._in_time, self._given, strict=True)
        return [in_time.promised(given)[0] for in_time, given in pairs]

    def _tell_inside(self) -> None:
        """The join inside is promised what holds for the tuples that it will get."""
        for port, (given, bound) in enumerate(zip(self._given, self.bounds(), strict=True)):
            lowest = self.waiting[port].lowest()
            if lowest == END:
                promised = given
            else:
                promised = Progress({self._attributes[port]: min(bound, lowest)}, given.high)
            if promised != self._told[port]:
                self._told[port] = promised
                for item in self.join.on_progress(port, promised):
                    assert isinstance(item, Progress)
                    self._inside = item

    def _promise(self) -> Progress:
        """What the join inside has promised, as far as the results that wait keep it; what has been
        promised before goes for them, too."""
        inside = self._inside
        if inside.ended:
            return Progress(ended=True)
        promised: Mapping[str, Bound] = inside.bounds
        if len(self.held):
            waiting = self.order.promised(self._released)
            promised = {n: min(waiting[n], b) for n, b in promised.items() if n in waiting}
        bounds = dict(self._promised.bounds)
        for name, bound in promised.items():
            bounds[name] = max(bound, bounds.get(name, BEGINNING))
        return Progress(bounds, joint=() if len(self.held) else inside.joint)

    # --- what is held ----------------------------------------------------------------------------

    def rows_held(self) -> int:
        return self.join.rows_held() + sum(map(len, self.waiting)) + len(self.held)

    def metrics(self) -> Metrics:
        return Metrics(self.rows_held(), bytes_of(vars(self)), counters=self.counters())

    def counters(self) -> dict[str, int]:
        return {
            "tuples waiting to be joined": sum(map(len, self.waiting)),
            "results waiting for their turn": len(self.held),
        }

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        self.join.save(Within(store, "join/"))
        for port, waiting in enumerate(self.waiting):
            waiting.save(Within(store, f"{port}/"))
        self.held.save(Within(store, "held/"))
        *inputs, outside = self._origins
        given = [each.save(own) for each, own in zip(self._given, inputs, strict=True)]
        inside, promised = self._inside.save(outside), self._promised.save(outside)
        order = {"places": list(self.order.places), "released": self._released}
        store.put("run", {"given": given, "inside": inside, "promised": promised, **order})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        places = saved.get("places")
        if places is None:  # earlier versions knew the attributes alone
            attributes = [self._node.attributes[port] for port in saved["ports"]]
            places = [each.position(self._node.schema) for each in attributes]
        if self._any_order:
            fields = [self._node.schema.fields[place] for place in places]
            self.order = ResultOrder(self._node, [Column.of(each) for each in fields])
        if tuple(places) != self.order.places:
            raise CheckpointError(
                "the results of a join that wait in the checkpoint are in another order",
                hint="another checkpoint, or delete the directory to begin anew",
            )
        self.join.load(Within(store, "join/"))
        for port, waiting in enumerate(self.waiting):
            waiting.load(Within(store, f"{port}/"), self._columns[port])
        self.held.load(Within(store, "held/"), self._output)
        *inputs, outside = self._origins
        pairs = zip(saved["given"], inputs, strict=True)
        self._given = [Progress.load(each, own) for each, own in pairs]
        self._inside = Progress.load(saved["inside"], outside)
        self._promised = Progress.load(saved["promised"], outside)
        self._released = saved["released"]

    def export(self) -> JoinState:
        left, right = (_all(each) for each in self.waiting)
        given, other = self._given
        return JoinState(
            self.join.export().kept, (left, right), _all(self.held), (given, other), self._promised
        )

    def adopt(self, state: JoinState) -> None:
        """Tuples that waited elsewhere wait here, or are joined at once."""
        nothing: tuple[Rows, Rows] = ((), ())
        told = (Progress(), Progress())
        self.join.adopt(JoinState(state.kept, nothing, (), told, Progress()))
        for rows in state.results:
            self.held.add(rows, self.order.ticks(rows))
        self._given = list(state.progress)
        self._promised = state.promised
        for port, several in enumerate(state.waiting):
            for rows in several:
                if self.waits(port):
                    column = rows.column(self._places[port])
                    self.waiting[port].add(rows, to_ticks(column, self._types[port]))
                else:
                    list(self._join(port, Batch(rows)))  # none of them is late
        self._tell_inside()


def _all(waiting: WaitingRows) -> Rows:
    found = waiting.all()
    return () if found is None else (found.rows,)
