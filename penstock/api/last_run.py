"""What a query remembers of its last run: the account, and the tuples that did not take part.

A run may not end, so it is not everything: all late tuples if LATE SIDE asks for them, otherwise
the first ones, and the first rejected rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

import pyarrow as pa

from penstock.errors import RunError
from penstock.plan.nodes.query import Late, QueryPlan
from penstock.runs.advice import advice_on_rejects
from penstock.runs.answer import Account, Answer, join_tables
from penstock.runs.outlet import SHOWN
from penstock.runs.targets import Outcome, Target
from penstock.sinks.kept import LIMIT, Kept
from penstock.sources.rejects import Reject

_LOG = logging.getLogger("penstock")


class RememberedRun:
    """Late tuples and rejected rows are kept here unless the target has sinks for them."""

    def __init__(self, query: QueryPlan, target: Target, engine: str) -> None:
        self._query = query
        self.account = Account(0, 0, 0)
        self._given = target
        self._late: Kept | None = None
        self._rejected: Kept | None = None
        # Spark would have to send along what is otherwise only counted
        if target.late is None and (engine != "spark" or query.late is not Late.DROP):
            self._late = kept_late(query)
        if target.rejected is None:
            self._rejected = Kept("rejected rows")
        self.target = replace(
            target, late=self._late or target.late, rejected=self._rejected or target.rejected
        )

    def finish(self, outcome: Outcome) -> None:
        self.account = outcome.account
        say_left_out(outcome.account, outcome.first_rejects, self._given.rejected is None)

    @property
    def late(self) -> pa.Table:
        if not self.account.late:
            return join_tables([], self._query)
        if self._given.late is not None:
            raise _gone("the late tuples", "late")
        if self._late is None:
            raise only_counted(self.account.late)
        return late_table(self._late)

    @property
    def rejected(self) -> pa.Table:
        if self._rejected is None:
            raise _gone("the rejected rows", "rejected")
        return self._rejected.table


class RememberedAnswer:
    """An answer that is there as a whole."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.account = answer.account
        say_left_out(self.account, islice(answer.rejects, SHOWN))

    @property
    def late(self) -> pa.Table:
        if self.account.late and not self.answer.late.num_rows:
            raise only_counted(self.account.late)
        return self.answer.late

    @property
    def rejected(self) -> pa.Table:
        return self.answer.rejects.table()


def kept_late(query: QueryPlan) -> Kept:
    """Where late tuples are kept: all of them if the query asks for them."""
    return Kept("late tuples", None if query.late is Late.SIDE else LIMIT)


def late_table(kept: Kept) -> pa.Table:
    return kept.marked(join_tables([pa.Table.from_batches([each]) for each in kept.batches]))


def say_left_out(account: Account, first: Iterable[Reject], kept: bool = True) -> None:
    """Once per run: rows that were rejected are a warning, late tuples a matter of course."""
    if account.late:
        _LOG.info("%s of %s tuples were late", f"{account.late:,}", f"{account.read:,}")
    if account.rejected:
        shown = list(first)
        lines = [f"{account.rejected:,} of {account.read:,} rows were rejected"]
        lines[0] += " (they are in query.rejected):" if kept else ":"
        lines += [f"  {reject}" for reject in shown]
        more = account.rejected - len(shown)
        lines += [f"  … and {more:,} more"] if more else []
        if advice := advice_on_rejects(account, shown):
            lines.append(advice)
        _LOG.warning("%s", "\n".join(lines))


def only_counted(count: int) -> RunError:
    return RunError(
        f"the late tuples were counted and not kept; there were {count:,}",
        hint="LATE SIDE keeps them, and run(late=…) hands them on",
    )


def _gone(what: str, sink: str) -> RunError:
    return RunError(
        f"{what} of the last run went to the sink that it was given",
        expected=f"a run without {sink}=…, which keeps them",
    )
