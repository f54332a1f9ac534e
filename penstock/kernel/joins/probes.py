"""The dataflow expressions of a multi-way join: combinations of tuples, window indexes
(recorders), the probes of one input after the other, and `Dataflow`, which builds them from a
plan.

Combinations are row numbers; columns are only materialized when needed. So a combination without a
partner in the next input costs little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch, Signs
from penstock.kernel.bounds import to_ticks
from penstock.kernel.joins.join_side import (
    FEW,
    Arrived,
    Found,
    Partners,
    Side,
    find_few,
    find_many,
    pieces_of,
)
from penstock.kernel.joins.pairing import HashedCodes, SharedCodes, condition_test, time_test
from penstock.kernel.joins.sorted_run import (
    SortedRun,
    Tuples,
    gathered_columns,
    joined_if_any,
    joined_signs,
)
from penstock.model.arrays import Codes, Ints, Mask, stable_order
from penstock.model.punctuation import Bound
from penstock.model.types import BOOLEAN, Schema, Type
from penstock.plan.expressions import Call, Column, Expression, columns_of
from penstock.plan.join_properties import Equality, conditions_of
from penstock.plan.nodes.join import Join, TimeCondition


@dataclass(frozen=True, slots=True)
class ChosenTuples:
    """Tuples of one input, one for each combination: row numbers counted through all `sources`;
    the rows of each source begin at the number in `begins`.
    """

    sources: Sequence[Arrived]
    begins: Ints
    rows: Ints

    @staticmethod
    def all_of(source: Arrived) -> ChosenTuples:
        return ChosenTuples([source], np.zeros(1, np.int64), np.arange(source.rows.num_rows))

    @staticmethod
    def among(parts: Sequence[tuple[SortedRun, Ints]]) -> ChosenTuples:
        """Choose some rows of every run, one run after the other."""
        sizes = [run.rows.num_rows for run, _ in parts]
        begins = np.cumsum([0, *sizes[:-1]])
        if len(parts) == 1:
            return ChosenTuples([parts[0][0]], begins, parts[0][1])
        numbered = zip(begins.tolist(), parts, strict=True)
        rows = np.concatenate([rows + begin for begin, (_, rows) in numbered])
        return ChosenTuples([run for run, _ in parts], begins, rows)

    def take(self, which: Ints | Mask) -> ChosenTuples:
        return ChosenTuples(self.sources, self.begins, self.rows[which])

    def columns(self, which: Sequence[int] | None = None) -> list[pa.Array]:
        """Columns of the chosen tuples: those in `which`, or all."""
        parts, back = self._by_source()
        found = gathered_columns([(source.rows, rows) for source, rows in parts], which)
        return found if back is None else [column.take(pa.array(back)) for column in found]

    def signs(self) -> Signs | None:
        parts, back = self._by_source()
        own = [(None if s.signs is None else s.signs[rows], len(rows)) for s, rows in parts]
        found = joined_signs(own)
        return found if found is None or back is None else found[back]

    def lineage(self) -> Ints | None:
        parts, back = self._by_source()
        found = joined_if_any([None if s.lineage is None else s.lineage[r] for s, r in parts])
        return found if found is None or back is None else found[back]

    def _by_source(self) -> tuple[list[tuple[Arrived, Ints]], Ints | None]:
        """The rows of each source, one after the other; and, unless they are chosen in that order,
        the position of each chosen tuple.
        """
        if len(self.sources) == 1 or not len(self.rows):
            return [(self.sources[0], self.rows)], None
        of = self.begins.searchsorted(self.rows, side="right") - 1
        rows, back = self.rows - self.begins[of], None
        if (of[1:] < of[:-1]).any():
            order = stable_order(of)
            of, rows = of[order], rows[order]
            back = np.empty_like(order)
            back[order] = np.arange(len(order))
        ends = np.searchsorted(of, np.arange(len(self.sources) + 1))
        spans = zip(self.sources, ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        return [(source, rows[a:b]) for source, a, b in spans if b > a], back


@dataclass(frozen=True, slots=True)
class Combinations:
    """Combinations of tuples: the tuples of each input, by the number of the input."""

    chosen: Mapping[int, ChosenTuples]
    size: int

    def __len__(self) -> int:
        return self.size

    def with_partners(
        self, pieces: Sequence[tuple[SortedRun, Ints, Ints]], new: int
    ) -> Combinations:
        """Extend the combinations that have partners by a new input: for each run of that input,
        which combinations, and the rows of the run.
        """
        of = [each for _, each, _ in pieces]
        which = of[0] if len(of) == 1 else np.concatenate(of)
        chosen = {number: tuples.take(which) for number, tuples in self.chosen.items()}
        chosen[new] = ChosenTuples.among([(run, rows) for run, _, rows in pieces])
        return Combinations(chosen, len(which))

    def filter(self, holds: Mask) -> Combinations:
        if holds.all():
            return self
        which = np.flatnonzero(holds)
        chosen = {number: tuples.take(which) for number, tuples in self.chosen.items()}
        return Combinations(chosen, len(which))


# The recorder of one input: tuples that may still be joined, indexed by some of their keys and
# time.
#
# All dataflow expressions that probe the input by the same keys share an index.

Codings: TypeAlias = SharedCodes | HashedCodes


class WindowIndex:
    """Recorder: index of the tuples of one input by key and time. `codes` codes the keys, and is
    shared with the probes.
    """

    def __init__(self, schema: Schema, keys: Sequence[Expression], codes: Codings) -> None:
        self._keys = [compile_expression(each, schema) for each in keys]
        self.codes = codes
        self.side = Side()

    def __len__(self) -> int:
        return len(self.side)

    def record(self, given: Batch, ticks: Ints) -> None:
        """Record tuples whose keys can equal others."""
        tuples = self.tuples(given, ticks)
        if len(tuples) <= FEW:
            self.side.add_few(tuples)
        else:
            self.side.add(SortedRun.of(tuples, self.side.places))

    def tuples(self, given: Batch, ticks: Ints) -> Tuples:
        columns = [key(given.rows) for key in self._keys]
        codes, _ = self.codes.of(columns, given.num_rows)
        return Tuples(given.rows, codes, ticks, given.signs, given.lineage)

    def forget(self, limit: Bound) -> None:
        self.side.forget(limit)

    def find(self, codes: Codes, lows: Ints, highs: Ints) -> list[Found]:
        """Find the tuples with a key and a time within bounds, for each combination that probes; a
        few are searched one by one, many in the order of their keys.
        """
        if len(codes) <= FEW:
            return find_few(self.side, codes, lows, highs)
        order = stable_order(codes)
        return find_many(self.side, codes[order], lows[order], highs[order], order, all_fit=True)


# One operation of a dataflow expression: combinations of some inputs probe the recorder of one
# more.


class InputExpression:
    """An expression of the columns of one input, computed for combinations."""

    def __init__(self, join: Join, number: int, expression: Expression) -> None:
        schema = join.branches[number].schema
        self._input = number
        self._places = sorted({each.position(schema) for each in columns_of(expression)})
        needed = Schema(tuple(schema.fields[place] for place in self._places))
        self._arrow = needed.arrow
        plain = isinstance(expression, Column)
        self._compute = None if plain else compile_expression(expression, needed)

    def of(self, given: Combinations) -> pa.Array:
        columns = given.chosen[self._input].columns(self._places)
        if self._compute is None:
            return columns[0]
        return self._compute(pa.RecordBatch.from_arrays(columns, schema=self._arrow))


class CombinationTest:
    """Conditions and time conditions on columns of several inputs."""

    def __init__(
        self, join: Join, conditions: Sequence[Expression], times: Sequence[TimeCondition] = ()
    ) -> None:
        columns = [column for each in conditions for column in columns_of(each)]
        columns += [column for each in times for column in (each.left, each.right)]
        self._needed: list[tuple[int, list[int]]] = []  # columns of each input
        fields = []
        for number, branch in enumerate(join.branches):
            own = {(field.name, field.relation) for field in branch.schema}
            mine = [each for each in columns if (each.name, each.relation) in own]
            places = sorted({each.position(branch.schema) for each in mine})
            if places:
                self._needed.append((number, places))
                fields += [branch.schema.fields[place] for place in places]
        schema = Schema(tuple(fields))
        self._arrow = schema.arrow
        self._tests = [condition_test(each, schema) for each in conditions]
        self._tests += [time_test(each, schema) for each in times]

    def among(self, given: Combinations) -> Combinations:
        if not self._tests or not len(given):
            return given
        columns = [
            c for number, places in self._needed for c in given.chosen[number].columns(places)
        ]
        if columns:
            batch = pa.RecordBatch.from_arrays(columns, schema=self._arrow)
        else:  # a condition without columns
            batch = pa.record_batch({"nothing": pa.nulls(len(given))})
        holds: Mask = np.logical_and.reduce([test(batch) for test in self._tests])
        return given.filter(holds)


@dataclass(frozen=True, slots=True)
class TimeLink:
    """Window between the time of one input and that of the new one."""

    time: InputExpression
    column: Column
    partners: Partners

    def bounds(self, given: Combinations) -> tuple[Ints, Ints]:
        return self.partners(to_ticks(self.time.of(given), self.column.type))


class Probe:
    """Operation ⋈(w) with the window of one more input: by `keys` computed from the inputs before,
    and within the times that all of them allow.
    """

    def __init__(
        self,
        new: int,
        index: WindowIndex,
        keys: Sequence[InputExpression],
        links: Sequence[TimeLink],
        test: CombinationTest,
    ) -> None:
        self._new = new
        self._index = index
        self._keys = keys
        self._links = links
        self._test = test

    def extend(self, given: Combinations) -> Iterator[Combinations]:
        """Extend combinations by the tuples of the new input, in pieces that fit into memory."""
        if not len(self._index):
            return
        lows, highs = self._links[0].bounds(given)
        for link in self._links[1:]:
            low, high = link.bounds(given)
            lows, highs = np.maximum(lows, low), np.minimum(highs, high)
        fit = highs >= lows
        if not fit.all():
            given, lows, highs = given.filter(fit), lows[fit], highs[fit]
            if not len(given):
                return
        codes, _ = self._index.codes.of([key.of(given) for key in self._keys], len(given))
        for pieces in pieces_of(self._index.find(codes, lows, highs)):
            found = self._test.among(given.with_partners(pieces, self._new))
            if len(found):
                yield found


# The dataflow expressions of a join: for every input, the sequence of probes of its tuples, over
# indexes that all of them share.


class Dataflow:
    """Dataflow expressions of all inputs. `indexes` are the recorders of each input."""

    def __init__(self, join: Join) -> None:
        self._join = join
        self._conditions = conditions_of(join)
        self._codes: dict[tuple[int, ...], Codings] = {}
        self._by_keys: list[dict[tuple[int, ...], WindowIndex]] = [{} for _ in join.branches]
        self._names = [
            {(field.name, field.relation) for field in branch.schema} for branch in join.branches
        ]
        self._expressions = [
            self._expression(origin, order) for origin, order in enumerate(join.probes)
        ]
        self._last = CombinationTest(join, self._conditions.risky)
        self.indexes = [list(each.values()) for each in self._by_keys]

    def run(self, origin: int, given: Combinations) -> Iterator[Combinations]:
        """Join tuples of an input with all others, in pieces that fit into memory."""
        for each in _through(given, self._expressions[origin]):
            found = self._last.among(each)
            if len(found):
                yield found

    def settle(self) -> None:
        """Complete the runs of all indexes, so that threads can read them without changing them."""
        for index in (each for own in self.indexes for each in own):
            index.side.settle()

    def forget_keys(self) -> None:
        """Drop the codes of keys without tuples."""
        for keys, codes in self._codes.items():
            codes.forget([own[keys].side for own in self._by_keys if keys in own])

    # --- expressions -----------------------------------------------------------------------------

    def _expression(self, origin: int, order: Sequence[int]) -> list[Probe]:
        bound, probes = [origin], []
        for new in order:
            probes.append(self._probe(bound, new, last=new == order[-1]))
            bound.append(new)
        return probes

    def _probe(self, bound: list[int], new: int, last: bool) -> Probe:
        join = self._join
        numbers = [
            number
            for number, each in enumerate(self._conditions.equalities)
            if new in each.inputs and each.inputs & set(bound)
        ]
        equalities = [self._conditions.equalities[number] for number in numbers]
        keys = [self._computed(each, bound) for each in equalities]
        links = [
            TimeLink(
                InputExpression(join, each, join.attributes[each]),
                join.attributes[each],
                _partners(join, each, new),
            )
            for each in bound
        ]
        now: list[Expression] = [
            each
            for each in self._conditions.others
            if self._ready(columns_of(each), bound, new, last)
        ]
        times = [
            each for each in join.also if self._ready([each.left, each.right], bound, new, last)
        ]
        if HashedCodes.suit([each.of(new).type for each in equalities]):
            now += [_compared(each, bound, new) for each in equalities]
        test = CombinationTest(join, now, times)
        return Probe(new, self._index(new, tuple(numbers)), keys, links, test)

    def _computed(self, equality: Equality, bound: list[int]) -> InputExpression:
        number = _first(equality, bound)
        return InputExpression(self._join, number, equality.of(number))

    def _ready(self, columns: Sequence[Column], bound: list[int], new: int, last: bool) -> bool:
        """Whether a condition can be tested after this probe, and could not before."""
        inputs = self._inputs(columns)
        if not inputs:
            return last
        fresh = new in inputs or inputs == {bound[0]} == set(bound)
        return fresh and inputs <= {*bound, new}

    def _inputs(self, columns: Sequence[Column]) -> set[int]:
        keys = [(each.name, each.relation) for each in columns]
        return {n for key in keys for n, names in enumerate(self._names) if key in names}

    def _index(self, new: int, numbers: tuple[int, ...]) -> WindowIndex:
        """Index of an input by these equalities, made on first use."""
        known = self._by_keys[new]
        if numbers not in known:
            keys = [self._conditions.equalities[number].of(new) for number in numbers]
            codes = self._codes.setdefault(numbers, _coding([key.type for key in keys]))
            known[numbers] = WindowIndex(self._join.branches[new].schema, keys, codes)
        return known[numbers]


def _coding(types: Sequence[Type]) -> Codings:
    return HashedCodes(types) if HashedCodes.suit(types) else SharedCodes(types)


def _first(equality: Equality, bound: Sequence[int]) -> int:
    return next(each for each in bound if each in equality.inputs)


def _compared(equality: Equality, bound: Sequence[int], new: int) -> Expression:
    sides = (equality.of(_first(equality, bound)), equality.of(new))
    return Call("eq", sides, BOOLEAN)


def _through(given: Combinations, probes: Sequence[Probe]) -> Iterator[Combinations]:
    if not probes:
        yield given
        return
    for found in probes[0].extend(given):
        yield from _through(found, probes[1:])


def _partners(join: Join, given: int, new: int) -> Partners:
    window = join.window.between(min(given, new), max(given, new))
    assert window is not None
    return window.partner_columns if given < new else window.partner_columns_of_right
