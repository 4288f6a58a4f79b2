"""Generated parts of docs/results.md: an overview, and a chart and a table for each protocol.

All figures and decisions are read from stored tables; nothing is decided here.
"""

import csv
from functools import partial
from pathlib import Path

import figures
import numpy as np
import stored_results as stored

from coopbench.report.markdown import rows_table
from coopbench.report.plots.marks import FAINT, SMALL
from coopbench.report.plots.style import styles

# Protocols of the overview with a group of tasks each; the others have no learner yet, or learners
# for questions of their own.
OVERVIEW = {
    **{"coopetition-standard": "focal"},
    **{"coopetition-published": "games", "marl-standard": "games"},
    **{"skirmish-small": "v1", "skirmish-published": "hard", "skirmish-standard": "maps"},
    **{"routing-easy": "random_grid", "routing-hard": "", "routing-standard": "cities"},
    **{"rail-standard": "seven-trains", "rail-scaling": ""},
}
TEAM_REWARD = Path(__file__).parents[1] / "benchmarks" / "results" / "team-reward.csv"
WIDTH, SPACE, OFFSET = 7.2, 0.18, 0.055  # inches of charts: wide, of a policy, between its groups


def parts() -> dict[str, str]:
    """Return every generated part of the page: the overview, and a part for each protocol."""
    return {
        "overview": overview(),
        "team_reward": team_reward(),
        **{name.replace("-", "_"): section(name) for name in stored.names()},
    }


def overview() -> str:
    """Random play, the best script and the best learner of each protocol, in a group of tasks."""
    body = [
        (f"[{name}](results/{name}.md)", group or "all", *leaders(name, group))
        for name, group in OVERVIEW.items()
    ]
    return rows_table(
        ["Protocol", "Tasks", "`random`", "Best script or planner", "Best learner"], body
    )


def team_reward() -> str:
    """Normalised self-play of runs on own and on the team's reward: mean, lowest and highest run.

    The runs are of an earlier revision of coopetition-standard with the same self-play tasks.
    """
    with TEAM_REWARD.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    body = []
    for name in dict.fromkeys(row["task"] for row in rows):
        bounds, cells = stored.protocol_of("coopetition-standard").task_of(name).bounds, []
        for reward in ("own", "team"):
            runs = [row for row in rows if (row["task"], row["reward"]) == (name, reward)]
            scores = bounds.normalise(np.array([float(row["own_return"]) for row in runs]))
            cells.append(f"{scores.mean():z.2f} ({scores.min():z.2f} to {scores.max():z.2f})")
        body.append((f"`{name}`", *cells))
    return rows_table(["Task", "Each agent's own reward", "Reward of the team"], body)


def leaders(name: str, group: str) -> list[str]:
    """Return the scores of random play, of the best script and of the best learner in a group."""
    rows = [row for row in stored.means(name) if row["group"] == group]
    chance = [stored.score(row) for row in rows if row["policy"] == "random"]
    cells = []
    for learned in (False, True):
        others = [
            row
            for row in rows
            if row["policy"] != "random" and (row["unit"] == stored.RUNS) is learned
        ]
        best = max(others, key=lambda row: stored.number(row["estimate"]), default=None)
        cells.append("—" if best is None else f"{stored.titled(name, best)} {stored.score(best)}")
    return [*(chance or ["—"]), *cells]


def section(name: str) -> str:
    """The chart of a protocol's scores, and the table of its groups of tasks."""
    return f"![Scores: {name}](results/{name}.svg)\n\n{groups(name)}"


def chart(name: str) -> str:
    """Draw the mean scores of all policies in every group of tasks of a protocol; return the SVG.

    Policies are in the order of the table, learners in italics.
    """
    from matplotlib.figure import Figure

    columns, policies = stored.by_policy(name)
    firsts = dict(stored.in_order(policies))
    order = list(firsts)
    unit = SPACE + OFFSET * len(columns)
    page = Figure(figsize=(WIDTH, len(order) * unit + 1.1), layout="constrained")
    ax = page.subplots()
    figures.frame(ax)
    ax.yaxis.grid(False)
    for k, (group, look) in enumerate(styles(columns).items()):
        rows = [(y, policies[p][group]) for y, p in enumerate(order) if group in policies[p]]
        low, middle, high = (
            np.array([stored.number(row[key]) for _, row in rows])
            for key in ("low", "estimate", "high")
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
        range(len(order)), [stored.titled(name, firsts[p]).replace("`", "") for p in order]
    )
    for label, policy in zip(ax.get_yticklabels(), order, strict=True):
        label.set_style("italic" if firsts[policy]["unit"] == stored.RUNS else "normal")
    ax.set_ylim(len(order) - 0.5, -0.5)
    for y in range(len(order) + 1):
        ax.axhline(y - 0.5, color=FAINT, linewidth=0.6)
    ax.set_xlabel("score: 0 and 1 are the bounds of a task", fontsize=SMALL)
    handles, labels = ax.get_legend_handles_labels()
    page.legend(handles, labels, loc="outside upper left", ncols=3, frameon=False)
    return figures.svg(page, name)


def groups(name: str) -> str:
    """Mean score of every policy in every group of tasks, with its interval and its ranks."""
    ranks = {(row["group"], row["policy"]): row for row in stored.read(name, "ranks.csv")}
    columns, policies = stored.by_policy(name)

    def cell(policy: str, group: str) -> str:
        row = policies[policy].get(group)
        if row is None:
            return "—"  # has not played all tasks of the group
        rank = ranks.get((group, policy))
        return stored.score(row) if rank is None else f"{stored.score(row)} ({_places(rank)})"

    body = [
        (stored.titled(name, first), *(cell(policy, group) for group in columns))
        for policy, first in stored.in_order(policies)
    ]
    return rows_table(["Policy", *stored.heads(columns)], body)


def _places(rank: stored.Row) -> str:
    """Return the ranks that the comparisons leave open."""
    low, high = rank["low"], rank["high"]
    return low if low == high else f"{low} to {high}"


CHARTS = {f"results/{name}.svg": partial(chart, name) for name in stored.names()}
