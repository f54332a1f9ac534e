"""Reports on standard error: errors, the account of a run's tuples, and progress bars."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from penstock.errors import EngineError, PenstockError
from penstock.io.sources.files import FileSource
from penstock.io.sources.source import Chunk
from penstock.local.graph.source_node import SourceNode
from penstock.local.run import LocalRun
from penstock.model.punctuation import BEGINNING
from penstock.model.ticks import Domain
from penstock.optimizer.optimize import executed_query
from penstock.optimizer.rewrite import Settings
from penstock.plan.nodes.query import Late, QueryPlan
from penstock.plan.properties import has_windows, kept_for_ever, what_waits
from penstock.runs.advice import advice_on_late, advice_on_rejects
from penstock.runs.answer import Account
from penstock.runs.delivery import Outcome
from penstock.runs.status import RunProgress, WorkInProgress


def readable(text: str) -> str:
    """Escape everything that a terminal would interpret as a control character, or that is no text.

    >>> readable("no column \\x1b[2J\\n  expected: k")
    'no column \\\\x1b[2J\\n  expected: k'
    """
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )


def report_error(error: PenstockError) -> None:
    typer.echo(f"{typer.style('error:', fg='red', bold=True)} {readable(str(error))}", err=True)


def out_of_memory(error: MemoryError) -> EngineError:
    """Make the error for a lack of memory, whether Python, NumPy or Arrow ran out of it."""
    what = str(error).partition("\n")[0]
    return EngineError(
        "there is not enough memory" + (f": {what}" if what else ""),
        hint="smaller values, windows or groups; or a machine with more memory",
    )


def report_outcome(outcome: Outcome, query: QueryPlan, rejected: Path | None = None) -> None:
    """Report the tuples that did not take part in one line each; nothing if all did. `rejected` is
    the file with all rejected rows, if there is one."""
    account = outcome.account
    if account.late:
        them = "it" if account.late == 1 else "they"
        words = {
            Late.DROP: "left out" + f" of the windows {them} missed" * has_windows(query),
            Late.SIDE: "kept aside",
            Late.AMEND: "counted all the same",
        }
        what = words[query.late]
        if query.amend_for is not None:
            what += f", up to {query.amend_for} behind"
        among = f"among {count(account.read, 'row')}"  # some of them may be no tuples
        typer.echo(f"{count(account.late, 'late tuple')} {among}, {what}", err=True)
        if advice := advice_on_late(account, query):
            typer.echo(readable(advice), err=True)
    if kept := kept_for_ever(executed_query(query, Settings())):
        typer.echo(kept, err=True)
    if account.rejected:
        typer.echo(f"{count(account.rejected, 'row')} kept aside:", err=True)
        for reject in outcome.first_rejects:
            shown = readable(str(reject)).removeprefix("stream ").removeprefix("table ")
            typer.echo(f"  {shown}", err=True)
        more = account.rejected - len(outcome.first_rejects)
        if more:
            where = "--rejected FILE" if rejected is None else f"all are in {rejected}"
            typer.echo(readable(f"  … and {more:,} more ({where})"), err=True)
        if advice := advice_on_rejects(account, outcome.first_rejects):
            typer.echo(readable(advice), err=True)
    if outcome.total is not None:
        typer.echo(_about_the_checkpoint(outcome, outcome.total, what_waits(query)), err=True)


def _about_the_checkpoint(outcome: Outcome, total: Account, waiting: str) -> str:
    """Describe the rows read by this run and by all runs, and what waits for the next run."""
    words = f"{count(outcome.account.read, 'row')} read, {total.read:,} by all runs"
    if number := outcome.open_windows:
        one = number == 1
        them = "it" if one else "them"
        if waiting == "window":
            state, remedy = f"{'is' if one else 'are'} still open", f"closes {them}"
        else:
            state, remedy = f"still {'waits' if one else 'wait'}", f"gives {them} out"
        words += f"; {count(number, waiting)} {state}; --final {remedy}"
    return words


def count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


# Progress of a run on a terminal: a line for every stream that is read.

_FILES = 1000  # more are not added up
_MEGABYTE = 1_000_000
_MOMENT = 0.5  # seconds between two checks of Spark's progress


class ProgressBars:
    """Watches a run. After `hide_after` written rows, the lines give way to them."""

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
        self._progress.update(task, told=self._progress_text(task, scan))

    def begin_spark(self) -> None:
        """Show that Spark starts, which takes some seconds."""
        self._tasks[0] = self._progress.add_task("spark", total=None, told="Spark starts")

    @contextmanager
    def following(self, doing: Callable[[], WorkInProgress | None]) -> Iterator[None]:
        """Show the progress of Spark while a micro-batch runs."""
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
        """Print a line above the bars, which stays."""
        self._progress.console.print(text)

    def watch_spark(self, progress: RunProgress) -> None:
        """Update the line of a query on Spark, after every micro-batch."""
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

    def _progress_text(self, task: TaskID, scan: SourceNode) -> str:
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
