"""Workers that start in half the time: with the PySpark that is installed, not the one in a zip.

Spark puts its Python sources, as an archive, before the installed packages, and what comes from an
archive is compiled again in every process.  On one machine there is no need for that: workers can
be the Python of this process, and find the packages that it finds.

The process that Spark starts to plan a stateful step prints what it does before it has read a line
of ours, so it is the script of these workers that keeps this away from the user's terminal; and if
it can, it has the question answered where PySpark is imported already (`planner.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.model.value_limits import VARIABLE, max_value
from penstock.spark.session.planner import planner_pipe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCRIPT = Path(__file__).with_name("worker_python.sh")


@contextmanager
def installed_packages(spark: SparkSession) -> Iterator[None]:
    """Functions that are handed to Spark meanwhile run with the packages of this process."""
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
    """Whether PySpark is a folder, not an archive that somebody else put there."""
    found = find_spec("pyspark")
    return found is not None and found.origin is not None and Path(found.origin).is_file()
