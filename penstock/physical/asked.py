"""What is asked of an operator whose results may be revised."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.model.domain import Domain
from penstock.model.length import Length
from penstock.model.types import Type
from penstock.plan.node import Node

# Stateless nodes that rows go through one after the other, and by which input of theirs.
Steps: TypeAlias = tuple[tuple[Node, int], ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """Whether late tuples are amended, and `amend_for` how long (None: always); whether a host is
    going to ask for early answers.  With `final_only`, results leave when they are final, so that
    others can build on them; `above` is what the results of the others go through before they
    leave."""

    amends: bool = False
    amend_for: Length | None = None
    answers_early: bool = False
    final_only: bool = False
    above: Steps = field(default=(), repr=False)

    def grace(self, sql_type: Type) -> int | None:
        """How many ticks behind the bound late tuples still count; None if they always do."""
        if not self.amends:
            return 0
        return None if self.amend_for is None else self.amend_for.ticks(Domain(sql_type))

    def __str__(self) -> str:
        """
        >>> str(Asked(answers_early=True)), str(Asked(amends=True, final_only=True))
        ('answers early', 'amends, final results only')
        """
        words = []
        if self.amends:
            words.append("amends" if self.amend_for is None else f"amends for {self.amend_for}")
        if self.answers_early:
            words.append("answers early")
        if self.final_only:
            words.append("final results only")
        return ", ".join(words)
