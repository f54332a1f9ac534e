"""The scheduling graph of a difference (figure 4 of Getta and Vossough), and what is left of its
dashed edges when conflicts are removed."""

from __future__ import annotations

from functools import partial
from typing import Any

from penstock.experiments.experiment_clock import Conduct
from penstock.experiments.figure import Draw, Expectation, Figure
from penstock.optimizer.conflicts import STEPS, Conflicts, Removal, SchedulingGraph, Step
from penstock.optimizer.dataflow import DataflowExpression, Operation

_OUT = Operation("→", "w_out")
_WAYS = (
    DataflowExpression("r", (Operation("→", "w_r"), Operation("−left", "w_s"), _OUT)),
    DataflowExpression("s", (Operation("→", "w_s"), Operation("−right", "w_r"), _OUT)),
)
_ON_INPUTS = 4  # operations on the windows of input streams: α1 to α4


def figure_4(removed: tuple[Removal, ...] = ()) -> SchedulingGraph:
    """Make the figure: three items have come, and the first one is at its second operation."""
    graph = SchedulingGraph(Conflicts(_WAYS), removed)
    for stream, item in (("r", "d'_r"), ("s", "d'_s"), ("r", "d''_r")):
        graph.arrive(stream, item)
    graph.complete(graph.steps[0])
    return graph


def scheduling(conduct: Conduct) -> Figure:  # noqa: ARG001
    rows: list[dict[str, Any]] = []
    left: dict[tuple[Removal, ...], SchedulingGraph] = {}
    for removed in STEPS:
        graph = left[removed] = figure_4(removed)
        rows.append(
            {
                "removed by": ", ".join(each.value for each in removed) or "nothing",
                "dashed edges": len(graph.dashed),
                "of them among α1 to α4": len(_among_inputs(graph)),
                "can begin": len(graph.ready()),
                "rounds": figure_4(removed).rounds(),
            }
        )
    timestamps = left[Removal.TIMESTAMPS,]
    expected = [
        Expectation(
            "timestamps remove all dashed edges between α1, α2, α3 and α4",
            f"{len(_among_inputs(left[()]))} before, {len(_among_inputs(timestamps))} after",
            bool(_among_inputs(left[()])) and not _among_inputs(timestamps),
        ),
        Expectation(
            "write conflicts on the output are left",
            f"{len(timestamps.dashed)} edges",
            bool(timestamps.dashed),
        ),
        Expectation(
            "with relaxed order nothing is blocked",
            f"{len(left[STEPS[-1]].dashed)} edges",
            not left[STEPS[-1]].dashed,
        ),
    ]
    drawn: list[Draw] = [partial(_draw, left[each]) for each in ((), STEPS[1], STEPS[-1])]
    title = "Figure 4: a scheduling graph, as it is, with timestamps, and with relaxed order"
    return Figure(
        "figure-4",
        title,
        "no dashed edges mean that no operation is blocked; timestamps remove those between α1, α2,"
        " α3 and α4, and relaxed order those on the output",
        rows,
        expected,
        drawn,
    )


def _among_inputs(graph: SchedulingGraph) -> list[tuple[Step, Step]]:
    return [edge for edge in graph.dashed if all(step.operation < _ON_INPUTS for step in edge)]


def _draw(graph: SchedulingGraph, axis: Any) -> None:
    """Draw a row for every item, from the first that came."""
    items = list(dict.fromkeys(step.item for step in graph.steps))
    at = {step: (step.place, -items.index(step.item)) for step in graph.steps}
    for edges, style, bend in ((graph.solid, "-", 0.0), (graph.dashed, "--", 0.18)):
        for one, other in edges:
            arrow = {
                "arrowstyle": "->",
                "linestyle": style,
                "shrinkA": 14,
                "shrinkB": 14,
                "connectionstyle": f"arc3,rad={bend}",
            }
            axis.annotate("", xy=at[other], xytext=at[one], arrowprops=arrow)
    for step, (x, y) in at.items():
        axis.text(x, y, f"α{step.operation + 1}", ha="center", va="center", fontsize=13)
    axis.plot([], [], "k-", label="next operation of an item")
    axis.plot([], [], "k--", label="has to wait")
    axis.set_xlim(-0.5, 2.5)
    axis.set_ylim(-len(items) + 0.5, 0.5)
    axis.set_xticks([])
    axis.set_yticks([-place for place in range(len(items))], items)
