"""Whether saved state belongs to a query; if not, the error says what differs."""

from __future__ import annotations

from penstock.errors import CheckpointError
from penstock.plan.identity.identity import differences

_BEGIN_ANEW = "another checkpoint, or delete the directory to begin anew"


def check_query(found: list[str], own: list[str], where: str) -> None:
    """Compare what `identity` says of the query that made the state with that of this one; `where`
    names the checkpoint."""
    if found != own:
        raise CheckpointError(
            f"{where} belongs to another query; they differ in:"
            + _shown(_for_people(differences(found, own))),
            expected="the query that it was made by (lines with -)",
            hint=_BEGIN_ANEW,
        )


def check_algorithms(found: list[str], own: list[str], where: str) -> None:
    """The same for what `algorithms` says, where state cannot move from one to another.

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
        hint=f"{', '.join(hints)} keeps it" if hints else _BEGIN_ANEW,
    )


def check_buckets(found: int, own: int, where: str) -> None:
    if found != own:
        raise CheckpointError(
            f"{where} was made with {found} bucket{'s' * (found != 1)}, and now there are {own}",
            expected="the number that it was made with: it decides where the state of a key is",
            hint=f"connect(…, buckets={found}); or {_BEGIN_ANEW}",
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
            hint=f"run it with the version that wrote it; or {_BEGIN_ANEW}",
        )


def _for_people(changes: list[str]) -> list[str]:
    """Without lines that only stand further in, or further out, than before, unless nothing else
    has changed; nor how windows of joins are written inside, where the condition says it, too.

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
