"""Which versions of Spark there are for Penstock, what differs between them, and whether what the
Spark engine needs is installed at all.

Nothing of PySpark is imported here: everybody asks this file who would like to.
"""

from __future__ import annotations

import os
import re
import shutil
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from penstock.errors import EngineError

LEAST = (4, 0)  # the oldest version that the tests pass with; pyproject.toml says the same

_ADVICE = "pip install 'penstock[spark]'"
_OTHERWISE = "or without Spark and Java: engine local (penstock … --engine local)"
# The modules of the extra `spark`, and what people call them.
_NEEDED = {"pyspark": "PySpark", "pandas": "pandas", "google.protobuf": "protobuf"}
_STREAMING = "org.apache.spark.sql.execution.streaming"


def check_installed() -> None:
    check_packages()
    home = os.environ.get("JAVA_HOME")
    if not (home and (Path(home) / "bin" / "java").exists()) and shutil.which("java") is None:
        raise EngineError(
            "the spark engine needs Java 17 or newer, and there is no java on the PATH",
            expected="a Java runtime, or JAVA_HOME pointing to one",
            hint=f"apt install default-jre-headless, {_OTHERWISE}",
        )


def check_packages() -> None:
    for module, name in _NEEDED.items():
        if not _is_installed(module):
            raise EngineError(f"the spark engine needs {name}", hint=f"{_ADVICE}, {_OTHERWISE}")
    try:
        found = version("pyspark")
    except PackageNotFoundError:  # a Spark that was unpacked rather than installed
        return
    if release(found) < LEAST:
        least = ".".join(map(str, LEAST))
        raise EngineError(
            f"the spark engine needs PySpark {least} or newer, and {found} is installed",
            hint=f"{_ADVICE}, {_OTHERWISE}",
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False


def release(spark_version: str) -> tuple[int, int]:
    """
    >>> release("4.0.1-SNAPSHOT")
    (4, 0)
    """
    major, minor = re.findall(r"\d+", spark_version)[:2]
    return int(major), int(minor)


def file_manager(spark_version: str) -> str:
    """The class that writes a checkpoint without starting a process for every file that it renames,
    as Spark's usual one does on a local disk.

    >>> file_manager("4.0.1").removeprefix(_STREAMING), file_manager("4.1.0") > ""
    ('.FileSystemBasedCheckpointFileManager', True)
    """
    room = "checkpointing." if release(spark_version) >= (4, 1) else ""
    return f"{_STREAMING}.{room}FileSystemBasedCheckpointFileManager"
