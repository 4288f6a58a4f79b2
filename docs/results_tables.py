"""Generated parts of docs/results.md, and the chart and the table of each protocol's page.

All figures and decisions are read from stored tables; nothing is decided here.
"""

import csv
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import figures
import numpy as np
import stored_results as stored

from coopbench.protocol.task import Bounds
from coopbench.report.markdown import rows_table
from coopbench.report.plots.marks import FAINT, SMALL
from coopbench.report.plots.style import styles

# Protocols of the overview with the groups of tasks that it shows; all of a protocol are on its
# page.
OVERVIEW = {
    "coopetition-standard": ("self-play", "focal", "focal-held-out", "focal-unmet", "shifted"),
    **{"coopetition-published": ("games",), "marl-standard": ("games", "pathfinding", "battles")},
    **{"skirmish-standard": ("maps", "shifted"), "skirmish-small": ("v0", "v1")},
    "skirmish-published": ("easy", "hard", "super-hard"),
    "routing-standard": ("random_grid", "labmaze", "caves", "cities"),
    **{"routing-easy": ("random_grid", "labmaze"), "routing-hard": ("",)},
    **{"rail-standard": ("seven-trains", "twenty-trains"), "rail-scaling": ("",)},
}
GAMES = "coopetition-standard", "focal"  # the group of which the page shows every game
TEAM_REWARD = Path(__file__).parents[1] / "benchmarks" / "results" / "team-reward.csv"
WIDTH, SPACE, OFFSET = 7.2, 0.18, 0.055  # inches of charts: wide, of a policy, between its groups
NONE = "none yet"  # learner has runs
_HEADS = ["`random`", "Best script or planner", "Best learner", "Difference"]


def parts() -> dict[str, str]:
    """Return every generated part of the page."""
    name, group = GAMES
    return {"overview": overview(), "games": tasks(name, group)}


def overview() -> str:
    """Random play, the best script and the best learner of each protocol, by groups of tasks."""
    body = []
    for name, groups in OVERVIEW.items():
        for place, group in enumerate(groups):
            link = "" if place else f"[{name}](results/{name}.md)"
            body.append((link, f"`{group}`" if group else "all", *leaders(name, group)))
    return rows_table(["Protocol", "Tasks", *_HEADS], body)


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
    """Return the scores of random play, of the best script and of the best learner in a group.

    A star: ranks do not decide that it is the best of its kind. The last cell has how much the
    learner scores more, and whether ranks decide it.
    """
    rows = {row["policy"]: row for row in stored.means(name) if row["group"] == group}
    ranks = {row["policy"]: row for row in stored.read(name, "ranks.csv") if row["group"] == group}
    script, learner = best_of(rows.values(), "estimate")

    def cell(row: stored.Row | None, otherwise: str) -> str:
        if row is None:
            return otherwise
        policy, where = row["policy"], stored.protocol_of(name).groups.get(group, ())
        rivals = [
            other
            for other, its in rows.items()
            if other not in (policy, "random") and its["unit"] == row["unit"]
        ]
        led = all(apart(ranks.get(policy), ranks.get(other)) for other in rivals)
        score = stored.score(row) + ("" if led else "*")
        return f"{stored.titled(name, row)} {score}{stored.rising(name, row, where)}"

    difference = "—"
    if script is not None and learner is not None:
        more = stored.number(learner["estimate"]) - stored.number(script["estimate"])
        places = ranks.get(learner["policy"]), ranks.get(script["policy"])
        difference = f"{more:+z.2f}, {'decided' if apart(*places) else 'ranks overlap'}"
    chance = f"{stored.number(rows['random']['estimate']):z.2f}" if "random" in rows else "—"
    return [chance, cell(script, "—"), cell(learner, NONE), difference]


def best_of(rows: Iterable[stored.Row], key: str) -> list[stored.Row | None]:
    """Return the best script and the best learner by ``key``; None where there is none."""
    found: list[stored.Row | None] = []
    for learned in (False, True):
        others = [
            row
            for row in rows
            if row["policy"] != "random" and (row["unit"] == stored.RUNS) is learned and row[key]
        ]
        found.append(max(others, key=lambda row: stored.number(row[key]), default=None))
    return found


def apart(first: stored.Row | None, second: stored.Row | None) -> bool:
    """Return whether two policies are ranked and share no rank.

    A pair that shares ranks may still differ significantly: ranks do not say of which policies.
    """
    if first is None or second is None:
        return False
    ends = [(int(row["low"]), int(row["high"])) for row in (first, second)]
    (_, high), (low, _) = sorted(ends)
    return high < low


def tasks(name: str, group: str | None = None) -> str:
    """Random play, the best script and the best learner on every task of a protocol or a group.

    Whether the difference is decided is what the comparison on the task says.
    """
    protocol = stored.protocol_of(name)
    rows = [
        row for row in stored.read(name, "estimates.csv") if row["metric"] == protocol.report.score
    ]
    decided = {
        (row["task"], frozenset((row["first"], row["second"])))
        for row in stored.read(name, "comparisons.csv")
        if row["decided"] == "True"
    }
    body = []
    for task in protocol.task if group is None else protocol.groups[group]:
        here = {row["policy"]: row for row in rows if row["task"] == task.id}
        script, learner = best_of(here.values(), "mean")
        if script is None:
            continue  # nobody has played it

        def value(row: stored.Row, bounds: Bounds = task.bounds) -> float:
            return (stored.number(row["mean"]) - bounds.low) / (bounds.high - bounds.low)

        cells = [f"{value(here['random']):z.2f}" if "random" in here else "—"]
        cells.append(f"`{script['policy']}` {value(script):z.2f}")
        difference = "—"
        if learner is not None:
            pair = task.id, frozenset((script["policy"], learner["policy"]))
            more = value(learner) - value(script)
            difference = f"{more:+z.2f}, {'decided' if pair in decided else 'open'}"
            title, rising = stored.titled(name, learner), stored.rising(name, learner, [task])
            cells.append(f"{title} {value(learner):z.2f}{rising}")
        else:
            cells.append(NONE)
        body.append((f"`{task.id}`", *cells, difference))
    return rows_table(["Task", *_HEADS], body)


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
        places = "" if rank is None else f" ({_places(rank)})"
        rising = stored.rising(name, row, stored.protocol_of(name).groups.get(group, ()))
        return f"{stored.score(row)}{places}{rising}"

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
