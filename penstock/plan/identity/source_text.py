"""The SQL that has made a stream or a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SourceText:
    """A statement, and those that have made the named queries that it reads, by name: somebody may
    have dropped them since, and made others under the same names."""

    text: str
    reads: Mapping[str, SourceText] = field(default_factory=dict)

    @staticmethod
    def load(saved: Mapping[str, Any]) -> SourceText:
        """From what `dataclasses.asdict` makes of it."""
        reads = {name: SourceText.load(each) for name, each in saved["reads"].items()}
        return SourceText(saved["text"], reads)
