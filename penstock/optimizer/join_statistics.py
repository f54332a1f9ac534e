"""Statistics for joins: samples of streams in memory, rates and key frequencies of inputs, and the
encounters of tuples with other inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.expressions.columns import values_of
from penstock.expressions.compiler import compile_expression, compile_predicate
from penstock.io.sources.memory import BatchSource
from penstock.model.arrays import Floats
from penstock.model.types import Kind
from penstock.optimizer.sizes import GROUPS, assumed_flow, flow_of
from penstock.plan.expressions import columns_of
from penstock.plan.join_properties import Equality, conditions_of
from penstock.plan.nodes.join import Difference, Join
from penstock.plan.nodes.node import Filter, Node, Project, Scan

_ROWS = 16384
_PIECES = 64


@dataclass(frozen=True, slots=True)
class Sample:
    """Sample of a stream, filtered and projected; `passing` is the share of the stream's tuples
    that pass the filters.
    """

    rows: pa.RecordBatch
    passing: float


def sample_of(node: Node) -> Sample | None:
    """Sample through filters, projections and differences; None where nothing is in memory, or
    where evaluation fails, because the error is reported when the stream is read.
    """
    try:
        return _sample(node)
    except (PenstockError, pa.ArrowException, LookupError):
        return None


def _sample(node: Node) -> Sample | None:
    match node:
        case Scan():
            return _of_scan(node)
        case Filter():
            given = _sample(node.input)
            if given is None or not given.rows.num_rows:
                return given
            kept = given.rows.filter(
                compile_predicate(node.predicate, node.input.schema)(given.rows)
            )
            return Sample(kept, given.passing * kept.num_rows / given.rows.num_rows)
        case Project():
            given = _sample(node.input)
            if given is None:
                return None
            schema = node.input.schema
            made = [
                compile_expression(each.expression, schema)(given.rows) for each in node.columns
            ]
            return Sample(pa.RecordBatch.from_arrays(made, schema=node.schema.arrow), given.passing)
        case Difference():  # as many items as tuples: half of these come and go
            given = _sample(node.left)
            if given is None:
                return None
            since = given.rows.column(node.attributes[0].position(node.left.schema))
            items = [*given.rows.columns, since]
            schema = node.schema.arrow
            return Sample(pa.RecordBatch.from_arrays(items, schema=schema), given.passing)
    return None


def _of_scan(scan: Scan) -> Sample | None:
    stream = scan.stream
    if not isinstance(stream.source, BatchSource) or stream.made:
        return None
    batches = stream.source.batches
    if not isinstance(batches, list) or not any(batch.num_rows for batch in batches):
        return None
    chosen, each = batches, max(batch.num_rows for batch in batches)
    if sum(batch.num_rows for batch in batches) > _ROWS:
        chosen = batches[:: max(1, len(batches) // _PIECES)]
        each = max(1, _ROWS // len(chosen))
    pieces = [batch.slice(0, each).select(stream.schema.names) for batch in chosen]
    table = pa.Table.from_batches(pieces).rename_columns(scan.schema.arrow.names)
    (rows,) = table.cast(scan.schema.arrow).combine_chunks().to_batches()[:1] or [None]
    return None if rows is None else Sample(rows, 1.0)


# Statistics of the inputs of a join before it runs: rates, disorder, and how often keys are equal.
# Unknown numbers are assumed.

OTHER = 1 / 3  # assumed selectivity of any other condition


@dataclass(frozen=True, slots=True)
class InputStatistics:
    """Statistics of an input: tuples a tick; disorder in ticks; tuples at a time; columns; the
    distance of its time from the bounds of all inputs when one of its tuples arrives, in ticks, on
    average and as a deviation. `streams` are its streams, if there are several: r and s of r ⋈ s.
    `begin` and `ends` are the first tick, and the last one of every batch, if they are known.
    """

    name: str
    rate: float
    disorder: float = 0.0
    batch: float = 1.0
    columns: int = 1
    ahead: float = 0.0
    spread: float = 0.0
    measured: bool = False
    streams: tuple[str, ...] = ()
    begin: float = 0.0
    ends: tuple[int, ...] = ()


@dataclass(frozen=True)
class JoinStatistics:
    """Statistics of a join.

    `shares` has, by equality and input, the share of tuples with each key, in one order for all
    inputs; where it has none, `keys` equally frequent keys are assumed. `others` are the
    conditions that are no equalities, as the inputs that they refer to and their selectivity.
    """

    inputs: tuple[InputStatistics, ...]
    equalities: tuple[frozenset[int], ...] = ()
    shares: dict[tuple[int, int], Floats] = field(default_factory=dict)
    others: tuple[tuple[frozenset[int], float], ...] = ()
    keys: float = GROUPS

    def matching(self, members: frozenset[int]) -> float:
        """Share of the combinations of some inputs whose keys are equal."""
        return prod(
            self._equal(number, equality & members)
            for number, equality in enumerate(self.equalities)
        )

    def _equal(self, number: int, members: frozenset[int]) -> float:
        if len(members) < 2:
            return 1.0
        known = [self.shares[number, each] for each in members if (number, each) in self.shares]
        unknown = len(members) - len(known)
        if not known:
            return float(self.keys ** (1 - len(members)))
        if len(known) == 1:
            return float(self.keys**-unknown)
        together = float(np.prod(known, axis=0).sum())
        return max(together, self._least**2) * self.keys**-unknown

    @cached_property
    def _least(self) -> float:
        """Share of tuples that a sample does not show."""
        return 0.1 / max((len(each) for each in self.shares.values()), default=10)

    def passing(self, members: frozenset[int]) -> float:
        """Share of combinations for which other conditions hold."""
        return prod(part for inputs, part in self.others if inputs <= members)


def statistics_of(join: Join) -> JoinStatistics:
    samples = [sample_of(branch) for branch in join.branches]
    conditions = conditions_of(join)
    schemas = [{(f.name, f.relation) for f in branch.schema} for branch in join.branches]
    others = []
    for condition in (*conditions.others, *conditions.risky):
        keys = {(column.name, column.relation) for column in columns_of(condition)}
        inputs = frozenset(n for n, names in enumerate(schemas) if names & keys)
        others.append((inputs, OTHER))
    return JoinStatistics(
        tuple(_input(join, number, sample) for number, sample in enumerate(samples)),
        tuple(each.inputs for each in conditions.equalities),
        key_shares(join, samples),
        tuple(others),
    )


def key_shares(join: Join, samples: list[Sample | None]) -> dict[tuple[int, int], Floats]:
    """Share of tuples with each key, by equality and input."""
    return {
        (number, each): found
        for number, equality in enumerate(conditions_of(join).equalities)
        for each, found in _shares(join, equality, samples).items()
    }


def _input(join: Join, number: int, sample: Sample | None) -> InputStatistics:
    branch, attribute = join.branches[number], join.attributes[number]
    found = flow_of(branch, attribute)
    flow = found or assumed_flow(attribute.type)
    rate = flow.volume * (1.0 if sample is None else max(sample.passing, 1e-6))
    # a bounded source is read until its bound has reached those of the others; a live one is behind
    # by its disorder
    at_once = flow.batch / flow.volume if flow.rows is not None else 0.0
    spread = (flow.disorder + at_once) / 2
    ahead = spread if flow.rows is not None else -spread
    streams = streams_of(branch, number)
    return InputStatistics(
        names_together(streams),
        rate,
        flow.disorder,
        flow.batch,
        len(branch.schema),
        ahead,
        spread,
        measured=flow.known,
        streams=streams,
        begin=flow.ends[0] - flow.batch / flow.volume if flow.ends else 0.0,
        ends=flow.ends,
    )


def streams_of(branch: Node, number: int) -> tuple[str, ...]:
    """Names of an input: its relations, or the streams that are read; the two sides of a
    difference that a rule has moved below the join.
    """
    if isinstance(branch, Difference) and branch.progresses_twice:
        return ("−".join("".join(streams_of(each, number)) for each in branch.inputs),)
    relations = [field.relation for field in branch.schema if field.relation is not None]
    scans = [node.alias for node in branch.walk() if isinstance(node, Scan)]
    return tuple(dict.fromkeys(relations or scans)) or (f"{number + 1}",)


def names_together(names: Sequence[str]) -> str:
    """Join names, without commas if all are single letters.

    >>> names_together("rs"), names_together(["orders", "trades"])
    ('rs', 'orders,trades')
    """
    return ("" if all(len(name) == 1 for name in names) else ",").join(names)


def _shares(join: Join, equality: Equality, samples: list[Sample | None]) -> dict[int, Floats]:
    """Share of tuples with each key, for the inputs of which there is a sample."""
    columns: dict[int, pa.Array] = {}
    for number, expression in equality.sides:
        sample = samples[number]
        if sample is None or not sample.rows.num_rows:
            continue
        try:
            column = compile_expression(expression, join.branches[number].schema)(sample.rows)
        except (PenstockError, pa.ArrowException):
            continue
        if expression.type.kind is Kind.DOUBLE:
            column = column.filter(pa.array(~np.isnan(values_of(column, expression.type))))
        columns[number] = column
    if len(columns) < 2:
        return {}
    encoded = pa.chunked_array(columns.values()).combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
    keys, found, begin = len(encoded.dictionary), {}, 0
    for number, column in columns.items():
        own = codes[begin : begin + len(column)]
        begin += len(column)
        sample = samples[number]
        assert sample is not None
        found[number] = np.bincount(own, minlength=keys + 1)[:keys] / sample.rows.num_rows
    return found


# Encounters: the progress and bounds of the other inputs when a tuple of a join arrives.
#
# Bounded sources are read in step, the one with the lowest bound next.  Where the batches of all of
# them are known, this is simulated; elsewhere, the distance of an input from the others is anywhere
# within the range that disorder and batches allow.

_TUPLES = 512  # tuples sampled of an input
_PRIMES = [n for n in range(2, 230) if all(n % each for each in range(2, n))]
_STEPS = np.sqrt(np.array(_PRIMES, np.float64))  # their multiples modulo 1 are evenly distributed


@dataclass(frozen=True, slots=True)
class Encounters:
    """Sampled tuples of one input: their times; and by input, where it begins, how far its tuples
    have come, and its bound, when they arrive.
    """

    times: Floats
    begins: tuple[float, ...]
    reached: tuple[Floats, ...]
    promised: tuple[Floats, ...]


def encounters(inputs: Sequence[InputStatistics]) -> tuple[Encounters, ...]:
    """Encounters of the tuples of every input."""
    if all(each.ends for each in inputs):
        return _in_step(inputs)
    return tuple(_about(inputs, origin) for origin in range(len(inputs)))


def evenly(number: int, size: int = _TUPLES) -> Floats:
    """Deterministic numbers from 0 to 1, distributed more evenly than by chance; sequences with
    different numbers are independent.

    >>> [round(float(each), 2) for each in evenly(0, 4)]
    [0.41, 0.83, 0.24, 0.66]
    """
    found: Floats = np.arange(1, size + 1) * _STEPS[number % len(_STEPS)] % 1.0
    return found


def _about(inputs: Sequence[InputStatistics], origin: int) -> Encounters:
    own = inputs[origin]
    times = own.ahead + own.spread * (2 * evenly(0) - 1)
    reached = tuple(
        each.ahead + each.spread * (2 * evenly(number + 1) - 1)
        for number, each in enumerate(inputs)
    )
    promised = tuple(
        far - max(each.disorder, 0.0) for far, each in zip(reached, inputs, strict=True)
    )
    return Encounters(times, (-np.inf,) * len(inputs), reached, promised)


@dataclass(frozen=True, slots=True)
class _Batch:
    """First and last tick of a batch, and the progress and bounds of all inputs before it."""

    begin: float
    end: float
    reached: tuple[float, ...]
    promised: tuple[float, ...]


def _in_step(inputs: Sequence[InputStatistics]) -> tuple[Encounters, ...]:
    """Simulate reading in step, as the local host does; a source that has been read completely
    promises everything.
    """
    begins = [float(each.begin) for each in inputs]
    reached = [-np.inf] * len(inputs)
    promised = [-np.inf] * len(inputs)
    left = [list(each.ends[::-1]) for each in inputs]
    read: list[list[_Batch]] = [[] for _ in inputs]
    reading = list(range(len(inputs)))
    while reading:
        which = min(reading, key=lambda number: promised[number])
        if not left[which]:
            reading.remove(which)
            promised[which] = np.inf
            continue
        end = float(left[which].pop())
        read[which].append(_Batch(begins[which], end, tuple(reached), tuple(promised)))
        reached[which] = begins[which] = max(end, reached[which])
        promised[which] = reached[which] - inputs[which].disorder
    return tuple(_sampled_encounters(inputs, origin, found) for origin, found in enumerate(read))


def _sampled_encounters(
    inputs: Sequence[InputStatistics], origin: int, read: Sequence[_Batch]
) -> Encounters:
    """Sample tuples of all batches, about equally many of each."""
    each = -(-_TUPLES // len(read))
    size = each * len(read)

    def spread(values: Sequence[float]) -> Floats:
        return np.repeat(np.array(values, np.float64), each)

    begins, ends = spread([one.begin for one in read]), spread([one.end for one in read])
    # a tuple may be older than its batch by the disorder, and so may the newest
    times = begins + (ends - begins) * evenly(0, size)
    times = times - inputs[origin].disorder * evenly(len(inputs) + 1, size)
    numbers = range(len(inputs))
    reached = [spread([one.reached[number] for one in read]) for number in numbers]
    late = [reached[n] - inputs[n].disorder * evenly(n + 1, size) for n in numbers]
    promised = [spread([one.promised[number] for one in read]) for number in numbers]
    first = tuple(float(given.begin) for given in inputs)
    return Encounters(times, first, tuple(late), tuple(promised))
