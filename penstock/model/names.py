"""Names of columns that Penstock adds to those of the user, which are never hidden by them.

Inside, such columns have names that nobody can write.  Where they are handed out, they are called
as the documentation says, or the same with a number behind it if the user has such a column.
"""

from __future__ import annotations

from collections.abc import Iterable

HIDDEN = "\0"  # what names of columns begin with that are never handed out
LATE = ("late_bound", "missed_first", "missed_last", "amended")


def free_name(name: str, taken: Iterable[str]) -> str:
    """
    >>> free_name("late_bound", ["k", "late_bound"])
    'late_bound_1'
    """
    used = set(taken)
    found, number = name, 0
    while found in used:
        number += 1
        found = f"{name}_{number}"
    return found


def late_names(names: Iterable[str]) -> list[str]:
    """What the columns of `LATE` are called beside columns with these names, which may have the
    name of their relation before them and may be handed out without it.

    >>> late_names(["s.k", "s.amended"])
    ['late_bound', 'missed_first', 'missed_last', 'amended_1']
    """
    given = list(names)
    taken = {*given, *(name.rpartition(".")[2] for name in given)}
    return [free_name(name, taken) for name in LATE]
