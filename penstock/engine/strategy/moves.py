"""What can follow the execution of an operator."""

from __future__ import annotations

from enum import Enum


class Move(Enum):
    FORWARD = "forward"  # to a successor for which something waits
    ENCORE = "encore"  # once more
    BACKTRACK = "backtrack"  # to the predecessor whose output is waited for, without executing it
    EXIT = "exit"  # back to the scheduler
