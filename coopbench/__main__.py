"""``coopbench`` and ``python -m coopbench``: load the command line, then run it."""

import os
import signal
import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> None:
    """Run the command line; an interruption while it loads ends the process with status 130."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the parent process has closed it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:  # not where the parent process has chosen to ignore interruptions
        signal.signal(signal.SIGINT, _stop)
    from coopbench.cli.main import main as run

    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    finally:
        if usual:  # the command has ended and said so; nothing is left to interrupt
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _stop(number: int, frame: object) -> NoReturn:
    """Exit at once: libraries that are being imported turn an exception into other errors."""
    os.write(2, b"Interrupted.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
