"""The arcs that progress goes along from one node, and which of them a progress concerns.

Windows make something of progress when it has come to the next multiple of their SLIDE.  Where many
arcs begin, those that it has not come so far for are left alone: a thousand windows that nothing is
complete for cost as much as the slides differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.graph.registers import Register
from penstock.model.punctuation import Bound
from penstock.operators.operator import Operator, Progress
from penstock.operators.stride import Stride
from penstock.operators.windows.paned import Paned
from penstock.operators.windows.wid import Wid

if TYPE_CHECKING:
    from penstock.engine.graph.operator_node import OperatorNode


class Arcs(dict[Register, "OperatorNode"]):
    """Registers, and whose they are."""

    def __init__(self) -> None:
        super().__init__()
        self._strides: dict[Register, Stride | None] = {}
        self._by_stride: dict[Stride | None, dict[Register, None]] = {}
        self._passed: dict[Stride, Bound] = {}  # what has been told

    def lay(self, register: Register, owner: OperatorNode) -> None:
        """A new one; or one whose operator is another now."""
        self.take_up(register)
        stride = stride_of(owner.operator) if register.is_straight else None
        self[register] = owner
        self._strides[register] = stride
        self._by_stride.setdefault(stride, {})[register] = None
        if stride is not None:
            self._passed.pop(stride, None)  # the new one has not been told

    def take_up(self, register: Register) -> None:
        """Of a node that leaves."""
        if self.pop(register, None) is None:
            return
        stride = self._strides.pop(register)
        del self._by_stride[stride][register]
        if not self._by_stride[stride]:
            del self._by_stride[stride]
            if stride is not None:
                self._passed.pop(stride, None)

    def concerned(self, progress: Progress) -> list[Register]:
        """Those for whom a progress says something new."""
        if progress.ended or progress.groups is not None or progress.joint:
            self._passed.clear()
            return list(self)
        found: list[Register] = []
        for stride, registers in self._by_stride.items():
            if stride is not None:
                passed = stride.passed(progress)
                if self._passed.get(stride) == passed:
                    continue
                self._passed[stride] = passed
            found += registers
        return found


def stride_of(operator: Operator) -> Stride | None:
    return operator.stride if isinstance(operator, Paned | Wid) else None
