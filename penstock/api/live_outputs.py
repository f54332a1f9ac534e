"""Where the rows of queries on a live engine go, with their late and rejected ones: to files that
SQL or a program has named, and to whoever subscribes while they run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.errors import BindError, EngineError, SinkError, nearest
from penstock.language.parse import pointing_at
from penstock.language.syntax.names import Name
from penstock.language.syntax.statements import IntoPlaces
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.delivery import SIDES, Delivery
from penstock.runs.isolated import IsolatedOutlet
from penstock.runs.outlet import refuse_for_good
from penstock.runs.places import place_of
from penstock.runs.targets import SinkLike
from penstock.sinks.kept import Kept
from penstock.sinks.subscribers import Backlog, QueuePolicy, SubscriberQueue, Subscribers

if TYPE_CHECKING:
    from penstock.api.database import Database

Sinks: TypeAlias = tuple[SinkLike | None, SinkLike | None, SinkLike | None]
Paths: TypeAlias = tuple[str | None, str | None, str | None]
"""For rows, late tuples and rejected rows."""

NOWHERE: Sinks = (None, None, None)


@dataclass
class Fans:
    """Whoever gets something of one query, side by side."""

    rows: Subscribers
    late: Subscribers
    rejected: Subscribers
    backlog: Backlog

    @staticmethod
    def of(sinks: Sinks, delivery: Delivery, query: QueryPlan, policy: QueuePolicy) -> Fans:
        """With the sinks that are named, if any.  Those of the program have queues."""
        asked = [Subscribers() if each is None else each for each in sinks]
        (target,) = delivery.targets([asked])
        if query.revises or query.signed:
            refuse_for_good(target.rows)
        backlog = Backlog()
        made: list[Subscribers] = []
        for given, sink in zip(asked, (target.rows, target.late, target.rejected), strict=True):
            assert sink is not None
            if isinstance(sink, Subscribers):
                made.append(sink)
            elif isinstance(given, str | Path | Kept):
                made.append(Subscribers(sink))
            else:
                refuse_to_drop(policy, query, SIDES[len(made)])
                made.append(Subscribers(SubscriberQueue(sink, policy, backlog)))
        rows, late, rejected = made
        return Fans(rows, late, rejected, backlog)

    def outlet(self, query: QueryPlan) -> IsolatedOutlet:
        outlet = IsolatedOutlet(query, self.rows, self.late, self.rejected)
        outlet.backlog = self.backlog
        return outlet

    def side(self, name: str) -> Subscribers:
        if name not in SIDES:
            close = nearest(name, SIDES)
            raise EngineError(
                f"a query gives out no {name!r}",
                expected=" or ".join(map(repr, SIDES)),
                hint=close[0] if close else None,
            )
        found: Subscribers = getattr(self, name)
        return found


def refuse_to_drop(policy: QueuePolicy, query: QueryPlan, side: str) -> None:
    """Who misses that a row is retracted has a wrong result, not only less of it."""
    if policy.drops and side == SIDES[0] and (query.revises or query.signed):
        raise SinkError(
            "rows of the query may be retracted, so a subscriber must not miss any",
            expected="overload='block'",
            hint="leave EMIT CHANGES, EMIT EARLY and LATE AMEND out, or let it block",
        )


@dataclass
class LiveOutputs:
    """The files that queries write, which are where the database may read as well if not everything
    is allowed."""

    database: Database
    kept: bool  # whether there is a checkpoint
    _taken: dict[str, list[Path]] = field(default_factory=dict)  # by query

    def path(self, into: Name) -> str:
        """With a stroke at its end if it was written with one: then it is a directory."""
        base = self.database.base or Path.cwd()
        return f"{base / into.text}{'/' * into.text.endswith('/')}"

    def paths(self, places: IntoPlaces) -> Paths:
        return _each(places, self.path)

    def places(self, places: IntoPlaces, name: str) -> Paths:
        """The paths that a query may write to."""
        return _each(places, lambda into: self._place(into, name))

    def _place(self, into: Name, name: str) -> str:
        """The files of a directory appear when they are saved."""
        path = self.path(into)
        directory = path.endswith("/") or not Path(path).suffix or Path(path).is_dir()
        if directory and not self.kept:
            raise BindError(
                f"{into.text!r} names a directory",
                span=into.span,
                expected="a file, whose ending tells the format; or a checkpoint",
                hint="INTO 'rows.jsonl', or db.live(checkpoint=…)",
            )
        allowed = self.database.allowed
        if allowed is not None and not allowed.file(Path(path)):
            raise BindError(
                f"{into.text!r} may not be written",
                span=into.span,
                expected=f"what is allowed: {allowed}",
            )
        with pointing_at(into.span):
            self.refuse_taken(name, (path,))
        return path

    def refuse_taken(self, name: str, sinks: Sequence[SinkLike | None]) -> None:
        """Where one query writes, another cannot."""
        for sink in sinks:
            place = place_of(sink)
            taken = [other for other, paths in self._taken.items() if place in paths]
            if taken and taken[0].casefold() != name.casefold():
                raise SinkError(
                    f"the rows of query {taken[0]} go to {str(sink)!r}",
                    expected="a place of its own for every query",
                )

    def take(self, name: str, sinks: Sinks) -> None:
        paths = [place for place in map(place_of, sinks) if place is not None]
        if paths:
            self._taken[name] = paths

    def forget(self, name: str) -> None:
        self._taken.pop(name, None)


def check_apart(places: IntoPlaces) -> None:
    """Rows, late tuples and rejected rows have different columns."""
    seen: dict[str, Name] = {}
    for each in (places.rows, places.late, places.rejected):
        if each is not None and each.text in seen:
            raise BindError(
                f"{each.text!r} is said twice",
                span=each.span,
                expected="a place each for rows, late tuples and rejected rows",
            )
        if each is not None:
            seen[each.text] = each


def _each(places: IntoPlaces, path: Callable[[Name], str]) -> Paths:
    rows, late, rejected = (
        None if each is None else path(each) for each in (places.rows, places.late, places.rejected)
    )
    return rows, late, rejected


def closing(delivery: Delivery) -> Callable[[BaseException | None], None]:
    """What to do when nothing follows: files are put into place unless something went wrong."""

    def close(error: BaseException | None) -> None:
        kind: Any = type(error) if error else None
        delivery.__exit__(kind, error, None)

    return close
