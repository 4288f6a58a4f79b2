"""What the command line prints: lines, reports, progress, and errors with an exit status."""

import io
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from coopbench.episodes.table import Cell

__all__ = [
    "KEPT",
    "NOTHING",
    "Progress",
    "console",
    "fail",
    "interruption",
    "message",
    "present",
    "say",
]

NOTHING = "Nothing was written."
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
    console(stderr=True).print(f"Error: {text}" if code != 130 else text, markup=False)
    sys.exit(code)


def message(error: Exception) -> str:
    """Return the text of an error and the notes that say where it arose."""
    return " ".join([str(error), *getattr(error, "__notes__", [])])


def say(line: str) -> None:
    """Print one line as it is: no markup, no wrapping."""
    console().print(line, highlight=False, markup=False, soft_wrap=True)


def console(stderr: bool = False) -> Any:
    """Return a rich console for standard output or the error stream."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="replace")  # an encoding may lack characters of the tables
    return Console(stderr=stderr)


def present(report: Any, out: Path | None) -> None:
    """With ``out``, save a report there; then print its tables.

    It is saved first: what cannot be printed, to a closed pipe for instance, is not lost.
    """
    from coopbench.report.terminal import show as show_tables

    files = None if out is None else report.save(out)
    show_tables(report, console())
    if files is None:
        say("Nothing was written; name a folder with --out to keep the results.")
        return
    say(f"Report: {files['html']}")
    if report.results:
        say(f"Digest of the results: {report.results}")


class Progress:
    """Bars for the cells that are playing and a line for each finished cell, on the error stream.

    Standard output holds only the report. Without a terminal there are lines and no bars. If every
    cell takes ``steps`` steps, the bars also show steps per second.
    """

    def __init__(self, cells: int | None = None, steps: int = 0) -> None:
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        columns = (
            TextColumn("{task.description:<40}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
        )
        stream = console(stderr=True)
        self._bars = Bars(*columns, console=stream, disable=not stream.is_terminal)
        self._ids: dict[str, Any] = {}
        self._cells, self._finished, self._reused = cells, 0, 0
        self._steps = steps
        self._begun: dict[str, tuple[float, float]] = {}  # share done at the first report, and when
        self._speeds: dict[str, str] = {}
        self._all = self._bars.add_task("", total=cells, visible=cells is not None)
        self._count()

    def __enter__(self) -> "Progress":
        self._bars.start()
        return self

    def cell(self, cell: Cell, share: float, event: str) -> None:
        """Show the progress of a cell; see ``show``."""
        run = "" if cell.run is None else f" / run {cell.run}"
        self.show(f"{cell.task} / {cell.policy}{run}", share, event)

    def task(self, task: str, policy: str, share: float) -> None:
        """Show the share of a task that is finished, of which ``policy`` says what it is."""
        self.show(f"{task} / {policy}", share, "done" if share == 1.0 else "plays")

    def show(self, title: str, share: float, event: str) -> None:
        """Show that this share of something "plays", or that it is "done" or was "kept"."""
        if event == "plays":
            if title not in self._ids:
                self._ids[title] = self._bars.add_task(title, total=1.0)
            speed = self._speed(title, share)
            self._bars.update(self._ids[title], completed=share, description=f"{title}{speed}")
            return
        self._finished += 1
        self._reused += event == "kept"
        if title in self._ids:
            self._bars.remove_task(self._ids.pop(title))
        self._count()
        if event == "done":
            text = f"{title:<40} done{self._speeds.get(title, '')}"
            self._bars.console.print(text, highlight=False, markup=False)

    def _speed(self, title: str, share: float) -> str:
        """Return the steps per second since the first report; empty without ``steps``."""
        now = time.monotonic()
        first, begun = self._begun.setdefault(title, (share, now))
        if self._steps and share > first:
            speed = (share - first) * self._steps / (now - begun)
            self._speeds[title] = f", {speed:,.0f} steps/s"
        return self._speeds.get(title, "")

    def _count(self) -> None:
        """Show the numbers of finished and of kept cells."""
        reused = f", {self._reused} kept" if self._reused else ""
        text = f"{self._finished} of {self._cells} cells{reused}"
        self._bars.update(self._all, completed=self._finished, description=text)

    def __exit__(self, *exception: Any) -> None:
        self._bars.stop()
