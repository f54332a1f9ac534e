"""The root of a plan: late tuples, emission and consistency of a query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from penstock.errors import PlanError
from penstock.model.durations import format_duration
from penstock.model.ticks import Domain, Length
from penstock.model.types import Type
from penstock.plan.algorithms import Consistency
from penstock.plan.nodes.aggregation import Distinct, DistinctOn, GroupAggregate, WindowAggregate
from penstock.plan.nodes.join import Difference, Join, Sequence
from penstock.plan.nodes.node import Node, Unary
from penstock.plan.nodes.over import Over


class Late(Enum):
    """Treatment of late tuples."""

    DROP = "DROP"  # counted, nothing more
    SIDE = "SIDE"  # counted, and delivered with the windows they missed
    AMEND = "AMEND"  # counted in their windows all the same; released results are revised


@dataclass(frozen=True)
class QueryPlan(Unary):
    """Root of the plan of a query."""

    input: Node
    late: Late = Late.DROP
    early_every: int | None = None  # microseconds between early results
    in_order: bool = False
    amend_for: Length | None = None  # how far behind the bound results can be amended
    changes: bool = False  # all changes are emitted at once (EMIT CHANGES)
    consistency: Consistency | None = None  # level of CONSISTENCY, if given
    shared: tuple[Node, ...] = ()  # parts that occur several times, and are computed once

    def __post_init__(self) -> None:
        if self.early_every is not None and self.early_every <= 0:
            raise PlanError("EMIT EARLY EVERY needs a time longer than zero")
        if self.changes and (self.early_every is not None or self.in_order):
            raise PlanError("what changes is said at once, neither early nor in order")
        if self.in_order and not self.input.progress:
            raise PlanError("EMIT IN ORDER needs a column that progresses")
        if self.amend_for is not None:
            if self.late is not Late.AMEND:
                raise PlanError("FOR is how long results can be amended, so it needs LATE AMEND")
            for sql_type in self._late_types():
                if self.amend_for.ticks(Domain(sql_type)) <= 0:
                    raise PlanError(f"AMEND FOR {self.amend_for}", expected="more than zero")

    def _late_types(self) -> Iterator[Type]:
        yield from late_types(self.input)
        if self.in_order and not any(each.stateful for each in self.input.walk()):
            yield self.input.progress[0].field.type

    @property
    def revises(self) -> bool:
        """Whether rows may be retracted after they were emitted."""
        return self.late is Late.AMEND or self.early_every is not None or self.changes

    def grace(self, domain: Domain) -> int | None:
        """Ticks behind the bound during which late tuples still count; None if they always do."""
        if self.late is not Late.AMEND:
            return 0
        return self.amend_for.ticks(domain) if self.amend_for is not None else None

    def details(self) -> list[str]:
        words = [f"Query LATE {self.late.value}"]
        if self.amend_for is not None:
            words.append(f"FOR {self.amend_for}")
        if self.early_every is not None:
            words.append(f"EMIT EARLY EVERY {format_duration(self.early_every)}")
        if self.in_order:
            words.append("EMIT IN ORDER")
        if self.changes:
            words.append("EMIT CHANGES")
        if self.consistency is not None:
            words.append(str(self.consistency))
        return [" ".join(words)]


def late_types(query: Node) -> Iterator[Type]:
    """Types of the columns by which tuples can be late. Results are never late, so nodes over
    other results have none.
    """
    for node in query.walk():
        below = [each for given in node.inputs for each in given.walk()]
        if any(each.stateful for each in below):
            continue
        match node:
            case Over():
                yield from (each.type for each in node.times)
            case WindowAggregate() | DistinctOn():
                if node.attribute is not None:
                    yield node.attribute.type
            case GroupAggregate() | Distinct():
                yield from (each.field.type for each in node.progress)
            case Join() | Difference() | Sequence():
                yield from (attribute.type for attribute in node.attributes)
