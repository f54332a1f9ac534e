"""Penstock: continuous window queries in SQL, right while tuples come late, out of order or not at
all.

>>> import penstock as ps
>>> db = ps.connect()
>>> db.stream("s", [{"k": "a", "t": 3}, {"k": "a", "t": 1}], progress=ps.progress("t", delay=5))
>>> query = db.sql("SELECT k, count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k")
>>> query.collect().to_pylist()
[{'window_start': 0, 'window_end': 10, 'k': 'a', 'n': 2}]
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.api.database import Database, connect, sql
    from penstock.api.display import Explanation
    from penstock.api.live import Live, LiveQuery
    from penstock.api.query import Query
    from penstock.api.streams import progress
    from penstock.errors import (
        BindError,
        CheckpointError,
        EngineError,
        ParseError,
        PenstockError,
        PlanError,
        RunError,
        SinkError,
        SourceError,
    )
    from penstock.model.clock import ManualClock, SystemClock
    from penstock.runs.answer import Account

__version__ = "0.2.0"
__all__ = [
    "Account",
    "BindError",
    "CheckpointError",
    "Database",
    "EngineError",
    "Explanation",
    "Live",
    "LiveQuery",
    "ManualClock",
    "ParseError",
    "PenstockError",
    "PlanError",
    "Query",
    "RunError",
    "SinkError",
    "SourceError",
    "SystemClock",
    "connect",
    "progress",
    "sql",
]

# Imported at first use: Spark's workers need operators, but no SQL parser.
_HOMES = {
    "penstock.runs.answer": ("Account",),
    "penstock.api.database": ("Database", "connect"),
    "penstock.api.display": ("Explanation",),
    "penstock.api.live": ("Live", "LiveQuery"),
    "penstock.model.clock": ("ManualClock", "SystemClock"),
    "penstock.api.streams": ("progress",),
    "penstock.api.query": ("Query",),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), "penstock.errors")
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    """List the public names; names in double underscores belong to Python."""
    own = [name for name in globals() if name.startswith("__") and name.endswith("__")]
    return sorted({*own, *__all__})


class _PenstockPackage(ModuleType):
    """This package, in which `sql` is the function, although a sub-package has the same name.

    The import system would bind the sub-package to the name when it is first imported.
    """

    @property
    def sql(self) -> Any:
        return import_module("penstock.api.database").sql

    @sql.setter
    def sql(self, module: ModuleType) -> None:
        """Leave the name to the function."""


sys.modules[__name__].__class__ = _PenstockPackage
