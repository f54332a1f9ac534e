"""Looking up column names: as written first, then whatever their case; one answer or an error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from penstock.errors import BindError, Span, nearest, shortened
from penstock.model.types import Field, Schema
from penstock.plan.expressions import Column, Expression

Hidden: TypeAlias = frozenset[tuple[str, str | None]]  # names and relations of columns
Merged: TypeAlias = Mapping[tuple[str, str | None], Expression]


class Scope:
    """Columns that names refer to. `hidden` columns are only found under the name of their
    relation: those that USING has merged with another. In a FULL JOIN either of the two may be
    missing, so that the column is `merged` of both."""

    def __init__(
        self, schema: Schema, hidden: Hidden = frozenset(), merged: Merged | None = None
    ) -> None:
        self.schema = schema
        self.hidden = hidden
        self.merged: Merged = merged or {}
        self.written: Mapping[str, str] = {}  # names of relations that had to get another one
        self._by_name: dict[str, list[Field]] = defaultdict(list)  # whatever their case
        for field in schema:
            self._by_name[field.name.casefold()].append(field)

    @property
    def own(self) -> tuple[Field, ...]:
        """Columns of the relations themselves."""
        return self.schema.fields

    @property
    def relations(self) -> set[str]:
        """Names of all relations, casefolded."""
        return {(field.relation or "").casefold() for field in self.schema}

    def find(self, name: str, relation: str | None, span: Span | None) -> Column:
        matches = self.matches(name, relation)
        if len(matches) == 1:
            return Column.of(matches[0], span)
        if matches:
            choices = [field.qualified for field in matches]
            raise BindError(
                f"column {name!r} is ambiguous",
                span=span,
                expected=f"one of {', '.join(choices)}",
                hint=choices[0],
            )
        raise self._unknown(name, relation, span)

    def value(self, name: str, relation: str | None, span: Span | None) -> Expression:
        """Column of that name; without a relation, the column that USING has merged."""
        found = self.find(name, relation, span)
        if relation is not None:
            return found
        return self.merged.get((found.name, found.relation), found)

    def matches(self, name: str, relation: str | None) -> list[Field]:
        """Columns of that name: exact matches if there are any, else in any case."""
        within = [
            field
            for field in self._by_name.get(name.casefold(), ())
            if (
                (field.name, field.relation) not in self.hidden
                if relation is None
                else (field.relation or "").casefold() == relation.casefold()
            )
        ]
        return [field for field in within if field.name == name] or within

    def _unknown(self, name: str, relation: str | None, span: Span | None) -> BindError:
        relations = sorted({field.relation for field in self.schema if field.relation})
        if relation is not None and relation.casefold() not in map(str.casefold, relations):
            close = nearest(relation, relations)
            return BindError(
                f"there is no relation {relation!r} here",
                span=span,
                expected=shortened(f"one of {', '.join(relations)}", 400) if relations else None,
                hint=f"{close[0]}.{name}" if close else None,
            )
        fields = [
            field
            for field in self.schema
            if relation is None or (field.relation or "").casefold() == relation.casefold()
        ]
        names = list(dict.fromkeys(field.name for field in fields))
        close = nearest(name, names)
        shown = shortened(f"{relation}.{name}" if relation else name, 80)
        return BindError(
            f"unknown column {shown!r}",
            span=span,
            expected=shortened(f"one of {', '.join(names)}", 400),
            hint=shortened(" or ".join(close), 400) or None,
        )


class NestedScope(Scope):
    """Scope of a sub-query, and behind it that of the query around it. Relations that had to be
    renamed are found by the name that is `written`."""

    def __init__(
        self,
        fields: Sequence[Field],
        written: Mapping[str, str],
        outer: Scope,
        hidden: Hidden = frozenset(),
        merged: Merged | None = None,
    ) -> None:
        self._own = tuple(fields)
        shown = {
            replace(each, relation=written.get(each.relation or "", each.relation)): each
            for each in fields
        }
        known = {(each.name, each.relation) for each in shown}
        behind = [each for each in outer.schema if (each.name, each.relation) not in known]
        super().__init__(Schema((*shown, *behind)), merged={**outer.merged, **(merged or {})})
        self.hidden, self.written = hidden, written
        self._shown = shown
        concealed = [each for each, own in shown.items() if (own.name, own.relation) in hidden]
        self._inner = Scope(
            Schema(tuple(shown)), frozenset((each.name, each.relation) for each in concealed)
        )
        self._outer = outer

    @property
    def own(self) -> tuple[Field, ...]:
        return self._own

    @property
    def relations(self) -> set[str]:
        own = {(field.relation or "").casefold() for field in self._own}
        return own | super().relations | self._outer.relations

    def matches(self, name: str, relation: str | None) -> list[Field]:
        found = self._inner.matches(name, relation)
        if found or (relation is not None and relation.casefold() in self._inner.relations):
            return [self._shown[each] for each in found]
        return self._outer.matches(name, relation)
