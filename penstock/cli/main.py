"""The command `penstock`: `run`, `top`, `shell`, `explain`, `demo` and `reproduce`.

Rows go to standard output or a file, everything else to standard error; an error is a message,
never a traceback."""

from __future__ import annotations

import csv
import io
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand

from penstock import __version__
from penstock.api.database import Database
from penstock.api.query import Query
from penstock.api.spark_execution import SparkSetting
from penstock.cli.demo.demo import run_demo
from penstock.cli.report import out_of_memory, report_error
from penstock.cli.script import Places, run_script
from penstock.cli.shell.shell import run_shell
from penstock.cli.stopping import StoppedError, interrupted_by_signals
from penstock.cli.top import run_top, wide_console
from penstock.errors import EngineError, PenstockError, SinkError, SourceError, nearest
from penstock.experiments.catalogue import EXPERIMENTS
from penstock.experiments.experiment_clock import Conduct
from penstock.experiments.figure import Figure
from penstock.io.sinks.output import OutputFormat, format_for
from penstock.runs.run_options import AVAILABLE_NOW, RunOptions
from penstock.spark.session.session import BUCKETS

# `penstock reproduce`: experiments of the papers, with their tables and pictures.


def reproduce_experiments(name: str, out: Path, conduct: Conduct) -> None:
    """Run one experiment, or all. On the simulated clock every run is the same, so an expectation
    that is missed is an error."""
    if name != "all" and name not in EXPERIMENTS:
        close = nearest(name, list(EXPERIMENTS))
        raise EngineError(
            f"there is no experiment called {name!r}",
            expected=f"all, or one of {', '.join(EXPERIMENTS)}",
            hint=close[0] if close else None,
        )
    if conduct.quick and conduct.real_time:
        raise EngineError(
            "--quick is for the simulated clock, and --real-time goes by the clock on the wall",
            expected="one of them",
        )
    console, missed = Console(), []
    can_plot = find_spec("matplotlib") is not None
    for each in EXPERIMENTS if name == "all" else [name]:
        figure = EXPERIMENTS[each](conduct)
        _show(figure, console)
        _write(figure, out, can_plot)
        missed += [f"{figure.name}: {it.what}" for it in figure.expected if not it.holds]
    console.print(f"written to {out}", soft_wrap=True)
    if not can_plot:
        console.print("no pictures: they need matplotlib (pip install 'penstock\\[plots]')")
    if missed and not conduct.real_time:  # there, times are also those of what else is going on
        raise EngineError(f"not as expected: {'; '.join(missed)}")


def _show(figure: Figure, console: Console) -> None:
    console.print(f"[bold]{figure.title}", soft_wrap=True)
    console.print(figure.table())
    console.print(f"The paper: {figure.paper}.", soft_wrap=True)
    console.print(figure.verdicts())


def _write(figure: Figure, out: Path, can_plot: bool) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with (out / f"{figure.name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(figure.rows[0]))
        writer.writeheader()
        writer.writerows(figure.rows)
    if can_plot:
        figure.plot(out / f"{figure.name}.png")


# The commands and their options.

INTERRUPTED = 130  # what typer makes of an interrupt

app = typer.Typer(
    help="Continuous window queries in SQL over disordered streams.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class _Command(TyperCommand):
    """Shows arguments in the usage line by their names, without braces."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [each.strip("{}") for each in super().collect_usage_pieces(ctx)]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def penstock(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            "-V",
            help="Say which version this is.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    pass


File = Annotated[
    str, typer.Argument(metavar="FILE", help="An SQL script, or - for standard input.")
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        help="A file, directory or socket://host:port that SQL may read; may be repeated."
        " Without it, everything; with '' alone, nothing."
    ),
]


@app.command(cls=_Command)
def run(
    file: File,
    engine: Annotated[
        str, typer.Option(help="spark, local or reference.", envvar="PENSTOCK_ENGINE")
    ] = "spark",
    output_format: Annotated[
        OutputFormat | None,
        typer.Option("--format", help="How rows are written, if not as the name of FILE says."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A file for the rows instead of standard output; a directory with a checkpoint.",
        ),
    ] = None,
    late: Annotated[Path | None, typer.Option(help="A file for late tuples (JSON lines).")] = None,
    rejected: Annotated[
        Path | None, typer.Option(help="A file for rows that were kept aside (JSON lines).")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Stop at the first bad row.")] = False,
    master: Annotated[
        str | None, typer.Option(help="Spark's master, for the spark engine (local[*]).")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="A setting of Spark, key=value; may be repeated.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A directory from which the same command goes on later.")
    ] = None,
    trigger: Annotated[
        str,
        typer.Option(help="available-now, or the time between two looks: '5 seconds'."),
    ] = AVAILABLE_NOW,
    final: Annotated[
        bool,
        typer.Option("--final", help="With a checkpoint: close what is open; nothing follows."),
    ] = False,
    buckets: Annotated[
        int | None,
        typer.Option(help=f"Into how many parts Spark splits the state ({BUCKETS}).", min=1),
    ] = None,
    allow: Allow = None,
) -> None:
    """Run a script: every SELECT in it, or its named queries if it has none."""
    text = _read(file)
    if engine != "spark":
        _refuse_for(engine, {"--master": master, "--conf": conf, "--buckets": buckets})
    if final and checkpoint is None:
        raise EngineError(
            "--final closes what a checkpoint keeps open, and there is none",
            hint="leave it out: without --checkpoint every window is closed at the end",
        )
    spark = SparkSetting(None, master, _settings(conf or []), buckets or BUCKETS)
    database = Database(engine, strict=strict, spark=spark, allow=_allowed(allow))
    place = Path(output) if output is not None else None
    chosen = output_format
    if checkpoint is None:
        _refuse_directory(output)
        chosen = chosen or format_for(place)
    options = RunOptions(checkpoint, trigger, final)
    run_script(database, text, Places(chosen, place, late, rejected), options)


def _refuse_directory(output: str | None) -> None:
    if output is not None and (output.endswith("/") or Path(output).is_dir()):
        raise SinkError(
            f"{output} is a directory, and without a checkpoint rows go to one file",
            hint=f"--output {output.rstrip('/') or 'rows'}.jsonl, or --checkpoint DIR",
        )


def _refuse_for(engine: str, given: dict[str, object]) -> None:
    """Refuse options of Spark with another engine, which would ignore them."""
    for name, value in given.items():
        if value is not None:
            raise EngineError(
                f"{name} is for the spark engine, not for {engine}", hint="leave it out"
            )


@app.command(cls=_Command)
def top(
    file: File,
    strict: Annotated[bool, typer.Option(help="Stop at the first bad row.")] = False,
    trigger: Annotated[
        str,
        typer.Option(help="available-now, or the time between two looks: '5 seconds'."),
    ] = AVAILABLE_NOW,
    allow: Allow = None,
) -> None:
    """Run a script in this process and watch its queries and operators; rows are only counted."""
    database = Database("local", strict=strict, allow=_allowed(allow))
    run_top(database, _read(file), RunOptions(None, trigger), wide_console())


@app.command(cls=_Command)
def shell(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="An SQL script that is carried out first."),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Option("--command", "-c", help="Carry this out and leave; may be repeated."),
    ] = None,
    strict: Annotated[bool, typer.Option(help="Stop a query at its first bad row.")] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="A directory in which queries are kept; they are there the next time."),
    ] = None,
    trigger: Annotated[
        str,
        typer.Option(help="available-now, or the time between two looks at files: '5 seconds'."),
    ] = AVAILABLE_NOW,
    final: Annotated[
        bool,
        typer.Option("--final", help="When it is left, give out what is open; nothing follows."),
    ] = False,
    overload: Annotated[
        str,
        typer.Option(
            help="What happens to rows of a socket that come too fast: block lets them wait;"
            " 'drop-oldest 10000' lets so many wait, and counts those that are dropped."
        ),
    ] = "block",
    allow: Allow = None,
) -> None:
    """A prompt: queries are created, watched and dropped while others run."""
    database = Database("local", strict=strict, allow=_allowed(allow))
    script = _read(file) if file is not None else None
    options = RunOptions(checkpoint, trigger)
    raise typer.Exit(run_shell(database, script, command or [], options, final, overload))


@app.command(cls=_Command)
def explain(
    file: File,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run every query, and print what was measured.")
    ] = False,
) -> None:
    """Print the plan of every query of a script."""
    database = Database()
    for result in database.script(_read(file)):
        if result is not None:
            found = result.explain(analyze=analyze) if isinstance(result, Query) else result.text
            typer.echo(found)
    for name in database.queries:
        typer.echo(f"-- {name}")
        typer.echo(database.query(name).explain(analyze=analyze))


@app.command(cls=_Command)
def demo(
    engine: Annotated[str, typer.Option(help="spark, or local: a smaller one.")] = "spark",
    picture: Annotated[Path, typer.Option(help="Where the picture of the answers goes.")] = Path(
        "out/demo.png"
    ),
) -> None:
    """Show queries at work on packets that come late and out of order."""
    run_demo(engine, picture)


@app.command(cls=_Command)
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="figure-4, figure-7, figure-8, figure-14 to figure-16, or all."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where numbers and pictures go.")] = Path(
        "out/reproduce"
    ),
    real_time: Annotated[
        bool,
        typer.Option("--real-time", help="By the clock on the wall: up to 3 minutes a figure."),
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller, to see the shape; not with --real-time.")
    ] = False,
) -> None:
    """Repeat an experiment of the papers on the query graph, on a simulated clock."""
    reproduce_experiments(name, out, Conduct(real_time, quick))


def _allowed(given: list[str] | None) -> list[str] | None:
    return [each for each in given if each] if given else None


def _settings(given: list[str]) -> dict[str, str]:
    pairs = [each.partition("=") for each in given]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise EngineError(
                f"--conf {key}", expected="key=value", hint="--conf spark.ui.enabled=true"
            )
    return {key: value for key, _, value in pairs}


def _read(file: str) -> str:
    try:
        if file == "-":
            if sys.stdin is None:
                raise SourceError("standard input is closed")
            return sys.stdin.read()
        return Path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SourceError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SourceError(f"{file} is not text in UTF-8") from None


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")  # rows are UTF-8, whatever the terminal's locale
    with interrupted_by_signals() as received:
        try:
            app()
        except PenstockError as error:
            report_error(error)
            sys.exit(1)
        except MemoryError as error:
            report_error(out_of_memory(error))
            sys.exit(1)
        except OSError as error:  # typer lets pass what is not about a closed pipe
            report_error(SinkError(f"cannot write: {error.strerror}"))
            sys.exit(1)
        except StoppedError as stopped:
            typer.echo(str(stopped), err=True)
            sys.exit(stopped.code)
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            sys.exit(received.code)
        except SystemExit as leaving:
            if leaving.code != INTERRUPTED:
                raise
            typer.echo("stopped", err=True)  # typer has seen the interrupt first
            sys.exit(received.code)


if __name__ == "__main__":
    main()
