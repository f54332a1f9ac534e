"""Whether what the Spark engine needs is installed, in a version that it works with.

This file imports nothing of PySpark: it is what everybody asks who would like to.
"""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from penstock.errors import EngineError

_ADVICE = "pip install 'penstock[spark]'"
_OTHERWISE = "or without Spark and Java: engine local (penstock … --engine local)"
# The modules of the extra `spark`, and what people call them.
_NEEDED = {"pyspark": "PySpark", "pandas": "pandas", "google.protobuf": "protobuf"}


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


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False
