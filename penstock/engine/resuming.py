"""The state of a whole run: its operators, and what its sources have promised and handed over."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from penstock.engine.run import LocalRun
from penstock.errors import CheckpointError
from penstock.operators.moving import drop_all, load_moved
from penstock.physical.node import OperatorKind
from penstock.plan.belonging import check_algorithms, check_query
from penstock.plan.identity import algorithms, identity, without_windows
from penstock.runs.answer import Account
from penstock.state.chunks import ChunkStore, Tree, Within, required


def save_run(run: LocalRun, store: ChunkStore) -> None:
    """Between any two chunks."""
    store.put("run", _identity(run))
    store.put("closed", run.closed)
    store.put("accounts", [asdict(run.total(outlet)) for outlet in run.outlets])
    for stage in run.stages:
        stage.operator.save(_of_operator(store, stage.name))
    for number, scan in enumerate(run.scans):
        scan.ingest.save(Within(store, f"sources/{number}/"))
        if scan.reading is not None:
            scan.reading.save(Within(store, f"readings/{number}/"))


def load_run(run: LocalRun, store: ChunkStore) -> None:
    """Into a run that has read nothing yet."""
    saved = store.get("run")
    if saved is None:
        return
    _compare(saved, _identity(run))
    run.closed = required(store, "closed")
    if "ended" in run.closed.values():
        raise CheckpointError(
            "the checkpoint was closed by a final run, and nothing can follow",
            expected="another checkpoint: windows over numbers of rows, or groups by computed keys,"
            " have been given out before they were complete",
        )
    for outlet, account in zip(run.outlets, required(store, "accounts"), strict=True):
        run.before[outlet] = Account(**account)
    _load_operators(run, saved.get("operators", {}), store)
    for number, scan in enumerate(run.scans):
        scan.ingest.load(Within(store, f"sources/{number}/"))
        if scan.reading is not None:
            scan.reading.load(Within(store, f"readings/{number}/"))


def _load_operators(run: LocalRun, were: dict[str, str], store: ChunkStore) -> None:
    """State moves where another operator stands for the one that saved it, and is that one's at the
    next commit.  Rows that a plan has put in order go on waiting behind one that has them in order
    by itself."""
    waiting = [
        run.put_in_order(int(name.partition("/")[0]))
        for name in were.keys() - _kinds(run).keys()
        if were[name] == OperatorKind.ORDER.value
    ]
    for stage in run.stages:
        was, own = were.get(stage.name, stage.node.operator.value), _of_operator(store, stage.name)
        if load_moved(stage.operator, stage.node, was, own, run.clock):
            drop_all(own)
            stage.operator.save(own)
    for stage in waiting:
        if stage.operator.metrics().rows == 0:
            run.leave_at_once(stage)
            drop_all(_of_operator(store, stage.name))
    if were != _kinds(run):
        store.put("run", _identity(run))


def _kinds(run: LocalRun) -> dict[str, str]:
    """Which operator is where."""
    return {stage.name: stage.node.operator.value for stage in run.stages}


def _of_operator(store: ChunkStore, name: str) -> ChunkStore:
    # the name of an operator begins with that of the one behind it, its chunks must not
    return Within(store, f"operators/{name.replace('/', '.')}/")


def _identity(run: LocalRun) -> Tree:
    return {
        "queries": [identity(query) for query in run.queries],
        "algorithms": [algorithms(query) for query in run.queries],
        "operators": _kinds(run),
    }


def _compare(saved: dict[str, Any], own: dict[str, Any]) -> None:
    """Whether state is that of these queries.  How they are computed may differ if the state says
    which operators it is of: earlier versions did not write that down."""
    if len(saved["queries"]) != len(own["queries"]):
        raise CheckpointError(
            f"the checkpoint is of {len(saved['queries'])} queries, and these are"
            f" {len(own['queries'])}",
            hint="run the queries that it is of, or begin anew with another checkpoint",
        )
    where = "the checkpoint"
    for found, given in zip(saved["queries"], own["queries"], strict=True):
        check_query(found, given, where)
    for found, given in zip(saved["algorithms"], own["algorithms"], strict=True):
        if "operators" in saved:
            found, given = without_windows(found), without_windows(given)
        check_algorithms(found, given, where)
