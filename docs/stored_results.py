"""Stored tables of reference results, ``benchmarks/results/tables``: their rows, and cells of them.

All figures and decisions are read from files of stored reports; nothing is decided here.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from checkout import ROOT

from coopbench.analysis.learning import RISING, last_rise
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from studies.reference import TRAININGS, source

RESULTS = ROOT / "benchmarks" / "results" / "tables"
RUNS = "runs"  # unit of learners; that of scripts and planners is episodes
# Metrics between 0 and 1; intervals from few runs would reach beyond.
SHARES = (
    *("cooperation_rate", "exploitation_rate", "fairness", "final_trust", "mean_trust"),
    *("coordination", "deadlock_rate", "ever_arrived", "spl", "success_rate", "win"),
    *("arrived", "deadlocked", "never_departed", "normalised_return", "punctual"),
)
_ENDS = ("low", "high")
_NO_BREAK = "\N{NO-BREAK SPACE}"

Row = Mapping[str, str]


def names() -> list[str]:
    """Return the protocols with stored results."""
    return sorted(folder.name for folder in RESULTS.iterdir() if folder.is_dir())


def protocol_of(name: str) -> Protocol:
    """Read a protocol of the package or of a study."""
    return load_protocol(source(name))


def pictures() -> list[Path]:
    """Return the stored pictures of all protocols; the site has them as results/NAME/FILE."""
    return sorted(RESULTS.glob("*/plots/*.svg"))


def means(name: str) -> list[Row]:
    """Return the rows of mean scores over groups of tasks; intervals of shares end at 0 and 1."""
    rows = [row for row in read(name, "aggregates.csv") if row["statistic"] == "mean"]
    if protocol_of(name).report.score not in SHARES:
        return rows
    return [
        {**row, **{key: str(within(float(row[key]))) for key in _ENDS if row.get(key)}}
        for row in rows
    ]


def within(end: float) -> float:
    """Return an end of an interval of a share, not below 0 and not above 1."""
    return min(max(end, 0.0), 1.0)


def titled(name: str, row: Row) -> str:
    """Return the name of a policy, of a learner with its runs and their share of the budget."""
    learner = row["policy"].partition(":")[0]  # one of several models is LEARNER:TASK
    runs, share = row["count"], shares().get((name, learner), 1.0)
    of = f", {runs} run{'' if runs == '1' else 's'}" if row["unit"] == RUNS else ""
    return f"`{row['policy']}`{of}{f' at {share:g} of the budget' if of and share < 1.0 else ''}"


def rising(name: str, row: Row, tasks: Sequence[Task]) -> str:
    """Say that the learning curves of a learner still rise where its models for tasks are trained.

    By the rule of reports; "" if they do not, or if there are none.
    """
    if row["unit"] != RUNS:
        return ""
    protocol, points = protocol_of(name), read(name, "learning.csv")
    rises = []
    for task in dict.fromkeys(task.origin for task in tasks):
        curve = [p for p in points if (p["task"], p["policy"]) == (task, row["policy"])]
        steps, scores = (np.array([float(p[key]) for p in curve]) for key in ("step", "estimate"))
        rises.append(last_rise(steps, protocol.task_of(task).bounds.normalise(scores)))
    rise = float(np.mean(rises)) if rises else math.nan
    return f", still rising (+{rise:.2f})" if rise > RISING else ""


def shares() -> dict[tuple[str, str], float]:
    """Return the shares of the budget that learners are trained for, by protocol and learner."""
    return {(t.protocol, t.learner): t.share for t in TRAININGS}


def score(row: Row, middle: str = "estimate", low: str = "low", high: str = "high") -> str:
    """Return an estimate of a row with its interval."""
    return interval(*(number(row[key]) for key in (middle, low, high)))


def by_policy(name: str) -> tuple[list[str], dict[str, dict[str, Row]]]:
    """Return the groups of tasks of a protocol, and the mean scores as {policy: {group: row}}."""
    rows = means(name)
    policies: dict[str, dict[str, Row]] = {}
    for row in rows:
        policies.setdefault(row["policy"], {})[row["group"]] = row
    return list(dict.fromkeys(row["group"] for row in rows)), policies


def in_order(policies: Mapping[str, Mapping[str, Row]]) -> list[tuple[str, Row]]:
    """Return each policy with its row in the first group that it has played, the best first."""
    firsts = [(policy, next(iter(rows.values()))) for policy, rows in policies.items()]
    return sorted(firsts, key=lambda pair: -number(pair[1]["estimate"]))


def heads(groups: Sequence[str]) -> list[str]:
    """Return the heads of the columns of groups of tasks."""
    return [f"`{group}`" if group else "all" for group in groups]


def read(name: str, file: str) -> list[Row]:
    """Return the rows of a stored table; none where a protocol has no such table."""
    path = RESULTS / name / file
    if not path.is_file():
        return []
    with path.open(encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def number(text: str) -> float:
    """Return the number of a cell; nan for an empty one, as the interval of a single run is."""
    return float(text or "nan")


def interval(mean: float, low: float, high: float) -> str:
    """Return an estimate with its interval, if it has one, whose limits stay on one line."""
    if math.isnan(mean):
        return "undefined"
    places = 0 if abs(mean) >= 100 else 2
    if math.isnan(low):  # of one run or two
        return f"{mean:z,.{places}f}"
    return f"{mean:z,.{places}f} [{low:z,.{places}f},{_NO_BREAK}{high:z,.{places}f}]"
