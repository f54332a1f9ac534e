"""What all nodes of the graph have: an output, ways to go on from it, and a rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, cast

from penstock.engine.graph.arcs import Arcs
from penstock.engine.graph.buffer import Buffer, Reader
from penstock.engine.graph.registers import Register
from penstock.engine.graph.sieve import Share, Sieve
from penstock.engine.strategy.rules import Rule, dfs_nos
from penstock.engine.strategy.strategy import MOST
from penstock.operators.batch import Batch
from penstock.operators.operator import Item, LateRows, Progress
from penstock.runs.outlet import Outlet

if TYPE_CHECKING:
    from penstock.engine.scheduling.component import Component

SMALL = 1 << 12  # rows of a batch that goes from operator to operator at once
FEW = 8  # branches that are served at once: somebody may wait for the end of a step


@dataclass(frozen=True, slots=True)
class Exit:
    """Where rows leave the graph: at once, because whoever is behind a sink takes them himself."""

    outlet: Outlet
    names: Mapping[str, str] | None = None  # of the query; None: as they are

    def take(self, batch: Batch) -> None:
        if self.names is not None:
            batch = batch.renamed(self.names)
        self.outlet.on_rows(batch)


class GraphNode(ABC):
    """`rule` and `step`, the tuples that one execution may take, come from the state table."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.uses: dict[Outlet, int] = {}  # how often a query asks for it, if it is more than once
        self.output = Buffer()
        self.exits: list[Exit] = []
        self.outlets: dict[Outlet, int] = {}  # of the queries that it serves; see `read_before`
        self.arcs = Arcs()  # that progress goes along
        self.as_items = False  # whether progress goes through the buffer instead
        self.rule: Rule = dfs_nos
        self.transition = ""  # the name of the rule
        self.step = MOST
        self.hands_over = False  # to its reader, without a buffer between them
        self.broken_off = False  # by hand; see `is_break`
        self.ends_segment = False  # by the memory policy; see `is_break`
        self.memory_limit: int | None = None  # rows that may wait before memory counts, if it does
        self.component: Component | None = None
        self.listed = False  # among those of its component that have something to do
        self.began = perf_counter_ns()  # to be a node
        self.arrived = self.began  # when what is being handled had come
        self._offered: dict[Register, None] = {}
        self._sieve: Sieve | None = None  # before the filters that it feeds, if they are many
        self._sieved = 0  # the readers that it is for; see `Buffer.changes`
        self.unsaved: set[GraphNode] | None = None  # those that have changed, if they are saved

    # --- the cycle -------------------------------------------------------------------------------

    @abstractmethod
    def execute(self) -> int:
        """Handle what is there, up to a step; how many tuples that were."""

    @property
    @abstractmethod
    def more(self) -> bool:
        """Whether there is something to do."""

    @property
    def blocked(self) -> bool:
        """Whether there will be something to do when others have done something."""
        return False

    @property
    def yields(self) -> bool:
        """Whether something waits for a successor: tuples, or progress in a register."""
        return self.output.waits or (bool(self._offered) and self._ready() is not None)

    def forward(self) -> GraphNode:
        """The successor whose turn it is."""
        reader = self.output.turn()
        if reader is not None:
            return cast("GraphNode", reader.owner)
        register = self._ready()
        assert register is not None
        return self.arcs[register]

    @abstractmethod
    def backward(self) -> GraphNode:
        """The predecessor whose output is waited for."""

    def changed(self) -> None:
        """Its state is not what was saved of it any more."""
        if self.unsaved is not None:
            self.unsaved.add(self)

    def wake(self) -> None:
        if not self.listed and self.component is not None:
            self.component.add(self)

    @property
    def is_break(self) -> bool:
        """Whether the scheduler, not the rule, goes on behind this node."""
        return self.broken_off or self.ends_segment

    # --- what comes out --------------------------------------------------------------------------

    def emit(self, items: Iterable[Item]) -> None:
        for item in items:
            self.emit_one(item)

    def emit_one(self, item: Item) -> None:
        if isinstance(item, Batch):
            self._give(item)
        elif isinstance(item, Progress):
            if self.as_items:
                self.output.put(item, self.arrived)
            else:
                self._offer(item)
        else:
            self._late(item)

    def _give(self, batch: Batch) -> None:
        """A small batch for the only one who wants it goes to him at once, which is much cheaper
        than a step of his own.  Then both serve the same queries, so it does not matter in which of
        them something fails."""
        readers = self.output.readers
        if self.exits:
            took, rows = perf_counter_ns() - self.arrived, batch.num_rows
            for way_out in self.exits:
                way_out.outlet.latencies.add(took, rows)
                way_out.take(batch)
            if not readers:
                return
        elif self.hands_over and (batch.form is not None or batch.num_rows <= SMALL):
            if len(readers) == 1:
                (reader,) = readers
                if reader.owner.takes_at_once(reader, batch, self.arrived):
                    return
            elif len(readers) <= FEW:
                self._give_each(batch, [Share(reader, None) for reader in readers])
                return
            else:
                self._sift(batch, readers)
                return
        self.output.put(batch, self.arrived)

    def _give_each(self, batch: Batch, shares: Sequence[Share]) -> None:
        """The same for the branches of a fork.  They may serve different queries, so if one of them
        fails, the others find the batch in the buffer."""
        arrived, waiting, place = self.arrived, list[Reader](), 0
        try:
            for place, share in enumerate(shares, start=1):  # noqa: B007
                reader = share.reader
                if not reader.owner.takes_at_once(reader, share.of(batch), arrived):
                    waiting.append(reader)
        except BaseException:
            self._failed_in(shares[place - 1].reader.owner)
            waiting += [share.reader for share in shares[place:]]
            raise
        finally:
            if waiting:
                self.output.put(batch, arrived, waiting)

    def _sift(self, batch: Batch, readers: Sequence[Reader]) -> None:
        """The same where branches are many: only those get a batch that some of it may be for.  If
        these are still many, they take it from the buffer, each in a step of its own."""
        if self._sieve is None or self._sieved != self.output.changes:
            self.settle()
            self._sieve, self._sieved = Sieve(readers), self.output.changes
        shares = self._sieve.sift(batch)
        if self.output.waits:  # what comes behind something that waits, waits as well
            chosen = {share.reader for share in shares}
            late = [each for each in readers if each.waiting and each not in chosen]
            shares += [Share(reader, None) for reader in late]
        if len(shares) <= FEW:
            for share in shares:
                self._sieve.took(share, share.of(batch))
            self._give_each(batch, shares)
        elif shares:
            for share in shares:
                self._sieve.took(share, batch)
            self.output.put(batch, self.arrived, [share.reader for share in shares])

    def settle(self) -> None:
        """Let everybody count what has passed."""
        if self._sieve is not None:
            self._sieve.settle()

    def _offer(self, progress: Progress) -> None:
        """Where nothing is on the way before it, progress is handed over like a small batch."""
        if len(self.arcs) > FEW:
            for register in self.arcs.concerned(progress):
                self.offer_to(register, progress)
            return
        if not self.hands_over:
            for register in self.arcs:
                self.offer_to(register, progress)
            return
        arcs, place = tuple(self.arcs.items()), 0
        try:
            for place, (register, owner) in enumerate(arcs, start=1):  # noqa: B007
                if not owner.sees_at_once(register, progress, self.arrived):
                    self.offer_to(register, progress)
        except BaseException:
            self._failed_in(arcs[place - 1][1])
            for register, _ in arcs[place:]:
                self.offer_to(register, progress)
            raise

    def _failed_in(self, branch: object) -> None:
        """Something handed over has failed in a branch: all nodes up to the next fork serve the
        same queries."""
        if self.component is not None:
            self.component.failed_in(cast("GraphNode", branch))

    def offer_to(self, register: Register, progress: Progress) -> None:
        register.offer(progress, self.arrived)
        self._offered[register] = None
        self.arcs[register].wake()

    def taken(self, register: Register) -> None:
        """What was offered has been seen."""
        self._offered.pop(register, None)

    def _late(self, item: LateRows) -> None:
        for outlet in self.outlets:
            for _ in range(self.uses.get(outlet, 1)):
                outlet.on_late(item.batch)

    def _ready(self) -> Register | None:
        for register in self._offered:
            if register.ready:
                return register
        return None

    # --- where it stands -------------------------------------------------------------------------

    @property
    @abstractmethod
    def predecessors(self) -> list[GraphNode]: ...

    @property
    def successors(self) -> list[GraphNode]:
        # whoever reads here is a node; there may be a thousand of them, and somebody asks often
        return cast("list[GraphNode]", [reader.owner for reader in self.output.readers])

    @property
    def is_wanted(self) -> bool:
        return bool(self.exits or self.output.readers)
