"""What the command line prints: lines, reports, progress, and errors with an exit status."""

import errno
import io
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from coopbench.episodes.names import one_line

NOTHING = "Nothing was written."
WIDEST = 100  # columns of a line in a terminal
UNWRAPPED = 1_000_000  # columns, wider than any table
UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)  # of files in a read-only folder
KEPT = "Finished cells are kept; rerun the same command to resume."


@contextmanager
def interruption(consequence: str) -> Iterator[None]:
    """After an interruption, print what it means for the work, and exit with status 130."""
    try:
        yield
    except KeyboardInterrupt:
        fail(f"Interrupted. {consequence}", 130)


def fail(text: str, code: int) -> NoReturn:
    """Print ``text`` on the error stream and exit with the status ``code``."""
    say(f"Error: {text}" if code != 130 else text, stderr=True)
    sys.exit(code)


def message(error: Exception) -> str:
    """Return the text of an error and the notes that say where it arose."""
    text = str(error)
    for note in getattr(error, "__notes__", ()):
        text += f" {note}" if text.endswith(".") else f". {note}"
    return text


def say(line: str, stderr: bool = False) -> None:
    """Print a text as it is: no markup, no wrapping, and what would steer a terminal as escapes."""
    shown = "\n".join(map(one_line, line.split("\n")))
    console(stderr).print(shown, highlight=False, markup=False, soft_wrap=True)


def console(stderr: bool = False) -> Any:
    """Return a rich console for standard output or the error stream.

    It wraps lines in a terminal, or where COLUMNS names a width; in a pipe or a file every line
    stays whole, so that other programs find what they search for.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="replace")  # an encoding may lack characters of the tables
    width = min(shutil.get_terminal_size().columns, WIDEST) if wraps(stderr) else UNWRAPPED
    return Console(stderr=stderr, width=width)


def wraps(stderr: bool = False) -> bool:
    """Return whether lines on standard output or the error stream are wrapped; see ``console``."""
    return "COLUMNS" in os.environ or (sys.stderr if stderr else sys.stdout).isatty()


def present(report: Any, out: Path | None) -> None:
    """Print the tables of a report, and where its files are; None: it was not written.

    It is written before, so that nothing is lost where printing fails, for instance in a pipe that
    is closed.
    """
    from coopbench.report.terminal import show as show_tables
    from coopbench.results.folder import numbers_digest

    show_tables(report.document, console())
    if out is None:
        say("Nothing was written; name a folder with --out to keep the results.")
        return
    say(f"Report: {out / 'report.html'}")
    if report.results:
        say(f"Digest of the results: {report.results} (with times and machines)")
        say(f"Digest of their numbers: {numbers_digest(out, report.protocol)}")
