"""OVER and LIMIT whose rows are never final (EMIT CHANGES): one that comes may move all others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from penstock.plan.nodes.node import Progressing
from penstock.plan.nodes.over_calls import Numbering
from penstock.plan.nodes.rows_over import RowsOver


@dataclass(frozen=True)
class RunningOver(RowsOver):
    """The rows of all partitions as they are by now; the input may be a running answer."""

    @property
    def running(self) -> bool:
        return True

    @property
    def takes_back(self) -> bool:
        return True

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        return ()  # a row may come anywhere in the order

    @property
    def forgets(self) -> bool:
        """Whether rows beyond the limit can go: none of those before them is ever taken back, and
        nobody but those looks at them."""
        return self.most is not None and self._could_forget

    @property
    def _could_forget(self) -> bool:
        numbered = all(isinstance(each.call, Numbering) for each in self.calls)
        return numbered and not self.input.takes_back

    def details(self) -> list[str]:
        if self.forgets:
            kept = "those rows of every partition, for ever" if self.partition else "those rows"
        else:
            kept = "every row, for ever"
            if self.input.takes_back:
                kept += ", because those before it may be taken back"
            elif self._could_forget:
                kept += ", unless a condition limits its number"
        return [*super().details(), f"keeps: {kept}"]
