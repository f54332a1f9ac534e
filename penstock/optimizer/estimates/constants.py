"""What the steps of window algorithms take: the table that the choice between them is made by.

`python -m benchmarks.choice calibrate` measures it and prints it in this form: every step alone, on
one thread, in processor time, the least of several runs.  "call" and "tuple" come from folding 1
and 65,536 tuples, "group" from 1 and 100,000 groups.  The numbers are of one machine; on another
they differ by a factor that most steps share, so the order of the algorithms stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Cost:
    """Nanoseconds: for doing it at all, for each tuple, and for each group.

    >>> Cost(call=100, tuple=2, group=1).time(tuples=10, groups=5)
    125
    """

    call: float = 0.0
    tuple: float = 0.0
    group: float = 0.0

    def time(self, tuples: float = 0.0, groups: float = 0.0) -> float:
        return self.call + self.tuple * tuples + self.group * groups

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.call + other.call, self.tuple + other.tuple, self.group + other.group)


@dataclass(frozen=True, slots=True)
class Constants:
    """What an aggregate takes: steps, and the bytes of a partial result and of a tuple in it."""

    fold: Cost  # tuples into partial results; groups count if there are few to a tuple
    new: Cost  # partial results over nothing
    merge: Cost  # one partial result into another, or out of it
    finish: Cost  # the results of a window
    partial: float  # bytes of a group
    kept: float  # bytes of a tuple

    def __add__(self, other: Constants) -> Constants:
        return Constants(
            self.fold + other.fold,
            self.new + other.new,
            self.merge + other.merge,
            self.finish + other.finish,
            self.partial + other.partial,
            self.kept + other.kept,
        )


class Class(Enum):
    """Aggregates that cost alike."""

    COUNT = "differential, counting"
    WHOLE = "differential, over whole numbers"
    FRACTION = "differential, over fractions, which are added exactly"
    EXTREME = "distributive, not to be subtracted"
    HOLISTIC = "holistic: its partial results are its tuples"


# Every aggregation counts the rows of its groups; aggregates come on top of that.
ROWS = Constants(
    fold=Cost(1400, 1.3, 0.58),
    new=Cost(3200, 0, 0.15),
    merge=Cost(2600, 0, 0.13),
    finish=Cost(11000, 0, 0.64),
    partial=8,
    kept=0,
)
AGGREGATES: dict[Class, Constants] = {
    Class.COUNT: Constants(
        fold=Cost(1500, 0.63, 0.64),
        new=Cost(320, 0, 0.066),
        merge=Cost(810, 0, 0.4),
        finish=Cost(8300, 0, 0.81),
        partial=8,
        kept=0,
    ),
    Class.WHOLE: Constants(
        fold=Cost(4500, 6, 0),
        new=Cost(25000, 0, 0.9),
        merge=Cost(6100, 0, 0.93),
        finish=Cost(11000, 0, 3.1),
        partial=16,
        kept=0,
    ),
    Class.FRACTION: Constants(
        fold=Cost(28000, 30, 0),
        new=Cost(36000, 0, 1.9),
        merge=Cost(14000, 0, 2),
        finish=Cost(17000, 0, 450),
        partial=32,
        kept=0,
    ),
    Class.EXTREME: Constants(
        fold=Cost(14000, 71, 59),
        new=Cost(340, 0, 0.46),
        merge=Cost(9400, 0, 10),
        finish=Cost(9300, 0, 5),
        partial=17,
        kept=0,
    ),
    Class.HOLISTIC: Constants(
        fold=Cost(120000, 65, 10),
        new=Cost(51000, 0, 0),
        merge=Cost(36000, 31, 0),
        finish=Cost(110000, 37, 0),
        partial=0,
        kept=24,
    ),
}

ENCODE = Cost(20000, 27)  # a batch: its ticks, groups and arguments, and putting it in order
CUT = 8900.0  # the rows of one pane or window out of a batch
SKIP = 64.0  # going by a pane that is empty
BUFFER = 73.0  # a buffered tuple, whenever windows are released: to join, to order, to keep it
ADAPTIVE = Cost(110000, 38)  # on top of WID: a fold, and a tuple that comes
LAZY = 63.0  # on top of a fold: a tuple of a sparse group
TWO_LEVEL = Cost(91000, 82)  # on top of panes: a batch, and a tuple
TAGGED = 32  # bytes of a buffered tuple, without what its aggregates need of it
