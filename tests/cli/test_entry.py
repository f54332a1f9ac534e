"""Ctrl-C while the command is being imported, which takes a moment."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.signals import heard

INTERRUPTED = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "penstock.cli.script":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from penstock.cli.entry import main
main()
"""


def test_an_interrupt_before_anything_has_begun_has_no_traceback() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    with heard():
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")
