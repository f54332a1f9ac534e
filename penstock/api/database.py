"""The database of the Python interface: streams, tables, queries and functions by name; `connect`
and `sql`, which make one."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.api.arguments import (
    check_flags,
    check_name,
    check_number,
    check_paths,
    check_text,
    check_texts,
    check_texts_by_name,
    check_whole,
    path_of,
)
from penstock.api.display import Explanation
from penstock.api.execution import ENGINES, Setting
from penstock.api.live import Live
from penstock.api.query import Query, run_options, run_together
from penstock.api.spark_execution import SparkSetting
from penstock.api.statements import execute, refuse_lost
from penstock.api.streams import (
    ProgressOptions,
    SchemaLike,
    by_stream,
    checked,
    complete,
    is_spark,
    is_stamped,
    schema_of,
    source_of,
    type_of,
)
from penstock.errors import BindError, EngineError, SinkError, described, nearest, shortened
from penstock.functions.aggregate_functions import AggregateFunction, PythonAggregate
from penstock.functions.signatures import Family, Signature
from penstock.functions.user_functions import UserFunction
from penstock.io.access import Allowed
from penstock.io.sources.source import LiveSource
from penstock.kernel.joins.ordered_joins import ALPHA
from penstock.local.graph_options import Scheduling
from penstock.model.clock import Clock, SystemClock
from penstock.model.types import TIMESTAMP, Field, Kind, Schema, Type
from penstock.optimizer.rewrite import BROADCAST_ROWS, STATE_BUDGET
from penstock.plan.catalog import Catalog
from penstock.plan.streams import StreamDefinition
from penstock.runs.answer import Account
from penstock.runs.delivery import SinkLike
from penstock.runs.run_options import AVAILABLE_NOW, Adaptation
from penstock.spark.session.catalog import SessionNames
from penstock.spark.session.session import BUCKETS
from penstock.spark.sources.dataframe import DataFrameSource
from penstock.sql.binder.definitions import with_progress
from penstock.sql.binder.peer_functions import COMPOSED
from penstock.sql.parser.statements import parse_script, pointing_into
from penstock.sql.parser.tokens import is_scalar
from penstock.sql.syntax import Statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def aggregate_of(
    name: str, implementation: PythonAggregate, returns: str, arguments: Sequence[str]
) -> AggregateFunction:
    if not isinstance(name, str) or not name.isidentifier():
        raise BindError(f"{name!r} is not the name of a function", hint="letters and digits")
    check_texts("arguments", arguments, '["DOUBLE"]')
    if isinstance(implementation, type) or not isinstance(implementation, PythonAggregate):
        raise BindError(
            f"{implementation!r} is not an aggregate",
            expected="an object with the methods init, accumulate, merge and finish",
        )
    families = tuple(family_of(type_of(text)) for text in arguments)
    result = type_of(returns)
    return AggregateFunction(
        name.lower(),
        Signature(families),
        lambda _: result,
        "registered",
        implementation=implementation,
    )


def function_of(
    name: str,
    function: Callable[..., Any],
    returns: str,
    args: Sequence[str] | None,
    by_row: bool,
    nulls: bool,
) -> UserFunction:
    if not callable(function):
        raise BindError(f"{function!r} is not a function")
    if not isinstance(name, str) or not name.isidentifier():
        raise BindError(f"{name!r} is not the name of a function", hint="letters and digits")
    if name.lower() in COMPOSED:
        raise BindError(f"{name} is a built-in function", hint="another name")
    if isinstance(args, str):
        raise BindError(f"{args!r} is one type", expected="a list of types", hint=f"[{args!r}]")
    if args is not None:
        check_texts("args", args, '["INT"]')
    check_flags(by_row=by_row, nulls=nulls)
    types = None if args is None else tuple(map(type_of, args))
    return UserFunction(name.lower(), function, type_of(returns), types, by_row, nulls)


def family_of(sql_type_: Type) -> Family:
    families = {
        Kind.DOUBLE: Family.DOUBLE,
        Kind.INT: Family.INTEGER,
        Kind.BIGINT: Family.INTEGER,
        Kind.STRING: Family.STRING,
        Kind.BOOLEAN: Family.BOOLEAN,
        Kind.TIMESTAMP: Family.TIMESTAMP,
        Kind.DECIMAL: Family.NUMBER,
    }
    return families.get(sql_type_.kind, Family.ANY)


# The database.


class Database:
    """Streams, tables, functions and queries by name, on one engine; `penstock.connect` makes one.

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> rows = [{"k": "a", "t": 3}, {"k": "b", "t": 12}]
    >>> db.stream("s", rows, progress=ps.progress("t", delay=5))
    >>> db
    <penstock.Database engine='local' streams=['s']>
    >>> db.sql("SELECT k FROM s WHERE t > 5").collect().to_pylist()
    [{'k': 'b'}]
    """

    def __init__(
        self,
        engine: str = "local",
        *,
        clock: Clock | None = None,
        strict: bool = False,
        base: Path | None = None,
        state_budget: int = STATE_BUDGET,
        spark: SparkSetting | None = None,
        allow: Sequence[str | Path] | None = None,
        alpha: float = ALPHA,
        scheduling: Scheduling | None = None,
    ) -> None:
        if engine not in ENGINES:
            close = nearest(engine, ENGINES)
            raise EngineError(
                f"there is no engine called {engine!r}",
                expected=f"one of {', '.join(ENGINES)}",
                hint=close[0] if close else None,
            )
        if engine == "spark" and spark is None:
            spark = SparkSetting()
        if scheduling is not None and engine != "local":
            raise EngineError(
                f"the {engine} engine has no scheduler of ours",
                expected="strategy, ets and carriage together with the local engine",
            )
        self._setting = Setting(
            engine,
            clock or SystemClock(),
            strict,
            state_budget,
            spark,
            alpha,
            scheduling or Scheduling(),
        )
        self.base = base
        self.allowed = None if allow is None else Allowed.of(allow, base or Path.cwd())
        knows = spark is not None and (engine == "spark" or spark.given is not None)
        self._session = SessionNames(spark.present) if knows and spark is not None else None
        self.catalog = Catalog(around=self._session if allow is None else None)

    @property
    def engine(self) -> str:
        """Name of the engine: "local", "spark" or "reference"."""
        return self._setting.engine

    def run(
        self,
        queries: Sequence[Query],
        sinks: Sequence[SinkLike],
        *,
        late: Sequence[SinkLike | None] | None = None,
        rejected: Sequence[SinkLike | None] | None = None,
        rows: bool = False,
        checkpoint: str | Path | None = None,
        trigger: str = AVAILABLE_NOW,
        final: bool = False,
    ) -> list[Account]:
        """Run several queries of this database in one pass: every stream is read once for all of
        them.

        Args:
            queries: Queries of this database.
            sinks: A sink for each query, as in `Query.run`.
            late: Sinks for the late tuples of each query, or None.
            rejected: Sinks for the rejected rows of each query, or None.
            rows: Call functions with every row, as a dictionary, instead of every batch.
            checkpoint: A directory from which a later run continues, as in `Query.run`.
            trigger: "available-now", or a time for a run that does not end, as in `Query.run`.
            final: Close all windows that the checkpoint keeps open, as in `Query.run`.

        Returns:
            An account of the tuples of each query.

        >>> import penstock as ps
        >>> db, few, many = ps.connect(), [], []
        >>> db.stream("s", [{"n": 1}, {"n": 5}])
        >>> queries = [db.sql("SELECT n FROM s WHERE n < 3"), db.sql("SELECT n FROM s WHERE n > 3")]
        >>> db.run(queries, [few.append, many.append], rows=True)
        [Account(read=2, late=0, rejected=0), Account(read=2, late=0, rejected=0)]
        >>> few, many
        ([{'n': 1}], [{'n': 5}])
        """
        self._check_together(queries, sinks, late, rejected)
        nowhere: list[SinkLike | None] = [None] * len(queries)
        sides = [sinks, *(nowhere if side is None else side for side in (late, rejected))]
        if any(len(side) != len(queries) for side in sides):
            raise SinkError(f"there are {len(queries)} queries", expected="a sink for each of them")
        given, late_sinks, rejected_sinks = map(list, sides)
        options = run_options(checkpoint, trigger, final)
        return run_together(
            list(queries), given, late_sinks, rejected_sinks, rows=rows, options=options
        )

    def _check_together(self, queries: object, *sides: object) -> None:
        if not isinstance(queries, Sequence):
            raise BindError(f"queries is {described(queries)}", expected="a list of queries")
        for each in queries:
            if not isinstance(each, Query):
                raise BindError(f"{described(each)} is no query", expected="what db.sql(…) gives")
            if each.setting is not self._setting:
                raise BindError("a query is of another database", expected="queries of this one")
        for name, sinks in zip(("sinks", "late", "rejected"), sides, strict=True):
            several = isinstance(sinks, Sequence) and not isinstance(sinks, str)
            if not several and (sinks is not None or name == "sinks"):
                raise SinkError(f"{name} is {described(sinks)}", expected="a list of sinks")

    def live(
        self,
        *,
        overload: str = "block",
        checkpoint: str | Path | None = None,
        trigger: str = AVAILABLE_NOW,
        threads: int = 1,
    ) -> Live:
        """Start a live engine, on which queries are created, altered and dropped while others run.

        Args:
            overload: What happens to rows of sockets and asynchronous iterables that come too fast.
                "block" lets them wait; with "drop-oldest" or "drop-oldest 10000", so many rows may
                wait, and the oldest ones are dropped and counted.
            checkpoint: A directory.  The queries that CREATE QUERY has started are restored when
                the next engine is made on it, and continue where they were.
            trigger: "available-now": queries read the files that exist; a time like "5 seconds":
                they check that often for new ones.
            threads: Threads for queries that have no stream in common.

        Returns:
            The engine, a context manager that stops it at the end of the block.

        >>> import penstock as ps
        >>> db = ps.connect()
        >>> db.stream("s", [{"n": 1}, {"n": 5}])
        >>> with db.live() as live:
        ...     large = live.sql("SELECT n FROM s WHERE n > 3")
        ...     large.wait(), list(large)
        (True, [{'n': 5}])
        """
        check_whole("threads", threads, 1)
        options = run_options(checkpoint, trigger, False)
        return Live(self, overload, options.checkpoint, options.every, threads)

    def beside(self) -> Database:
        """Return another database with the same streams and settings, and without queries.

        Queries of one are not known to the other; streams that are declared later are not shared.
        """
        other = copy(self)
        other.catalog = self.catalog.beside()
        return other

    @property
    def setting(self) -> Setting:
        """The engine and its options, which all queries of this database share."""
        return self._setting

    def sql(self, text: str, **parameters: Any) -> Query | Explanation | None:
        """Execute a script, and return the result of its last statement.

        Args:
            text: Statements, separated by semicolons.
            **parameters: Values for `:name` in the text, which are bound and never become text.

        Returns:
            A query for a SELECT, which has not run yet; an explanation for EXPLAIN, SHOW and
            DESCRIBE; None for other statements.

        >>> import penstock as ps
        >>> db = ps.connect()
        >>> db.sql("CREATE STREAM s (n INT) FROM VALUES (1), (2)")
        >>> db.sql("SELECT n FROM s WHERE n > :low", low=1)
        <penstock.Query n INT>
        """
        check_text("what sql takes", text)
        statements = parse_script(text, parameters)
        with pointing_into(text):
            refuse_lost(statements)
        last = None
        for statement in statements:
            with pointing_into(text):
                last = self.execute(statement, text)
        return last

    def script(self, text: str, **parameters: Any) -> Iterator[Query | Explanation | None]:
        """Execute a script statement by statement, and yield the result of each.

        Args:
            text: Statements, separated by semicolons.
            **parameters: Values for `:name` in the text, which are bound and never become text.

        >>> import penstock as ps
        >>> db = ps.connect()
        >>> list(db.script("CREATE STREAM s (n INT) FROM VALUES (1); SELECT n FROM s"))
        [None, <penstock.Query n INT>]
        """
        check_text("what script takes", text)
        for statement in parse_script(text, parameters):
            with pointing_into(text):
                result = self.execute(statement, text)
            yield result

    def stream(
        self,
        name: str,
        source: object = None,
        *,
        schema: SchemaLike | None = None,
        progress: ProgressOptions | None = None,
        epoch: Mapping[str, str] | None = None,
        replayable: bool | None = None,
    ) -> None:
        """Name a stream of data of the program.

        Args:
            name: The name in SQL.
            source: Arrow, pandas or Polars data; an iterable of rows (dicts, tuples or lists) or of
                record batches; an asynchronous iterable of rows; a function that makes an iterable
                for every reading; or a Spark DataFrame.  An iterator is read once, and its rows are
                not kept.  None: the view of that name in the Spark session.
            schema: Columns and types, as "n INT, ts TIMESTAMP", a dict, pairs, or an Arrow schema;
                None: as in the data.
            progress: How the stream progresses, made by `penstock.progress`; None: windows do not
                close before the stream ends.
            epoch: What the numbers of columns count since 1970, by column: "seconds",
                "milliseconds", "microseconds" or "nanoseconds"; "days" of a DATE.
            replayable: Whether a function gives the same rows whenever it is called.  True:
                readings may overlap.  False: it takes them from a queue or the like, and is called
                once for all queries.  None: a reading that would overlap with another one is
                refused.

        >>> import penstock as ps
        >>> db = ps.connect()
        >>> rows = [{"k": "a", "at": 1_700_000_000}]
        >>> progress = ps.progress("at", delay="5 seconds")
        >>> db.stream("s", rows, epoch={"at": "seconds"}, progress=progress)
        >>> db.sql("SELECT k, at FROM s")
        <penstock.Query k STRING, at TIMESTAMP>
        """
        check_name("a stream", name)
        checked(progress)
        if source is None:
            source = self._view(name)
        given = schema_of(schema) if schema is not None else None
        stamp = Field(progress.attribute, TIMESTAMP) if is_stamped(progress) else None
        if given is None or stamp is None:
            data, found = source_of(source, given, epoch, replayable)
            columns = found if stamp is None else Schema((*found.fields, stamp))
        else:
            left_out = stamp.name.casefold()
            read = Schema(tuple(field for field in given if field.name.casefold() != left_out))
            data, found = source_of(source, read, epoch, replayable)
            types = {field.name: field for field in found}
            own = Schema(tuple(types.get(field.name, field) for field in given))
            columns = own if read != given else Schema((*own.fields, stamp))
        plain, bound = StreamDefinition.of(name, columns).schema, None
        if progress is not None:
            plain, bound = with_progress(progress.clause, plain, self.catalog)
            columns = Schema((*columns.fields, *plain.fields[len(columns.fields) :]))
        if bound is None and isinstance(data, DataFrameSource):
            bound = data.promised(plain)
        self.catalog.add_stream(StreamDefinition.of(name, columns, progress=bound, source=data))

    def _view(self, name: str) -> DataFrame:
        frame = None if self._session is None else self._session.frame(name)
        if frame is None:
            known = [] if self._session is None else self._session.relations()
            close = nearest(name, known)
            raise BindError(
                f"there is no data for the stream {shortened(name, 80)!r}, and no view of a Spark"
                " session that is called so",
                expected=f"one of {', '.join(sorted(known))}" if known else None,
                hint=close[0] if close else "connect(session) if Spark has it",
            )
        return frame

    def table(
        self,
        name: str,
        data: object,
        *,
        schema: SchemaLike | None = None,
        epoch: Mapping[str, str] | None = None,
    ) -> None:
        """Name a table, which streams are looked up in without a window.

        Every run reads all of it before the first tuple of a stream.

        Args:
            name: The name in SQL.
            data: Arrow, pandas or Polars data, rows, a function that makes them, or a Spark
                DataFrame that is not streaming.
            schema: Columns and types, as in `stream`.
            epoch: What the numbers of columns count since 1970, as in `stream`.

        >>> import penstock as ps
        >>> db = ps.connect()
        >>> db.stream("s", [{"k": "a", "n": 3}])
        >>> db.table("names", [{"k": "a", "name": "Ann"}])
        >>> db.sql("SELECT m.name, s.n FROM s, names AS m WHERE s.k = m.k").collect().to_pylist()
        [{'name': 'Ann', 'n': 3}]
        """
        check_name("a table", name)
        given = schema_of(schema) if schema is not None else None
        # every run reads all of it at once, for itself
        replayable = None if is_spark(data) or isinstance(data, AsyncIterable) else True
        source, columns = source_of(complete(data), given, epoch, replayable)
        if isinstance(source, LiveSource):
            raise BindError(
                "a table is complete, and asynchronous rows may go on", hint="db.stream"
            )
        self.catalog.add_stream(StreamDefinition.of(name, columns, source=source, is_table=True))

    def aggregate(
        self,
        name: str,
        implementation: PythonAggregate,
        *,
        returns: str,
        arguments: Sequence[str] = ("DOUBLE",),
    ) -> None:
        """Register an aggregate that is written in Python.

        Args:
            name: The name in SQL.
            implementation: An object with the methods `init()`, `accumulate(state, *columns)`,
                which gets Arrow columns, `merge(state, other)` and `finish(state)`; and optionally
                `subtract(state, other)`, and `save(state)` and `load(data)` for checkpoints.
            returns: The type of the result.
            arguments: The types of the arguments.

        >>> import penstock as ps
        >>> class Longest:
        ...     def init(self):
        ...         return ""
        ...     def accumulate(self, state, column):
        ...         return max([state, *filter(None, column.to_pylist())], key=len)
        ...     def merge(self, state, other):
        ...         return max(state, other, key=len)
        ...     def finish(self, state):
        ...         return state
        >>> db = ps.connect()
        >>> db.aggregate("longest", Longest(), returns="STRING", arguments=["STRING"])
        >>> rows = [{"k": "ab", "t": 1}, {"k": "abc", "t": 2}]
        >>> db.stream("s", rows, progress=ps.progress("t", delay=5))
        >>> query = db.sql("SELECT longest(k) AS l [RANGE 10, SLIDE 10, WA t] FROM s")
        >>> query.collect().to_pylist()
        [{'window_start': 0, 'window_end': 10, 'l': 'abc'}]
        """
        self.catalog.add_aggregate(aggregate_of(name, implementation, returns, arguments))

    def function(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        returns: str,
        args: Sequence[str] | None = None,
        by_row: bool = False,
        nulls: bool = False,
    ) -> None:
        """Register a scalar function that is written in Python.

        Args:
            name: The name in SQL.
            function: A function of Arrow columns that returns a column of the same length;
                `by_row`, a function of the values of one row.  The result for a row must depend on
                that row only.
            returns: The type of the result.
            args: The types of the arguments; None: any.
            by_row: Call the function for every row.
            nulls: Pass NULLs to the function, too; otherwise, the result for a NULL is NULL.

        >>> import penstock as ps
        >>> db = ps.connect()
        >>> db.function("twice", lambda n: 2 * n, returns="BIGINT", args=["BIGINT"], by_row=True)
        >>> db.stream("s", [{"n": 3}])
        >>> db.sql("SELECT twice(n) AS m FROM s").collect().to_pylist()
        [{'m': 6}]
        """
        self.catalog.add_function(function_of(name, function, returns, args, by_row, nulls))

    def query(self, name: str) -> Query:
        """Return a query or view by its name.

        Args:
            name: The name that CREATE QUERY or CREATE VIEW has given it.

        >>> import penstock as ps
        >>> db = ps.connect()
        >>> db.sql("CREATE STREAM s (n INT) FROM VALUES (1); CREATE QUERY q AS SELECT n FROM s")
        >>> db.query("q").collect().to_pylist()
        [{'n': 1}]
        """
        check_name("a query", name)
        found = self.catalog.relation(name)
        if isinstance(found, StreamDefinition):
            raise BindError(f"{name!r} is a {found.word}", hint=f"db.sql('SELECT * FROM {name}')")
        return Query(found, "", self._setting, name)

    @property
    def streams(self) -> list[str]:
        """Names of the streams."""
        return [each.name for each in self.catalog.streams.values() if not each.is_table]

    @property
    def tables(self) -> list[str]:
        """Names of the tables."""
        return [each.name for each in self.catalog.streams.values() if each.is_table]

    @property
    def queries(self) -> list[str]:
        """Names of the queries that CREATE QUERY has made."""
        return [name for name, _ in self.catalog.queries.values()]

    @property
    def views(self) -> list[str]:
        """Names of the views."""
        return [name for name, _ in self.catalog.views.values()]

    def execute(self, statement: Statement, text: str) -> Query | Explanation | None:
        """Execute one statement of a script.

        Args:
            statement: A statement of the syntax tree.
            text: The script that it stands in.
        """
        return execute(self, statement, text)

    def __repr__(self) -> str:
        return f"<penstock.Database engine={self.engine!r} streams={self.streams}>"


def connect(
    engine: str | SparkSession | None = None,
    *,
    spark: SparkSession | None = None,
    clock: Clock | None = None,
    strict: bool = False,
    base: str | Path | None = None,
    state_budget: int = STATE_BUDGET,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    buckets: int = BUCKETS,
    broadcast_rows: int = BROADCAST_ROWS,
    allow: Sequence[str | Path] | None = None,
    alpha: float = ALPHA,
    strategy: str | None = None,
    ets: str | None = None,
    carriage: str | None = None,
    adapt: bool | float | None = None,
) -> Database:
    """Make an empty database, whose queries run on an engine.

    Args:
        engine: "local", the default: in this process; "spark"; "reference": straight from the
            definitions, for tests; or a Spark session, whose views, tables and functions SQL can
            name then.
        spark: A Spark session whose names SQL can use on another engine; without `engine`, the
            session that queries run on.
        clock: An object with a method `now`, in microseconds since 1970, for tests; None: the clock
            of the system.
        strict: Raise an error at the first bad row, instead of rejecting it.
        base: Directory that relative paths in SQL start at; None: the current one.
        state_budget: Bytes that the state of a window aggregation should not exceed in process, if
            another algorithm needs less.
        master: Master of the Spark session to be started.
        conf: Settings of the Spark session to be started.
        buckets: Number of parts into which Spark splits the state of a query when it first starts.
        broadcast_rows: Largest size in rows of a table that every task on Spark holds as a whole; a
            larger one is split into the buckets by the keys that it is looked up by.
        allow: Files, directories and hosts (`socket://host:port`) that SQL may read, for programs
            that run the SQL of others; SQL cannot name what Spark has then.  None: everything.
        alpha: Load from which on an adaptive join joins tuples before their turn.
        strategy: Strategy of the local scheduler: "dfs", "bfs" or "rr"; "dfs 100" lets an operator
            process up to 100 tuples in a step; "chain 1000" prefers the operators that reduce rows
            fastest while more than 1,000 wait.
        ets: When silent sources are asked for enabling timestamps (ETS): "on demand", the default,
            "none", or periodically: "10 milliseconds".
        carriage: Whether the local engine carries progress along "arcs" of its own, the default, or
            as "punctuations" through all operators.
        adapt: Factor by which another operator must be faster before a running plan changes (1.25
            by default); False: plans never change.

    `strategy`, `ets`, `carriage` and `adapt` change no answer.

    >>> import penstock as ps
    >>> ps.connect()
    <penstock.Database engine='local' streams=[]>
    >>> ps.connect(strategy="dfs 100", ets="10 milliseconds", adapt=False).engine
    'local'
    """
    _check_engine(engine, spark)
    _check_arguments(clock, strict, state_budget, alpha, adapt, allow)
    check_texts_by_name("conf", conf or {})
    check_whole("buckets", buckets, 1)
    check_whole("broadcast_rows", broadcast_rows, 0)
    texts = {"master": master, "strategy": strategy, "ets": ets, "carriage": carriage}
    for argument, value in texts.items():
        if value is not None:
            check_text(argument, value)
    given = spark if engine is None or isinstance(engine, str) else engine
    if engine is None:
        engine = "local" if spark is None else "spark"
    name = engine if isinstance(engine, str) else "spark"
    if name != "spark" and (master is not None or conf):
        raise EngineError(
            f"master and conf start a Spark session, and the {name} engine needs none",
            hint='connect("spark", master=…)',
        )
    scheduled = any(each is not None for each in (strategy, ets, carriage))
    scheduled = scheduled or (adapt is not None and name != "spark")
    adaptation = Adaptation() if adapt is None else Adaptation.of(adapt)
    return Database(
        name,
        clock=clock,
        strict=strict,
        base=path_of("base", base) if base is not None else None,
        state_budget=state_budget,
        spark=SparkSetting(given, master, conf or {}, buckets, broadcast_rows, alpha, adaptation),
        allow=allow,
        alpha=alpha,
        scheduling=Scheduling.of(strategy, ets, carriage, adapt) if scheduled else None,
    )


def _check_engine(engine: object, spark: object) -> None:
    """Check that an engine is a name or a Spark session."""
    for value in (engine, spark):
        if value is None or (value is engine and isinstance(value, str)) or is_spark(value):
            continue
        hint = None
        if isinstance(value, Database):
            hint = "db.beside(), for a database with the same streams"
        raise EngineError(
            f"{described(value)} is no engine",
            expected=f"one of {', '.join(ENGINES)}, or a Spark session",
            hint=hint,
        )


def _check_arguments(
    clock: object, strict: object, budget: object, alpha: object, adapt: object, allow: object
) -> None:
    if clock is not None and not callable(getattr(clock, "now", None)):
        raise BindError(
            f"clock is {described(clock)}", expected="an object with a method now", hint="None"
        )
    check_flags(strict=strict)
    check_whole("state_budget", budget, 0)
    check_number("alpha", alpha, 0)
    if adapt is not None and not isinstance(adapt, bool):
        check_number("adapt", adapt, 1)
    if allow is not None:
        check_paths("allow", allow)


def sql(
    text: str,
    *,
    progress: Mapping[str, ProgressOptions] | ProgressOptions | None = None,
    **streams: Any,
) -> Query:
    """Bind one query over data of the program.

    Args:
        text: A SELECT.  `{name}` stands for the stream of that name, `:name` for a value, which is
            bound and never becomes text.
        progress: How streams progress, by their names; or, if there is one stream, of that one.
        **streams: Data by name, as in `Database.stream`, and values of parameters.

    Returns:
        The query.  It runs on Spark if one of the streams is a Spark DataFrame, and in process
        otherwise.

    >>> sql("SELECT n + 1 AS m FROM {numbers}", numbers=[{"n": 1}]).collect().to_pylist()
    [{'m': 2}]
    >>> sql("SELECT n FROM {s} WHERE n > :low", s=[{"n": 1}, {"n": 2}], low=1).collect().to_pylist()
    [{'n': 2}]
    """
    check_text("what sql takes", text)
    values = {name: each for name, each in streams.items() if is_scalar(each)}
    streams = {name: each for name, each in streams.items() if name not in values}
    frames = [each for each in streams.values() if is_spark(each)]
    database = connect(frames[0].sparkSession) if frames else connect()
    promised = by_stream(progress, streams)
    for name, data in streams.items():
        if "{" + name + "}" not in text:
            raise BindError(
                f"the stream {name!r} does not occur in the text", hint=f"FROM {{{name}}}"
            )
        database.stream(name, data, progress=promised[name])
        text = text.replace("{" + name + "}", name)
    found = database.sql(text, **values)
    if not isinstance(found, Query):
        raise BindError("the text is not a query", expected="SELECT … FROM {name} …")
    return found
