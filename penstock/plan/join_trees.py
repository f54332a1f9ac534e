"""Join trees: which inputs of a join are joined by one operator, and in which order the tuples of
each probe the others (dataflow expressions).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any, TypeAlias

from penstock.errors import PlanError


@dataclass(frozen=True, slots=True)
class JoinInput:
    """An input of the join, by its number."""

    number: int

    @property
    def leaves(self) -> tuple[int, ...]:
        return (self.number,)


@dataclass(frozen=True, slots=True)
class Joined:
    """Parts that one operator joins. Below the top it is a container: its results are kept, and
    other parts probe them. `probes` are the dataflow expressions: for each part, by number, the
    parts that its tuples probe, in order.

    >>> tree = Joined((Joined((JoinInput(0), JoinInput(2))), JoinInput(1)))
    >>> tree.leaves, tree.named("rst")
    ((0, 2, 1), '((r t) s)')
    """

    parts: tuple[JoinTree, ...]
    probes: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise PlanError(f"a join of {len(self.parts)} inputs", expected="2 or more")
        if not self.probes:  # as they stand
            numbers = range(len(self.parts))
            orders = tuple(tuple(n for n in numbers if n != own) for own in numbers)
            object.__setattr__(self, "probes", orders)
        for number, order in enumerate(self.probes):
            if sorted((number, *order)) != list(range(len(self.parts))):
                raise PlanError(f"tuples of part {number} look for those of {order}")

    @property
    def leaves(self) -> tuple[int, ...]:
        return tuple(number for part in self.parts for number in part.leaves)

    @property
    def is_flat(self) -> bool:
        """Whether it is one operator without containers."""
        return all(isinstance(part, JoinInput) for part in self.parts)

    def save(self) -> list[Any]:
        """Convert to plain values.

        >>> tree = Joined((Joined((JoinInput(0), JoinInput(2))), JoinInput(1)))
        >>> tree.save(), Joined.load(tree.save()) == tree
        ([[[[0, 2], [[1], [0]]], 1], [[1], [0]]], True)
        """
        parts = [p.number if isinstance(p, JoinInput) else p.save() for p in self.parts]
        return [parts, [list(order) for order in self.probes]]

    @staticmethod
    def load(saved: Sequence[Any]) -> Joined:
        parts, probes = saved
        made = (JoinInput(each) if isinstance(each, int) else Joined.load(each) for each in parts)
        return Joined(tuple(made), tuple(map(tuple, probes)))

    def named(self, names: Sequence[str]) -> str:
        inside = " ".join(
            names[part.number] if isinstance(part, JoinInput) else part.named(names)
            for part in self.parts
        )
        return f"({inside})"


JoinTree: TypeAlias = JoinInput | Joined


def flat(size: int, probes: tuple[tuple[int, ...], ...] = ()) -> Joined:
    """Tree of one operator for all inputs."""
    return Joined(tuple(map(JoinInput, range(size))), probes)


def left_deep(order: Sequence[int]) -> Joined:
    """Left-deep tree: a pipeline of operators for two inputs."""
    made: JoinTree = JoinInput(order[0])
    for number in order[1:]:
        made = Joined((made, JoinInput(number)))
    assert isinstance(made, Joined)
    return made


def orders_of(size: int, own: int) -> Iterator[tuple[int, ...]]:
    """All orders in which the tuples of one part can probe the others.

    >>> list(orders_of(3, own=1))
    [(0, 2), (2, 0)]
    """
    return permutations(number for number in range(size) if number != own)


def trees_of(numbers: Sequence[int], most_parts: int | None = None) -> Iterator[JoinTree]:
    """All trees over some inputs, with nodes of any number of parts, or of at most `most_parts`;
    the order of probes is that of the parts.

    >>> [len(list(trees_of(range(size)))) for size in (2, 3, 4)]
    [1, 4, 26]
    >>> [len(list(trees_of(range(size), most_parts=2))) for size in (2, 3, 4)]
    [1, 3, 15]
    """
    if len(numbers) == 1:
        yield JoinInput(numbers[0])
        return
    for blocks in partitions(tuple(numbers)):
        if 2 <= len(blocks) <= (most_parts or len(numbers)):
            for parts in product(*(list(trees_of(block, most_parts)) for block in blocks)):
                yield Joined(parts)


def partitions(numbers: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All partitions of a set into blocks.

    >>> list(partitions((1, 2)))
    [((1, 2),), ((1,), (2,))]
    """
    if not numbers:
        yield ()
        return
    first, rest = numbers[0], numbers[1:]
    for blocks in partitions(rest):
        for place, block in enumerate(blocks):
            yield (*blocks[:place], (first, *block), *blocks[place + 1 :])
        yield ((first,), *blocks)
