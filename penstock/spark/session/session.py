"""The Spark session: whether PySpark and Java are installed, in which versions, and how a quiet
session is started.

This file imports PySpark within functions only, so that it can report a missing installation."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import EngineError
from penstock.spark.session.worker_errors import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


# The session of the process: the active one, or one that is quiet and set up for Penstock.

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
PARTITIONS = "spark.sql.shuffle.partitions"
# write what has changed to the checkpoint, not all of the state: half the bytes, and less time
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
# the class that writes the files of a checkpoint; see `file_manager`
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
LOG = "PENSTOCK_SPARK_LOG"  # the environment variable that says where Java's messages go
BUCKETS = 4  # by default; fixed for a query when it first starts

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.streaming.noDataProgressEventInterval": "3600000",
    PARTITIONS: str(BUCKETS),
    PROVIDER: ROCKSDB,
    CHANGELOG: "true",
    # a larger function would be broadcast, which stateful steps cannot read when they are planned
    "spark.broadcast.UDFCompressionThreshold": "64m",
}
_HERE = re.compile(r"local(\[(?P<cores>\*|\d+)\])?")  # a master that does not say how many failures
_FAILURES = 4  # of one task, until the query fails: what Spark has on clusters
_ADDRESSES = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")  # of this machine, chosen by its user
_OPTIONS = "spark.driver.extraJavaOptions"
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


def session(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Session of this process; started if there is none."""
    check_installed()
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if found is not None:
        return found
    # workers have to run the same Python, with the same packages
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = settings_for(master, conf or {}, os.environ)
    quiet = f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"
    settings[_OPTIONS] = f"{quiet} {settings.get(_OPTIONS, '')}".strip()
    try:
        _launch_quietly(settings)
        builder = SparkSession.builder.appName("penstock")
        for key, value in settings.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    except Exception as error:
        raise EngineError(
            f"Spark did not start: {first_line(error)}",
            hint=f"{LOG}=- shows what Java says; engine local needs no Java",
        ) from error


def settings_for(
    master: str | None, conf: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str]:
    """Settings that a session is started with.  On one machine, a task may fail as often as on a
    cluster (a worker may be killed), and Spark listens on loopback only.

    >>> settings_for("local[2]", {}, {})["spark.master"]
    'local[2, 4]'
    """
    settings = {**_DEFAULTS, **conf}
    if master is not None or "spark.master" not in settings:
        settings["spark.master"] = master or "local[*]"
    here = _HERE.fullmatch(settings["spark.master"])
    if here is not None:
        settings["spark.master"] = f"local[{here['cores'] or 1}, {_FAILURES}]"
    chosen = any(name in environment for name in _ADDRESSES)
    if settings["spark.master"].startswith("local[") and not chosen:
        for key in ("spark.driver.bindAddress", "spark.driver.host"):
            settings.setdefault(key, "127.0.0.1")
    return settings


def _launch_quietly(settings: Mapping[str, str]) -> None:
    """Start Java with its messages, and those of the Python workers, in a file or nowhere."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    place = os.environ.get(LOG, os.devnull)
    chosen = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with nullcontext() if place == "-" else Path(place).open("ab") as file:
        # a signal to all processes of a terminal or a service is for this one: it ends Java when
        # it is ready, and if it is killed, Java notices
        options: dict[str, Any] = {"start_new_session": True}
        if file is not None:
            options |= {"stderr": file, "stdout": file}
        with _ending_java_if_interrupted():
            gateway = launch_gateway(chosen, options)  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _ending_java_if_interrupted() -> Iterator[None]:
    """Kill Java if this process is interrupted while it starts.  Java ends by itself when this
    process does, but not before it has told how it is reached.  PySpark removes the place for that
    when it is interrupted while it waits, and then Java would stay for ever."""
    from pyspark import java_gateway

    started: list[subprocess.Popen[bytes]] = []
    # signals interrupt the main thread only, so no interrupt comes between starting a process and
    # recording it
    starter = ThreadPoolExecutor(1)

    def start(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(*args, **options))
        return started[-1]

    def popen(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        return starter.submit(start, *args, **options).result()

    java_gateway.Popen = popen  # type: ignore[assignment, attr-defined]
    try:
        yield
    except BaseException:
        starter.shutdown()
        for process in started:
            process.kill()
            process.wait()
        raise
    finally:
        starter.shutdown()
        java_gateway.Popen = subprocess.Popen  # type: ignore[attr-defined]


@contextmanager
def setting(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set configuration values of a session for a while; a streaming query keeps those that it
    started with."""
    before = {key: spark.conf.get(key, None) for key in values}
    try:
        for key, value in values.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
