"""The command as it is started: importing takes a moment in which nothing has begun, and an
interrupt ends it then as it ends any other program, without a traceback.
"""

from __future__ import annotations

import signal


def main() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the command has handlers of its own
    from penstock.cli.main import main as run

    run()
