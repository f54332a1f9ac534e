"""Streams of the Python interface: `penstock.progress(…)`, and sources, schemas and types from the
data that a program passes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TypeAlias, TypeGuard

import pyarrow as pa
from sqlglot import exp

from penstock.api.arguments import check_flags, check_name, check_text, check_texts, check_whole
from penstock.errors import (
    BindError,
    ParseError,
    PenstockError,
    Span,
    described,
    nearest,
    shortened,
)
from penstock.io.sources.memory import memory_source
from penstock.io.sources.source import Source
from penstock.model.durations import epoch_named, format_duration
from penstock.model.types import EPOCHS, STRING, Epoch, Field, Kind, Schema, Type, from_arrow
from penstock.sql.binder.literals import TYPE_NAMES, column_type, sql_type
from penstock.sql.parser.parser import Penstock
from penstock.sql.parser.statements import (
    parse_columns,
    parse_expression,
    parse_quantity,
    pointing_into,
)
from penstock.sql.syntax import Name, ProgressClause, Quantity, meant_type

Length = str | int | timedelta
_NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True, repr=False)
class ProgressOptions:
    """Result of `progress`; as a text, the equivalent PROGRESS clause."""

    attribute: str
    clause: ProgressClause

    def __str__(self) -> str:
        return " ".join(_words(self.clause))

    def __repr__(self) -> str:
        return f"<penstock.progress {self}>"


def progress(
    attribute: str,
    *,
    ordered: bool = False,
    delay: Length | None = None,
    slack: int | None = None,
    punctuated: tuple[str, str] | None = None,
    punctuated_for: Sequence[str] = (),
    per: str | None = None,
    idle: Length | None = None,
    future_limit: Length | None = None,
    skew: Length | None = None,
    timestamps: str = "EXTERNAL",
    name: str | None = None,
) -> ProgressOptions:
    """Describe how a stream progresses: the PROGRESS clause of CREATE STREAM, in Python.

    At most one of `ordered`, `delay`, `slack` and `punctuated` is given: it is the rule by which
    tuples raise the low-watermark of the stream.  Lengths are texts ("5 seconds"), `timedelta`s, or
    numbers in the unit of the attribute.

    Args:
        attribute: The progressing column, or an expression; the values of an expression become
            another column.
        ordered: Tuples come in order: no later tuple is below the newest one.
        delay: No later tuple is more than this length below the newest one.
        slack: No later tuple is below one that came more than so many rows before it.
        punctuated: A condition and a bound: a tuple that fulfils the condition is a punctuation,
            after which no tuple is below the bound.
        punctuated_for: Columns by which punctuations are of groups of tuples, not of the whole
            stream; `punctuated` may be combined with another rule then.
        per: A column or expression by which the stream has sub-sources, each with a bound of its
            own; the low-watermark is the lowest of them.
        idle: Length after which a silent sub-source, or the silent stream, no longer holds back the
            others.
        future_limit: Reject tuples that are further ahead of the clock than this length.
        skew: Length by which the stream may be behind the clock: while it is silent, its bound
            follows the clock at this distance (enabling timestamps, ETS).
        timestamps: "EXTERNAL" timestamps are columns of the data; "INTERNAL" ones are stamped when
            tuples enter, "LATENT" ones before the first operator that needs them.
        name: The name of the values of an expression; "event_time" if it is not given.

    Returns:
        The `progress=` argument of `Database.stream` and `penstock.sql`.

    >>> progress("ts", delay="5 seconds", per="link")
    <penstock.progress PROGRESS ON ts DELAY 5 SECONDS PER link>
    >>> progress("epoch_ms(secs * 1000)", name="at", ordered=True)
    <penstock.progress PROGRESS ON EPOCH_MS(secs * 1000) AS at ORDERED>
    >>> progress("ts", punctuated=("kind = 1", "ts"))
    <penstock.progress PROGRESS ON ts PUNCTUATED WHEN kind = 1 BOUND ts>
    """
    check_name("the column that progresses", attribute)
    check_flags(ordered=ordered)
    check_text("timestamps", timestamps, '"INTERNAL"')
    if per is not None:
        check_text("per", per, '"device"')
    if slack is not None:
        check_whole("slack", slack, 0)
    if punctuated is not None and not (
        isinstance(punctuated, tuple | list)
        and len(punctuated) == 2
        and all(isinstance(each, str) for each in punctuated)
    ):
        raise BindError(
            f"punctuated is {described(punctuated)}",
            expected="a condition and a bound: ('kind = 1', 'ts')",
        )
    chosen = {
        "ORDERED": ordered or None,
        "DELAY": delay,
        "SLACK": slack,
        "PUNCTUATED": punctuated,
    }
    if punctuated_for:
        if isinstance(punctuated_for, str) or punctuated is None:
            raise BindError(
                f"punctuated_for is {punctuated_for!r}, punctuated {punctuated!r}",
                expected="a sequence of columns, beside a condition and a bound",
            )
        check_texts("punctuated_for", punctuated_for, '["device"]')
        del chosen["PUNCTUATED"]
    rules = [name for name, value in chosen.items() if value is not None]
    if len(rules) > 1:
        raise BindError(
            f"progress on {attribute!r} says {' and '.join(rules)}", expected="one of them"
        )
    if timestamps.upper() not in ("EXTERNAL", "INTERNAL", "LATENT"):
        raise BindError(
            f"{timestamps!r} is not a kind of timestamps",
            expected="EXTERNAL, INTERNAL or LATENT",
        )
    amount = _length("delay", delay)
    if slack is not None:
        amount = Quantity(Decimal(slack), "ROWS", _NOWHERE)
    when, bound = (parse_expression(text) for text in punctuated) if punctuated else (None, None)
    expression = _expression(attribute, name is not None)
    clause = ProgressClause(
        Name(name or attribute, _NOWHERE),
        _NOWHERE,
        expression=expression,
        perhaps=name is None,
        timestamps=timestamps.upper(),
        rule=rules[0] if rules else None,
        amount=amount,
        when=when,
        bound=bound,
        groups=tuple(Name(column, _NOWHERE) for column in punctuated_for),
        per=parse_expression(per) if per is not None else None,
        idle_after=_length("idle", idle),
        future_limit=_length("future_limit", future_limit),
        skew=_length("skew", skew),
    )
    return ProgressOptions(attribute, clause)


def _expression(text: str, is_one: bool) -> exp.Expr | None:
    """Parse the attribute as an expression; None if it is the name of a column."""
    try:
        found = parse_expression(text)
    except PenstockError:
        if is_one:
            raise
        return None
    if not isinstance(found, exp.Column):
        return found
    if is_one:
        raise BindError(
            f"{text!r} is a column, and keeps its name",
            hint="name= is for the values of expressions",
        )
    return None


def checked(given: object) -> ProgressOptions | None:
    """Check a value for `progress=`: it must be the result of `progress`."""
    if given is None or isinstance(given, ProgressOptions):
        return given
    column = given if isinstance(given, str) else "ts"
    raise BindError(
        f"progress is {given!r}, which does not say how the stream progresses",
        expected="what ps.progress makes",
        hint=f'ps.progress("{column}", delay="5 seconds"), or ordered=True',
    )


def by_stream(given: object, streams: Collection[str]) -> dict[str, ProgressOptions | None]:
    """`progress=` of `ps.sql` for every stream by its name, or for the only one."""
    if isinstance(given, Mapping):
        for name in given:
            if name not in streams:
                raise BindError(
                    f"progress is said of {name!r}, which is not given",
                    expected=f"one of {', '.join(streams)}",
                )
        return {name: checked(given.get(name)) for name in streams}
    if given is not None and len(streams) != 1:
        checked(given)
        raise BindError(
            f"progress is said once, and there are {len(streams)} streams",
            expected="a dictionary from names of streams to what ps.progress makes",
        )
    return {name: checked(given) for name in streams}


def _length(name: str, length: Length | None) -> Quantity | None:
    if length is None:
        return None
    kinds = (str, int, float, Decimal, timedelta)
    if isinstance(length, bool) or not isinstance(length, kinds):
        raise BindError(f"{name} is {described(length)}", expected="a length", hint='"5 seconds"')
    if isinstance(length, timedelta):
        return parse_quantity(format_duration(length // timedelta(microseconds=1)))
    return parse_quantity(str(length))


def _words(clause: ProgressClause) -> Iterator[str]:
    if clause.expression is None:
        yield f"PROGRESS ON {_identifier(clause.attribute)}"
    else:
        yield f"PROGRESS ON {_sql(clause.expression)}"
        if not clause.perhaps:
            yield f"AS {_identifier(clause.attribute)}"
    if clause.timestamps != "EXTERNAL":
        yield clause.timestamps
    if clause.rule is not None and clause.rule != "PUNCTUATED":
        yield clause.rule if clause.amount is None else f"{clause.rule} {clause.amount}"
    if clause.when is not None and clause.bound is not None:
        yield f"PUNCTUATED WHEN {_sql(clause.when)} BOUND {_sql(clause.bound)}"
    if clause.groups:
        yield f"FOR {', '.join(map(_identifier, clause.groups))}"
    if clause.per is not None:
        yield f"PER {_sql(clause.per)}"
    if clause.idle_after is not None:
        yield f"IDLE AFTER {clause.idle_after}"
    if clause.skew is not None:
        yield f"SKEW {clause.skew}"
    if clause.future_limit is not None:
        yield f"FUTURE LIMIT {clause.future_limit}"


def _identifier(name: Name) -> str:
    return _sql(exp.to_identifier(name.text))


def _sql(expression: exp.Expr) -> str:
    return expression.sql(dialect=Penstock)


# Data, schemas and types that a program passes, as the database represents them.

SchemaLike: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]] | pa.Schema | str


def source_of(
    data: object,
    schema: Schema | None,
    epoch: Mapping[str, str] | None = None,
    replayable: bool | None = None,
) -> tuple[Source, Schema]:
    """Make a source and its schema: as given, else as the data suggests; `epoch` says what the
    numbers of some columns count."""
    if epoch and schema is None:
        source, found = source_of(data, None, None, replayable)
        return source, counted_by(epoch, found)
    if epoch and schema is not None:
        schema = counted_by(epoch, schema)
    if is_spark(data):
        if replayable is not None:
            raise BindError(
                "Spark knows what of a DataFrame can be read again",
                hint="leave replayable out: it is said of functions that make rows",
            )
        from penstock.spark.sources.dataframe import dataframe_source

        return dataframe_source(data, schema)
    return memory_source(data, schema, replayable)


def counted_by(given: Mapping[str, str] | None, schema: Schema) -> Schema:
    """Make times of the columns whose numbers count the time since 1970."""
    units = dict(given or {})
    fields = []
    for field in schema:
        word = units.pop(field.name, None)
        fields.append(field if word is None else Field(field.name, _counted(field, word)))
    if units:
        name = min(units)
        close = nearest(name, schema.names)
        raise BindError(
            f"epoch names a column {name!r}, which there is not",
            expected=f"one of {', '.join(schema.names)}",
            hint=close[0] if close else None,
        )
    return Schema(tuple(fields))


def _counted(field: Field, word: str) -> Type:
    unit = epoch_named(word) if isinstance(word, str) else None
    if unit is None:
        raise BindError(
            f"epoch of {field.name!r} is {word!r}",
            expected="seconds, milliseconds, microseconds or nanoseconds; days of a DATE",
        )
    if not (field.type.is_number or field.type.kind in EPOCHS or field.type == STRING):
        raise BindError(
            f"column {field.name!r} is {field.type.a}, and no number can stand for a time there"
        )
    kind = Kind.DATE if unit == Epoch.DAYS.value else Kind.TIMESTAMP
    if field.type.kind in EPOCHS:
        kind = field.type.kind
    return Type(kind, epoch=Epoch[unit])


def complete(data: object) -> object:
    """Make data readable by every run; an iterator is read to its end."""
    if getattr(data, "isStreaming", False):
        raise BindError("a table is complete, and a streaming DataFrame goes on", hint="db.stream")
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    return list(data) if isinstance(data, Iterator) else data


def is_spark(data: object) -> bool:
    return type(data).__module__.partition(".")[0] == "pyspark"


def is_stamped(progress: ProgressOptions | None) -> TypeGuard[ProgressOptions]:
    """Whether the progressing attribute is stamped rather than read."""
    return progress is not None and progress.clause.timestamps != "EXTERNAL"


def schema_of(given: SchemaLike) -> Schema:
    """`"a INT, ts TIMESTAMP"`, `{"a": "INT"}`, pairs, or an Arrow schema."""
    if isinstance(given, pa.Schema):
        fields = [Field(field.name, _from_arrow(field)) for field in given]
    elif isinstance(given, str):
        with pointing_into(given):
            columns = parse_columns(given)
            fields = [Field(c.name.text, column_type(c.type, c.span)) for c in columns]
    else:
        fields = [Field(name, type_of(text, name)) for name, text in _pairs(given)]
    names = [field.name.casefold() for field in fields]
    if not names or len(set(names)) < len(names):
        raise BindError("a schema has columns with different names", expected="a INT, b STRING")
    return Schema(tuple(fields))


def _pairs(given: object) -> list[tuple[str, object]]:
    """Names of columns with the descriptions of their types."""
    pairs = list(given.items()) if isinstance(given, Mapping) else given
    if isinstance(pairs, Sequence) and not isinstance(pairs, bytes):
        pairs = [tuple(each) if isinstance(each, list | tuple) else each for each in pairs]
        if all(isinstance(each, tuple) and len(each) == 2 for each in pairs):
            for name, _ in pairs:
                if not isinstance(name, str) or not name:
                    raise BindError(
                        f"the name of a column is a text, and not {name!r}", hint="{'a': 'INT'}"
                    )
            return pairs
    raise BindError(
        f"a schema is {described(given)}",
        expected="a text, a dict of names and types, pairs of them, or an Arrow schema",
        hint='"a INT, ts TIMESTAMP"',
    )


def _from_arrow(field: pa.Field) -> Type:
    found = from_arrow(field.type)
    if found is None or found.kind is Kind.INTERVAL:
        raise BindError(f"column {field.name!r} has the Arrow type {field.type}", hint="cast it")
    return found


def type_of(text: object, column: str = "") -> Type:
    """Parse the name of a type; that of a column may have a length."""
    of = f" for column {column!r}" if column else ""
    if not isinstance(text, str):
        raise BindError(f"a type is {described(text)}{of}", expected="its name", hint='"INT"')
    sql = f"x {text}"
    with pointing_into(sql):
        try:
            columns = parse_columns(sql)
        except ParseError:
            known = meant_type(text)
            raise BindError(
                f"{shortened(text, 80)!r} is no type{of}", expected=TYPE_NAMES, hint=known
            ) from None
        if len(columns) != 1:
            raise BindError(f"{text!r} is not one type{of}", hint="INT")
        return sql_type(columns[0].type, columns[0].span, declared=bool(column))
