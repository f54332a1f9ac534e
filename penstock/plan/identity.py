"""The identity of a query, which decides whether saved state belongs to it: lines of text that
stay the same when columns and relations are renamed; and the SQL texts of queries.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from penstock.errors import CheckpointError
from penstock.model.punctuation import Delay, Ordered, Punctuated, Slack, TimestampKind
from penstock.model.ticks import Domain
from penstock.model.types import Field, Kind, Schema
from penstock.plan.expressions import (
    AggregateCall,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    TableValue,
)
from penstock.plan.nodes.aggregation import (
    Distinct,
    DistinctOn,
    GroupAggregate,
    SharedPanes,
    WindowAggregate,
    WindowsOfPanes,
    describe_sliding,
)
from penstock.plan.nodes.join import Difference, Join, JoinKind, Lookup, RunningJoin, Sequence
from penstock.plan.nodes.node import Filter, Node, Project, Scan, Stamp, Union, Unnest
from penstock.plan.nodes.over import FramedAggregate, Neighbour, OverCall, RowsOver, ValueAt
from penstock.plan.nodes.query import Late, QueryPlan
from penstock.plan.nodes.tables import OrderedRows, OrElse
from penstock.plan.streams import StreamDefinition, StreamProgress
from penstock.plan.window_kinds import Sliding


@dataclass(frozen=True, slots=True)
class SourceText:
    """A statement, and the statements of the named queries that it reads, by name: these may have
    been dropped since, and other queries made under the same names.
    """

    text: str
    reads: Mapping[str, SourceText] = field(default_factory=dict)

    @staticmethod
    def load(saved: Mapping[str, Any]) -> SourceText:
        """Restore from the result of `dataclasses.asdict`."""
        reads = {name: SourceText.load(each) for name, each in saved["reads"].items()}
        return SourceText(saved["text"], reads)


# Expressions as texts that stay the same when a column or a relation is renamed.

_LONGEST = 400  # characters that are shown
_PLAIN = (Kind.INT, Kind.STRING, Kind.BOOLEAN, Kind.TIMESTAMP, Kind.DATE, Kind.INTERVAL)


def aggregate_text(call: AggregateCall, columns: Mapping[str, str]) -> str:
    """Format an aggregate, with columns named by their origins (`columns`, by name)."""
    where = None if call.where is None else _resolved(call.where, columns)
    arguments = tuple(_resolved(each, columns) for each in call.arguments)
    return shortened_text(str(replace(call, arguments=arguments, where=where)))


def expression_text(expression: Expression, columns: Mapping[str, str]) -> str:
    return shortened_text(str(_resolved(expression, columns)))


def _resolved(expression: Expression, columns: Mapping[str, str]) -> Expression:
    """The expression with columns named by their origins, and with constants that show their
    types: for display only.
    """

    def resolved(each: Expression) -> Expression:
        return _resolved(each, columns)

    match expression:
        case TableValue():
            return expression
        case Column():
            name = str(expression)
            return Column(columns.get(name, name), expression.type)
        case Literal():
            if expression.type.kind in _PLAIN and expression.value is not None:
                return expression
            return Column(f"{expression.type} '{expression}'", expression.type)
        case Call():
            return replace(expression, arguments=tuple(map(resolved, expression.arguments)))
        case Cast():
            return replace(expression, operand=resolved(expression.operand))
        case Case():
            branches = tuple((resolved(when), resolved(then)) for when, then in expression.branches)
            return replace(expression, branches=branches, otherwise=resolved(expression.otherwise))


def shortened_text(text: str) -> str:
    """Shorten a long text and append a hash of all of it: queries on queries may repeat a column
    again and again.
    """
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… {blake2b(text.encode(), digest_size=8).hexdigest()}"


# OVER, as texts that stay the same when a column is renamed.


def over_lines(node: RowsOver, columns: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The calls, and lines about them, with columns named by their origins."""

    def text(expression: Expression) -> str:
        return expression_text(expression, columns)

    calls = [_call_text(each.call, columns) for each in node.calls]
    lines = [f"by {text(each)} {each.type}" for each in node.partition]
    for key in node.order:
        named = replace(key, expression=Column(text(key.expression), key.expression.type))
        lines.append(f"ordered by {named} {key.expression.type}")
    if node.ties:
        lines.append("then by " + ", ".join(map(text, node.ties)))
    lines += [f"{call} {each.call.type}" for call, each in zip(calls, node.calls, strict=True)]
    if node.most is not None:
        lines.append(f"up to {node.most[1]} by {calls[node.most[0]]}")
    if node.skip:
        lines.append(f"above {node.skip}")
    return ([] if node.bare else calls), lines


def _call_text(call: OverCall, columns: Mapping[str, str]) -> str:
    def named(expression: Expression) -> Column:
        return Column(expression_text(expression, columns), expression.type)

    match call:
        case Neighbour():
            default = None if call.default is None else named(call.default)
            return str(replace(call, value=named(call.value), default=default))
        case ValueAt():
            return str(replace(call, value=named(call.value)))
        case FramedAggregate():
            return f"{aggregate_text(call.call, columns)} {call.frame}"
    return str(call)


# The meaning of saved state, in lines that can be compared and displayed.
#
# State belongs to a query if these lines are the same.  They say what is folded, by which keys,
# over which streams; they leave out what only decides how rows are read, named or ordered.

_RULES = {Ordered: "ORDERED", Delay: "DELAY", Slack: "SLACK", Punctuated: "PUNCTUATED"}


def identity(query: QueryPlan) -> list[str]:
    """Identity of a query, as lines.

    It leaves out the lengths of DELAY, SLACK, IDLE AFTER, SKEW and FUTURE LIMIT, the sources, the
    algorithms of windows, the names of columns and relations, and which columns are selected in
    which order. A column is named by its origin.
    """
    lines = []
    if query.late is Late.AMEND:
        lines.append("LATE AMEND" + (f" FOR {query.amend_for}" if query.amend_for else ""))
    if query.early_every is not None:
        lines.append("EMIT EARLY")
    if query.changes:
        lines.append("EMIT CHANGES")
    return [*lines, *_Describer().of(query.input).lines]


def meaning(node: Node) -> list[str]:
    """Identity of a part of a query, numbered as if it stood alone."""
    return _Describer().of(node).lines


def stream_identity(stream: StreamDefinition, name: str | None = None) -> list[str]:
    """Identity of a stream: its columns and its progress."""
    lines = [f"stream {name or stream.name} ({stream.declared})"]
    if stream.progress is not None:
        lines.append(f"  progress on {stream.progress.attribute} {_promise(stream.progress)}")
    return lines


def algorithms(query: QueryPlan) -> list[str]:
    """Further dependencies of saved state: the algorithms of windows whose state does not itself
    tell its operators and move between them, and the rows that wait for their order.
    """
    describer = _Describer()
    top = describer.of(query.input)
    lines = [f"#{number} {node.algorithm.name}" for number, node in describer.sliding]
    if query.in_order:
        lines.append("rows in order: " + ", ".join(top.columns.values()))
    return lines


def without_windows(lines: list[str]) -> list[str]:
    """Lines of `algorithms` without those about windows.

    >>> without_windows(["#1 WID", "rows in order: s.k"])
    ['rows in order: s.k']
    """
    return [line for line in lines if not line.startswith("#")]


def differences(found: list[str], own: list[str]) -> list[str]:
    """Lines that are only in `found` (−) and only in `own` (+).

    >>> differences(["a", "b"], ["a", "c"])
    ['-b', '+c']
    """
    changes = difflib.unified_diff(found, own, lineterm="", n=0)
    return [line for line in changes if not line.startswith(("---", "+++", "@@"))]


def answer_stream(answer: Node) -> StreamDefinition:
    """Table with the rows of a plan over tables. Its name is a digest of the plan, so that
    different plans are different tables, in every run.
    """
    described = _Describer().of(answer)
    columns = [f"{field} {described.columns[field.qualified]}" for field in answer.schema]
    schema = Schema(tuple(Field(each.name, each.type) for each in answer.schema))
    name = f"ANSWER {answer_digest([*described.lines, *columns])}"
    return StreamDefinition(name, schema, is_table=True, written=True, answer=answer)


def answer_digest(lines: list[str]) -> str:
    return blake2b("\n".join(lines).encode(), digest_size=6).hexdigest()


def origins(node: Node) -> dict[str, str]:
    """Origins of the columns of a node, by name: an origin stays the same when the column is
    renamed.
    """
    return _Describer().of(node).columns


@dataclass(frozen=True, slots=True)
class _Described:
    lines: list[str]
    columns: dict[str, str]  # origin, by qualified name

    def below(self, *titles: str) -> list[str]:
        """The lines of this node indented under those of the node above."""
        first, *others = titles
        return [first, *(f"    {line}" for line in others), *(f"  {line}" for line in self.lines)]


class _Describer:
    """Walks a plan from the streams up, and numbers the nodes that hold state."""

    def __init__(self) -> None:
        self._scans: Counter[str] = Counter()
        self._numbered = 0
        self.sliding: list[tuple[int, WindowAggregate]] = []

    def of(self, node: Node) -> _Described:
        match node:
            case Scan():
                return self._scan(node)
            case Project():
                below = self.of(node.input)
                made = [expression_text(each.expression, below.columns) for each in node.columns]
                return _Described(below.lines, _named(node.schema, made))
            case Filter():
                below = self.of(node.input)
                title = f"where {expression_text(node.predicate, below.columns)}"
                return _Described(below.below(title), below.columns)
            case Stamp():
                below = self.of(node.input)
                title = f"stamp {expression_text(node.column, below.columns)}"
                return _Described(below.below(title), below.columns)
            case WindowAggregate() | GroupAggregate():
                return self._aggregate(node)
            case WindowsOfPanes():
                return self.of(node.aggregate)
            case SharedPanes():
                below = self.of(node.input)
                parts = [node.attribute, *(key.expression for key in node.keys)]
                said = [expression_text(each, below.columns) for each in parts]
                title = f"{self._number()} panes from {node.origin}"
                return _Described(below.below(title, *said), below.columns)
            case Distinct():
                below = self.of(node.input)
                columns = [f"by {text}" for text in _typed(node.input, below)]
                return _Described(
                    below.below(f"{self._number()} distinct", *columns), below.columns
                )
            case DistinctOn():
                return self._distinct_on(node)
            case OrderedRows():
                below = self.of(node.input)
                keys = [
                    f"by {expression_text(each.expression, below.columns)}"
                    + " DESC" * each.descending
                    + " NULLS FIRST" * each.nulls_first
                    for each in node.order
                ]
                return _Described(below.below("in order", *keys), below.columns)
            case OrElse():
                below = self.of(node.input)
                return _Described(below.below("one row"), below.columns)
            case RowsOver():
                return self._over(node)
            case Union():
                return self._union(node)
            case Lookup():
                return self._lookup(node)
            case Unnest():
                below = self.of(node.input)
                text = expression_text(node.expression, below.columns)
                kind = f"{'outer ' * node.outer}unnest {text} {node.expression.type}"
                kind += " from 0" * node.from_zero
                texts = [f"{text}.{place}" for place in range(len(node.fields))]
                own = _named(Schema(node.fields), texts)
                return _Described(below.below(kind), below.columns | own)
            case Join() | Difference() | Sequence() | RunningJoin():
                return self._together(node)
        raise AssertionError(f"{type(node).__name__} has no identity")

    def _number(self) -> str:
        self._numbered += 1
        return f"#{self._numbered}"

    def _scan(self, node: Scan) -> _Described:
        stream = node.stream
        if stream.answer is not None:
            return self._answer(node, stream.answer)
        self._scans[stream.name] += 1
        again = self._scans[stream.name]
        name = stream.name if again == 1 else f"{stream.name}({again})"
        lines = stream_identity(stream, name)
        texts = [f"{name}.{field.name}" for field in stream.schema]
        return _Described(lines, _named(node.schema, texts))

    def _answer(self, node: Scan, answer: Node) -> _Described:
        """Rows that every run computes before the first tuple, so that no state of them is kept."""
        below, stream = _Describer().of(answer), node.stream
        origins = [below.columns[field.qualified] for field in answer.schema]
        own = answer_digest(below.lines)
        texts = [f"answer {own}.{each}" for each in origins]
        lines = ["answer over tables", *(f"  {line}" for line in below.lines)]
        if stream.progress is not None:
            lines.append(f"  progress on {stream.progress.attribute} {_promise(stream.progress)}")
        return _Described(lines, _named(node.schema, texts))

    def _aggregate(self, node: WindowAggregate | GroupAggregate) -> _Described:
        below = self.of(node.input)
        number = self._number()
        keys = [expression_text(key.expression, below.columns) for key in node.keys]
        calls = [aggregate_text(each.call, below.columns) for each in node.aggregates]
        details = [
            f"by {text} {key.expression.type}" for text, key in zip(keys, node.keys, strict=True)
        ]
        details += [
            f"{text} {each.call.type}" for text, each in zip(calls, node.aggregates, strict=True)
        ]
        title, window = f"{number} groups", []
        if isinstance(node, GroupAggregate) and node.runs:
            title = f"{number} running groups"
        elif isinstance(node, GroupAggregate) and node.counted and len(node.progress) > 1:
            title += " by the first key"  # the others have not left when the state is saved
        if isinstance(node, WindowAggregate):
            shown = node.describe_window(lambda each: expression_text(each, below.columns))
            title = f"{number} windows {shown}"
            window = [f"{number}.{name}" for name in ("window_id", "window_start", "window_end")]
            if isinstance(node.window, Sliding):
                self.sliding.append((self._numbered, node))
        texts = [*window, *keys, *(f"{number}.{text}" for text in calls)]
        return _Described(below.below(title, *details), _named(node.schema, texts))

    def _distinct_on(self, node: DistinctOn) -> _Described:
        below = self.of(node.input)
        number = self._number()
        by, domain = expression_text(node.attribute, below.columns), Domain(node.attribute.type)
        window = ", ".join(describe_sliding(node.window, by, domain))
        title = f"{number} {'last' if node.last else 'first'} of windows [{window}]"
        keys = [f"by {expression_text(key, below.columns)} {key.type}" for key in node.keys]
        texts = [expression_text(column, below.columns) for column in node.columns]
        rows = [f"of {text} {each.type}" for text, each in zip(texts, node.columns, strict=True)]
        bounds = [f"{number}.{name}" for name in ("window_id", "window_start", "window_end")]
        named = _named(node.schema, [*bounds, *(f"{number}.{text}" for text in texts)])
        return _Described(below.below(title, *keys, *rows), named)

    def _over(self, node: RowsOver) -> _Described:
        """Rows are kept unchanged, with all their columns."""
        below = self.of(node.input)
        number = self._number()
        calls, lines = over_lines(node, below.columns)
        rows = [f"of {text}" for text in _typed(node.input, below)]
        made = [f"{number}.{text}" for text in calls]
        named = _named(node.schema, [*below.columns.values(), *made])
        title = f"{number} {'running ' * node.running}over"
        return _Described(below.below(title, *lines, *rows), named)

    def _union(self, node: Union) -> _Described:
        branches = [self.of(branch) for branch in node.branches]
        lines = ["union"]
        for branch in branches:
            lines += [f"  {line}" for line in branch.lines]
        by_place = zip(*(branch.columns.values() for branch in branches), strict=True)
        return _Described(
            lines,
            _named(
                node.schema, [shortened_text("{" + " | ".join(each) + "}") for each in by_place]
            ),
        )

    def _lookup(self, node: Lookup) -> _Described:
        """Rows of a table are joined to tuples, and are read again by every run."""
        below, table = self.of(node.input), self.of(node.table)
        columns = below.columns | table.columns
        title = f"{node.kind.value.lower()} lookup"
        on = [] if node.condition is None else [f"on {expression_text(node.condition, columns)}"]
        lines = [*below.below(title, *on), *(f"    {line}" for line in table.lines)]
        return _Described(lines, below.columns if node.kind.left_alone else columns)

    def _together(self, node: Join | Difference | Sequence | RunningJoin) -> _Described:
        """Tuples of several inputs are kept unchanged, with all their columns."""
        branches = [self.of(each) for each in node.inputs]
        columns: dict[str, str] = {}
        for branch in branches:
            columns |= branch.columns
        number = self._number()
        lines = [f"{number} {type(node).__name__.lower()}"]
        lines += [f"    {line}" for line in _conditions(node, columns)]
        for each, branch in zip(node.inputs, branches, strict=True):
            lines += [f"    of {text}" for text in _typed(each, branch)]
            lines += [f"  {line}" for line in branch.lines]
        if isinstance(node, Difference):
            texts = [*branches[0].columns.values(), f"{number}.changed_at"]
            columns = _named(node.schema, texts)
        if isinstance(node, Join | RunningJoin) and node.kind.left_alone:
            columns = branches[0].columns
        return _Described(lines, columns)


def _conditions(
    node: Join | Difference | Sequence | RunningJoin, columns: Mapping[str, str]
) -> Iterator[str]:
    if not isinstance(node, RunningJoin):
        yield "over " + ", ".join(expression_text(each, columns) for each in node.attributes)
    match node:
        case RunningJoin():
            yield f"kind {node.kind.value}"
        case Join():
            yield f"window {node.window}"
            if node.kind is not JoinKind.INNER:
                yield f"kind {node.kind.value}"
            for each in node.also:
                pair = [expression_text(column, columns) for column in (each.left, each.right)]
                yield f"also {' and '.join(pair)} within {each.window}"
            if node.late_by:
                texts = [[expression_text(each, columns) for each in own] for own in node.times]
                yield f"late by {'; '.join(', '.join(each) for each in texts)}"
        case Difference():
            yield f"ranges {node.ranges}"
            for left, right in node.keys:
                yield f"on {expression_text(left, columns)} = {expression_text(right, columns)}"
        case Sequence():
            yield f"{node.mode.value} within {node.within}"
            if any(node.keeps):
                yield f"keeps {node.keeps}"
    if not isinstance(node, Difference) and node.condition is not None:
        yield f"on {expression_text(node.condition, columns)}"


def _promise(progress: StreamProgress) -> str:
    policy = progress.policy
    words = [_RULES[type(policy.rule)]]
    if policy.timestamps is not TimestampKind.EXTERNAL:
        words.insert(0, policy.timestamps.value)
    if progress.punctuation is not None:
        words = [*words[:-1], *([] if words[-1] == "PUNCTUATED" else words[-1:])]
        words.append(str(progress.punctuation))
    if progress.per_file:
        words.append("PER FILE")
    elif progress.per is not None:
        words.append(f"PER {progress.per}")
    if progress.computed is not None:
        words.append(f"OF {progress.computed}")
    return " ".join(words)


def _named(schema: Schema, texts: list[str]) -> dict[str, str]:
    return {field.qualified: text for field, text in zip(schema, texts, strict=True)}


def _typed(node: Node, described: _Described) -> list[str]:
    pairs = zip(described.columns.values(), node.schema, strict=True)
    return [f"{text} {field.type}" for text, field in pairs]


# Whether saved state belongs to a query; if not, the error says what differs.

_START_OVER = "another checkpoint, or delete the directory to start over"


def check_query(found: list[str], own: list[str], where: str) -> None:
    """Compare the identity of the query that made the state with that of this one; `where` names
    the checkpoint.
    """
    if found != own:
        raise CheckpointError(
            f"{where} belongs to another query; they differ in:"
            + _shown(_for_people(differences(found, own))),
            expected="the query that it was made by (lines with -)",
            hint=_START_OVER,
        )


def check_algorithms(found: list[str], own: list[str], where: str) -> None:
    """Compare the results of `algorithms`, where state cannot move from one to another.

    >>> try:
    ...     check_algorithms(["#1 WID", "#2 PANED"], ["#1 WID", "#2 BUFFERING"], "it")
    ... except CheckpointError as error:
    ...     print(error.message.splitlines()[1:], error.hint)
    ['  -#2 PANED', '  +#2 BUFFERING'] /*+ PANED */ after SELECT of window 2 keeps it
    """
    if found == own:
        return
    changes = differences(found, own)
    had = [line.split(" ", 1) for line in changes if line.startswith("-#")]
    hints = [
        f"/*+ {name} */ after SELECT" + (f" of window {number[2:]}" if len(found) > 1 else "")
        for number, name in had
    ]
    raise CheckpointError(
        f"{where} was made by another algorithm, and its state cannot be moved to this one; "
        "they differ in:" + _shown(changes),
        expected="the way it was begun (lines with -)",
        hint=f"{', '.join(hints)} keeps it" if hints else _START_OVER,
    )


def check_buckets(found: int, own: int, where: str) -> None:
    if found != own:
        raise CheckpointError(
            f"{where} was made with {found} bucket{'s' * (found != 1)}, and now there are {own}",
            expected="the number that it was made with: it decides where the state of a key is",
            hint=f"connect(…, buckets={found}); or {_START_OVER}",
        )


def check_format(found: int, own: int, where: str) -> None:
    if found > own:
        raise CheckpointError(
            f"{where} has format {found}, and this version of Penstock reads {own}",
            hint="run it with the version that wrote it, or a later one",
        )
    if found < own:
        raise CheckpointError(
            f"{where} was made by an earlier version of Penstock: it has format {found}, and this "
            f"version reads {own}",
            hint=f"run it with the version that wrote it; or {_START_OVER}",
        )


def _for_people(changes: list[str]) -> list[str]:
    """Leave out lines that are only indented differently than before, unless nothing else has
    changed; and the internal form of the windows of joins, where the condition says the same.

    >>> _for_people(["-a", "-  b", "+ b", "+c", "-  window Bands(bands=())", "+  on x = y"])
    ['-a', '+c', '+  on x = y']
    """

    def said(sign: str) -> set[str]:
        return {line[1:].strip() for line in changes if line[0] == sign}

    moved = said("-") & said("+")
    kept = [line for line in changes if line[1:].strip() not in moved]
    plain = [line for line in kept if not line[1:].lstrip().startswith("window Bands(")]
    return plain or kept or changes


def _shown(lines: list[str]) -> str:
    return "".join(f"\n  {line}" for line in lines)
