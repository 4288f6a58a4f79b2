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
    """One bar for all cells; for trainings one for each run, too, and a line where it is finished.

    In a notebook they stand below its cell, elsewhere on the error stream, so that standard output
    holds only the report. Without a terminal there are no bars but a line for every task when its
    first cell begins. If every cell takes ``steps`` steps, it is a training, and its bar also shows
    steps per second. ``what`` are the things that are counted.
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
        self._shown, self._begun_tasks = shown, set[str]()
        self._ids: dict[str, Any] = {}
        self._cells, self._finished, self._reused = cells, 0, 0
        self._only_kept = False  # whether nothing was played since the last kept cell
        self._steps, self._what = steps, what
        self._begun: dict[str, tuple[float, float]] = {}  # first share above 0, and when
        self._speeds: dict[str, str] = {}
        self._all = self._bars.add_task("", total=cells)
        self._count()

    def __enter__(self) -> "Bars":
        self._bars.start()
        return self

    def cell(self, cell: Cell, share: float, event: str) -> None:
        """Show the progress of a cell; see ``show``."""
        run = "" if cell.run is None else f" / run {cell.run}"
        title = f"{cell.task} / {cell.policy}{run}"
        if self._steps:
            self.show(title, share, event)
            return
        if event != "kept" and cell.task not in self._begun_tasks:
            self._begun_tasks.add(cell.task)
            self.say("" if self._shown else f"playing {cell.task}")
        self._note(event)
        self._count(title)

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
        self._note(event)
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
        """Return the steps per second since the first share above 0; empty without ``steps``.

        That of a resumed training is what was trained before.
        """
        now = time.monotonic()
        first, begun = self._begun.setdefault(title, (share, now)) if share else (share, now)
        if self._steps and share > first and now > begun:
            speed = (share - first) * self._steps / (now - begun)
            self._speeds[title] = f", {speed:,.0f} steps/s"
        return self._speeds.get(title, "")

    def _note(self, event: str) -> None:
        """Count something that is "done" or was "kept"; what was kept adds nothing to the speed."""
        if event != "kept" and self._only_kept:
            self._bars.reset(self._all, completed=self._finished)
        self._only_kept = event == "kept"
        self._finished += event != "plays"
        self._reused += event == "kept"

    def _count(self, latest: str = "") -> None:
        """Show the numbers of finished and of kept cells, and which one was heard of last."""
        reused = f", {self._reused} kept" if self._reused else ""
        total = "" if self._cells is None else f" of {self._cells}"
        text = f"{self._finished}{total} {self._what}{reused}{latest and f': {latest}'}"
        self._bars.update(self._all, completed=self._finished, description=text)

    def __exit__(self, *exception: Any) -> None:
        self._bars.stop()
