"""Sequence joins: the part that both modes share (RECENT and CHRONICLE are in `sequence_modes`).

From the parts to the operator: equality keys as codes, the pool of waiting tuples, the search for
the nearest candidate that fits, the condition of a sequence, and `SequenceJoin`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.expressions.columns import flags_of
from penstock.expressions.compiler import compile_expression, compile_predicate
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import to_ticks
from penstock.kernel.grouping.keys import KeyCodes, value_ranks
from penstock.kernel.joins.pairing import can_be_equal
from penstock.kernel.joins.timed_inputs import KeptTuples, KeyedTimes, TimedInputs, promised_on
from penstock.kernel.operator import Base, Item, OpenResults, Progress, at_once
from penstock.kernel.state import ChunkStore, Within
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MAX, Schema
from penstock.plan.expressions import Expression, all_of, columns_of, may_fail
from penstock.plan.identity import origins
from penstock.plan.nodes.join import Sequence as SequenceNode
from penstock.plan.nodes.join import equal_keys
from penstock.plan.physical import Asked

NO_KEY = -1  # the code of a tuple that equals none: NULL and NaN equal nothing
_MANY = 4096  # number of keys below which none is dropped


class EqualKeys:
    """Expressions of two inputs that have to be equal, as codes that both share. Without any pair
    of expressions there is one code, for all tuples.
    """

    def __init__(
        self, schemas: Sequence[Schema], pairs: Sequence[tuple[Expression, Expression]]
    ) -> None:
        self._types = [left.type for left, _ in pairs]
        self._columns = [
            [compile_expression(pair[port], schema) for pair in pairs]
            for port, schema in enumerate(schemas)
        ]
        self._codes = KeyCodes(self._types)
        self._look_again = _MANY

    def __len__(self) -> int:
        return len(self._codes)

    def of(self, port: int, rows: pa.RecordBatch) -> Codes:
        columns = [column(rows) for column in self._columns[port]]
        equal = can_be_equal(columns, self._types)
        if equal is None:
            return self._codes.encode(columns, rows.num_rows)
        codes = np.full(rows.num_rows, NO_KEY)
        some = [column.filter(pa.array(equal)) for column in columns]
        codes[equal] = self._codes.encode(some, int(np.count_nonzero(equal)))
        return codes

    def forget(self, *kept: Codes) -> Codes | None:
        """Drop the codes of keys without kept tuples, once these are the majority. Return the new
        code of each old one; None if they are unchanged.
        """
        size = len(self._codes)
        if size < self._look_again:
            return None
        live = np.zeros(size, np.bool_)
        for codes in kept:
            live[codes[codes != NO_KEY]] = True
        stay = np.flatnonzero(live)
        self._look_again = max(_MANY, 2 * len(stay))
        if 2 * len(stay) >= size:
            return None
        self._codes = self._codes.only(stay)
        places = np.full(size + 1, NO_KEY)  # the last one is for tuples without a key
        places[stay] = np.arange(len(stay))
        return places


# Tuples of one input that wait for others: numbers, keys and times in arrays, with their rows.


class InLine(NamedTuple):
    """Tuples in the order of key, time and values."""

    numbers: Ints
    codes: Codes
    ticks: Ints
    times: KeyedTimes


class Pool:
    """Waiting tuples of one input. A tuple removed from the pool no longer waits; its row stays
    until it is forgotten.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.rows = KeptTuples(schema)
        self.numbers: Ints = np.zeros(0, np.int64)
        self.codes: Codes = np.zeros(0, np.int64)
        self.ticks: Ints = np.zeros(0, np.int64)
        self._lowest: Bound | None = END  # of the ticks, if it has been looked for

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, rows: pa.RecordBatch, codes: Codes, ticks: Ints) -> None:
        self._put(self.rows.add(rows), codes, ticks)

    def _put(self, numbers: Ints, codes: Codes, ticks: Ints) -> None:
        self._lowest = None
        if not len(self.numbers):
            self.numbers, self.codes, self.ticks = numbers, codes, ticks
        else:
            self.numbers = np.concatenate([self.numbers, numbers])
            self.codes = np.concatenate([self.codes, codes])
            self.ticks = np.concatenate([self.ticks, ticks])

    def lowest(self) -> Bound:
        """The lowest waiting tick."""
        if self._lowest is None:
            self._lowest = int(self.ticks.min()) if len(self.ticks) else END
        return self._lowest

    def upto(self, last: Bound) -> Mask:
        """Select the tuples that are not above a tick."""
        return self.ticks <= last

    def remove(self, which: Mask) -> None:
        self._lowest = None
        kept = np.flatnonzero(~which)
        self.numbers, self.codes = self.numbers[kept], self.codes[kept]
        self.ticks = self.ticks[kept]

    def remove_numbers(self, numbers: Ints) -> None:
        """Remove tuples that are in the pool, by number."""
        which = np.zeros(len(self.numbers), np.bool_)
        which[np.searchsorted(self.numbers, numbers)] = True  # they ascend, as tuples came
        self.remove(which)

    def remove_below(self, tick: int) -> Ints:
        """Remove the tuples below a tick; return their numbers."""
        if self.lowest() >= tick:
            return np.zeros(0, np.int64)
        below = self.ticks < tick
        numbers: Ints = self.numbers[below]
        self.remove(below)
        return numbers

    def of_keys(self, codes: Codes, last: int, keys: int) -> Mask:
        """Select the tuples that are not above a tick and have one of some keys; `keys` is the
        number of all keys. A tuple without a key is never selected.
        """
        wanted = np.zeros(keys + 1, np.bool_)  # the last place is for no key
        wanted[codes] = True
        wanted[NO_KEY] = False
        return wanted[self.codes] & (self.ticks <= last)

    def ranks(self, numbers: Ints) -> Ints:
        """Rank tuples by the values of their columns, then by number."""
        by_number = np.argsort(numbers)
        ranks = np.empty(len(numbers), np.int64)
        ranks[by_number] = value_ranks(self.rows.columns(numbers[by_number]))
        return ranks

    def in_line(self, which: Mask) -> InLine:
        """Return some tuples in order."""
        numbers, codes, ticks = self.numbers[which], self.codes[which], self.ticks[which]
        times = KeyedTimes(codes, ticks, lambda tied: self.ranks(numbers[tied]))
        order = times.order
        return InLine(numbers[order], codes[order], ticks[order], times)

    def save(self, store: ChunkStore) -> None:
        self.rows.save(store)

    def load(
        self, store: ChunkStore, of_rows: Callable[[pa.RecordBatch], tuple[Codes, Ints]]
    ) -> None:
        """Restore the pool: keys and times follow from the rows; all kept tuples wait again."""
        for numbers, rows in self.rows.load(store):
            self._put(numbers, *of_rows(rows))


# The first or last candidate that fits, for many tuples at once.

AT_ONCE = 1 << 16  # pairs that are tested together


def nearest_fitting(
    begins: Ints,
    ends: Ints,
    fits: Callable[[Ints, Ints], Mask],
    backward: bool = False,
    whole: bool = False,
) -> Ints:
    """Find the first candidate that fits in every span, or the last one with `backward`; -1 if
    none does.

    `fits` tests pairs: the number of a span, and a candidate.  The number of candidates tested
    together doubles, so that near ones are found soon, and far ones with few tests; if `whole`, all
    are tested at once.

    >>> is_even = lambda which, candidates: candidates % 2 == 0
    >>> nearest_fitting(np.array([1, 4, 3]), np.array([9, 9, 4]), is_even).tolist()
    [2, 4, -1]
    >>> nearest_fitting(np.array([1, 4, 3]), np.array([9, 9, 4]), is_even, backward=True).tolist()
    [8, 8, -1]
    """
    found = np.full(len(begins), -1)
    begins, ends = begins.copy(), ends.copy()
    left = np.flatnonzero(begins < ends)
    step = AT_ONCE if whole else 1
    while len(left):
        counts = np.minimum(ends[left] - begins[left], step)
        for some in _cut(counts):
            spans, sizes = left[some], counts[some]
            which = np.repeat(np.arange(len(spans)), sizes)
            within = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            near = ends[spans][which] - 1 - within if backward else begins[spans][which] + within
            fitting = np.flatnonzero(fits(spans[which], near))
            served, first = np.unique(which[fitting], return_index=True)
            found[spans[served]] = near[fitting[first]]
        if backward:
            ends[left] -= counts
        else:
            begins[left] += counts
        left = left[(found[left] < 0) & (begins[left] < ends[left])]
        step = min(2 * step, AT_ONCE)
    return found


def _cut(counts: Ints) -> Iterator[slice]:
    """Cut neighbouring spans into groups that together have about AT_ONCE candidates."""
    upto = np.cumsum(counts)
    begin = 0
    while begin < len(counts):
        before = int(upto[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(upto, before + AT_ONCE, "right")))
        yield slice(begin, end)
        begin = end


# The condition of a sequence: equal keys, conditions on one of both tuples, and a residual
# condition that is tested pair by pair.


class SequenceCondition:
    """Condition of a sequence: equality keys, conditions on one input alone, and a residual
    condition on pairs.
    """

    def __init__(self, node: SequenceNode) -> None:
        schemas = (node.first.schema, node.second.schema)
        pairs, others = equal_keys(*schemas, node.condition)
        self.keys = EqualKeys(schemas, pairs)
        own: tuple[list[Expression], list[Expression]] = ([], [])
        rest = []
        for each in others:
            port = _only_port(each, schemas)
            # conditions that can fail are tested on pairs: a tuple without a candidate must not
            # fail
            if port is None or may_fail(each):
                rest.append(each)
            else:
                own[port].append(each)
        self._own = [
            compile_predicate(holds, schema) if (holds := all_of(each)) is not None else None
            for each, schema in zip(own, schemas, strict=True)
        ]
        self._rest = _PairCondition(node, rest) if rest else None
        self.may_fail = any(map(may_fail, rest))

    @property
    def is_left_to_pairs(self) -> bool:
        """Whether there is a residual condition, so that equal keys do not yet make a pair."""
        return self._rest is not None

    def codes(self, port: int, rows: pa.RecordBatch) -> Codes:
        """Key codes of tuples; those that can never be paired have none."""
        codes = self.keys.of(port, rows)
        own = self._own[port]
        return codes if own is None else np.where(flags_of(own(rows)), codes, NO_KEY)

    def holds(self, first: Pool, numbers: Ints, second: Pool, others: Ints) -> Mask:
        """Select the pairs that fit, given by the numbers of their tuples."""
        if self._rest is None:
            return np.ones(len(numbers), np.bool_)
        return self._rest.holds(first, numbers, second, others)


class _PairCondition:
    def __init__(self, node: SequenceNode, conditions: list[Expression]) -> None:
        holds = all_of(conditions)
        assert holds is not None
        places = sorted({each.position(node.schema) for each in columns_of(holds)})
        schema = Schema(tuple(node.schema.fields[place] for place in places))
        width = len(node.first.schema)
        self._schema = schema.arrow
        self._first = [place for place in places if place < width]
        self._second = [place - width for place in places if place >= width]
        self._holds = compile_expression(holds, schema)

    def holds(self, first: Pool, numbers: Ints, second: Pool, others: Ints) -> Mask:
        columns = first.rows.columns(numbers, self._first)
        columns += second.rows.columns(others, self._second)
        if not columns:  # a condition on nothing, which can fail
            batch = pa.record_batch({"_": pa.nulls(len(numbers))})
        else:
            batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return flags_of(self._holds(batch))


def _only_port(condition: Expression, schemas: tuple[Schema, Schema]) -> int | None:
    """The input that a condition depends on, None if both; a constant counts as the second."""
    known = [{(each.name, each.relation) for each in schema} for schema in schemas]
    found = {(each.name, each.relation) for each in columns_of(condition)}
    return next((port for port in (1, 0) if found <= known[port]), None)


# The operator of both modes: tuples of both inputs wait until it is decided which belong together;
# pairs are emitted, and tuples without a partner where the query keeps them.

FIRST, SECOND = 0, 1
NOBODY = -1  # instead of the number of a partner


class SequenceJoin(Base):
    """Base of both modes of a sequence join.

    With `in_order`, a consumer counts the rows: they leave in the order in which they become
    known, second tuples by time and first ones without a partner when WITHIN has passed.
    """

    def __init__(
        self, node: SequenceNode, asked: Asked | None = None, in_order: bool = False
    ) -> None:
        self.schema = node.schema.arrow
        self.within = node.within
        self.keeps = node.keeps
        self.in_order = in_order
        self.condition = SequenceCondition(node)
        self.first, self.second = Pool(node.first.schema.arrow), Pool(node.second.schema.arrow)
        self._nodes = (node.first, node.second)
        self._places = [
            (attribute.position(each.schema), attribute.type)
            for attribute, each in zip(node.attributes, self._nodes, strict=True)
        ]
        self._attributes = [
            (attribute.position(node.schema), attribute.type) for attribute in node.attributes
        ]
        self._progressing = [each.field.qualified for each in node.progress]
        self._inputs = TimedInputs(self._nodes, node.attributes, asked)
        self._origins = origins(node)
        self._promised = Progress()

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        given, ticks, late = self._inputs.split(port, batch)
        yield from late
        rows = given.rows
        codes = self.condition.codes(port, rows)
        if not self.keeps[port] and (codes == NO_KEY).any():
            kept = codes != NO_KEY
            rows, codes, ticks = rows.filter(pa.array(kept)), codes[kept], ticks[kept]
        if rows.num_rows:
            self._pool(port).add(rows, codes, ticks)
            if port == SECOND and int(ticks.min()) < self._decided():
                yield from self._release()

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        self._inputs.pass_(port, progress)
        yield from self._release()
        places = self.condition.keys.forget(*self._codes())
        if places is not None:
            self._renumber(places)
        promised = self._promise()
        if promised != self._promised:
            self._promised = promised
            yield promised

    def _pool(self, port: int) -> Pool:
        return (self.first, self.second)[port]

    # --- bounds ----------------------------------------------------------------------------------

    @abstractmethod
    def _decided(self) -> Bound:
        """Time below which the partners of second tuples are settled."""

    @property
    def bounds(self) -> list[Bound]:
        return self._inputs.bounds

    def _undecided(self) -> Bound:
        """Time below which no second tuple remains that could ask for a partner."""
        bound = self._decided() if self.in_order else self.bounds[SECOND]
        return min(bound, self.second.lowest())

    def _too_old(self) -> Bound:
        """Time below which first tuples are too old for any later second tuple, by WITHIN or
        because none can come.
        """
        undecided = self._undecided()
        if undecided in (BEGINNING, END):
            return undecided
        return BEGINNING if self.within is None else undecided - self.within

    def _promise(self) -> Progress:
        """Progress of the results. A later pair has a second tuple that waits or arrives later,
        and a first one that is not too old for it; a first tuple that is emitted alone is not too
        old either, or has not arrived.
        """
        high = {name: high for name, high in self._inputs.high.items() if name in self.schema.names}
        if self._inputs.ended:
            return Progress({}, high, ended=True)
        first = self._too_old()
        if self.keeps[FIRST]:
            first = min(first, self.bounds[FIRST])
        bounds: dict[str, Bound] = {}
        second = min(self.bounds[SECOND], self.second.lowest())
        for bound, (place, sql_type) in zip((first, second), self._attributes, strict=True):
            name = self.schema.names[place]
            if name in self._progressing:
                bounds |= promised_on(name, bound, sql_type)
        return Progress(bounds, high)

    # --- pairs -----------------------------------------------------------------------------------

    def _release(self) -> Iterator[Item]:
        gone = [self._outdated()]  # pairing relies on it
        numbers = partners = np.zeros(0, np.int64)
        due = self.second.upto(self._decided() - 1)
        if due.any():
            numbers, partners = self._paired(due)
            self.second.remove(due)
            used = partners[partners >= 0]
            if self.keeps[FIRST]:
                self.first.rows.mark(used)
            gone += [self._used(used), self._outdated()]
        forgotten = np.concatenate(gone)
        alone = np.zeros(0, np.int64)
        if self.keeps[FIRST] and len(forgotten):
            alone = forgotten[~self.first.rows.marked(forgotten)]
        first, second = partners, numbers
        if not self.keeps[SECOND]:
            first, second = partners[partners >= 0], numbers[partners >= 0]
        if len(first) or len(alone):
            without = np.full(len(alone), NOBODY)
            yield self._rows(np.concatenate([alone, first]), np.concatenate([without, second]))
        self.second.rows.forget(numbers)
        self.first.rows.forget(forgotten)

    @abstractmethod
    def _paired(self, due: Mask) -> tuple[Ints, Ints]:
        """Numbers of the second tuples that are decided, and of their partners."""

    @abstractmethod
    def _used(self, partners: Ints) -> Ints:
        """Select the first tuples that are used up by having found a partner."""

    @abstractmethod
    def _outdated(self) -> Ints:
        """Remove the first tuples that no later second tuple can ask for from the pool; return
        their numbers.
        """

    def _rows(self, first: Ints, second: Ints) -> Batch:
        if self.in_order:
            order = self._order(first, second)
            first, second = first[order], second[order]
        columns = self.first.rows.columns(first) + self.second.rows.columns(second)
        return Batch(pa.RecordBatch.from_arrays(columns, schema=self.schema))

    def _order(self, first: Ints, second: Ints) -> Ints:
        """Order rows by the time at which they are known; at one time, first tuples without a
        partner before second ones, and each by their values.
        """
        alone = second < 0
        times = np.empty(len(first), np.int64)
        ranks = np.empty(len(first), np.int64)
        times[~alone] = self._ticks(SECOND, second[~alone])
        ranks[~alone] = self.second.ranks(second[~alone])
        if alone.any():
            assert self.within is not None
            longer = self.within + 1
            times[alone] = np.minimum(self._ticks(FIRST, first[alone]), INT64_MAX - longer) + longer
            ranks[alone] = self.first.ranks(first[alone])
        return np.lexsort((ranks, ~alone, times))

    def _ticks(self, port: int, numbers: Ints) -> Ints:
        place, sql_type = self._places[port]
        (column,) = self._pool(port).rows.columns(numbers, [place])
        return to_ticks(column, sql_type)

    # --- state -----------------------------------------------------------------------------------

    def _codes(self) -> tuple[Codes, ...]:
        """Key codes of all kept tuples."""
        return self.first.codes, self.second.codes

    def _renumber(self, places: Codes) -> None:
        for pool in (self.first, self.second):
            pool.codes = places[pool.codes]

    def rows_held(self) -> int:
        return len(self.first.rows) + len(self.second.rows)

    def open_results(self) -> OpenResults:
        """Count second tuples that wait, and first ones that may have to leave alone."""
        alone = len(self.first.rows) if self.keeps[FIRST] else 0
        return OpenResults(others=len(self.second) + alone)

    def save(self, store: ChunkStore) -> None:
        self.first.save(Within(store, "first/"))
        self.second.save(Within(store, "second/"))
        store.put("run", self._inputs.save(self._origins))

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._inputs.load(saved, self._origins)
        for port, name in enumerate(("first/", "second/")):
            self._pool(port).load(Within(store, name), partial(self._of_rows, port))
        self._promised = self._promise()

    def _of_rows(self, port: int, rows: pa.RecordBatch) -> tuple[Codes, Ints]:
        place, sql_type = self._places[port]
        return self.condition.codes(port, rows), to_ticks(rows.column(place), sql_type)
