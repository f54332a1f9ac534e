"""Times that can be compared on a machine that is never quiet, and answers that must be the same.

Contenders take turns of two runs, the first of which warms caches up for the second, and each is
judged by its best run: whatever else happens on the machine only ever makes a run longer.  Times
are processor times of the process.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from time import process_time
from typing import Any

import pyarrow as pa

pa.set_cpu_count(1)  # one thread for everybody

Work = Callable[[], object]


def best_times(contenders: Mapping[str, Work], rounds: int) -> dict[str, float]:
    """Seconds of each one's best run."""
    return measured(contenders, rounds)[0]


def measured(
    contenders: Mapping[str, Work], rounds: int
) -> tuple[dict[str, float], dict[str, Any]]:
    """The same, and what each one answered."""
    found, answers = all_times(contenders, rounds)
    return {name: min(each) for name, each in found.items()}, answers


def all_times(
    contenders: Mapping[str, Work], rounds: int
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of the better run of every turn, and what each one answered."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    answers: dict[str, Any] = {}
    for _ in range(rounds):
        for name, work in contenders.items():
            turn = []
            for _run in range(2):
                gc.collect()
                gc.disable()
                begin = process_time()
                answers[name] = work()
                turn.append(process_time() - begin)
                gc.enable()
            times[name].append(min(turn))
    return times, answers


def agree(answers: Mapping[str, pa.Table]) -> dict[str, int]:
    """Compare answers as bags of rows; how many rows each has."""
    (first, expected), *others = [(name, _in_order(table)) for name, table in answers.items()]
    for name, table in others:
        if not table.equals(expected):
            raise AssertionError(
                f"{name} and {first} answer differently: {table.num_rows:,} rows and"
                f" {expected.num_rows:,} rows"
            )
    return {name: table.num_rows for name, table in answers.items()}


def _in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()
