"""Python workers that start fast: with the installed PySpark, and without a process for planning.

When Spark plans a query, it starts a Python process for every stateful step only to ask for its
states, which takes a quarter of a second to import PySpark.  On one machine, the script that is run
instead of Python (`worker_python.sh`) writes a line to a named pipe: the process, the port of
Spark, and the secret that it expects.  A thread of this process reads it and answers as the process
would have done; the script waits until Spark ends it."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from threading import Thread
from typing import IO, TYPE_CHECKING, Any

from penstock.model.value_limits import VARIABLE, max_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@cache
def planner_pipe() -> Path:
    """Create the pipe in which planned steps are announced, and answer them from now on."""
    folder = Path(mkdtemp(prefix="penstock-planner-"))  # readable for this user only
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    pipe = folder / "asked"
    os.mkfifo(pipe, 0o600)
    # open for writing, too: it is never at its end
    lines = os.fdopen(os.open(pipe, os.O_RDWR | os.O_CLOEXEC), "r", buffering=1)
    Thread(target=_answer_all, args=(lines,), name="penstock-planner", daemon=True).start()
    return pipe


def _answer_all(lines: IO[str]) -> None:
    for line in lines:
        asked = line.rstrip("\n").split("\t")
        Thread(target=_answer, args=asked, name="penstock-plans-a-step", daemon=True).start()


def _answer(process: str, where: str, secret: str) -> None:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.serializers import write_int
    from pyspark.util import local_connect_and_auth

    place = int(where) if where.isdecimal() else where
    # A query that has been stopped no longer listens.  If it does, Spark reports that there was no
    # answer.
    with suppress(PySparkRuntimeError, OSError, EOFError):
        file, connection = local_connect_and_auth(place, secret or None)
        with connection, file:
            write_int(int(process), file)  # type: ignore[no-untyped-call]
            file.flush()
            _worker().main(file, file)


@cache
def _worker() -> Any:
    """Module that the process would run, adapted to a process that goes on and has a terminal."""
    from pyspark.sql.streaming import transform_with_state_driver_worker as worker
    from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient

    class Client(StatefulProcessorApiClient):
        """Client that closes its connections when it is collected."""

        def __del__(self) -> None:  # a process that ends need not close its connections
            self.sockfile.close()
            self._client_socket.close()

    module: Any = worker
    module.StatefulProcessorApiClient = Client
    module.print = _print_nothing  # it prints a line for every step
    return module


def _print_nothing(*_: object) -> None:
    pass


# Workers that start in half the time: with the PySpark that is installed, not the one in a zip.
#
# Spark puts its Python sources, as an archive, before the installed packages, and what comes from
# an archive is compiled again in every process.  On one machine there is no need for that:
# workers can be the Python of this process, and find the packages that it finds.
#
# The process that Spark starts to plan a stateful step prints messages before it has run a line of
# Penstock, so the script of these workers keeps them away from the user's terminal; and if it can,
# it has the question answered where PySpark is imported already (`planner_pipe`).

_SCRIPT = Path(__file__).with_name("worker_python.sh")


@contextmanager
def installed_packages(spark: SparkSession) -> Iterator[None]:
    """Let functions that are handed to Spark meanwhile run with the packages of this process."""
    context = spark.sparkContext
    here = str(context.master).startswith("local")
    if not (here and os.access(_SCRIPT, os.X_OK) and _is_installed()):
        yield
        return
    python, environment = context.pythonExec, context.environment
    chosen = {
        "PENSTOCK_PYTHON": sys.executable,
        "PENSTOCK_PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "PENSTOCK_PLANNER": str(planner_pipe()),
        VARIABLE: str(max_value()),
    }
    try:
        context.pythonExec, context.environment = str(_SCRIPT), {**environment, **chosen}
        yield
    finally:
        context.pythonExec, context.environment = python, environment


def _is_installed() -> bool:
    """Whether PySpark is a folder, and not an archive on the path."""
    found = find_spec("pyspark")
    return found is not None and found.origin is not None and Path(found.origin).is_file()
