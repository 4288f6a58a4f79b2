"""Files for machines: the parts of a report as CSV and JSON, numbers in full precision."""

import csv
import dataclasses
import io
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coopbench.analysis.findings import Findings, parts, row_types
from coopbench.analysis.learning import Curve, CurvePoint
from coopbench.analysis.rankings import ProfilePoint
from coopbench.provenance import versions
from coopbench.report.answers import Answered
from coopbench.report.tables.words import units

# Where spreadsheets let formulas begin: also behind ``;``, which may separate fields, and with
# signs as wide as letters of Chinese.
_FORMULA = re.compile("(^|;)(?=[=+@\t\r\uff1d\uff0b\uff0d\uff20-])")
_QUOTED = re.compile(r"[,\"\r\n]")  # in a field


def tables_as_csv(findings: Findings) -> dict[str, str]:
    """Return one CSV file for each part, {name of the part: content}."""
    files = {name: as_csv(getattr(findings, name), row_types()[name]) for name in _parts(findings)}
    points = (point for curve in findings.learning for point in curve.points())
    return files | {"learning": as_csv(points, CurvePoint)}


def _parts(findings: Findings) -> list[str]:
    """Return the parts of a report: of those that few reports have only the ones that it has."""
    return [name for name, part in parts().items() if not part.rare or getattr(findings, name)]


def as_csv(rows: Iterable[Any], kind: type | None = None) -> str:
    """Return rows as CSV with a header, floats in full precision, an empty field where undefined.

    ``rows`` are dataclass instances of ``kind``, or dictionaries, whose columns are united.
    """
    flat = [row if isinstance(row, dict) else vars(row) for row in rows]
    names = [] if kind is None else [field.name for field in dataclasses.fields(kind)]
    names = list(dict.fromkeys(itertools.chain(names, *flat)))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(plain, names))
    # None is written as an empty field.
    writer.writerows([plain(_defined(row.get(name))) for name in names] for row in flat)
    return out.getvalue()


def columns_as_csv(cells: Iterable[Mapping[str, Sequence[Any]]]) -> str:
    """Return rows as CSV like ``as_csv``, from the columns of some parts of them.

    Every column of a part holds numbers of one kind, or texts, or None throughout.
    """
    parts = list(cells)
    names = list(dict.fromkeys(itertools.chain(*parts)))
    lines = [_line([*map(plain, names)])]
    for part in parts:
        fields = [_fields(part[name]) if name in part else itertools.repeat("") for name in names]
        lines += map(",".join, zip(*fields, strict=False))
    return "\n".join(lines) + "\n"


def _fields(column: Sequence[Any]) -> Iterable[str]:
    """Return the values of a column as ``as_csv`` writes them."""
    first = column[0] if len(column) else None
    if isinstance(first, float):
        if all(map(math.isfinite, column)):
            return map(repr, column)
        return (repr(value) if math.isfinite(value) else "" for value in column)
    if isinstance(first, str):
        texts = {text: _text(text) for text in set(column)}
        return map(texts.__getitem__, column)
    return ["" if value is None else str(value) for value in column]


def _text(text: str) -> str:
    """Return a text as a field, quoted where it has to be."""
    shown: str = plain(text)
    return _line([shown, None])[:-1] if _QUOTED.search(shown) else shown


def _line(values: Sequence[Any]) -> str:
    """Return one line of CSV without its end."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(values)
    return out.getvalue()


def plain(value: Any) -> Any:
    """Return a text so that a spreadsheet does not take it for a formula."""
    return _FORMULA.sub(r"\1'", value) if isinstance(value, str) else value


def finite(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with None for every number that is not finite."""
    return {name: _defined(value) for name, value in row.items()}


def _defined(value: Any) -> Any:
    """Return None for a float that is not finite, which JSON and most CSV readers do not accept."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_json(findings: Answered) -> str:
    """Return the report as JSON: everything but the single episodes; null where undefined."""
    return json.dumps(contents(findings), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def contents(findings: Answered) -> dict[str, Any]:
    """Return what ``as_json`` writes."""
    protocol = findings.protocol
    columnar = {
        "profiles": _profiles(findings.profiles),
        "curves": _curves(findings),
        "learning": _learning(findings.learning),
    }
    rows = {
        name: [finite(vars(row)) for row in getattr(findings, name)]
        for name in _parts(findings)
        if name not in columnar
    }
    return {
        "schema": 3,
        "name": protocol.name,
        "digest": protocol.digest,
        "standard": findings.is_standard,
        "departures": list(findings.departures),
        "registration": _registration(findings),
        "unit_of_inference": units(findings),
        "missing_runs": [dataclasses.asdict(row) for row in findings.missing_runs],
        "protocol": protocol.model_dump(mode="json"),
        **rows,
        **columnar,
        "checklist": [dataclasses.asdict(item) for item in findings.checklist],
        "cards": findings.cards,
        "notes": list(findings.notes),
        "versions": versions(),
    }


def _registration(findings: Findings) -> dict[str, Any] | None:
    """Return the registration with its standing and the outcomes of its hypotheses."""
    registration = findings.registration
    if registration is None:
        return None
    return {
        **registration.model_dump(mode="json", by_alias=True),
        "deviations": list(findings.deviations),
        "outcomes": [dataclasses.asdict(row) for row in findings.outcomes],
    }


def _profiles(points: Iterable[ProfilePoint]) -> list[dict[str, Any]]:
    """Return performance profiles by column, one entry for each policy and group."""
    profiles: dict[tuple[str, str], dict[str, Any]] = {}
    for point in points:
        row = dataclasses.asdict(point)
        head = {name: row.pop(name) for name in ("group", "policy", "unit", "flag")}
        columns = {name: list[Any]() for name in row}
        profile = profiles.setdefault((point.group, point.policy), head | columns)
        for name, value in row.items():
            profile[name].append(_defined(value))
    return list(profiles.values())


def _curves(findings: Findings) -> list[dict[str, Any]]:
    """Return the course of the curve metric; value k is after step k, averaged over episodes."""
    metrics = {task.id: findings.protocol.report.curve_of(task) for task in findings.protocol.task}
    return [
        {
            "task": block.cell.task,
            "policy": block.cell.policy,
            "run": block.cell.run,
            "metric": metric,
            "values": [_defined(value) for value in block.curves[metric].tolist()],
        }
        for block in findings.episodes
        if (metric := metrics[block.cell.task]) in block.curves
    ]


def _learning(curves: Iterable[Curve]) -> list[dict[str, Any]]:
    """Return learning curves by column, with the true steps of their points."""
    columns = ("steps", "estimate", "low", "high")
    return [
        {name: getattr(curve, name) for name in ("group", "task", "policy", "runs", "flag")}
        | {name: [_defined(value) for value in getattr(curve, name).tolist()] for name in columns}
        for curve in curves
    ]
