"""The parts of a report for machines, in full precision: CSV, JSON and pandas data frames."""

import dataclasses
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from coopbench.analysis.findings import Findings, Part
from coopbench.episodes.table import EpisodeTable, Progress
from coopbench.provenance import versions
from coopbench.report.numbers import defined, finite
from coopbench.report.sections import further_json, parts
from coopbench_envs.parameters import named

# Where spreadsheets let formulas begin: also behind ``;``, which may separate fields, and with
# signs as wide as letters of Chinese.
_FORMULA = re.compile("(^|;)(?=[=+@\t\r\uff1d\uff0b\uff0d\uff20-])")
_CONTAINERS = (dict, list, tuple)  # in JSON
_QUOTED = re.compile(r"[,\"\r\n]")  # in a field


def tables_as_csv(findings: Findings) -> dict[str, str]:
    """Return one CSV file for each part, {name of the part: content}."""
    return {part.name: as_csv(_lines(findings, part), part.line) for part in _parts(findings)}


def _lines(findings: Findings, part: Part[Any]) -> Iterable[Any]:
    rows = findings.rows(part)
    return rows if part.flat is None else itertools.chain.from_iterable(map(part.flat, rows))


def _parts(findings: Findings) -> list[Part[Any]]:
    """Return the parts of a report: of those that few reports have only the ones that it has."""
    return [part for part in parts().values() if not part.rare or findings.rows(part)]


def as_csv(rows: Iterable[Any], kind: type) -> str:
    """Return dataclass instances of ``kind`` as CSV; see ``columns_as_csv``."""
    flat, names = list(rows), [field.name for field in dataclasses.fields(kind)]
    return columns_as_csv([{name: [getattr(row, name) for row in flat] for name in names}])


def columns_as_csv(parts: Iterable[Mapping[str, Sequence[Any]]]) -> str:
    """Return rows as CSV with a header, from the columns of some parts of them, which are united.

    Floats have full precision; where a value is undefined, or a part has no such column, the field
    is empty.
    """
    tables = list(parts)
    names = list(dict.fromkeys(itertools.chain(*tables)))
    lines = [",".join(_fields(names))]
    for table in tables:
        columns = [
            _fields(table[name]) if name in table else itertools.repeat("") for name in names
        ]
        lines += map(",".join, zip(*columns, strict=False))
    return "\n".join(lines) + "\n"


def _fields(column: Sequence[Any]) -> list[str]:
    """Return the values of a column as fields; a text that occurs often is quoted once."""
    distinct = dict.fromkeys(value for value in column if isinstance(value, str))
    texts = {value: _quoted(plain(value)) for value in distinct}
    return [texts[v] if isinstance(v, str) else _field(v) for v in column]


def _field(value: Any) -> str:
    shown = defined(value)
    return "" if shown is None else str(shown)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


def plain(value: Any) -> Any:
    """Return a text so that a spreadsheet does not take it for a formula."""
    return _FORMULA.sub(r"\1'", value) if isinstance(value, str) else value


def as_json(findings: Findings) -> str:
    """Return the report as JSON: everything but the single episodes; null where undefined."""
    return indented(contents(findings)) + "\n"


def indented(value: Any, level: int = 0) -> str:
    """Return what ``json.dumps`` does with ``indent=1``, in a tenth of the time.

    It writes all of an indented text in Python; here what holds no other containers is left to its
    compiled encoder. Keys are texts.
    """
    write = _encoder(level + 1).encode
    if not isinstance(value, _CONTAINERS) or not value:
        return write(value)
    inside = value.values() if isinstance(value, dict) else value
    if any(isinstance(part, _CONTAINERS) for part in inside):
        parts = [indented(part, level + 1) for part in inside]
        if isinstance(value, dict):
            parts = [f"{write(key)}: {part}" for key, part in zip(value, parts, strict=True)]
        text = _break(level + 1).join(parts)
    else:
        text = write(value)[1:-1]
    ends = "{}" if isinstance(value, dict) else "[]"
    return f"{ends[0]}{_break(level + 1)[1:]}{text}{_break(level)[1:]}{ends[1]}"


def _break(level: int) -> str:
    return ",\n" + " " * level


@cache
def _encoder(level: int) -> json.JSONEncoder:
    separators = _break(level), ": "
    return json.JSONEncoder(separators=separators, allow_nan=False, ensure_ascii=False)


def contents(findings: Findings) -> dict[str, Any]:
    """Return what ``as_json`` writes."""
    protocol = findings.protocol
    further = further_json(findings)
    rows = {
        part.name: [finite(vars(row)) for row in findings.rows(part)]
        for part in _parts(findings)
        if part.name not in further
    }
    head = {
        "schema": 3,
        "name": protocol.name,
        "digest": protocol.digest,
        "standard": findings.is_standard,
        "deviations": list(findings.deviations),
        "unit_of_inference": findings.units,
        "protocol": protocol.model_dump(mode="json"),
    }
    tail = {"notes": list(findings.notes), "versions": versions()}
    both = {*head, *tail} & {*rows, *further}
    if both:
        raise ValueError(
            f"Sections write {', '.join(sorted(both))} to report.json, which every report has; "
            f"allowed: keys of their own. Rename them."
        )
    return head | rows | further | tail


# --- data frames ----------------------------------------------------------------------------------

# Columns that do not depend on the game, of a report without episodes.
_EPISODE = ("task", "policy", "run", "episode", "seed", "length", "terminated", "seats", "return")
_PROGRESS = ("task", "policy", "run", "step", "episode", "return")


def frame(findings: Findings, what: str = "episodes") -> Any:
    """Return a part of a report as a pandas ``DataFrame``.

    ``what`` is "episodes" (a row per evaluation episode),
    "progress" (a row per episode of every checkpoint) or one of the report's tables, for instance
    "estimates". Undefined numbers are nan.

    Raises:
        ModuleNotFoundError: pandas is not installed.
        ValueError: for another ``what``.
    """
    try:
        import pandas
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            'A frame needs pandas, the extra "pandas": pip install ".[pandas]" in a checkout.',
            name="pandas",
        ) from None

    table = findings.episodes
    by_episode: dict[str, tuple[tuple[str, ...], Iterable[Mapping[str, Any]]]] = {
        "episodes": (_EPISODE, table.columns()),
        "progress": (_PROGRESS, (_progress_columns(p, table) for p in table.progress)),
    }
    if what in by_episode:
        columns, cells = by_episode[what]
        # One cell at a time: rows as dictionaries take ten times the memory of a frame.
        frames = [pandas.DataFrame(cell).astype({"run": "Int64"}) for cell in cells]
        empty = pandas.DataFrame(columns=list(columns))
        whole = pandas.concat(frames, ignore_index=True) if frames else empty
        return whole.astype(dict.fromkeys(("task", "policy"), "category"))
    part = named("table", what, {**by_episode, **parts()}, "a report")
    rows = [dataclasses.asdict(row) for row in findings.rows(part)]
    return pandas.DataFrame(rows, columns=[field.name for field in dataclasses.fields(part.row)])


def _progress_columns(progress: Progress, table: EpisodeTable) -> dict[str, Any]:
    """Return the checkpoints and episodes of a run as columns, with the labels of its cell."""
    checkpoints, episodes = progress.metrics["return"].shape
    return {
        "task": progress.cell.task,
        "policy": progress.cell.policy,
        "run": table.run_of(progress.cell),
        "step": np.repeat(progress.steps, episodes),
        "episode": np.tile(np.arange(episodes), checkpoints),
        **{name: sample.ravel() for name, sample in progress.metrics.items()},
    }
