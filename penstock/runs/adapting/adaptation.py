"""When operators are exchanged while queries run: nothing of it changes an answer."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import EngineError

MARGIN = 1.25


@dataclass(frozen=True, slots=True)
class Adaptation:
    """Another operator has to be `margin` times as fast, in so many looks that are `agreeing`, one
    after the other.  An operator is looked at after `rows` tuples at the earliest, and looks take
    no more than a `share` of its time."""

    on: bool = True
    margin: float = MARGIN
    agreeing: int = 2
    rows: int = 10_000
    share: float = 0.02

    def __post_init__(self) -> None:
        if self.margin < 1:
            raise EngineError(
                f"a plan that is {self.margin} times as fast is not better",
                expected="adapt=True, False, or a number of 1 or more",
            )

    @staticmethod
    def never() -> Adaptation:
        return Adaptation(on=False)

    @staticmethod
    def of(told: bool | float) -> Adaptation:
        """
        >>> Adaptation.of(False).on, Adaptation.of(2).margin, Adaptation.of(True).margin
        (False, 2, 1.25)
        """
        return Adaptation(on=told) if isinstance(told, bool) else Adaptation(margin=told)
