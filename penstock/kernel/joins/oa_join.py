"""The order-agnostic join of two inputs (OA-Join, chapter 7): keys, progress, results, operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import to_ticks
from penstock.kernel.joins.join_side import Arrivals, Found, Pairs, Side, arrivals, pairs_of
from penstock.kernel.joins.pairing import (
    Condition,
    JoinState,
    SharedCodes,
    UnseenColumns,
    input_lineages,
)
from penstock.kernel.joins.sorted_run import SortedRun, Tuples, gathered_rows
from penstock.kernel.operator import Base, Item, OpenResults, Progress, at_once, by_name, by_origin
from penstock.kernel.revisions.amendment import in_time_of
from penstock.kernel.state import ChunkStore, Tree, Within
from penstock.model.arrays import Codes, Mask
from penstock.model.punctuation import BEGINNING, END, Bound, JointPunctuation
from penstock.model.ticks import ticks_of
from penstock.model.types import Field
from penstock.plan.expressions import Column, Expression
from penstock.plan.identity import origins
from penstock.plan.join_windows import JoinWindow
from penstock.plan.nodes.join import Join, JoinKind, equal_keys
from penstock.plan.physical import Asked


class JoinKeys:
    """Equality keys of both inputs of a join, as codes that they share."""

    def __init__(self, node: Join, keys: list[tuple[Expression, Expression]]) -> None:
        self._columns = [
            [compile_expression(pair[port], branch.schema) for pair in keys]
            for port, branch in enumerate(node.branches)
        ]
        self._codes = SharedCodes([left.type for left, _ in keys])

    def of(self, port: int, rows: pa.RecordBatch) -> tuple[Codes, Mask | None]:
        """Codes of the keys of rows, and which rows can equal others; None: all of them."""
        columns = [column(rows) for column in self._columns[port]]
        return self._codes.of(columns, rows.num_rows)

    def forget(self, sides: Sequence[Side]) -> None:
        """Drop the codes of keys without tuples, once these are the majority."""
        self._codes.forget(sides)


# Bounds on the inputs of a join: which tuples may still find partners, and the bounds and joint
# punctuations on results.


@dataclass(frozen=True, slots=True)
class _Timed:
    """Time columns of the left and the right input that a window relates."""

    names: tuple[str, str]
    window: JoinWindow

    def limit(self, port: int, bound: Bound) -> Bound:
        """The lowest time at a port that fits a time at or above the bound at the other one."""
        if bound in (BEGINNING, END):
            return bound
        if port == 0:
            return self.window.partner_bounds_of_right(int(bound))[0]
        return self.window.partner_bounds(int(bound))[0]


class JoinProgress:
    """Bounds on the time columns of both inputs, by name, and the bounds on results that follow.

    A later result has a later tuple of one input. So each of its times is at or above the bound on
    that column, or as far from the bound on a column of the other input as their window allows.
    """

    def __init__(self, node: Join) -> None:
        window = node.window.between(0, 1)
        assert window is not None
        self._times = [[_name(each) for each in times] for times in node.times]
        self._pairs = [_Timed((_name(node.attributes[0]), _name(node.attributes[1])), window)]
        for each in node.also:
            self._pairs.append(_Timed((_name(each.left), _name(each.right)), each.window))
        self.bounds: list[dict[str, Bound]] = [
            dict.fromkeys((pair.names[port] for pair in self._pairs), BEGINNING)
            for port in range(2)
        ]
        types = {each.field.qualified: each.field.type for each in node.progress}
        self._promising = [
            (port, name, ticks_of(types[name]), [p for p in self._pairs if p.names[port] == name])
            for port, names in enumerate(self.bounds)
            for name in names
            if name in types
        ]
        self._jointly_promising = [p for p in self._pairs if types.keys() >= set(p.names)]

    def advance(self, port: int, progress: Progress, final: Sequence[Bound]) -> bool:
        """Raise the bounds of a port; return whether any has changed. `final` are the bounds on
        the times by which tuples of the port are late, the attribute first; bounds on other
        columns are in the progress.
        """
        bounds, news = self.bounds[port], False
        own = dict(zip(self._times[port], final, strict=True))
        for name, before in bounds.items():
            bound = own.get(name, END if progress.ended else progress.bounds.get(name, BEGINNING))
            if bound > before:
                bounds[name], news = bound, True
        return news

    def bound(self, port: int) -> Bound:
        """Bound on the attribute of a port."""
        return self.bounds[port][self._pairs[0].names[port]]

    def limit(self, port: int) -> Bound:
        """Limit below which tuples of a port find no later partner."""
        return self._pairs[0].limit(port, self.bound(1 - port))

    def other_limits(self, port: int) -> list[tuple[str, Bound]]:
        """Limits on time columns of a port other than the attribute, below which tuples find no
        later partner.
        """
        others = self.bounds[1 - port]
        pairs = self._pairs[1:]
        limits = [(p.names[port], p.limit(port, others[p.names[1 - port]])) for p in pairs]
        return [(name, limit) for name, limit in limits if limit != BEGINNING]

    def save(self) -> Tree:
        """Save the bounds by position: columns may be renamed later."""
        return [list(each.values()) for each in self.bounds]

    def load(self, saved: Tree) -> None:
        for own, bounds in zip(self.bounds, saved, strict=True):
            own.update(zip(own, bounds, strict=True))

    @property
    def ended(self) -> bool:
        return all(self.bound(port) == END for port in range(2))

    def promise(self) -> Progress:
        if self.ended:
            return Progress(ended=True)
        bounds: dict[str, Bound] = {}
        for port, name, room, pairs in self._promising:
            others = self.bounds[1 - port]
            limit = max(pair.limit(port, others[pair.names[1 - port]]) for pair in pairs)
            promised = min(self.bounds[port][name], limit)
            if promised >= room.low:
                bounds[name] = min(promised, room.high)
        joint = [self._jointly(pair) for pair in self._jointly_promising]
        return Progress(bounds, joint=tuple(each for each in joint if each is not None))

    def _jointly(self, pair: _Timed) -> JointPunctuation | None:
        """Joint punctuation: no later result is below both bounds. If these are too far apart to
        fit, the bounds on single columns say as much, and the result is None.
        """
        left, right = self.bounds[0][pair.names[0]], self.bounds[1][pair.names[1]]
        if BEGINNING in (left, right) or END in (left, right):
            return None
        fits = pair.window.matches(int(left), int(right))
        return JointPunctuation(pair.names, (left, right)) if fits else None


def _name(column: Column) -> str:
    return Field(column.name, column.type, column.relation).qualified


# Results of a join: pairs, or tuples without a partner.


class JoinResults:
    """Builds result batches: pairs, and tuples without a partner."""

    def __init__(self, node: Join) -> None:
        self._schema = node.schema.arrow
        self._alone = node.kind.left_alone
        self._types = [branch.schema.arrow.types for branch in node.branches]

    def pairs(self, port: int, pairs: Pairs) -> Batch:
        """Build pairs, where `port` is that of the tuples that arrived."""
        columns = pairs.columns(port == 0) + pairs.columns(port == 1)
        return Batch(self._made(columns), pairs.signs(), lineage=pairs.lineage(port))

    def alone(self, port: int, rows: pa.RecordBatch) -> Batch:
        """Build results for tuples of a port that have no partner, or, in a SEMI join, have one."""
        if self._alone:
            return Batch(self._made(rows.columns))
        nothing = [pa.nulls(rows.num_rows, each) for each in self._types[1 - port]]
        return Batch(self._made(rows.columns + nothing if port == 0 else nothing + rows.columns))

    def _made(self, columns: list[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


# The order-agnostic join of chapter 7 (OA-Join): tuples are joined with all that have come of the
# other input, pairs are emitted at once, and tuples are kept for as long as partners may follow.

_MANY = 1 << 18  # pairs that are more than is held in memory at once


class OaJoin(Base):
    """Order-agnostic join of two inputs: INNER, outer, SEMI and ANTI.

    With LATE AMEND, late tuples count, so everything becomes final so much later; nothing is
    retracted.
    """

    def __init__(self, node: Join, asked: Asked | None = None) -> None:
        left, right = node.branches
        keys, others = equal_keys(left.schema, right.schema, node.condition)
        window = node.window.between(0, 1)
        assert window is not None
        self._kind = node.kind
        self._partners = (window.partner_columns, window.partner_columns_of_right)
        self._keys = JoinKeys(node, keys)
        self._condition = Condition(node, others)
        self._results = JoinResults(node)
        self.unseen = UnseenColumns()
        self._columns = [[field.qualified for field in each.schema] for each in node.branches]
        timed = list(zip(node.attributes, node.branches, strict=True))
        self._places = [attribute.position(each.schema) for attribute, each in timed]
        self._types = [attribute.type for attribute in node.attributes]
        self._types_of = {each.qualified: each.type for each in node.pair_schema}
        inputs = zip(node.times, node.branches, strict=True)
        self._in_time = [in_time_of(list(times), each, asked) for times, each in inputs]
        self._names = {field.qualified for field in node.schema}
        self._origins = origins(node)
        self._alone = self._kind.left_alone
        # for which sides the operator tracks which tuples have found a partner
        self._tracks_partners = (node.kind.keeps[0] or self._alone, node.kind.keeps[1])
        self._sides = (Side(once=self._alone), Side())
        self._lineages = input_lineages(node)
        self._progress = JoinProgress(node)
        self._high: dict[str, Bound] = {}
        self._promised = Progress()
        self._output = [field.qualified for field in node.schema]
        self._adopted: list[pa.RecordBatch] = []  # results that another join had not emitted

    # --- tuples ----------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Iterable[Item]:
        """Join the tuples; if they have very many partners, pairs are produced piece by piece, as
        the caller iterates.
        """
        given, ticks, late = self._in_time[port].split_signed(batch)
        items: list[Item] = [*self._emit_adopted(), *late]
        codes, equal = self._keys.of(port, given.rows)
        lineage = self._lineages[port].of(given) if self._lineages else None
        rows = self.unseen.left_out(port, given.rows)
        tuples = Tuples(rows, codes, ticks[0], given.signs, lineage)
        if equal is not None:
            if self._kind.keeps[port]:
                items += self._emit_alone(port, given.rows.filter(pa.array(~equal)))
            tuples = tuples.only(equal)
        if not len(tuples):
            return items
        came = arrivals(tuples, self._partners[port], self._sides[port])
        found = came.found(self._sides[1 - port])
        results = self._join_arrivals(port, came, found)
        if sum(each.size for each in found) > _MANY:
            return chain(items, results)
        items += results
        return items

    def _join_arrivals(self, port: int, came: Arrivals, found: list[Found]) -> Iterator[Item]:
        """Emit arriving tuples with their partners, and then keep those that may find others."""
        paired = np.zeros(came.rows.num_rows, np.bool_) if self._tracks_partners[port] else None
        for pairs in pairs_of(came, found):
            some = self._condition.among(pairs, port)
            if paired is not None:
                paired[some.of] = True
            yield from self._joined(port, some)
        stays = self._may_be_joined(port, came)
        if paired is not None:
            yield from self._emit_decided(port, came, paired, came.in_rows(stays))
            if self._alone:
                stays = stays & ~came.of_rows(paired)
        came.keep(self._sides[port], stays, paired)

    def _joined(self, port: int, pairs: Pairs) -> Iterator[Item]:
        if not len(pairs):
            return
        if not self._alone:
            yield self._results.pairs(port, pairs)
        if self._tracks_partners[1 - port]:
            for run, rows in pairs.kept:
                fresh = run.finish(rows)
                if self._kind is JoinKind.SEMI:
                    yield from self._emit_alone(1 - port, gathered_rows(run.rows, fresh))

    def _may_be_joined(self, port: int, came: Arrivals) -> Mask:
        """Select the tuples whose partners may still come."""
        bound = self._progress.bound(1 - port)
        fits = came.fit if bound == BEGINNING else came.fit & (came.highs >= bound)
        limits = self._progress.other_limits(port) if self._kind.keeps[port] else []
        return fits & ~came.of_rows(self._passed(limits, came.rows)) if limits else fits

    def _passed(self, limits: list[tuple[str, Bound]], rows: pa.RecordBatch) -> Mask:
        """Select the rows that are below one of the limits on columns."""
        passed = np.zeros(rows.num_rows, np.bool_)
        for name, limit in limits:
            if limit == END:
                passed[:] = True
            else:
                passed |= to_ticks(rows.column(name), self._types_of[name]) < int(limit)
        return passed

    def _emit_decided(self, port: int, came: Arrivals, paired: Mask, stays: Mask) -> Iterator[Item]:
        """Emit tuples that leave alone on arrival: in a SEMI join those with a partner, otherwise
        those that will never have one.
        """
        leave = paired if self._kind is JoinKind.SEMI else ~paired & ~stays
        yield from self._emit_alone(port, came.rows.filter(pa.array(leave)))

    def _emit_alone(self, port: int, rows: pa.RecordBatch) -> Iterator[Item]:
        if rows.num_rows:
            yield self._results.alone(port, rows)

    # --- progress --------------------------------------------------------------------------------

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        yield from self._emit_adopted()
        self._high |= {k: v for k, v in progress.high.items() if k in self._names}
        final = self._in_time[port].final(progress)
        if not self._progress.advance(port, progress, final):
            return
        other = 1 - port
        side, limit = self._sides[other], self._progress.limit(other)
        if self._kind.keeps[other]:
            for rows in side.finish_below(limit):
                yield from self._emit_alone(other, rows)
            limits = self._progress.other_limits(other)
            if limits:  # these rows have no partners to come, and their times progress
                for rows in side.finish_where(lambda each: self._passed(limits, each)):
                    yield from self._emit_alone(other, rows)
        side.forget(limit)
        self._keys.forget(self._sides)
        promised = self._progress.promise()
        if promised != self._promised:
            self._promised = promised
            yield Progress(promised.bounds, dict(self._high), promised.ended, joint=promised.joint)

    # --- state -----------------------------------------------------------------------------------

    def rows_held(self) -> int:
        return sum(map(len, self._sides))

    def open_results(self) -> OpenResults:
        """Count the tuples that may yet be emitted alone."""
        pairs = zip(self._sides, self._kind.keeps, strict=True)
        return OpenResults(others=sum(side.waiting for side, keeps in pairs if keeps))

    def save(self, store: ChunkStore) -> None:
        for port, side in enumerate(self._sides):
            side.save(Within(store, f"{port}/"))
        high = by_origin(self._high, self._origins)
        numbered = [each.came for each in self._lineages]
        store.put("run", {"bounds": self._progress.save(), "high": high, "numbered": numbered})
        if self._adopted:
            promised = self._promised.save(self._origins)
            store.put("adopted", {"results": list(self._adopted), "promised": promised})
        else:
            store.drop("adopted")

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._progress.load(saved["bounds"])
        self._high = by_name(saved["high"], self._origins)
        self._promised = self._progress.promise()
        for lineage, came in zip(self._lineages, saved.get("numbered", ()), strict=False):
            lineage.came = came
        for port, side in enumerate(self._sides):
            side.load(Within(store, f"{port}/"), partial(self._tuples, port))
        adopted = store.get("adopted")
        if adopted is not None:
            self._adopted = [rows.rename_columns(self._output) for rows in adopted["results"]]
            self._promised = Progress.load(adopted["promised"], self._origins)

    def export(self) -> JoinState:
        left, right = (tuple(side.rows()) for side in self._sides)
        given, other = (self._input_progress(port) for port in range(2))
        adopted = tuple(self._adopted)
        return JoinState((left, right), ((), ()), adopted, (given, other), self._promised)

    def adopt(self, state: JoinState) -> None:
        """Take over the state of another join; results that waited there are emitted with the next
        ones.
        """
        for port, several in enumerate(state.kept):
            for rows in several:
                self._sides[port].add(SortedRun.of(self._tuples(port, Batch(rows))))
        results = list(state.results)
        for port, several in enumerate(state.waiting):
            for rows in several:
                made = self.on_batch(port, Batch(rows))
                results += [each.rows for each in made if isinstance(each, Batch)]
        for port, progress in enumerate(state.progress):
            self.on_progress(port, progress)
        self._adopted, self._promised = results, state.promised

    def _input_progress(self, port: int) -> Progress:
        """Progress of an input so far."""
        bounds = {name: b for name, b in self._progress.bounds[port].items() if b != BEGINNING}
        if self._progress.bound(port) == END:
            bounds = {}
        high = {name: b for name, b in self._high.items() if name in self._columns[port]}
        return Progress(bounds, high, ended=self._progress.bound(port) == END)

    def _emit_adopted(self) -> Iterator[Item]:
        yield from map(Batch, self._adopted)
        self._adopted = []

    def _tuples(self, port: int, batch: Batch) -> Tuples:
        # the columns are the same, but may be called something else by now
        rows = batch.rows.rename_columns(self._columns[port])
        codes, _ = self._keys.of(port, rows)
        ticks = to_ticks(rows.column(self._places[port]), self._types[port])
        lineage = batch.lineage
        if lineage is None and self._lineages:  # earlier versions did not write it down
            lineage = self._lineages[port].of(batch)
        return Tuples(rows, codes, ticks, batch.signs, lineage)
