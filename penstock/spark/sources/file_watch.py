"""Files that appear while a run goes on are fed to it."""

from __future__ import annotations

import logging
import threading
from collections import Counter

from penstock.errors import PenstockError
from penstock.sources.files import FileSource
from penstock.spark.sources.feed import FileToRead
from penstock.spark.sources.feeds import Feeds
from penstock.spark.sources.filling import ends_with_a_line, fill_files

LOOK = 1.0  # seconds between two looks
_PATIENCE = 3  # looks that may fail before somebody hears of it

_log = logging.getLogger(__name__)


class FileWatch:
    def __init__(self, feeds: Feeds, leaving: threading.Event) -> None:
        self._feeds = feeds
        self._leaving = leaving
        self._sizes: dict[tuple[str, str], int] = {}  # by stream and file, at the last look
        self._failed: Counter[str] = Counter()  # looks in a row, by stream

    def look_on(self) -> None:
        """Until the run is left."""
        while not self._leaving.wait(LOOK):
            self.look()

    def look(self) -> None:
        for name, stream in self._feeds.streams.items():
            if not isinstance(stream.source, FileSource):
                continue
            try:
                fill_files(
                    self._feeds.by_name[name],
                    stream,
                    stream.source,
                    ready=lambda file, name=name: self._is_whole(name, file),  # type: ignore[misc]
                    followed=True,
                )
                self._failed[name] = 0
            except (PenstockError, OSError) as error:  # what was there may be gone for a moment
                self._failed[name] += 1
                if self._failed[name] == _PATIENCE:
                    _log.warning("stream %s: no new files are read: %s", name, error)

    def _is_whole(self, stream: str, file: FileToRead) -> bool:
        """Somebody may still be writing it: then it grows."""
        before = self._sizes.get((stream, file.name))
        self._sizes[stream, file.name] = file.size
        return before == file.size and ends_with_a_line(file)
