"""What Spark reads: a DataFrame that somebody has given, or the portions of a feed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Frame:
    """A DataFrame of a stream: its rows, or the portions of the `feed` in a directory, which say
    where they are.  In the directory `stamps` is the last time that a tuple was given, if tuples
    get their times here."""

    frame: DataFrame
    feed: str | None = None
    stamps: str | None = None

    @property
    def fed(self) -> bool:
        return self.feed is not None

    @property
    def in_order(self) -> bool:
        """A table has no order in which rows could be late."""
        return self.fed or self.frame.isStreaming


@dataclass(frozen=True)
class Sources:
    """By the name of the stream: what Spark reads, and the parts that are known from the start."""

    frames: dict[str, list[Frame]]
    parts: dict[str, tuple[str, ...]]
