"""`penstock run`, `penstock explain`, `penstock demo`.

Rows go to standard output or a file, everything else to standard error; an error is a message,
never a traceback.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.demo import run_demo
from penstock.cli.report import report_account, report_error
from penstock.database import Database, Explanation, Query
from penstock.errors import PenstockError, SinkError, SourceError
from penstock.sinks.output import ONE_RESULT, Output, OutputFormat

app = typer.Typer(
    help="Continuous window queries in SQL over disordered streams.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

File = Annotated[str, typer.Argument(help="An SQL script, or - for standard input.")]


@app.command()
def run(
    file: File,
    engine: Annotated[str, typer.Option(help="reference, local or spark.")] = "reference",
    output_format: Annotated[
        OutputFormat, typer.Option("--format", help="How rows are written.")
    ] = OutputFormat.TABLE,
    output: Annotated[
        Path | None, typer.Option(help="A file for the rows instead of standard output.")
    ] = None,
    late: Annotated[Path | None, typer.Option(help="A file for late tuples (JSON lines).")] = None,
    rejected: Annotated[
        Path | None, typer.Option(help="A file for rows that were kept aside (JSON lines).")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Stop at the first bad row.")] = False,
) -> None:
    """Run a script: every SELECT in it, or its named queries if it has none."""
    text = _read(file)
    database = Database(engine, strict=strict)
    answered: list[Query] = []
    with Output(output_format, output) as sink:
        results = [result for result in database.script(text) if result is not None]
        if not results:
            results = [database.query(name) for name in database.queries]
        if len(results) > 1 and output_format in ONE_RESULT:
            raise SinkError(
                f"{output_format.value} holds one result, and the script has {len(results)}",
                hint="--format jsonl, or one SELECT per script",
            )
        for result in results:
            if isinstance(result, Explanation):
                _write_explanation(result, sink, output_format, output)
                continue
            sink.write(result.collect())
            answered.append(result)
    if not results:
        typer.echo("nothing to run: the script has no SELECT", err=True)
    for path, tables in (
        (late, [query.late for query in answered]),
        (rejected, [query.rejected for query in answered]),
    ):
        if path is not None:
            with Output(OutputFormat.JSONL, path) as side:
                for table in tables:
                    side.write(table)
    for query in answered:
        report_account(query)


@app.command()
def explain(file: File) -> None:
    """Print the plan of every query of a script."""
    database = Database()
    for result in database.script(_read(file)):
        if result is not None:
            typer.echo(result.explain() if isinstance(result, Query) else result.text)
    for name in database.queries:
        typer.echo(f"-- {name}")
        typer.echo(database.query(name).explain())


@app.command()
def demo() -> None:
    """Show a query at work on packets that come late and out of order."""
    run_demo()


def _write_explanation(
    explanation: Explanation, sink: Output, output_format: OutputFormat, path: Path | None
) -> None:
    if output_format is OutputFormat.TABLE and path is None:
        typer.echo(explanation.text)
    else:
        sink.write(explanation.table())


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


INTERRUPTED = 130


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")  # rows are UTF-8, whatever the terminal's locale
    try:
        app()
    except PenstockError as error:
        report_error(error)
        sys.exit(1)
    except OSError as error:  # typer lets pass what is not about a closed pipe
        report_error(SinkError(f"cannot write: {error.strerror}"))
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        sys.exit(INTERRUPTED)
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:  # typer has seen the interrupt first
            typer.echo("stopped", err=True)
        raise


if __name__ == "__main__":
    main()
