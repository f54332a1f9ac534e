"""Where a query stood in a graph that was saved, by the names of its nodes.

State is found under these names again.  Two queries may ask for the same and yet have nodes of
their own, because one of them came later; only the names tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Placement:
    """`sources` are the names of those that a query reads, by stream and in the order in which it
    asks for them; `operators` those of its operators, by what they compute."""

    sources: dict[str, list[str]] = field(default_factory=dict)
    operators: dict[str, list[str]] = field(default_factory=dict)

    def copy(self) -> Placement:
        """One whose names can be taken one by one."""
        return Placement(
            {stream: list(names) for stream, names in self.sources.items()},
            {computes: list(names) for computes, names in self.operators.items()},
        )

    @property
    def names(self) -> set[str]:
        every = (*self.sources.values(), *self.operators.values())
        return {name for names in every for name in names}

    @property
    def source_names(self) -> set[str]:
        return {name for names in self.sources.values() for name in names}

    def source(self, stream: str) -> str | None:
        """The next one that the query asks for; None if it had none."""
        return _next(self.sources, stream)

    def operator(self, computes: str) -> str | None:
        return _next(self.operators, computes)


def _next(names: dict[str, list[str]], key: str) -> str | None:
    return names[key].pop(0) if names.get(key) else None
