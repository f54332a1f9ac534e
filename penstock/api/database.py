"""Functions that users write in Python, as a database knows them."""

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


# The Python interface: a database of streams and queries.


class Database:
    """Streams, tables and queries by name.  File names in SQL are relative to `base`."""

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
        """Run several queries in one pass: every stream is read once for all of them.  The sinks
        are those of `Query.run`, one for each query; so are the other options."""
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
        """An engine on which queries are created and dropped while others run.  `overload` is what
        happens to rows of sockets and asynchronous iterables that come too fast: "block" lets them
        wait; with "drop-oldest", or "drop-oldest 10000", so many rows may wait, and those that have
        waited longest are dropped and counted.  With a directory for a `checkpoint`, the queries
        that CREATE QUERY has started are there again when the next engine is made on it, and go on
        where they were.  With a time as `trigger`, like "5 seconds", files are looked at again that
        often; otherwise a query reads what is there.  So many `threads` work on queries that have
        no stream in common."""
        check_whole("threads", threads, 1)
        options = run_options(checkpoint, trigger, False)
        return Live(self, overload, options.checkpoint, options.every, threads)

    def beside(self) -> Database:
        """One with the same streams and setting, and no queries yet."""
        other = copy(self)
        other.catalog = self.catalog.beside()
        return other

    @property
    def setting(self) -> Setting:
        return self._setting

    def sql(self, text: str, **parameters: Any) -> Query | Explanation | None:
        """Carry out a script; the result is that of its last statement.  `:name` in the text stands
        for the value of that parameter, which is bound and never becomes text."""
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
        """Carry out a script statement by statement."""
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
        """Name a stream of Arrow, pandas or Polars data, of an iterable of rows or batches, of an
        asynchronous iterable of rows, or of a Spark DataFrame.  An iterator is read once and not
        remembered; a function that makes one is called for every reading.  If it gives the same
        rows whenever it is called, it is `replayable`, and readings may overlap; if it takes them
        from a queue or the like, it is not (False), and it is called once for all queries.  Unless
        that is said, a reading that would overlap with another one is refused.  The schema is taken
        from the data where it can be; `epoch` says of columns of numbers what they count since 1970
        ("seconds", "milliseconds", "microseconds", "nanoseconds").  Without data it is the view of
        that name that the Spark session has."""
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
        """Name a table, which streams are looked up in without a window: Arrow, pandas or Polars
        data, rows, a function that makes some, or a Spark DataFrame that is not streaming.  Every
        run reads it anew, all of it before the first tuple of a stream.  `epoch` is that of
        `stream`."""
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
        """Register an aggregate written in Python: `init`, `accumulate(state, *columns)`, `merge`,
        `finish`, and if it can `subtract`, and `save` and `load`."""
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
        """Register a scalar function written in Python.  It gets Arrow columns and gives one of the
        same length, or, `by_row`, it gets the values of a row and gives one value; what it gives
        for a row must follow from that row alone.  `args` are the types that it takes, without
        them any.  NULL in, NULL out; with `nulls` it is asked about NULLs, too."""
        self.catalog.add_function(function_of(name, function, returns, args, by_row, nulls))

    def query(self, name: str) -> Query:
        """A query that CREATE QUERY has named."""
        check_name("a query", name)
        found = self.catalog.relation(name)
        if isinstance(found, StreamDefinition):
            raise BindError(f"{name!r} is a {found.word}", hint=f"db.sql('SELECT * FROM {name}')")
        return Query(found, "", self._setting, name)

    @property
    def streams(self) -> list[str]:
        return [each.name for each in self.catalog.streams.values() if not each.is_table]

    @property
    def tables(self) -> list[str]:
        return [each.name for each in self.catalog.streams.values() if each.is_table]

    @property
    def queries(self) -> list[str]:
        return [name for name, _ in self.catalog.queries.values()]

    @property
    def views(self) -> list[str]:
        return [name for name, _ in self.catalog.views.values()]

    def execute(self, statement: Statement, text: str) -> Query | Explanation | None:
        """Carry out one statement of a script."""
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
    """A new, empty database whose queries run on `engine`: "spark", "local" (if nothing is said),
    "reference", or a Spark session that is there.  Views, tables and functions of that session can
    be named in SQL; `spark` is a session whose names another engine is to know.  `master` and
    `conf` are for a session that is not there; `buckets` is into how many parts Spark splits the
    state of a query when it first starts; a table that has about `broadcast_rows` rows or less is
    at hand in all tasks there, a larger one is split into those parts by the keys that tuples are
    looked up by.  `state_budget` is how many bytes the state of a window aggregation should not
    exceed in process, if another algorithm needs less.  `allow` are the files, directories and
    hosts (`socket://host:port`) that SQL may read, for those who hand SQL to others, and then it
    cannot name what Spark has; without it, everything.  `alpha` is from which load on an adaptive
    join joins tuples before their turn (see docs/sql.md).

    How the local engine works, which changes no answer: by which `strategy` the next operator is
    chosen ("dfs", "bfs", "rr"; "dfs 100" if it may take up to 100 tuples in one step; "chain 1000"
    if those come first that make rows fewer fastest when more than 1,000 wait), when sources that
    have nothing to say are asked how far they have come (`ets`: "on demand", "none", or a time like
    "10 milliseconds"), and whether progress goes along `carriage` "arcs" of its own or as
    "punctuations" through all operators.  Plans are changed while they run, on Spark, too, when
    others have become 1.25 times as fast, or so many times as `adapt` says; never with
    `adapt=False`."""
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
    """An engine has a name, or is a Spark session."""
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
    """One query over data that is there: `{name}` in the text stands for the stream of that name,
    and `:name` for a single value, which is bound and never becomes text.
    `progress` is said of streams by their names, or of the only one as it is.

    >>> sql("SELECT n + 1 AS m FROM {numbers}", numbers=[{"n": 1}]).collect().to_pylist()
    [{'m': 2}]
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
