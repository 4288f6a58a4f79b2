"""Exchange: results out to marl-eval JSON, CSV and pandas, and episodes back from CSV.

The JSON is that of Gorsane et al. 2022, "Towards a Standardised Performance Evaluation Protocol
for Cooperative MARL"; see coopbench.exchange.marl_eval_import, which reads it.
"""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.analysis.findings import Findings
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Episodes, EpisodeTable, Progress
from coopbench.exchange.marl_eval_import import Names, bounded
from coopbench.files import write_text
from coopbench.report.frames import EPISODE_COLUMNS, progress_columns
from coopbench_envs.parameters import named, unknown

__all__ = [
    "chosen",
    "obstacles",
    "progress_csv",
    "read_episodes_csv",
    "save_marl_eval",
    "to_marl_eval",
]


# --- out: marl-eval JSON -------------------------------------------------------------------------


def to_marl_eval(
    findings: Findings,
    policies: Mapping[str, str] | None = None,
    metrics: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the results of a report as the nested mapping that marl-eval reads.

    A group of tasks is an environment; without groups the protocol is. ``policies`` are the
    algorithms, {policy: name in the file}; all under their own names if not given. ``metrics``
    are the return and the score if not given. ``absolute_metrics`` are the evaluation episodes,
    those of the best checkpoint where there are several. A learned policy has a run ``seed_N``
    per training seed, without those that failed. A fixed one has the run ``run_0`` with the same
    episodes as ``step_0`` too, since marl-eval reads no run without a step.

    A metric with another's name between its underscores (own_return, beside return) is written
    with hyphens, because marl-eval loses it when the other is normalised.

    Raises:
        ValueError: for unknown names, for names that marl-eval cannot keep apart (upper and lower
            case, commas), and for a metric that is undefined in an episode.
    """
    table, protocol = findings.episodes, findings.protocol
    algorithms = _algorithms(table, policies)
    shown = _metric_names(metrics or ("return", protocol.report.score))
    found: dict[str, Any] = {}
    for group, tasks in protocol.groups.items():
        played = {task.id: _task_runs(table, task.id, algorithms, shown) for task in tasks}
        found[group or protocol.name] = {task: runs for task, runs in played.items() if runs}
    found = {environment: tasks for environment, tasks in found.items() if tasks}
    if not found:
        raise ValueError("Nothing to export: no policy that was asked for has played a task.")
    return found


def save_marl_eval(
    findings: Findings,
    path: str | Path,
    policies: Mapping[str, str] | None = None,
    metrics: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Write ``to_marl_eval`` of a report to a file and return the ``obstacles`` in it."""
    content = to_marl_eval(findings, policies, metrics)
    write_text(Path(path), json.dumps(content, allow_nan=False) + "\n")
    return obstacles(content)


def obstacles(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Reasons why marl-eval would stop at a file: it takes names from the first algorithm only.

    ``content`` is what ``to_marl_eval`` returns. Empty if nothing is in the way.
    """
    found = []
    if len(content) > 1:
        found.append("marl-eval reads one environment at a time: process the file anew for each")
    for environment, tasks in content.items():
        everyone = dict.fromkeys(name for runs in tasks.values() for name in runs)
        first: tuple[str, Any] | None = None
        for task, algorithms in tasks.items():
            for algorithm in everyone:
                where = f"{environment} / {task} / {algorithm}"
                if algorithm not in algorithms:
                    found.append(f"{where} is missing")
                    continue
                outline = {run: _outline(parts) for run, parts in algorithms[algorithm].items()}
                first = first or (where, outline)
                if outline != first[1]:
                    found.append(f"{where} has other runs or steps than {first[0]}")
                elif not all(outline.values()):
                    found.append(f"{where} has a run without steps")
    return tuple(found)


def _outline(parts: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Evaluations of a run with their steps."""
    return [(name, part["step_count"]) for name, part in parts.items() if "step_count" in part]


def _algorithms(table: EpisodeTable, policies: Mapping[str, str] | None) -> dict[str, str]:
    """Names in the file of the policies to export."""
    present = dict.fromkeys(block.cell.policy for block in table)
    for policy in policies or ():
        if policy not in present:
            raise ValueError(unknown("policy", policy, present, "the results"))
    called = {policy: policy for policy in present} if policies is None else dict(policies)
    names = Names("give it another with policies={policy: name} (--policy POLICY=NAME)")
    for name in called.values():
        names.check("algorithm", name, "the export")
    repeated = [name for name in called.values() if list(called.values()).count(name) > 1]
    if repeated:
        raise ValueError(f"Two policies are to be called {repeated[0]!r}; give them two names.")
    return called


def chosen(findings: Findings, texts: Sequence[str] | None) -> dict[str, str] | None:
    """Policies to export from what stands on a command line: POLICY, or POLICY=NAME."""
    present = {block.cell.policy for block in findings.episodes}
    found = {}
    for text in texts or ():
        policy, equals, name = text.rpartition("=")
        whole = text in present or not equals
        found[text if whole else policy] = text if whole else name
    return found or None


def _metric_names(metrics: Sequence[str]) -> dict[str, str]:
    """Names in the file of the metrics to export, such that marl-eval keeps each."""
    wanted = dict.fromkeys(metrics)
    return {
        name: name.replace("_", "-") if {*name.split("_")} & ({*wanted} - {name}) else name
        for name in wanted
    }


def _task_runs(
    table: EpisodeTable, task: str, algorithms: Mapping[str, str], shown: Mapping[str, str]
) -> dict[str, Any]:
    """Runs of every algorithm that has played a task."""
    found: dict[str, Any] = {}
    for policy, name in algorithms.items():
        progress = {each.cell: each for each in table.progress_of(task, policy)}
        for block in table.runs(task, policy):
            run = "run_0" if block.cell.run is None else f"seed_{block.cell.run}"
            parts = _run_parts(block, progress.get(block.cell), shown)
            found.setdefault(name, {})[run] = parts
    return found


def _run_parts(
    block: Episodes, progress: Progress | None, shown: Mapping[str, str]
) -> dict[str, Any]:
    """Evaluations of a run, then its absolute metrics, which marl-eval takes from the end."""
    where = f"{block.cell.task} / {block.cell.policy}"
    final = {name: _plain(values(block, metric), metric, where) for metric, name in shown.items()}
    parts: dict[str, Any] = {}
    if progress is not None:
        for metric in shown:
            named("metric", metric, progress.metrics, f"the checkpoints of {where}")
        for k, step in enumerate(progress.steps):
            row = {n: _plain(progress.metrics[m][k], m, where) for m, n in shown.items()}
            parts[f"step_{k}"] = {"step_count": int(step), **row}
    elif block.cell.run is None:
        parts["step_0"] = {"step_count": 0, **final}
    return parts | {"absolute_metrics": final}


def _plain(sample: np.ndarray, metric: str, where: str) -> list[float]:
    undefined = int(np.sum(~np.isfinite(sample)))
    if undefined:
        raise ValueError(
            f"{where}: {metric} is undefined in {undefined} of {len(sample)} episodes, for which "
            f"marl-eval has no value. Export other metrics."
        )
    return [float(value) for value in sample]


# --- CSV and pandas ------------------------------------------------------------------------------


def progress_csv(table: EpisodeTable) -> str:
    """Return all checkpoints as CSV: a line per task, policy, run, step and episode.

    Metrics are columns, floats in full precision, and a field is empty where one is undefined.
    """
    names = dict.fromkeys(name for each in table.progress for name in each.metrics)
    header = ["step", "episode", *names]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["task", "policy", "run", *header])
    for each in table.progress:
        columns, cell = progress_columns(each), each.cell
        count = len(columns["step"])
        labels = [[label] * count for label in (cell.task, cell.policy, cell.run)]
        fields = [_fields(columns[n]) if n in columns else [""] * count for n in header]
        writer.writerows(zip(*labels, *fields, strict=True))
    return out.getvalue()


def _fields(column: np.ndarray) -> list[Any]:
    if column.dtype != np.float64 or np.isfinite(column).all():
        return column.tolist()
    return [value if math.isfinite(value) else "" for value in column.tolist()]


_INTEGERS = ("episode", "seed")


def read_episodes_csv(path: str | Path) -> list[dict[str, object]]:
    """Read the ``episodes.csv`` of a report: a row per episode, as ``EpisodeTable.rows`` has it.

    Numbers come back bit for bit; an empty field is nan, and None for the run of a fixed policy.
    The file knows nothing of the course of an episode: the results folder is what holds it all.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: for a file that is too large or damaged; the message names line and column.
    """
    try:
        text = bounded(Path(path)).decode()
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        header = next(reader, [])
        rows = [(reader.line_num, cells) for cells in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as CSV in UTF-8: {error}.") from None
    if tuple(header[: len(EPISODE_COLUMNS)]) != EPISODE_COLUMNS or len(set(header)) < len(header):
        raise ValueError(
            f"{path}: the first line is no header of episodes; allowed: each column once, first "
            f"{', '.join(EPISODE_COLUMNS)}."
        )
    return [_row(header, cells, f"{path}, line {line}") for line, cells in rows]


def _row(header: list[str], cells: list[str], where: str) -> dict[str, object]:
    if len(cells) != len(header):
        raise ValueError(f"{where} has {len(cells)} fields; allowed: {len(header)}, as the header.")
    row = {}
    for name, text in zip(header, cells, strict=True):
        try:
            row[name] = _value(name, text)
        except (KeyError, OverflowError, ValueError):
            raise ValueError(
                f"{where}, column {name!r} was {text[:40]!r}; {_allowed(name)}."
            ) from None
    return row


def _value(name: str, text: str) -> object:
    if name in ("task", "policy", "seats", "trajectory"):
        return text
    if name == "terminated":
        return {"True": True, "False": False}[text]
    if name == "run" and not text:
        return None
    # A game that measures its length itself has a float there.
    whole = name in ("run", *_INTEGERS) or (name == "length" and text.isdigit())
    value = (int if whole else float)(text or "nan")
    if text and ("_" in text or not math.isfinite(value)):
        raise ValueError(text)
    return value


def _allowed(name: str) -> str:
    if name == "terminated":
        return "allowed: True or False"
    return "allowed: a whole number" if name in ("run", *_INTEGERS) else "allowed: a finite number"
