"""Bars: how far work has come, in a terminal or a notebook."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from coopbench.episodes.table import Cell

# Called with a cell, the share done in [0, 1] and an event: "plays", "done" or "kept".
CellProgress = Callable[[Cell, float, str], None]


@contextmanager
def with_bars(
    progress: CellProgress | bool | None, cells: int | None, steps: int = 0, title: str = ""
) -> Iterator[CellProgress | None]:
    """Within the context, return the callback that ``progress`` stands for; bars if it is True.

    Bars stand below the ``title``, if there is one.
    """
    if progress is True:
        with Bars(cells, steps) as bars:
            bars.say(title)
            yield bars.cell
    else:
        yield progress or None


class Bars:
    """Bars for the cells that are playing and a line for each finished cell.

    In a notebook they stand below its cell, elsewhere on the error stream, so that standard output
    holds only the report. Without a terminal there are lines and no bars. If every cell takes
    ``steps`` steps, the bars also show steps per second. ``what`` are the things that are counted.
    """

    def __init__(self, cells: int | None = None, steps: int = 0, what: str = "cells") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description:<40}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
        )
        stream = Console(stderr=True)
        shown = stream.is_terminal or stream.is_jupyter
        if not shown:
            stream = Console(stderr=True, soft_wrap=True)
        self._bars = Progress(*columns, console=stream, disable=not shown)
        self._ids: dict[str, Any] = {}
        self._cells, self._finished, self._reused = cells, 0, 0
        self._steps, self._what = steps, what
        self._begun: dict[str, tuple[float, float]] = {}  # share done at the first report, and when
        self._speeds: dict[str, str] = {}
        self._all = self._bars.add_task("", total=cells, visible=cells is not None)
        self._count()

    def __enter__(self) -> "Bars":
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
            self.say(f"{title:<40} done{self._speeds.get(title, '')}")

    def say(self, text: str) -> None:
        """Print a line above the bars; nothing if it is empty."""
        if text:
            self._bars.console.print(text, highlight=False, markup=False)

    def _speed(self, title: str, share: float) -> str:
        """Return the steps per second since the first report; empty without ``steps``."""
        now = time.monotonic()
        first, begun = self._begun.setdefault(title, (share, now))
        if self._steps and share > first and now > begun:
            speed = (share - first) * self._steps / (now - begun)
            self._speeds[title] = f", {speed:,.0f} steps/s"
        return self._speeds.get(title, "")

    def _count(self) -> None:
        """Show the numbers of finished and of kept cells."""
        reused = f", {self._reused} kept" if self._reused else ""
        text = f"{self._finished} of {self._cells} {self._what}{reused}"
        self._bars.update(self._all, completed=self._finished, description=text)

    def __exit__(self, *exception: Any) -> None:
        self._bars.stop()
