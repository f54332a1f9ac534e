"""Entry point of the command. An interrupt while modules are imported, before anything has begun,
ends it as it ends any other program, without a traceback."""

from __future__ import annotations

import signal


def main() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the command has handlers of its own
    from penstock.cli.main import main as run

    run()
