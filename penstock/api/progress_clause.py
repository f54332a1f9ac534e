"""`penstock.progress(…)`: the PROGRESS clause for streams that are made in Python."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from sqlglot import exp

from penstock.api.arguments import (
    check_flags,
    check_name,
    check_text,
    check_texts,
    check_whole,
)
from penstock.errors import BindError, PenstockError, Span, described
from penstock.language.parse import parse_expression, parse_quantity
from penstock.language.parsing.dialect import Penstock
from penstock.language.syntax.names import Name, Quantity
from penstock.language.syntax.statements import ProgressClause
from penstock.model.duration import format_duration

Length = str | int | timedelta
_NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True, repr=False)
class ProgressOptions:
    """What `progress` was told; as a text, the clause of SQL that says the same."""

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
    """How a stream progresses on `attribute`: one of `ordered`, `delay`, `slack` or `punctuated`
    (a condition and a bound), and what else the PROGRESS clause can say.  With `punctuated_for`,
    punctuations speak of the groups that these columns tell apart, and may stand beside a rule.

    The attribute is a column, or an expression: its values are a further column then, which is
    called `name`, or `event_time`.

    >>> progress("ts", delay="5 seconds", per="link")
    <penstock.progress PROGRESS ON ts DELAY 5 SECONDS PER link>
    >>> progress("epoch_ms(secs * 1000)", name="at", ordered=True)
    <penstock.progress PROGRESS ON EPOCH_MS(secs * 1000) AS at ORDERED>
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
    """What a stream progresses on, if it is not the name of a column."""
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
    """What somebody has given for `progress=`, if it is what `progress` makes."""
    if given is None or isinstance(given, ProgressOptions):
        return given
    column = given if isinstance(given, str) else "ts"
    raise BindError(
        f"progress is {given!r}, which does not say how the stream progresses",
        expected="what ps.progress makes",
        hint=f'ps.progress("{column}", delay="5 seconds"), or ordered=True',
    )


def by_stream(given: object, streams: Collection[str]) -> dict[str, ProgressOptions | None]:
    """`progress=` of `ps.sql`: of every stream by its name, or of the only one."""
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
