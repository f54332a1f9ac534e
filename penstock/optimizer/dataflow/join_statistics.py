"""What is known about the inputs of a join before it runs: how many tuples come, how far out of
order, and how often keys are equal.  What nobody has measured is assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.expressions.columns import values_of
from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Floats
from penstock.model.types import Kind
from penstock.optimizer.dataflow.sampling import Sample, sample_of
from penstock.optimizer.estimates.sizes import GROUPS, assumed_flow, flow_of
from penstock.plan.expressions import columns_of
from penstock.plan.nodes.difference import Difference
from penstock.plan.nodes.joins import Join
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.stateless import Scan
from penstock.plan.properties.equalities import Equality, conditions_of

OTHER = 1 / 3  # of combinations that any other condition leaves


@dataclass(frozen=True, slots=True)
class InputStatistics:
    """How many tuples come a tick; how many ticks they may be out of order; how many come at a
    time; how many columns they have; and how far ahead of what all inputs have promised an input is
    when a tuple of it comes, on average and how much more or less, in ticks.  `streams` are what it
    is made of, if those are several: r and s of r ⋈ s.  `begin` and `ends` are the first tick and
    the last one of every batch, if they are known."""

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
    """`shares` has, by equality and input, the part of tuples that have each key, in one order for
    all inputs; where it has none, there are `keys` keys, all alike.  `others` are the conditions
    that are no equalities, as the inputs that they are about, and the part that each leaves."""

    inputs: tuple[InputStatistics, ...]
    equalities: tuple[frozenset[int], ...] = ()
    shares: dict[tuple[int, int], Floats] = field(default_factory=dict)
    others: tuple[tuple[frozenset[int], float], ...] = ()
    keys: float = GROUPS

    def matching(self, members: frozenset[int]) -> float:
        """The part of combinations of some inputs whose keys are equal."""
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
        """A part of tuples that a sample does not show."""
        return 0.1 / max((len(each) for each in self.shares.values()), default=10)

    def passing(self, members: frozenset[int]) -> float:
        """The part of combinations for which other conditions hold."""
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
    """By equality and input, the part of tuples with each key."""
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
    # a source that can be read at will is read until its promise has come as far as the others;
    # one that is live is behind by as much as it is late
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
    """What an input is called after: its relations, or the streams that are read; or what is taken
    from what, if it is a rule that has put it so."""
    if isinstance(branch, Difference) and branch.progresses_twice:
        return ("−".join("".join(streams_of(each, number)) for each in branch.inputs),)
    relations = [field.relation for field in branch.schema if field.relation is not None]
    scans = [node.alias for node in branch.walk() if isinstance(node, Scan)]
    return tuple(dict.fromkeys(relations or scans)) or (f"{number + 1}",)


def names_together(names: Sequence[str]) -> str:
    """
    >>> names_together("rs"), names_together(["orders", "trades"])
    ('rs', 'orders,trades')
    """
    return ("" if all(len(name) == 1 for name in names) else ",").join(names)


def _shares(join: Join, equality: Equality, samples: list[Sample | None]) -> dict[int, Floats]:
    """The part of tuples with each key, for the inputs of which there is a sample."""
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
