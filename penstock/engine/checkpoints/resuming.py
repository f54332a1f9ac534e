"""The state of a whole run: its operators, and what its sources have promised and handed over."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias
from urllib.parse import quote

from penstock.engine.graph.naming import order_name, windows_of_panes_name
from penstock.engine.graph.operator_node import OperatorNode
from penstock.engine.graph.source_node import SourceNode
from penstock.engine.run import ENDED, LocalRun
from penstock.errors import CheckpointError
from penstock.operators.moving import drop_all, load_moved
from penstock.optimizer.share_panes import share_panes
from penstock.physical.node import OperatorKind
from penstock.physical.plan import PhysicalPlan
from penstock.plan.identity.belonging import check_algorithms, check_query
from penstock.plan.identity.identity import algorithms, identity, without_windows
from penstock.runs.answer import Account
from penstock.state.chunks import ChunkStore, Tree, Within, required

LIVE = "live"  # the chunk that every checkpoint of a live engine has
Planned: TypeAlias = Callable[[int, Collection[str]], PhysicalPlan]


def save_run(run: LocalRun, store: ChunkStore) -> None:
    """Between any two chunks."""
    store.put("run", _identity(run))
    store.put("closed", run.closed)
    store.put("accounts", [asdict(run.total(outlet)) for outlet in run.outlets])
    for stage in run.stages:
        save_operator(stage, store)
    for scan in run.scans:
        scan.ingest.save(of_source(store, scan, "sources"))
        if scan.reading is not None:
            scan.reading.save(of_source(store, scan, "readings"))


def load_run(run: LocalRun, store: ChunkStore) -> None:
    """Into a run that has read nothing yet."""
    saved = store.get("run")
    if saved is None:
        refuse_live(store)
        return
    _compare(saved, _identity(run))
    run.closed = required(store, "closed")
    if ENDED in run.closed.values():
        raise CheckpointError(
            "the checkpoint was closed by a final run, and nothing can follow",
            expected="another checkpoint: results that only the end of the streams completes, such"
            " as windows over numbers of rows, have been given out",
        )
    for outlet, account in zip(run.outlets, required(store, "accounts"), strict=True):
        run.before[outlet] = Account(**account)
    _load_operators(run, saved["operators"], store)
    for scan in run.scans:
        own = of_source(store, scan, "sources")
        required(own, "read")  # a stream that was read never begins anew without a word
        scan.ingest.load(own)
        if scan.reading is not None:
            scan.reading.load(of_source(store, scan, "readings"))


def refuse_live(store: ChunkStore) -> None:
    """What a live engine has saved is of queries that come and go."""
    if store.get(LIVE) is not None:
        raise CheckpointError(
            "the checkpoint was made by a live engine",
            hint="db.live(checkpoint=…), penstock shell --checkpoint, or another checkpoint",
        )


def as_begun(
    plans: Sequence[PhysicalPlan], store: ChunkStore, planned: Planned
) -> list[PhysicalPlan]:
    """The plans of some queries as the run was planned that a store holds: simplified by the rules
    that there were, because these decide what is kept.  `planned` makes the plan of a query, by its
    number, by some rules."""
    saved = store.get("run")
    if saved is None or len(saved["queries"]) != len(plans):
        return list(plans)
    simplified = saved.get("simplified", [[] for _ in plans])
    return [
        plan if plan.simplified == tuple(rules) else planned(number, rules)
        for number, (plan, rules) in enumerate(zip(plans, simplified, strict=True))
    ]


def shared_as_begun(plans: Sequence[PhysicalPlan], store: ChunkStore) -> list[PhysicalPlan]:
    """The plans with panes in common.  If the store holds a run, exactly those aggregations have
    them that had them then, however they would be computed today."""
    saved = store.get("run")
    if saved is None:
        return share_panes(plans)
    return share_panes(plans, lambda each: windows_of_panes_name(each) in saved["operators"])


def _load_operators(run: LocalRun, were: dict[str, str], store: ChunkStore) -> None:
    """State moves where another operator stands for the one that saved it, and is that one's at the
    next commit.  Rows that a plan has put in order go on waiting behind one that has them in order
    by itself."""
    _check_state(run, were)
    ordered = {name for name, kind in were.items() if kind == OperatorKind.ORDER.value}
    waiting = [
        run.put_in_order(number)
        for number, plan in enumerate(run.plans)
        if order_name(plan.executed) in ordered - _kinds(run).keys()
    ]
    _check_nothing_is_left(run, were, store)
    for stage in run.stages:
        was, own = were.get(stage.name, stage.node.operator.value), of_operator(store, stage.name)
        if load_moved(stage.operator, stage.node, was, own, run.clock):
            drop_all(own)
            stage.operator.save(own)
    for stage in waiting:
        if stage.operator.metrics().rows == 0:
            run.leave_at_once(stage)
            drop_all(of_operator(store, stage.name))
    if were != _kinds(run):
        store.put("run", _identity(run))


def _check_state(run: LocalRun, were: dict[str, str]) -> None:
    """Whether everything that keeps something finds what it has kept; only rows in order may be
    asked for anew."""
    for stage in run.stages:
        asked = stage.node.stateful and stage.node.operator is not OperatorKind.ORDER
        if asked and stage.name not in were:
            raise no_state_of(stage)


def _check_nothing_is_left(run: LocalRun, were: dict[str, str], store: ChunkStore) -> None:
    """Whether all state has somebody who goes on with it."""
    for name in were.keys() - _kinds(run).keys():
        if any(True for _ in of_operator(store, name).names()):
            raise CheckpointError(
                f"the checkpoint has state of {were[name]} that nothing goes on with: the query is"
                " put together in another way now",
                hint="run it with the version and the data that wrote it, or begin anew with"
                " another checkpoint",
            )


def no_state_of(stage: OperatorNode) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint has no state of {stage.node.operator.value}: the query is put"
        " together in another way now",
        hint="run it with the version and the data that wrote it, or begin anew with another"
        " checkpoint",
    )


def save_operator(stage: OperatorNode, store: ChunkStore) -> None:
    """An operator that has taken the place of another knows nothing of the chunks of that one."""
    own = of_operator(store, stage.name)
    if stage.exchanged:
        drop_all(own)
        stage.exchanged = False
    stage.operator.save(own)


def _kinds(run: LocalRun) -> dict[str, str]:
    """Which operator is where."""
    return {stage.name: stage.node.operator.value for stage in run.stages}


def of_operator(store: ChunkStore, name: str) -> ChunkStore:
    return Within(store, f"operators/{name}/")


def of_source(store: ChunkStore, scan: SourceNode, what: str) -> ChunkStore:
    # the name of a stream may have anything in it
    return Within(store, f"{what}/{quote(scan.name, safe='')}/")


def _identity(run: LocalRun) -> Tree:
    return {
        "queries": [identity(query) for query in run.queries],
        "algorithms": [algorithms(query) for query in run.queries],
        "operators": _kinds(run),
        "simplified": [list(plan.simplified) for plan in run.plans],
    }


def _compare(saved: dict[str, Any], own: dict[str, Any]) -> None:
    """Whether state is that of these queries.  How their windows are computed may differ: the state
    says which operators it is of."""
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
        check_algorithms(without_windows(found), without_windows(given), where)
