"""A schema: named, typed columns, each of which may belong to a relation of the FROM clause."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from penstock.errors import PlanError, shortened
from penstock.model.names import HIDDEN
from penstock.model.types import Type


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: Type
    relation: str | None = None

    def __post_init__(self) -> None:
        if HIDDEN in self.name:
            raise PlanError(f"a column cannot be called {self.name!r}")

    def __str__(self) -> str:
        return f"{self.qualified} {self.type}"

    @property
    def qualified(self) -> str:
        return f"{self.relation}.{self.name}" if self.relation else self.name


@dataclass(frozen=True)
class Schema:
    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        seen = set()
        for field in self.fields:
            if (field.relation, field.name) in seen:
                raise PlanError(f"two columns are called {field.qualified}")
            seen.add((field.relation, field.name))

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __str__(self) -> str:
        return ", ".join(map(str, self.fields))

    def __add__(self, other: Schema) -> Schema:
        return Schema(self.fields + other.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @cached_property
    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(each.qualified, each.type.arrow) for each in self.fields])

    @cached_property
    def _places(self) -> dict[tuple[str, str | None], int]:
        return {(each.name, each.relation): place for place, each in enumerate(self.fields)}

    def __reduce__(self) -> tuple[type[Schema], tuple[tuple[Field, ...]]]:
        """What follows from the fields does not travel."""
        return Schema, (self.fields,)

    def index(self, name: str, relation: str | None = None) -> int:
        """The position of a column; both parts of its name must be exactly as declared."""
        place = self._places.get((name, relation))
        if place is not None:
            return place
        known = ", ".join(field.qualified for field in self.fields)
        wanted = f"{relation}.{name}" if relation else name
        raise PlanError(f"no column {wanted} among {shortened(known)}")

    def under(self, relation: str | None) -> Schema:
        """The same columns, belonging to `relation`."""
        return Schema(tuple(Field(field.name, field.type, relation) for field in self.fields))
