"""The rules of the paper, as they are written there."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from penstock.local.strategies import RULES, Move, Strategy

F, E, B, X = Move


@dataclass
class Current:
    yields: bool
    more: bool


# for (yields, more): both, yields only, more only, none
EXPECTED = {
    "DFS-NOS": (F, F, E, B),
    "DFS-Fork": (F, F, E, B),
    "DFS-Source": (F, F, E, X),
    "DFS-Sink": (E, B, E, B),
    "DFS-Source-Sink": (E, X, E, X),
    "Chain-NOS": (F, F, E, B),
    "Chain-Fork": (F, F, E, B),
    "Chain-Source": (F, F, E, X),
    "Chain-Sink": (E, B, E, B),
    "Chain-Source-Sink": (E, X, E, X),
    "BFS-NOS": (E, F, E, B),
    "BFS-Fork": (E, F, E, B),
    "BFS-Source": (E, F, E, X),
    "BFS-Sink": (E, B, E, B),
    "BFS-Source-Sink": (E, X, E, X),
    "RR-NOS": (E, F, E, X),
    "RR-Fork": (E, F, E, X),
    "RR-Source": (E, F, E, X),
    "RR-Sink": (E, X, E, X),
    "RR-Source-Sink": (E, X, E, X),
    "DFSk-NOS": (E, F, E, B),
    "DFSk-Fork": (E, F, E, B),
    "DFSk-Source": (E, F, E, X),
    "DFSk-Sink": (E, B, E, B),
    "DFSk-Source-Sink": (E, X, E, X),
}


@pytest.mark.parametrize("name", RULES)
def test_what_comes_next(name: str) -> None:
    cases = [Current(yields, more) for more in (True, False) for yields in (True, False)]
    both, yields, more, none = cases[0], cases[2], cases[1], cases[3]
    found = tuple(RULES[name](each, False) for each in (both, yields, more, none))
    assert found == EXPECTED[name]


def test_a_full_step_goes_forward() -> None:
    assert RULES["DFSk-NOS"](Current(True, True), True) is F
    assert RULES["DFSk-NOS"](Current(False, True), True) is B  # and comes back, by its predecessor
    assert RULES["DFSk-Source"](Current(False, True), True) is E


def test_strategies_have_a_rule_for_every_place() -> None:
    for text in ("dfs", "dfs 7", "bfs", "bfs 2", "rr"):
        strategy = Strategy.of(text)
        assert str(strategy) == text
        for source in (True, False):
            for sink in (True, False):
                for fork in (True, False):
                    assert strategy.rule(source, sink, fork) in RULES
