"""The Python interface: a database of streams and queries, and query objects that can be run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

import pyarrow as pa

from penstock.answer import Account, Answer
from penstock.engine import local
from penstock.errors import BindError, EngineError, nearest
from penstock.functions.aggregates import AggregateFunction, PythonAggregate
from penstock.functions.signature import Family, Signature
from penstock.language.binding.literals import sql_type
from penstock.language.binding.select import bind_query
from penstock.language.binding.streams import bind_progress, bind_stream
from penstock.language.parse import parse_columns, parse_script, pointing_into
from penstock.language.syntax import CreateQuery, CreateStream, Drop, Explain, Statement
from penstock.model.clock import Clock, SystemClock
from penstock.model.schema import Field, Schema
from penstock.model.types import TIMESTAMP, Kind, Type, from_arrow
from penstock.plan import query as plan
from penstock.plan.catalog import Catalog
from penstock.plan.explain import explain
from penstock.plan.streams import StreamDefinition
from penstock.progress import Progress
from penstock.reference import engine as reference
from penstock.sinks.cells import column_texts
from penstock.sources.memory import memory_source

ENGINES = ("reference", "local", "spark")
_ENGINES: dict[str, Callable[[plan.Query, Clock, bool], Answer]] = {
    "reference": reference.answer,
    "local": local.answer,
}
SchemaLike: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]] | pa.Schema | str


class Query:
    """A query that can be explained and run.  It runs once; ask the database again to run anew."""

    def __init__(self, plan_: plan.Query, text: str, database: Database) -> None:
        self.plan = plan_
        self._text = text
        self._database = database

    def explain(self) -> str:
        return explain(self.plan)

    @property
    def schema(self) -> pa.Schema:
        return self.plan.schema.arrow

    def collect(self) -> pa.Table:
        """All rows of the answer."""
        return self._answer.table

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows as dictionaries.  A time that `datetime` cannot hold is an ISO 8601 text."""
        for batch in self.collect().to_batches():
            columns = [_values(column) for column in batch.columns]
            for row in zip(*columns, strict=True):
                yield dict(zip(batch.schema.names, row, strict=True))

    @property
    def late(self) -> pa.Table:
        """The tuples that missed windows, with the bound they broke and the windows they missed."""
        return self._answer.late

    @property
    def rejected(self) -> pa.Table:
        """The rows that could not be read, had no progress value or came from the future."""
        return self._answer.rejects.table()

    @property
    def account(self) -> Account:
        return self._answer.account

    @cached_property
    def _answer(self) -> Answer:
        database = self._database
        if database.engine not in _ENGINES:
            raise EngineError(
                f"the {database.engine} engine has not landed yet: use the reference engine"
            )
        with pointing_into(self._text):
            return _ENGINES[database.engine](self.plan, database.clock, database.strict)

    def __repr__(self) -> str:
        return f"<penstock.Query {', '.join(map(str, self.plan.schema))}>"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What EXPLAIN answers."""

    text: str

    def __str__(self) -> str:
        return self.text

    def table(self) -> pa.Table:
        return pa.table({"plan": self.text.splitlines()})


class Database:
    """Streams and queries by name.  File names in SQL are relative to `base`."""

    def __init__(
        self,
        engine: str = "reference",
        *,
        clock: Clock | None = None,
        strict: bool = False,
        base: Path | None = None,
    ) -> None:
        if engine not in ENGINES:
            close = nearest(engine, ENGINES)
            raise EngineError(
                f"there is no engine called {engine!r}",
                expected=f"one of {', '.join(ENGINES)}",
                hint=close[0] if close else None,
            )
        self.engine = engine
        self.clock = clock or SystemClock()
        self.strict = strict
        self.base = base
        self.catalog = Catalog()

    def sql(self, text: str) -> Query | Explanation | None:
        """Carry out a script; the result is that of its last statement."""
        *_, last = [None, *self.script(text)]
        return last

    def script(self, text: str) -> Iterator[Query | Explanation | None]:
        """Carry out a script statement by statement."""
        for statement in parse_script(text):
            with pointing_into(text):
                result = self._execute(statement, text)
            yield result

    def stream(
        self,
        name: str,
        source: object,
        *,
        schema: SchemaLike | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Name a stream of Arrow, pandas or Polars data, or of an iterable of rows or batches.
        The schema is taken from the data where it can be."""
        given = _schema(schema) if schema is not None else None
        stamp = Field(progress.attribute, TIMESTAMP) if _is_stamped(progress) else None
        if given is None or stamp is None:
            data, found = memory_source(source, given)
            columns = found if stamp is None else Schema((*found.fields, stamp))
        else:
            left_out = stamp.name.casefold()
            read = Schema(tuple(field for field in given if field.name.casefold() != left_out))
            data, _ = memory_source(source, read)
            columns = given if read != given else Schema((*given.fields, stamp))
        bound = bind_progress(progress.clause, columns, self.catalog) if progress else None
        self.catalog.add_stream(StreamDefinition(name, columns, bound, data))

    def aggregate(
        self,
        name: str,
        implementation: PythonAggregate,
        *,
        returns: str,
        arguments: Sequence[str] = ("DOUBLE",),
    ) -> None:
        """Register an aggregate written in Python: `init`, `accumulate(state, *columns)`, `merge`,
        `finish`, and `subtract` if it can."""
        if isinstance(implementation, type) or not isinstance(implementation, PythonAggregate):
            raise BindError(
                f"{implementation!r} is not an aggregate",
                expected="an object with the methods init, accumulate, merge and finish",
            )
        families = tuple(_family(_type(text)) for text in arguments)
        result = _type(returns)
        self.catalog.add_aggregate(
            AggregateFunction(
                name.lower(),
                Signature(families),
                lambda _: result,
                "registered",
                implementation=implementation,
            )
        )

    def query(self, name: str) -> Query:
        """A query that CREATE QUERY has named."""
        found = self.catalog.relation(name)
        if isinstance(found, StreamDefinition):
            raise BindError(f"{name!r} is a stream", hint=f"db.sql('SELECT * FROM {name}')")
        return Query(found, "", self)

    @property
    def streams(self) -> list[str]:
        return [stream.name for stream in self.catalog.streams.values()]

    @property
    def queries(self) -> list[str]:
        return [name for name, _ in self.catalog.queries.values()]

    def _execute(self, statement: Statement, text: str) -> Query | Explanation | None:
        match statement:
            case CreateStream():
                stream = bind_stream(statement, self.catalog, self.base)
                self.catalog.add_stream(stream, statement.name.span)
            case CreateQuery():
                bound = bind_query(statement.query, self.catalog)
                self.catalog.add_query(statement.name.text, bound, statement.name.span)
            case Drop(kind, name, if_exists):
                known = self.streams if kind == "STREAM" else self.queries
                if if_exists and name.text.casefold() not in map(str.casefold, known):
                    return None
                drop = self.catalog.drop_stream if kind == "STREAM" else self.catalog.drop_query
                drop(name.text, name.span)
            case Explain():
                return Explanation(explain(bind_query(statement.query, self.catalog)))
            case _:
                return Query(bind_query(statement, self.catalog), text, self)
        return None

    def __repr__(self) -> str:
        return f"<penstock.Database engine={self.engine!r} streams={self.streams}>"


def connect(
    engine: str = "reference",
    *,
    clock: Clock | None = None,
    strict: bool = False,
    base: str | Path | None = None,
) -> Database:
    """A new, empty database whose queries run on `engine`."""
    return Database(engine, clock=clock, strict=strict, base=Path(base) if base else None)


def _values(column: pa.Array) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except OverflowError:
        values = list(column_texts(column))
    return values


def _is_stamped(progress: Progress | None) -> TypeGuard[Progress]:
    """Whether the progressing attribute is stamped rather than read."""
    return progress is not None and progress.clause.timestamps != "EXTERNAL"


def _schema(given: SchemaLike) -> Schema:
    """`"a INT, ts TIMESTAMP"`, `{"a": "INT"}`, pairs, or an Arrow schema."""
    if isinstance(given, pa.Schema):
        fields = [Field(field.name, _from_arrow(field)) for field in given]
    elif isinstance(given, str):
        with pointing_into(given):
            fields = [Field(c.name.text, sql_type(c.type, c.span)) for c in parse_columns(given)]
    else:
        pairs = given.items() if isinstance(given, Mapping) else given
        fields = [Field(name, _type(text)) for name, text in pairs]
    names = [field.name.casefold() for field in fields]
    if not names or len(set(names)) < len(names):
        raise BindError("a schema has columns with different names", expected="a INT, b STRING")
    return Schema(tuple(fields))


def _from_arrow(field: pa.Field) -> Type:
    found = from_arrow(field.type)
    if found is None or found.kind is Kind.INTERVAL:
        raise BindError(f"column {field.name!r} has the Arrow type {field.type}", hint="cast it")
    return found


def _type(text: str) -> Type:
    sql = f"x {text}"
    with pointing_into(sql):
        columns = parse_columns(sql)
        if len(columns) != 1:
            raise BindError(f"{text!r} is not one type", hint="INT")
        return sql_type(columns[0].type, columns[0].span)


def _family(sql_type_: Type) -> Family:
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
