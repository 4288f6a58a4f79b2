"""Tables of measured speed: how they are printed, stored, and read by the documentation.

A benchmark builds a ``Table``, prints it, and with ``--record`` stores it under its name in
``benchmarks/results/speed.json``, from which ``docs/generate.py`` writes the tables of
docs/speed.md and docs/speed-tables.md.
"""

import argparse
import json
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from coopbench.report.markdown import rows_table

FILE = Path(__file__).resolve().parent / "results" / "speed.json"

Cell = str | float | None


class Table(NamedTuple):
    """One table: its columns, and the machine that it was measured on."""

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    machine: str

    def __str__(self) -> str:
        """Write the table in Markdown, numbers with three digits, and the machine below."""
        body = [[written(cell) for cell in row] for row in self.rows]
        return f"{rows_table(self.head, body)}\n\n{self.machine}"


def written(cell: Cell) -> str:
    """Write a cell: a number with three digits, what is missing as a dash."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    size = abs(cell)
    for limit, unit in ((1e6, " M"), (1e4, " k")):
        if size >= limit:
            return f"{digits(cell / (1e6 if unit == ' M' else 1e3))}{unit}"
    return digits(cell)


def digits(value: float) -> str:
    """Write a number with three digits, or all before its point."""
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{float(f'{value:.3g}'):g}"


def machine() -> str:
    """Say what is measured on: processor, cores, Python, and how busy the machine is now."""
    load = os.getloadavg()[0]
    return (
        f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}; "
        f"load of the machine when the run began: {load:.1f}."
    )


def processor() -> str:
    """Return the name of the processor, if the system tells it."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser of command lines with the option ``--record``."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--record", action="store_true", help="store the table for docs/speed.md")
    return made


def finish(name: str, table: Table, recorded: bool) -> None:
    """Print a table, and store it if this is wanted."""
    print(f"\n{table}\n")
    if recorded:
        record(name, table)


def stored(file: Path = FILE) -> dict[str, Table]:
    """Return the stored tables by name."""
    if not file.is_file():
        return {}
    tables = json.loads(file.read_text(encoding="utf-8"))
    return {name: Table(**table) for name, table in tables.items()}


def merged(
    name: str,
    measured: Sequence[Sequence[Cell]],
    identity: Callable[[Sequence[Cell]], Any] = lambda row: row[0],
    file: Path = FILE,
) -> list[list[Cell]]:
    """Return the stored rows of a table with those ``measured`` now in their places, or after them.

    Rows of one ``identity`` measure the same.
    """
    table = stored(file).get(name)
    rows = [*(table.rows if table is not None else ()), *measured]
    return [list(row) for row in {identity(row): row for row in rows}.values()]


def record(name: str, table: Table, file: Path = FILE) -> None:
    """Store a table in place of the one of its name."""
    tables = {key: value._asdict() for key, value in (stored(file) | {name: table}).items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dict(sorted(tables.items())), indent=1, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")
