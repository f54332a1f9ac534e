"""What a session is started with: quiet, on loopback, and with workers that may fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.session.session import settings_for

ADDRESS = "spark.driver.bindAddress"


@pytest.mark.parametrize(
    ("given", "master"),
    [
        (None, "local[*, 4]"),
        ("local", "local[1, 4]"),
        ("local[3]", "local[3, 4]"),
        ("local[3, 1]", "local[3, 1]"),
        ("spark://here:7077", "spark://here:7077"),
    ],
)
def test_masters(given: str | None, master: str) -> None:
    assert settings_for(given, {}, {})["spark.master"] == master
    assert settings_for(None, {"spark.master": given or "local[*]"}, {})["spark.master"] == master


def test_nobody_else_gets_to_see_it() -> None:
    made = settings_for("local[2]", {}, {})
    assert made[ADDRESS] == made["spark.driver.host"] == "127.0.0.1"
    assert made["spark.ui.enabled"] == "false"


def test_an_address_that_was_chosen() -> None:
    assert settings_for(None, {ADDRESS: "10.0.0.1"}, {})[ADDRESS] == "10.0.0.1"
    assert ADDRESS not in settings_for(None, {}, {"SPARK_LOCAL_IP": "10.0.0.1"})
    assert ADDRESS not in settings_for("spark://here:7077", {}, {})


def test_java_does_not_stay_when_somebody_interrupts_its_start(tmp_path: Path) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(
        """
import subprocess
from pyspark import java_gateway
from penstock.spark.session.session import session

started = []
class Noted(subprocess.Popen):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        started.append(self)
subprocess.Popen = Noted

def interrupt(seconds):
    raise KeyboardInterrupt
java_gateway.time.sleep = interrupt
try:
    session("local[1]")
except KeyboardInterrupt:
    print([process.returncode for process in started])
""",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.strip() == "[-9]", done.stderr
