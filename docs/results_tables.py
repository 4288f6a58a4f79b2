"""Tables of the pages of results, from the reference results of ``benchmarks/results/tables``.

docs/results.md has an overview and one table for each protocol; ``results/NAME.md``, made at every
build, has the score of every policy in every task. All figures and decisions are read from files of
stored reports; nothing is decided here.
"""

import csv
import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from checkout import ROOT

from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from coopbench.report.markdown import rows_table
from coopbench.report.plots import style
from studies.reference import TRAININGS, source

RESULTS, TRIALS = ROOT / "benchmarks" / "results" / "tables", ROOT / "benchmarks" / "results"
RUNS = "runs"  # unit of learners; that of scripts and planners is episodes
# Protocols of the overview with a group of tasks each; the others have learners for questions of
# their own.
OVERVIEW = {
    **{"coopetition-standard": "focal", "coopetition-team": "focal"},
    **{"coopetition-published": "games", "marl-standard": "coopetition"},
    **{"skirmish-small": "v1", "skirmish-published": "hard", "skirmish-standard": "teams"},
    **{"routing-easy": "random_grid", "routing-hard": "", "routing-standard": "cities"},
    **{"rail-standard": "malfunctions", "rail-scaling": ""},
}
WIDTH, SPACE, OFFSET = 7.2, 0.18, 0.055  # inches of charts: wide, of a policy, between its groups
_NO_BREAK = "\N{NO-BREAK SPACE}"
_SHARES = ("win", "success_rate", "arrived")  # scores in [0, 1], as are the ends of their intervals

Row = Mapping[str, str]


def parts() -> dict[str, str]:
    """Return every generated part of the page: the overview, and a part for each protocol."""
    return {
        "overview": overview(),
        **{name.replace("-", "_"): section(name) for name in names()},
    }


def names() -> list[str]:
    """Return the protocols with stored results."""
    return sorted(folder.name for folder in RESULTS.iterdir() if folder.is_dir())


def protocol_of(name: str) -> Protocol:
    """Read a protocol of the package or of a study."""
    return load_protocol(source(name))


def overview() -> str:
    """Random play, the best script and the best learner of each protocol, in a group of tasks."""
    body = [
        (f"[{name}](results/{name}.md)", group or "all", *leaders(name, group))
        for name, group in OVERVIEW.items()
    ]
    return rows_table(
        ["Protocol", "Tasks", "`random`", "Best script or planner", "Best learner"], body
    )


def leaders(name: str, group: str) -> list[str]:
    """Return the scores of random play, of the best script and of the best learner in a group."""
    rows = [row for row in means(name) if row["group"] == group]
    chance = [score(row) for row in rows if row["policy"] == "random"]
    others = [row for row in rows if row["policy"] != "random"]
    best = [
        max(
            (row for row in others if (row["unit"] == RUNS) is learned), key=_estimate, default=None
        )
        for learned in (False, True)
    ]
    cells = ["—" if row is None else f"{titled(name, row)} {score(row)}" for row in best]
    return [*(chance or ["—"]), *cells]


def _estimate(row: Row) -> float:
    return number(row["estimate"])


def section(name: str) -> str:
    """The chart of a protocol's scores, and the table of its groups of tasks."""
    return f"![Scores: {name}](results/{name}.svg)\n\n{groups(name)}"


def pictures() -> list[Path]:
    """Return the stored pictures of all protocols; the site has them as results/NAME/FILE."""
    return sorted(RESULTS.glob("*/plots/*.svg"))


def chart(name: str) -> str:
    """Draw the mean scores of all policies in every group of tasks of a protocol; return the SVG.

    Policies are in the order of the table, learners in italics.
    """
    from matplotlib.figure import Figure

    columns, policies = by_policy(name)
    order = [policy for policy, _ in in_order(policies)]
    unit = SPACE + OFFSET * len(columns)
    page = Figure(figsize=(WIDTH, len(order) * unit + 1.1), layout="constrained")
    ax = page.subplots()
    style.frame(ax)
    ax.yaxis.grid(False)
    for k, (group, look) in enumerate(style.styles(columns).items()):
        rows = [(y, policies[p][group]) for y, p in enumerate(order) if group in policies[p]]
        low, middle, high = (
            np.array([number(row[key]) for _, row in rows]) for key in ("low", "estimate", "high")
        )
        ax.errorbar(
            middle,
            [y + (k - 0.5 * (len(columns) - 1)) * OFFSET / unit for y, _ in rows],
            xerr=np.nan_to_num(np.stack([middle - low, high - middle]).clip(min=0.0)),
            fmt=look.marker,
            color=look.colour,
            markersize=4.5,
            linewidth=1.2,
            label=group or "all tasks",
        )
    ax.set_yticks(
        range(len(order)), [titled(name, _first(policies[p])).replace("`", "") for p in order]
    )
    for label, policy in zip(ax.get_yticklabels(), order, strict=True):
        label.set_style("italic" if _first(policies[policy])["unit"] == RUNS else "normal")
    ax.set_ylim(len(order) - 0.5, -0.5)
    for y in range(len(order) + 1):
        ax.axhline(y - 0.5, color=style.FAINT, linewidth=0.6)
    is_relative = protocol_of(name).report.normalisation == "minmax"
    ends = "lowest and the highest return in the table" if is_relative else "bounds of a task"
    ax.set_xlabel(f"score: 0 and 1 are the {ends}", fontsize=style.SMALL)
    handles, labels = ax.get_legend_handles_labels()
    page.legend(handles, labels, loc="outside upper left", ncols=3, frameon=False)
    return style.svg(page, name)


def groups(name: str) -> str:
    """Mean score of every policy in every group of tasks, with its interval and its ranks."""
    ranks = {(row["group"], row["policy"]): row for row in read(name, "ranks.csv")}
    columns, policies = by_policy(name)

    def cell(policy: str, group: str) -> str:
        row = policies[policy].get(group)
        if row is None:
            return "—"  # has not played all tasks of the group
        rank = ranks.get((group, policy))
        return score(row) if rank is None else f"{score(row)} ({_places(rank)})"

    body = [
        (titled(name, first), *(cell(policy, group) for group in columns))
        for policy, first in in_order(policies)
    ]
    return rows_table(["Policy", *(f"`{group}`" if group else "all" for group in columns)], body)


def by_policy(name: str) -> tuple[list[str], dict[str, dict[str, Row]]]:
    """Return the groups of tasks of a protocol, and the mean scores as {policy: {group: row}}."""
    rows = means(name)
    policies: dict[str, dict[str, Row]] = {}
    for row in rows:
        policies.setdefault(row["policy"], {})[row["group"]] = row
    return list(dict.fromkeys(row["group"] for row in rows)), policies


def in_order(policies: Mapping[str, Mapping[str, Row]]) -> list[tuple[str, Row]]:
    """Return each policy with its row in the first group that it has played, the best first."""
    firsts = [(policy, _first(rows)) for policy, rows in policies.items()]
    return sorted(firsts, key=lambda pair: -_estimate(pair[1]))


def _first(rows: Mapping[str, Row]) -> Row:
    return next(iter(rows.values()))


def _places(rank: Row) -> str:
    """Return the ranks that the comparisons leave open."""
    low, high = rank["low"], rank["high"]
    return low if low == high else f"{low} to {high}"


def means(name: str) -> list[Row]:
    """Return the rows of mean scores over groups of tasks."""
    return [row for row in read(name, "aggregates.csv") if row["statistic"] == "mean"]


def titled(name: str, row: Row) -> str:
    """Return the name of a policy, of a learner with its runs and their share of the budget."""
    runs, share = row["count"], shares().get((name, row["policy"]), 1.0)
    of = f", {runs} run{'' if runs == '1' else 's'}" if row["unit"] == RUNS else ""
    return f"`{row['policy']}`{of}{f' at {share:g} of the budget' if of and share < 1.0 else ''}"


def shares() -> dict[tuple[str, str], float]:
    """Return the shares of the budget that learners are trained for, by protocol and learner."""
    return {(t.protocol, t.learner): t.share for t in TRAININGS}


def score(row: Row) -> str:
    """Return a mean score with its interval."""
    return interval(*(number(row[key]) for key in ("estimate", "low", "high")))


# --- full tables ----------------------------------------------------------------------------------


def page(name: str) -> str:
    """Return the page of a protocol: every metric of its report for all policies and tasks."""
    protocol = protocol_of(name)
    parts = [
        f"# Results: {name}",
        f"{protocol.protocol.description} Mean over episodes, for learners over runs and episodes, "
        f"with the {100 * protocol.report.confidence:g} % interval if there is one. "
        f"[Reference results](../results.md) says what follows. The files of "
        f"`benchmarks/results/tables/{name}` have comparisons, ranks and further statistics; "
        f"`python -m studies.reference {name}` makes them again.",
    ]
    rows = read(name, "estimates.csv")
    for metric in dict.fromkeys((protocol.report.score, *protocol.report.metrics)):
        some = [row for row in rows if row["metric"] == metric]
        if some:
            scored = metric == protocol.report.score
            title = f"Score: {metric}, normalized by the bounds of each task" if scored else metric
            parts += [f"## {title}", by_task(protocol, metric, some)]
    others = [f for f in pictures() if f.parts[-3] == name]
    parts += [f"![{file.stem}]({name}/{file.name})" for file in others]
    trials = TRIALS / f"tuning_{name.replace('-', '_')}.jsonl"
    if trials.is_file():
        parts += ["## Settings that were tried", tried(trials)]
    return "\n\n".join(parts) + "\n"


def by_task(protocol: Protocol, metric: str, rows: list[Row]) -> str:
    """Means of a metric in every task; the score is normalised by the bounds of the task."""
    cells = {(row["task"], row["policy"]): row for row in rows}
    policies = {row["policy"]: row for row in rows}

    def cell(task: str, policy: str) -> str:
        row = cells.get((task, policy))
        if row is None:
            return "—"  # not played
        bounds = protocol.task_of(task).bounds
        low, high = (bounds.low, bounds.high) if metric == protocol.report.score else (0.0, 1.0)
        numbers = [(number(row[key]) - low) / (high - low) for key in ("mean", "low", "high")]
        if metric in _SHARES:
            numbers = [float(np.clip(value, 0.0, 1.0)) for value in numbers]
        return interval(*numbers)

    body = [
        (f"`{task}`", *(cell(task, policy) for policy in policies))
        for task in dict.fromkeys(row["task"] for row in rows)
    ]
    heads = [titled(protocol.protocol.name, row) for row in policies.values()]
    return rows_table(["Task", *heads], body)


def tried(file: Path) -> str:
    """Settings that were tried for a protocol, learner by learner, with the mean scores."""
    lines = file.read_text(encoding="utf-8").splitlines()
    body = []
    for row in sorted(map(json.loads, lines), key=lambda row: str(row["learner"])):
        settings = ", ".join(f"`{key}={value}`" for key, value in row["settings"].items())
        seeds = ", ".join(map(str, row["seeds"]))
        body.append(
            (f"`{row['learner']}`", settings, seeds, f"{row['steps']:,}", f"{row['mean']:z.2f}")
        )
    return rows_table(["Learner", "Settings", "Training seed", "Steps", "Score"], body)


# --- files ----------------------------------------------------------------------------------------


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
    places = 0 if abs(mean) >= 100 else 2
    if math.isnan(low):  # of one run or two
        return f"{mean:z,.{places}f}"
    return f"{mean:z,.{places}f} [{low:z,.{places}f},{_NO_BREAK}{high:z,.{places}f}]"


MADE = {f"results/{name}.md": partial(page, name) for name in names()}
CHARTS = {f"results/{name}.svg": partial(chart, name) for name in names()}
