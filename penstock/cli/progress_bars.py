"""How far a run has come, on a terminal: a line for every stream that is read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from penstock.cli.report import count
from penstock.engine.graph.source_node import SourceNode
from penstock.engine.run import LocalRun
from penstock.model.domain import Domain
from penstock.model.punctuation import BEGINNING
from penstock.runs.status import RunProgress, WorkInProgress
from penstock.sources.files import FileSource
from penstock.sources.source import Chunk

_FILES = 1000  # more are not added up
_MEGABYTE = 1_000_000
_MOMENT = 0.5  # seconds between two looks at what Spark does


class ProgressBars:
    """Watches a run.  `hide_after` is how many rows may be written before the lines give way."""

    def __init__(self, console: Console, hide_after: int | None = None) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"))
        self._progress = Progress(
            *columns,
            console=console,
            transient=True,
            redirect_stdout=False,  # rows are not the console's
            redirect_stderr=False,
        )
        self._hide_after = hide_after
        self._tasks: dict[int, TaskID] = {}
        self._hidden = False
        self._read = ""  # on Spark, up to the last micro-batch

    def __enter__(self) -> ProgressBars:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def watch(self, run: LocalRun, scan: SourceNode, chunk: Chunk) -> None:
        if self._hidden:
            return
        written = sum(outlet.written for outlet in run.outlets)
        if self._hide_after is not None and written >= self._hide_after:
            self._progress.stop()
            self._hidden = True
            return
        task = self._tasks.get(id(scan))
        if task is None:
            source = scan.ingest.stream.source
            size, whole = 0, False
            if isinstance(source, FileSource):
                size, whole = source.size_expected(_FILES)
            total = size if size and whole else None
            task = self._progress.add_task(scan.name, total=total, told="")
            self._tasks[id(scan)] = task
        self._progress.update(task, completed=chunk.position)
        self._progress.update(task, told=self._told(task, scan))

    def begin_spark(self) -> None:
        """Spark takes some seconds to start."""
        self._tasks[0] = self._progress.add_task("spark", total=None, told="Spark starts")

    @contextmanager
    def following(self, doing: Callable[[], WorkInProgress | None]) -> Iterator[None]:
        """Show what Spark does while a micro-batch is at work."""
        if 0 not in self._tasks:
            yield
            return
        ended = threading.Event()

        def follow() -> None:
            while not ended.wait(_MOMENT):
                with suppress(Exception):  # the session is ending, and answers no more
                    self._show_work(doing())

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(_MOMENT)

    def _show_work(self, work: WorkInProgress | None) -> None:
        if work is None or self._hidden:
            return
        words = [str(work), *([self._read] if self._read else [])]
        if work.bytes_there:
            words.insert(0, _of_megabytes(work.bytes_read, work.bytes_there))
            self._progress.update(self._tasks[0], total=work.bytes_there, completed=work.bytes_read)
        self._progress.update(self._tasks[0], told=", ".join(words))

    def say(self, text: str) -> None:
        """A line above the bars, which stays."""
        self._progress.console.print(text)

    def watch_spark(self, progress: RunProgress) -> None:
        """One line for a query on Spark, after every micro-batch."""
        if self._hidden:
            return
        if self._hide_after is not None and progress.rows >= self._hide_after:
            self._progress.stop()
            self._hidden = True
            return
        task = self._tasks.get(0)
        if task is None:
            task = self._tasks[0] = self._progress.add_task("spark", total=None, told="")
        words = [count(progress.read, "row"), f"{progress.rows_per_second:,.0f} rows/s"]
        for source in progress.sources:
            if source.low_text is not None:
                words.append(f"{source.stream} up to {source.low_text}")
        if progress.open_windows is not None:
            words.append(f"{progress.open_windows:,} open")
        words.append(f"state {progress.state_bytes / _MEGABYTE:,.1f} MB")
        if progress.late:
            words.append(f"{progress.late:,} late")
        self._read = ", ".join(words)
        self._progress.update(task, told=self._read)

    def _told(self, task: TaskID, scan: SourceNode) -> str:
        shown = self._progress.tasks[self._progress.task_ids.index(task)]
        words = []
        if shown.total:
            words.append(_of_megabytes(shown.completed, shown.total))
        words.append(count(scan.read, "row"))
        if shown.elapsed:
            words.append(f"{scan.read / shown.elapsed:,.0f} rows/s")
        low = scan.ingest.low
        if low != BEGINNING:
            domain = Domain(scan.ingest.stream.attribute.type)
            words.append(f"up to {domain.format(int(low))}")
        late = sum(outlet.late for outlet in scan.outlets)
        if late:
            words.append(f"{late:,} late")
        return ", ".join(words)


def _of_megabytes(done: float, total: float) -> str:
    return f"{done / _MEGABYTE:,.1f} of {total / _MEGABYTE:,.1f} MB"
