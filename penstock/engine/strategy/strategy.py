"""A strategy: which rules are taken, and how many tuples an operator may handle in one step."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import EngineError, nearest

MOST = 1 << 16  # tuples in one step: enough to make the step itself cheap
_FAMILIES = {"dfs": "DFS", "bfs": "BFS", "rr": "RR"}
_TEXT = re.compile(r"(\w+)(?:\s+(\d+))?")


@dataclass(frozen=True, slots=True)
class Strategy:
    """With `most` None, an operator takes what waits for it, however much that is: a tuple alone
    when there is little to do, large batches when there is much.  Depth-first with a number is
    k-tuple batching.

    >>> Strategy.of("bfs"), Strategy.of("dfs 100").family
    (Strategy(family='BFS', most=None), 'DFSk')
    """

    family: str = "DFS"
    most: int | None = None

    @staticmethod
    def of(text: str) -> Strategy:
        match = _TEXT.fullmatch(text.strip().lower())
        if match is None or match[1] not in _FAMILIES or match[2] == "0":
            close = nearest(text, list(_FAMILIES))
            raise EngineError(
                f"there is no strategy called {text!r}",
                expected="dfs, bfs or rr, and how many tuples a step may take, if not all",
                hint=close[0] if close else "'dfs 100'",
            )
        family, most = _FAMILIES[match[1]], match[2]
        if most is None:
            return Strategy(family)
        return Strategy("DFSk" if family == "DFS" else family, int(most))

    @property
    def step(self) -> int:
        return MOST if self.most is None else self.most

    @property
    def hands_over(self) -> bool:
        """Whether what an operator gives out goes on at once: depth first, as it is.  Then a small
        batch need not wait in a buffer for the next step, which would be that of its reader."""
        return self.family == "DFS"

    def rule(self, source: bool, sink: bool, fork: bool) -> str:
        """The rule for a node, by where it stands."""
        if source and sink:
            return f"{self.family}-Source-Sink"
        if source or sink:
            return f"{self.family}-{'Source' if source else 'Sink'}"
        return f"{self.family}-{'Fork' if fork else 'NOS'}"

    def __str__(self) -> str:
        family = "DFS" if self.family == "DFSk" else self.family
        return family.lower() if self.most is None else f"{family.lower()} {self.most}"
