"""Who executes a physical plan."""

from __future__ import annotations

from enum import Enum


class Host(Enum):
    LOCAL = "local"
    SPARK = "spark"
