"""Definitions of streams and tables: columns, source, and progress."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from penstock.errors import PlanError, SourceError
from penstock.io.sources.source import Source
from penstock.model.durations import format_duration
from penstock.model.punctuation import (
    Delay,
    Ordered,
    ProgressPolicy,
    Punctuated,
    Slack,
    TimestampKind,
)
from penstock.model.ticks import Domain
from penstock.model.types import BOOLEAN, Field, Schema
from penstock.plan.expressions import Column, Expression, Literal

if TYPE_CHECKING:
    from penstock.plan.nodes.node import Node


@dataclass(frozen=True, slots=True)
class PunctuationRows:
    """Rows that satisfy `when` are punctuations: no later tuple is below `bound`.

    With a `group`, that holds only for the tuples that agree with them on those columns.
    """

    when: Expression
    bound: Expression
    group: tuple[Column, ...] = ()

    def __str__(self) -> str:
        text = f"PUNCTUATED WHEN {self.when} BOUND {self.bound}"
        return f"{text} FOR {', '.join(map(str, self.group))}" if self.group else text


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """Progress of a stream.

    `per` splits the source into sub-sources that progress apart; `per_file` does so by file. Rows
    for which a `computed` attribute has no value are rejected.

    Punctuation for groups can be combined with any rule. With PUNCTUATED alone, only groups
    progress, and the end of the stream completes the rest.
    """

    attribute: str
    policy: ProgressPolicy
    per: Expression | None = None
    per_file: bool = False
    punctuation: PunctuationRows | None = None
    computed: Expression | None = None  # the attribute, from the columns that are read

    def __post_init__(self) -> None:
        if self.punctuation is None and isinstance(self.policy.rule, Punctuated):
            raise PlanError("PUNCTUATED and its rows go together")
        if self.punctuation is None or isinstance(self.policy.rule, Punctuated):
            return
        if not self.punctuation.group:
            raise PlanError("PUNCTUATED for all tuples is a rule of its own")
        if self.policy.timestamps is not TimestampKind.EXTERNAL:
            raise PlanError(f"{self.policy.timestamps.value} timestamps cannot be punctuated")

    @property
    def group_punctuation(self) -> PunctuationRows | None:
        """Punctuation rows for groups, if there are such."""
        said = self.punctuation
        return said if said is not None and said.group else None

    def describe(self, domain: Domain) -> str:
        words = []
        if self.policy.timestamps is not TimestampKind.EXTERNAL:
            words.append(self.policy.timestamps.value)
        match self.policy.rule:
            case Ordered():
                words.append("ORDERED")
            case Delay(ticks):
                words.append(f"DELAY {domain.format_length(ticks)}")
            case Slack(rows):
                words.append(f"SLACK {rows} ROWS")
            case Punctuated():
                pass  # its rows say it
        if self.punctuation == _nothing_before_the_end(self.attribute, domain):
            words.append("COMPLETE AT THE END")
        elif self.punctuation is not None:
            words.append(str(self.punctuation))
        if self.per_file:
            words.append("PER FILE")
        elif self.per is not None:
            words.append(f"PER {self.per}")
        if self.policy.idle_after is not None:
            words.append(f"IDLE AFTER {format_duration(self.policy.idle_after)}")
        if self.policy.skew is not None:
            words.append(f"SKEW {format_duration(self.policy.skew)}")
        if self.policy.future_limit is not None:
            words.append(f"FUTURE LIMIT {format_duration(self.policy.future_limit)}")
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class StreamDefinition:
    """A stream or table as declared."""

    name: str
    schema: Schema
    progress: StreamProgress | None = None
    source: Source | None = field(default=None, compare=False)
    is_table: bool = False  # complete before the first tuple of any stream is processed
    of_session: bool = field(default=False, compare=False)  # a view of Spark, found by its name
    written: bool = field(default=False, compare=False)  # VALUES in a query, which has its rows
    # a plan over tables alone, whose rows these are; its digest is a part of the name
    answer: Node | None = field(default=None, compare=False, repr=False)
    # the table whose rows these are, where a window is laid over a table
    of_table: StreamDefinition | None = field(default=None, compare=False, repr=False)
    counted: tuple[Field, ...] = ()  # columns whose times may be read as numbers, as declared

    @staticmethod
    def of(name: str, declared: Schema, **rest: Any) -> StreamDefinition:
        """Define with columns as declared, in which times may be numbers."""
        counted = tuple(each for each in declared if each.type != each.type.plain)
        schema = Schema(tuple(Field(each.name, each.type.plain) for each in declared))
        return StreamDefinition(name, schema, counted=counted, **rest)

    def __post_init__(self) -> None:
        if self.progress is not None:
            Domain(self.attribute.type)
            if self.is_table:
                raise PlanError("a table does not progress: it is complete")
            if self.stamped and any(each.name == self.attribute.name for each in self.counted):
                raise PlanError(
                    f"{self.attribute.name} is stamped and not read, so no number stands for it",
                    expected=f"{self.attribute.name} TIMESTAMP, without EPOCH",
                )

    @property
    def word(self) -> str:
        """`table` or `stream`, for messages."""
        return "table" if self.is_table else "stream"

    @property
    def attribute(self) -> Field:
        """The progressing attribute."""
        assert self.progress is not None
        return self.schema.fields[self.schema.index(self.progress.attribute)]

    @property
    def stamped(self) -> bool:
        """Whether the progressing attribute is stamped here rather than read."""
        return (
            self.progress is not None
            and self.progress.policy.timestamps is not TimestampKind.EXTERNAL
        )

    @property
    def made(self) -> bool:
        """Whether the progressing attribute is stamped or computed here rather than read."""
        return self.stamped or (self.progress is not None and self.progress.computed is not None)

    @property
    def without_time(self) -> str:
        """Reason for which a row without a time is rejected."""
        assert self.progress is not None
        computed = self.progress.computed
        return f"{self.attribute.name} is NULL" if computed is None else f"{computed} has no value"

    @property
    def is_latent(self) -> bool:
        """Whether the attribute is stamped only where an operator needs it."""
        return self.progress is not None and self.progress.policy.timestamps is TimestampKind.LATENT

    @property
    def declared(self) -> Schema:
        """Columns as declared, with the epochs of times that are numbers."""
        if not self.counted:
            return self.schema
        counted = {each.name: each for each in self.counted}
        return Schema(tuple(counted.get(each.name, each) for each in self.schema))

    @property
    def input_schema(self) -> Schema:
        """Columns that the source has to supply, with the types it has to read."""
        if not self.made:
            return self.declared
        name = self.attribute.name
        return Schema(tuple(each for each in self.declared if each.name != name))


def _nothing_before_the_end(attribute: str, domain: Domain) -> PunctuationRows:
    return PunctuationRows(Literal(False, BOOLEAN), Column(attribute, domain.type))


def that_ends(table: StreamDefinition, attribute: str) -> StreamDefinition:
    """The rows of a table as a stream that progresses only when it ends, so that windows over it
    are complete and nothing is late.
    """
    domain = Domain(table.schema.fields[table.schema.index(attribute)].type)
    promised = _nothing_before_the_end(attribute, domain)
    progress = StreamProgress(attribute, ProgressPolicy(Punctuated()), None, False, promised)
    return replace(table, progress=progress, is_table=False, of_table=table)


def no_source(stream: StreamDefinition) -> SourceError:
    create = f"CREATE {stream.word.upper()} {stream.name} (…) FROM FILES '…'"
    return SourceError(
        f"{stream.word} {stream.name} has no source",
        hint=f"{create}, or db.{stream.word}(…) in Python",
    )
