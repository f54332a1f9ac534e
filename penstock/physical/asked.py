"""What is asked of an operator whose results may be revised."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.model.domain import Domain
from penstock.model.duration import format_duration
from penstock.model.length import Length
from penstock.model.types import Type
from penstock.plan.nodes.node import Node

# Stateless nodes that rows go through one after the other, and by which input of theirs.
Steps: TypeAlias = tuple[tuple[Node, int], ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """Whether late tuples are amended, and `amend_for` how long (None: always); `early_every` how
    many microseconds early answers are wanted.  With `final_only`, results leave when they are
    final, so that others can build on them; `above` is what the results of the others go through
    before they leave.  With `changes`, whatever has changed is said with every batch."""

    amends: bool = False
    amend_for: Length | None = None
    early_every: int | None = None
    final_only: bool = False
    above: Steps = field(default=(), repr=False)
    changes: bool = False

    @property
    def answers_early(self) -> bool:
        return self.early_every is not None or self.changes

    def grace(self, sql_type: Type) -> int | None:
        """How many ticks behind the bound late tuples still count; None if they always do."""
        if not self.amends:
            return 0
        return None if self.amend_for is None else self.amend_for.ticks(Domain(sql_type))

    def __str__(self) -> str:
        """
        >>> str(Asked(early_every=1_000_000)), str(Asked(amends=True, final_only=True))
        ('answers early every 1 SECOND', 'amends, final results only')
        """
        words = []
        if self.amends:
            words.append("amends" if self.amend_for is None else f"amends for {self.amend_for}")
        if self.early_every is not None:
            words.append(f"answers early every {format_duration(self.early_every)}")
        if self.changes:
            words.append("says what changes at once")
        if self.final_only:
            words.append("final results only")
        return ", ".join(words)
