"""Nodes of the query graph, the registers on their inputs, and the arcs that progress travels
along.

A register (TSM register) holds the bound that an input of a progress-sensitive operator has been
promised.  A progress arc leads from a source, or from a progress-sensitive operator, straight to
the next such operator: with these arcs the graph is an enhanced query graph (EQG).  The operators
in between only rename bounds or compute them, so they are not scheduled: the arc does that in one
go.  Progress never overtakes tuples: it waits in the arc until none wait on the path, and newer
progress supersedes it there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from penstock.kernel.batch import Batch
from penstock.kernel.filter_sets import ManyFilters
from penstock.kernel.operator import Item, LateRows, Measured, Operator, Progress, Stride
from penstock.kernel.stateless import FilterOperator
from penstock.kernel.windows.paned import Paned
from penstock.kernel.windows.wid import Wid
from penstock.local.graph.buffer import Buffer, Reader, superseding
from penstock.local.strategies import MOST, Rule, dfs_nos
from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.plan.physical import OperatorKind
from penstock.runs.answer import Outlet

if TYPE_CHECKING:
    from penstock.local.graph.operator_node import OperatorNode
    from penstock.local.scheduling.components import Component

PASSING = frozenset({OperatorKind.FILTER, OperatorKind.PROJECT, OperatorKind.LOOKUP})
"""Operators that pass progress on unchanged, or with bounds on computed columns, and keep nothing
of it.  All others are progress-sensitive."""

IDLE_WAITING = frozenset(
    {
        OperatorKind.MERGE,
        OperatorKind.ORDER,
        OperatorKind.OPOB_JOIN,
        OperatorKind.OPIB_JOIN,
        OperatorKind.SYNC_FILTER,
        OperatorKind.FILTER_ORDER,
        OperatorKind.ADAPTIVE_JOIN,
        OperatorKind.RECENT,
        OperatorKind.CHRONICLE,
    }
)
"""Idle-waiting operators: rows wait in them for progress before they leave."""


class Between(Protocol):
    """An operator between the ends of an arc."""

    @property
    def operator(self) -> Operator: ...

    @property
    def pending(self) -> object | None:
        """Results that have been begun and not been emitted entirely, if there are any."""
        ...


class Register:
    """Progress that has reached an input (a TSM register).  While progress is `offered`, the
    register is active: the operator has not seen it yet."""

    def __init__(
        self, readers: Sequence[Reader], between: Sequence[Between], port: int = 0
    ) -> None:
        """Take the readers on the path, that of the operator last, and the operators between
        them."""
        self.port = port
        self._readers = tuple(readers)
        self._between = tuple(between)
        self._path = [  # the steps that change progress; filters do not
            (reader, node.operator)
            for reader, node in zip(readers, between, strict=False)
            if not isinstance(node.operator, FilterOperator) or reader.renames
        ]
        self._offered: list[Progress] = []
        self.last = Progress()  # that the operator has seen
        self.arrived = 0  # when the first of what is offered had come

    @property
    def is_straight(self) -> bool:
        """Whether progress arrives as it was offered."""
        return not self._path and not self._readers[-1].renames

    def offer(self, progress: Progress, arrived: int = 0) -> None:
        if not self._offered:
            self.arrived = arrived
        else:
            united = superseding(self._offered[-1], progress)
            if united is not None:
                self._offered[-1] = united
                return
        self._offered.append(progress)

    @property
    def active(self) -> bool:
        return bool(self._offered)

    @property
    def ready(self) -> bool:
        """Whether there is something to take, and no earlier tuple on the path."""
        return bool(self._offered) and self._path_is_clear()

    @property
    def is_clear(self) -> bool:
        """Whether nothing has been offered that the operator has not seen, and no tuple is on the
        path."""
        return not self._offered and self._path_is_clear()

    def _path_is_clear(self) -> bool:
        for reader in self._readers:
            if reader.waiting:
                return False
        for node in self._between:  # noqa: SIM110
            if node.pending is not None:
                return False
        return True

    def take(self) -> list[Progress]:
        """Take the offered progress, as it arrives at the input."""
        offered, self._offered = self._offered, []
        if len(offered) == 1:
            return [self.arriving(offered[0])]
        return [self.arriving(each) for each in offered]

    def arriving(self, progress: Progress) -> Progress:
        """Progress as it arrives at the input."""
        for reader, operator in self._path:
            (made,) = operator.on_progress(0, reader.renamed(progress))
            assert isinstance(made, Progress)
            progress = made
        return self._readers[-1].renamed(progress)

    @property
    def low(self) -> Bound:
        """The lowest of the bounds that the operator has seen."""
        if self.last.ended:
            return END
        return min(self.last.bounds.values(), default=BEGINNING)


# The progress arcs that begin at one node, and which of them a bound concerns.
#
# Windows react to progress only when the bound reaches the next multiple of their SLIDE.  Where
# many arcs begin, the others are skipped: a thousand windows of which none is complete cost only as
# much as there are different slides.


class Arcs(dict[Register, "OperatorNode"]):
    """Registers at the ends of the arcs, with their owners."""

    def __init__(self) -> None:
        super().__init__()
        self._strides: dict[Register, Stride | None] = {}
        self._by_stride: dict[Stride | None, dict[Register, None]] = {}
        self._passed: dict[Stride, Bound] = {}  # bounds that have been passed on

    def lay(self, register: Register, owner: OperatorNode) -> None:
        """Add an arc; or update one whose owner has exchanged its operator."""
        self.remove(register)
        stride = stride_of(owner.operator) if register.is_straight else None
        self[register] = owner
        self._strides[register] = stride
        self._by_stride.setdefault(stride, {})[register] = None
        if stride is not None:
            self._passed.pop(stride, None)  # the new one has not been offered it

    def remove(self, register: Register) -> None:
        """Remove the arc to a node that leaves."""
        if self.pop(register, None) is None:
            return
        stride = self._strides.pop(register)
        del self._by_stride[stride][register]
        if not self._by_stride[stride]:
            del self._by_stride[stride]
            if stride is not None:
                self._passed.pop(stride, None)

    def concerned(self, progress: Progress) -> list[Register]:
        """Registers for which a progress is new."""
        if progress.ended or progress.groups is not None or progress.joint:
            self._passed.clear()
            return list(self)
        found: list[Register] = []
        for stride, registers in self._by_stride.items():
            if stride is not None:
                passed = stride.passed(progress)
                if self._passed.get(stride) == passed:
                    continue
                self._passed[stride] = passed
            found += registers
        return found


def stride_of(operator: Operator) -> Stride | None:
    return operator.stride if isinstance(operator, Paned | Wid) else None


# The filters behind a wide fork: rows come only to those that may let them through.

_Names = tuple[tuple[str, str], ...]


class Share(NamedTuple):
    """A reader, and the rows of a batch that are for it; None: all of them."""

    reader: Reader
    rows: Ints | None

    def of(self, batch: Batch) -> Batch:
        return batch if self.rows is None else batch.take(self.rows)


class _Filter(NamedTuple):
    reader: Reader
    measured: Measured
    operator: FilterOperator


class Sieve:
    """Chooses the filters behind a wide fork that some rows of a batch may pass; valid for the
    readers that a buffer has now."""

    def __init__(self, readers: Iterable[Reader]) -> None:
        self._others: list[Share] = []  # no filters, or ones that do not say what they need
        self._rows = 0  # that have come here
        self._taken: dict[Reader, int] = {}  # how many of them filters have counted themselves
        self._filters: list[_Filter] = []
        alike: dict[_Names, list[_Filter]] = {}  # filters that know columns by the same names
        for reader in readers:
            found = _filter(reader)
            if found is None:
                self._others.append(Share(reader, None))
            else:
                alike.setdefault(tuple((reader.names or {}).items()), []).append(found)
                self._filters.append(found)
                self._taken[reader] = 0
        self._alike = [(own, _many(own)) for own in alike.values()]

    def sift(self, batch: Batch) -> list[Share]:
        """Readers that some rows of a batch may be for."""
        self._rows += batch.num_rows
        found = list(self._others)
        for own, many in self._alike:
            rows = own[0].reader.known(batch).rows
            found += [Share(own[place].reader, some) for place, some in many.choose(rows)]
        return found

    def took(self, share: Share, batch: Batch) -> None:
        """Note that a filter has been given a batch: it counts these rows itself."""
        if share.reader in self._taken:
            self._taken[share.reader] += batch.num_rows

    def settle(self) -> None:
        """Let filters count the rows that they were not given."""
        for reader, measured, _ in self._filters:
            measured.pass_over(self._rows - self._taken[reader])
            self._taken[reader] = 0
        self._rows = 0


def _filter(reader: Reader) -> _Filter | None:
    measured = reader.measured
    if measured is None or not isinstance(measured.operator, FilterOperator):
        return None
    operator = measured.operator
    return None if operator.needed is None else _Filter(reader, measured, operator)


def _many(filters: Sequence[_Filter]) -> ManyFilters:
    needed = [each.operator.needed for each in filters if each.operator.needed is not None]
    return ManyFilters(needed, filters[0].operator.schema)


# What all nodes of the graph have: an output, successors, and a rule of the state table.

SMALL = 1 << 12  # rows of a batch that goes from operator to operator at once
FEW = 8  # branches that are served at once: a caller may wait for the end of a step


@dataclass(frozen=True, slots=True)
class Exit:
    """An exit of the graph: rows go to the outlet of a query at once, without a buffer."""

    outlet: Outlet
    names: Mapping[str, str] | None = None  # of the query; None: unchanged

    def take(self, batch: Batch) -> None:
        if self.names is not None:
            batch = batch.renamed(self.names)
        self.outlet.on_rows(batch)


class GraphNode(ABC):
    """A node of the query graph.  `rule` and `step`, the tuples that one execution may take, come
    from the state table."""

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
        """Handle the items that wait, up to a step, and return the number of tuples that were
        handled."""

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
        """The predecessor whose output the node waits for."""

    def changed(self) -> None:
        """Note that the saved state of the node is outdated."""
        if self.unsaved is not None:
            self.unsaved.add(self)

    def wake(self) -> None:
        if not self.listed and self.component is not None:
            self.component.add(self)

    @property
    def is_break(self) -> bool:
        """Whether this is a break node: the scheduler, not the rule, selects the next operator
        behind it."""
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
        """Emit a batch.  A small batch for a single reader is handed over at once, which is much
        cheaper than a step of its own.  Both nodes then serve the same queries, so it does not
        matter in which of them something fails."""
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
        """Hand a small batch to each branch of a fork.  Branches may serve different queries, so if
        one of them fails, the others find the batch in the buffer."""
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
        """Hand a small batch to the branches of a wide fork that some of its rows may be for.  If
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
        """Let the filters behind a wide fork count the rows that bypassed them."""
        if self._sieve is not None:
            self._sieve.settle()

    def _offer(self, progress: Progress) -> None:
        """Offer progress to all arcs; where no tuple is on the path, it is handed over like a small
        batch."""
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
        """Report that a batch or progress failed in a branch: all nodes up to the next fork serve
        the same queries."""
        if self.component is not None:
            self.component.failed_in(cast("GraphNode", branch))

    def offer_to(self, register: Register, progress: Progress) -> None:
        register.offer(progress, self.arrived)
        self._offered[register] = None
        self.arcs[register].wake()

    def taken(self, register: Register) -> None:
        """Note that the offered progress of a register has been seen."""
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
        # every owner of a reader is a node; cast, because this is called often and may be long
        return cast("list[GraphNode]", [reader.owner for reader in self.output.readers])

    @property
    def is_wanted(self) -> bool:
        return bool(self.exits or self.output.readers)
