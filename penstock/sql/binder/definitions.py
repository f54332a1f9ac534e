"""Definitions: CREATE STREAM, CREATE TABLE and CREATE VIEW, and SPLIT."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from penstock.errors import BindError, PenstockError, PlanError, Span, nearest, shortened
from penstock.io.access import Allowed, parse_address
from penstock.io.formats.long_rows import SIZE_UNITS
from penstock.io.sources.files import FileFormat, FileSource, format_of
from penstock.io.sources.socket import SocketSource
from penstock.io.sources.source import Source
from penstock.model.punctuation import (
    Delay,
    Ordered,
    ProgressPolicy,
    Punctuated,
    Rule,
    Slack,
    TimestampKind,
)
from penstock.model.ticks import Domain
from penstock.model.types import BOOLEAN, TIMESTAMP, Field, Kind, Schema
from penstock.plan.catalog import Catalog
from penstock.plan.expressions import Call, Column, Expression, Literal, Named, cast_to, columns_of
from penstock.plan.nodes.node import Project
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.streams import PunctuationRows, StreamDefinition, StreamProgress
from penstock.sql.binder.expressions import ExpressionBinder
from penstock.sql.binder.joins import filtered
from penstock.sql.binder.literals import column_type, length_of_time, span_of, ticks, whole_rows
from penstock.sql.binder.relations import RelationBinder
from penstock.sql.binder.scope import Scope
from penstock.sql.binder.select import bind_query
from penstock.sql.binder.values import bind_values
from penstock.sql.parser.statements import EVENT_TIME
from penstock.sql.syntax import (
    CreateStream,
    CreateView,
    FilesSyntax,
    Name,
    NamedRelation,
    ProgressClause,
    Quantity,
    QuerySyntax,
    SocketSyntax,
    Split,
    ValuesSyntax,
)


def bind_stream(
    syntax: CreateStream, catalog: Catalog, base: Path | None, allowed: Allowed | None = None
) -> StreamDefinition:
    """Bind a stream or a table; file names are relative to `base`, and sources that are not
    `allowed` are refused."""
    declared, progress = _schema(syntax), None
    schema = Schema(tuple(Field(each.name, each.type.plain) for each in declared))
    if syntax.progress is not None:
        schema, progress = with_progress(syntax.progress, schema, catalog)
        declared = Schema((*declared.fields, *schema.fields[len(declared.fields) :]))
    if progress is not None and progress.per_file and not isinstance(syntax.source, FilesSyntax):
        assert syntax.progress is not None
        raise BindError("PER FILE needs FROM FILES", span=syntax.progress.span)
    try:
        stream = StreamDefinition.of(syntax.name.text, declared, progress=progress)
    except PlanError as error:
        span = syntax.progress.span if syntax.progress else syntax.name.span
        raise BindError(error.message, span=span, expected=error.expected) from None
    source: Source | None = None
    match syntax.source:
        case FilesSyntax():
            source = _files(syntax.source, base, allowed)
        case SocketSyntax():
            source = _socket(syntax.source, allowed)
        case ValuesSyntax():
            source = bind_values(syntax.source, stream.input_schema)
    return replace(stream, source=source, is_table=syntax.is_table)


def _schema(syntax: CreateStream) -> Schema:
    fields: list[Field] = []
    names: set[str] = set()
    for column in syntax.columns:
        if column.name.text.casefold() in names:
            raise BindError(f"two columns are called {column.name.text!r}", span=column.name.span)
        names.add(column.name.text.casefold())
        fields.append(Field(column.name.text, column_type(column.type, column.span)))
    return Schema(tuple(fields))


def _files(syntax: FilesSyntax, base: Path | None, allowed: Allowed | None) -> FileSource:
    file_format = None
    if syntax.format is not None:
        names = [each.name for each in FileFormat]
        word = syntax.format.text.upper()
        if word not in names:
            close = nearest(word, names)
            raise BindError(
                f"{syntax.format.text!r} is not a file format",
                span=syntax.format.span,
                expected=f"one of {', '.join(names)}",
                hint=close[0] if close else None,
            )
        file_format = FileFormat[word]
    pattern = syntax.pattern
    _refuse_url(pattern)
    if allowed is not None and not allowed.pattern(base or Path.cwd(), pattern.text):
        raise _not_allowed(allowed, pattern.text, pattern.span)
    limit = _row_limit(syntax.row_limit)
    known = file_format or format_of(pattern.text)
    if syntax.row_limit is not None and known is FileFormat.PARQUET:
        raise BindError("rows of Parquet have no ROW LIMIT", span=syntax.row_limit.span)
    source = FileSource(pattern.text, file_format, base, allowed, limit)
    if allowed is not None and source.is_refused:  # a link may lead elsewhere
        raise _not_allowed(allowed, pattern.text, pattern.span)
    return source


def _refuse_url(name: Name) -> None:
    """Refuse a URL in FILES, which names files of this machine only."""
    scheme, _, rest = name.text.partition("://")
    if not rest or not scheme.isalnum():
        return
    hint = (
        "download them, or mount them as a directory; on Spark,"
        f' db.stream(name, spark.read.parquet("{shortened(name.text, 60)}"))'
    )
    match scheme.lower():
        case "file":
            hint = f"FROM FILES '{rest}'"
        case "socket" | "tcp":
            hint = f"FROM SOCKET '{rest}'"
        case "kafka":
            hint = 'on Spark, db.stream(name, spark.readStream.format("kafka")…)'
    raise BindError(
        f"FILES are those of this machine, and {shortened(name.text, 80)!r} is none",
        span=name.span,
        expected="a path, or a pattern for paths",
        hint=hint,
    )


def _socket(syntax: SocketSyntax, allowed: Allowed | None) -> SocketSource:
    address = parse_address(syntax.address.text)
    if address is None:
        raise BindError(
            f"{syntax.address.text!r} is not an address",
            span=syntax.address.span,
            expected="a host and a port",
            hint="'localhost:9000'",
        )
    source = SocketSource(*address, _row_limit(syntax.row_limit))
    if allowed is not None and not allowed.socket(*address):
        raise _not_allowed(allowed, syntax.address.text, syntax.address.span)
    return source


def _row_limit(quantity: Quantity | None) -> int | None:
    """Row limit in bytes."""
    if quantity is None:
        return None
    assert quantity.unit is not None
    limit = quantity.amount * SIZE_UNITS[quantity.unit]
    if limit != int(limit) or not SIZE_UNITS["KB"] <= limit <= SIZE_UNITS["GB"]:
        raise BindError(
            f"ROW LIMIT is {quantity}", span=quantity.span, expected="a size from 1 KB to 1 GB"
        )
    return int(limit)


def _not_allowed(allowed: Allowed, name: str, span: Span) -> BindError:
    return BindError(
        allowed.refusal(repr(shortened(name, 80))),
        span=span,
        expected=f"what is allowed: {allowed}",
    )


def with_progress(
    clause: ProgressClause, schema: Schema, catalog: Catalog
) -> tuple[Schema, StreamProgress]:
    """The columns of a stream and how it progresses.  An expression that it progresses on makes a
    column of its own, behind those that are read.

    before: (payload STRING) PROGRESS ON CAST(payload AS TIMESTAMP) AS ts
    after:  (payload STRING, ts TIMESTAMP) PROGRESS ON ts
    """
    name = clause.attribute.text
    syntax, known = clause.expression, {each.name.casefold() for each in schema}
    if syntax is None or (clause.perhaps and name.casefold() in known):
        return schema, bind_progress(clause, schema, catalog)
    if clause.perhaps:
        name, clause = EVENT_TIME, replace(clause, attribute=Name(EVENT_TIME, clause.span))
    computed = ExpressionBinder(Scope(schema), catalog, "PROGRESS").bind(syntax)
    span = span_of(syntax) or clause.span
    if isinstance(computed, Column):
        plain = replace(clause, attribute=Name(computed.name, span), expression=None)
        return schema, bind_progress(plain, schema, catalog)
    if clause.timestamps != "EXTERNAL":
        raise BindError(
            f"{clause.timestamps} timestamps are stamped, and not computed",
            span=span,
            expected="a column",
        )
    if not columns_of(computed):
        raise BindError("what a stream progresses on has to look at a column", span=span)
    if name.casefold() in known:
        raise BindError(
            f"there is a column {name} already",
            span=clause.attribute.span,
            expected="another name for what the stream progresses on",
            hint="PROGRESS ON … AS another_name",
        )
    extended = Schema((*schema.fields, Field(name, computed.type)))
    bound = bind_progress(clause, extended, catalog)
    return extended, replace(bound, computed=computed)


def bind_progress(clause: ProgressClause, schema: Schema, catalog: Catalog) -> StreamProgress:
    scope = Scope(schema)
    attribute = scope.find(clause.attribute.text, None, clause.attribute.span)
    try:
        domain = Domain(attribute.type)
        policy = ProgressPolicy(
            _rule(clause, domain),
            TimestampKind(clause.timestamps),
            _time("IDLE AFTER", clause.idle_after, domain),
            _time("FUTURE LIMIT", clause.future_limit, domain),
            _time("SKEW", clause.skew, domain),
        )
    except PenstockError as error:
        hint = error.hint
        if attribute.type.kind is Kind.DOUBLE:
            hint = f"{attribute.name} DECIMAL(18,6)"
        raise BindError(
            error.message, span=error.span or clause.span, expected=error.expected, hint=hint
        ) from None
    if policy.timestamps is not TimestampKind.EXTERNAL and attribute.type != TIMESTAMP:
        raise BindError(
            f"{clause.timestamps} timestamps need a TIMESTAMP column, {attribute.name} is a "
            f"{attribute.type}",
            span=clause.span,
        )
    binder = ExpressionBinder(scope, catalog, "PROGRESS")
    per = binder.bind(clause.per) if clause.per is not None else None
    punctuation = _punctuation(clause, binder)
    try:
        return StreamProgress(attribute.name, policy, per, clause.per_file, punctuation)
    except PenstockError as error:
        raise BindError(error.message, span=clause.span) from None


def _rule(clause: ProgressClause, domain: Domain) -> Rule:
    match clause.rule, clause.amount:
        case "ORDERED", _:
            return Ordered()
        case "PUNCTUATED", _:
            return Punctuated()
        case "DELAY", Quantity() as amount if amount.is_rows:
            raise BindError(
                f"DELAY is a length, {amount} is not", span=amount.span, hint=f"SLACK {amount}"
            )
        case "DELAY", Quantity() as amount:
            return Delay(_not_negative("DELAY", amount, ticks(amount, domain)))
        case "SLACK", Quantity() as amount:
            return Slack(_not_negative("SLACK", amount, whole_rows(amount)))
        case _ if clause.timestamps != "EXTERNAL":
            return Ordered()
        case _ if clause.groups:
            return Punctuated()
    raise BindError(
        "PROGRESS does not say how the stream progresses",
        span=clause.span,
        expected="ORDERED, DELAY length, SLACK n ROWS or PUNCTUATED WHEN … BOUND …",
        hint=f"PROGRESS ON {clause.attribute.text} "
        + ("DELAY 5 SECONDS" if domain.type.kind is Kind.TIMESTAMP else "ORDERED"),
    )


def _not_negative(word: str, quantity: Quantity, length: int) -> int:
    if length < 0:
        raise BindError(f"{word} is {quantity}", span=quantity.span, expected="zero or more")
    return length


def _time(word: str, quantity: Quantity | None, domain: Domain) -> int | None:
    """Bind a length of wall-clock time; only TIMESTAMPs can be compared with a clock."""
    if quantity is None:
        return None
    if domain.type.kind is not Kind.TIMESTAMP:
        raise BindError(
            f"{word} compares with the clock, so the column has to be a TIMESTAMP",
            span=quantity.span,
        )
    length = length_of_time(quantity)
    if length <= 0:
        raise BindError(f"{word} is {quantity}", span=quantity.span, expected="more than zero")
    return length


def _punctuation(clause: ProgressClause, binder: ExpressionBinder) -> PunctuationRows | None:
    if clause.when is None or clause.bound is None:
        return None
    when = binder.condition(clause.when, "PUNCTUATED WHEN")
    bound = binder.bind(clause.bound)
    attribute = binder.scope.find(clause.attribute.text, None, clause.attribute.span)
    if bound.type != attribute.type:
        if not (bound.type.is_number and attribute.type.is_number):
            raise BindError(
                f"the bound is {bound.type.a}, {attribute.name} {attribute.type.a}",
                span=span_of(clause.bound),
            )
        bound = cast_to(bound, attribute.type)
    return PunctuationRows(when, bound, _groups(clause, binder.scope, attribute.name))


def _groups(clause: ProgressClause, scope: Scope, attribute: str) -> tuple[Column, ...]:
    """Columns whose groups a punctuation is of."""
    found: list[Column] = []
    for name in clause.groups:
        column = scope.find(name.text, None, name.span)
        if column in found:
            raise BindError(f"PUNCTUATED … FOR names {column.name} twice", span=name.span)
        if column.name == attribute:
            raise BindError(
                f"{attribute} is what the stream progresses on, it cannot tell groups apart",
                span=name.span,
                expected="columns that all tuples of a group agree on",
            )
        found.append(column)
    return tuple(found)


# SPLIT: one stream becomes several; a tuple goes to the first branch whose condition is true.


def bind_split(syntax: Split, catalog: Catalog) -> list[tuple[Name, QueryPlan]]:
    """Queries by name.  Together they have every tuple at most once, and all of them if there is an
    OTHERWISE; NULL is not true.

    before: SPLIT s INTO hot WHERE c > 30, cold WHERE c < 0, mild OTHERWISE
    after:  hot   s WHERE c > 30
            cold  s WHERE (c < 0) AND (c > 30) IS NOT TRUE
            mild  s WHERE (c > 30) IS NOT TRUE AND (c < 0) IS NOT TRUE
    """
    _check_names(syntax, catalog)
    source = RelationBinder(catalog).bind(NamedRelation(syntax.source, None, None, syntax.span))
    binder = ExpressionBinder(Scope(source.node.schema), catalog, "SPLIT")
    columns = tuple(Named(field.name, Column.of(field)) for field in source.node.schema)
    found = catalog.relation(syntax.source.text, syntax.source.span)
    changes = isinstance(found, QueryPlan) and found.changes
    made: list[tuple[Name, QueryPlan]] = []
    before: list[Expression] = []  # the conditions of the parts that come first
    for branch in syntax.branches:
        own = [] if branch.where is None else [binder.condition(branch.where, "SPLIT")]
        node = filtered(source.node, [*own, *map(_not_true, before)])
        made.append((branch.name, QueryPlan(Project(node, columns), changes=changes)))
        before += own
    return made


def _not_true(condition: Expression) -> Expression:
    return Call("is_distinct", (condition, Literal(True, BOOLEAN)), BOOLEAN, span=condition.span)


def _check_names(syntax: Split, catalog: Catalog) -> None:
    seen: set[str] = set()
    for place, branch in enumerate(syntax.branches):
        catalog.refuse_taken(branch.name.text, branch.name.span)
        if branch.name.text.casefold() in seen:
            raise BindError(f"two parts are called {branch.name.text!r}", span=branch.name.span)
        seen.add(branch.name.text.casefold())
        if branch.where is None and place < len(syntax.branches) - 1:
            raise BindError(
                "nothing is left behind OTHERWISE",
                span=branch.name.span,
                expected="OTHERWISE as the last part",
            )


# CREATE VIEW: a named query, whose answer may be a running one.


def bind_view(statement: CreateView, catalog: Catalog) -> QueryPlan:
    """Bind the query of a view, which may say EMIT CHANGES. A MATERIALIZED one has a running answer
    where its query never completes, as in other systems."""
    asked = statement.query
    _refuse_others(asked)
    try:
        return bind_query(asked, catalog)
    except (BindError, PlanError):
        if not statement.materialized or asked.changes:
            raise
        try:
            return bind_query(replace(asked, changes=True), catalog)
        except (BindError, PlanError):
            pass  # the first error is about what was written
        raise


def _refuse_others(asked: QuerySyntax) -> None:
    others = (asked.late, asked.early, asked.consistency)
    if asked.in_order or any(each is not None for each in others):
        raise BindError(
            "LATE, EMIT EARLY, EMIT IN ORDER and CONSISTENCY belong to the query that reads a view",
            span=asked.modifiers,
            expected="EMIT CHANGES, or none of them",
        )
