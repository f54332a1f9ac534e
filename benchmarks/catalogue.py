"""All benchmarks by name, in the order in which they are run."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import (
    bursts,
    figure_6_10,
    figure_6_11,
    figure_6_12,
    figure_6_15,
    figure_6_19,
    figure_7_6,
    figure_8_7,
    figure_8_8,
    figure_8_9,
    join_memory,
    join_orders,
    joins,
    latency,
    memory,
    nile_costs,
    nile_rates,
    optimizing,
    per_sources,
    ratios,
    sequences,
    sessions,
    shared_queries,
    single_tuples,
    throughput,
)
from benchmarks.nexmark import in_process
from benchmarks.result import Result

BENCHMARKS: dict[str, Callable[[bool], Result]] = {
    "throughput": throughput.run,
    "single_tuples": single_tuples.run,
    "latency": latency.run,
    "joins": joins.run,
    "join_orders": join_orders.run,
    "ratios": ratios.run,
    "per_sources": per_sources.run,
    "sequences": sequences.run,
    "sessions": sessions.run,
    "nexmark": in_process.run,
    "memory": memory.run,
    "bursts": bursts.run,
    "join_memory": join_memory.run,
    "figure_6_10": figure_6_10.run,
    "figure_6_11": figure_6_11.run,
    "figure_6_12": figure_6_12.run,
    "figure_6_15": figure_6_15.run,
    "figure_6_19": figure_6_19.run,
    "figure_7_6": figure_7_6.run,
    "figure_8_7": figure_8_7.run,
    "figure_8_8": figure_8_8.run,
    "figure_8_9": figure_8_9.run,
    "nile_costs": nile_costs.run,
    "nile_rates": nile_rates.run,
    "optimizing": optimizing.run,
    "shared_queries": shared_queries.run,
}
