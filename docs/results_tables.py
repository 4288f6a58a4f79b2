"""Tables of docs/results.md, from the reference results of ``benchmarks/results/tables``.

Differences, intervals and decisions are read from the files of stored reports; nothing is decided
here. Decisions of files that were stored under an earlier rule are not shown.
"""

import csv
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from itertools import combinations, product
from pathlib import Path

from coopbench.analysis.comparisons import Comparison
from coopbench.protocol.loading import load_protocol
from coopbench.report.markdown import rows_table

ROOT = Path(__file__).resolve().parent.parent
RESULTS, TRIALS = ROOT / "benchmarks" / "results" / "tables", ROOT / "benchmarks" / "results"
GAMES, TEAM = "coopetition-standard", "coopetition-team"
ARRIVED = ("success_rate", "coordination")
BROUGHT_HOME = ("normalised_return", "arrived")
_NO_BREAK = "\N{NO-BREAK SPACE}"


def parts() -> dict[str, str]:
    """Return every generated part of the page."""
    names = ("routing-easy", "routing-hard", "routing-standard")
    return {
        **{name.partition("-")[2]: pairs(name, *ARRIVED) for name in names},
        "pathfinders": all_policies("routing-learned", {"success_rate": 3, "return": 0}),
        "games_learned": all_policies("games-learned", {"own_return": 1, "cooperation_rate": 2}),
        "published": tasks("coopetition-published"),
        "published_learned": learned("coopetition-published"),
        "marl": returns("marl-standard"),
        "battles_small": returns("skirmish-small"),
        "battles_small_long": returns("skirmish-small-1000"),
        "battles_small_learned": learned("skirmish-small"),
        "battles_small_trials": trials("tuning_skirmish_small.jsonl"),
        "battles": returns("skirmish-published"),
        "battle_groups": groups("skirmish-standard", "episodes"),
        "battles_standard": returns("skirmish-standard"),
        "railways": pairs("rail-standard", *BROUGHT_HOME),
        "railways_learned": learned("rail-standard"),
        "railways_scaling": pairs("rail-scaling", *BROUGHT_HOME),
        "groups": groups(GAMES, "episodes"),
        "tasks": tasks(GAMES),
        "learners_own": groups(GAMES, "runs"),
        "learners_team": groups(TEAM, "runs"),
        "learners_tasks": learned(GAMES),
        "learners_differences": differences(GAMES),
        "left_met": left("focal"),
        "left_held_out": left("focal-held-out"),
        "tracks": tracks(),
        "rises": rises(),
        "battles_small_budgets": budgets("skirmish-small", "tuning_skirmish_small.jsonl"),
    }


def pairs(name: str, *metrics: str) -> str:
    """Means of two metrics for every reference policy on every task of a protocol."""
    rows = stored(name, "estimates.csv", "episodes")
    if not rows:
        return missing(name, "episodes")
    means = {(row["task"], row["policy"], row["metric"]): float(row["mean"]) for row in rows}
    policies = list(dict.fromkeys(row["policy"] for row in rows))

    def cell(task: str, policy: str) -> str:
        if (task, policy, metrics[0]) not in means:
            return "—"  # not played
        return " / ".join(f"{means[task, policy, metric]:z.3f}" for metric in metrics)

    played = dict.fromkeys(row["task"] for row in rows)
    body = [(f"`{task}`", *(cell(task, policy) for policy in policies)) for task in played]
    return rows_table(["Task", *(policy.replace("_", " ") for policy in policies)], body)


def groups(name: str, unit: str) -> str:
    """Mean score over tasks and interval of every policy in every group of tasks.

    ``unit`` is "episodes" for fixed policies, "runs" for learned ones.
    """
    rows = {
        (row["group"], row["policy"]): row
        for row in stored(name, "aggregates.csv", unit)
        if row["statistic"] == "mean"
    }
    if not rows:
        return missing(name, unit)
    names, policies = (list(dict.fromkeys(key[k] for key in rows)) for k in (0, 1))

    def cell(group: str, policy: str) -> str:
        if (group, policy) not in rows:
            return "—"  # has not played all tasks of the group
        row = rows[group, policy]
        return interval(*(number(row[key]) for key in ("estimate", "low", "high")), "z.2f")

    body = [(f"`{policy}`", *(cell(group, policy) for group in names)) for policy in policies]
    return rows_table(["Policy", *(f"`{group}`" for group in names)], body)


def tasks(name: str) -> str:
    """Score of every fixed policy on every task of a protocol."""
    protocol = load_protocol(name)
    rows = {
        (row["task"], row["policy"]): float(row["mean"])
        for row in stored(name, "estimates.csv", "episodes")
        if row["metric"] == protocol.report.score
    }
    if not rows:
        return missing(name, "episodes")
    policies = list(dict.fromkeys(policy for _, policy in rows))

    def cell(task: str, policy: str) -> str:
        if (task, policy) not in rows:
            return "—"  # not played
        bounds = protocol.task_of(task).bounds
        return f"{(rows[task, policy] - bounds.low) / (bounds.high - bounds.low):z.2f}"

    body = [
        (f"`{task.id}`", *(cell(task.id, policy) for policy in policies)) for task in protocol.task
    ]
    return rows_table(["Task", *(f"`{policy}`" for policy in policies)], body)


def returns(name: str) -> str:
    """Mean score, with its interval, of every fixed policy on every task of a protocol."""
    own = ROOT / "studies" / "protocols" / f"{name}.toml"
    score = load_protocol(own if own.is_file() else name).report.score
    rows = [row for row in stored(name, "estimates.csv", "episodes") if row["metric"] == score]
    if not rows:
        return missing(name, "episodes")
    cells = {(row["task"], row["policy"]): row for row in rows}
    policies = list(dict.fromkeys(row["policy"] for row in rows))

    def cell(task: str, policy: str) -> str:
        row = cells[task, policy]
        return interval(*(number(row[key]) for key in ("mean", "low", "high")), "z.2f")

    body = [
        (f"`{task}`", *(cell(task, policy) for policy in policies))
        for task in dict.fromkeys(row["task"] for row in rows)
    ]
    return rows_table(["Task", *(f"`{policy}`" for policy in policies)], body)


def trials(name: str) -> str:
    """Settings that were tried for a protocol, learner by learner, with the mean scores."""
    lines = (TRIALS / name).read_text(encoding="utf-8").splitlines()
    body = []
    for row in sorted(map(json.loads, lines), key=lambda row: str(row["learner"])):
        settings = ", ".join(f"`{key}={value}`" for key, value in row["settings"].items())
        seeds = ", ".join(map(str, row["seeds"]))
        score = f"{row['mean']:z.2f}"
        body.append((f"`{row['learner']}`", settings, seeds, f"{row['steps']:,}", score))
    return rows_table(["Learner", "Settings", "Training seed", "Steps", "Score"], body)


def learned(name: str) -> str:
    """Mean normalised score and interval of every learner on every task of a protocol."""
    protocol = load_protocol(name)
    rows = {
        (row["task"], row["policy"]): row
        for row in stored(name, "estimates.csv", "runs")
        if row["metric"] == protocol.report.score
    }
    if not rows:
        return missing(name, "runs")

    def cell(task: str, policy: str) -> str:
        if (task, policy) not in rows:
            return "—"  # has not been trained
        row, bounds = rows[task, policy], protocol.task_of(task).bounds
        mean, *ends = (
            (float(row[key] or "nan") - bounds.low) / (bounds.high - bounds.low)
            for key in ("mean", "low", "high")
        )
        if protocol.report.score == "win":  # a share
            ends = [min(max(end, 0.0), 1.0) for end in ends]
        return interval(mean, *ends, "z.2f")

    played, policies = (list(dict.fromkeys(key[k] for key in rows)) for k in (0, 1))
    counts = {
        policy: {row["count"] for (_, p), row in rows.items() if p == policy} for policy in policies
    }
    runs = {
        p: "1 run" if c == {"1"} else f"{' or '.join(sorted(c))} runs" for p, c in counts.items()
    }
    heads = (f"`{policy}`, {runs[policy]}" for policy in policies)
    body = [(f"`{task}`", *(cell(task, policy) for policy in policies)) for task in played]
    return rows_table(["Task", *heads], body)


def differences(name: str) -> str:
    """Differences between the learners of a report on every task; those that it shows are bold."""
    rows = stored(name, "comparisons.csv", "runs")
    learners = dict.fromkeys(row["policy"] for row in stored(name, "estimates.csv", "runs"))
    pairs = list(combinations(learners, 2))
    cells = {(row["task"], row["first"], row["second"]): row for row in rows}
    if not rows or not pairs:
        return missing(name, "runs")
    decided = rows[0].keys() == {field.name for field in fields(Comparison)}

    def cell(task: str, first: str, second: str) -> str:
        row = cells.get((task, first, second))
        if row is None:
            return "—"
        text = interval(*(number(row[key]) for key in ("difference", "low", "high")), "+z.2f")
        return f"**{text}**" if decided and row["shown"] == "True" else text

    body = [
        (f"`{task}`", *(cell(task, *pair) for pair in pairs))
        for task in dict.fromkeys(row["task"] for row in rows)
    ]
    table = rows_table(["Task", *(f"`{one}` - `{two}`" for one, two in pairs)], body)
    return table if decided else f"{table}\n\n{undecided(name)}"


def undecided(name: str) -> str:
    """Return the sentence on decisions that were stored under another rule than the present one."""
    return (
        f"These files were stored under an earlier rule of decision: they say nothing about which "
        f"differences are shown until `python -m studies.reference {name}` makes them anew."
    )


def left(group: str) -> str:
    """What learners of both tracks leave to the partners of a group: 1 less the score."""
    protocol = load_protocol(GAMES)
    rows = {
        (row["task"], f"`{row['policy']}`, {reward} reward"): row
        for name, reward in ((GAMES, "own"), (TEAM, "team"))
        for row in stored(name, "estimates.csv", "runs")
        if row["metric"] == protocol.report.score
    }

    def cell(task: str, column: str) -> str:
        row, bounds = rows.get((task, column)), protocol.task_of(task).bounds
        if row is None:
            return "—"  # has not been trained
        width = bounds.high - bounds.low
        ends = ((bounds.high - number(row[key])) / width for key in ("mean", "high", "low"))
        return interval(*ends, "z.2f")

    columns = list(dict.fromkeys(column for _, column in rows))
    body = [
        (f"`{task.id}`", *(cell(task.id, column) for column in columns))
        for task in protocol.groups[group]
    ]
    return rows_table(["Task", *columns], body)


def tracks() -> str:
    """What the team's reward adds to every agent's own return, from ``studies/questions.py``."""
    rows = read(GAMES, "tracks.csv")
    body = []
    for row in rows:
        text = interval(*(number(row[key]) for key in ("difference", "low", "high")), "+z.2f")
        shown = row["shown"] == "True"
        body.append((f"`{row['task']}`", f"`{row['policy']}`", f"**{text}**" if shown else text))
    table = rows_table(["Task", "Policy", "Team less own reward"], body)
    if any(row["shown"] for row in rows):
        return table
    return f"{table}\n\n{undecided(f'{GAMES} {TEAM}')}"


def rises() -> str:
    """By how much scores rise over the last quarter; bold where the interval excludes 0."""
    cells = {}
    for row in read(GAMES, "rises.csv"):
        numbers = [number(row[key]) for key in ("rise", "low", "high")]
        text = interval(*numbers, "+z.2f")
        column = f"`{row['policy']}`, {row['reward']} reward"
        cells[row["task"], column] = f"**{text}**" if numbers[1] > 0 or numbers[2] < 0 else text
    names, columns = (list(dict.fromkeys(key[k] for key in cells)) for k in (0, 1))
    body = [(f"`{name}`", *(cells.get((name, c), "—") for c in columns)) for name in names]
    return rows_table(["Task", *columns], body)


def budgets(name: str, file: str) -> str:
    """How many settings were tried for every learner of a report."""
    lines = (TRIALS / file).read_text(encoding="utf-8").splitlines()
    tried = Counter(json.loads(line)["learner"] for line in lines)
    learners = dict.fromkeys(row["policy"] for row in stored(name, "estimates.csv", "runs"))
    return rows_table(
        ["Learner", *(f"`{learner}`" for learner in learners)],
        [("Trials", *(str(tried[learner]) for learner in learners))],
    )


def all_policies(name: str, measures: Mapping[str, int]) -> str:
    """Means and intervals of learners and fixed policies; metrics have so many decimal places."""
    if not (RESULTS / name / "estimates.csv").is_file():
        return missing(name, "runs")
    rows = read(name, "estimates.csv")
    estimates = {(row["task"], row["policy"], row["metric"]): row for row in rows}
    played, policies = (list(dict.fromkeys(row[key] for row in rows)) for key in ("task", "policy"))

    def cell(task: str, policy: str, metric: str) -> str:
        row = estimates[task, policy, metric]
        form = f"z.{measures[metric]}f"
        return interval(*(number(row[key]) for key in ("mean", "low", "high")), form)

    columns = list(product(played, measures))
    head = [f"`{task}`: {metric}" for task, metric in columns]
    body = [(f"`{policy}`", *(cell(task, policy, m) for task, m in columns)) for policy in policies]
    return rows_table(["Policy", *head], body)


def stored(name: str, file: str, unit: str) -> list[dict[str, str]]:
    """Return the rows of policies with this unit; none where no results are stored."""
    if not (RESULTS / name / file).is_file():
        return []
    return [row for row in read(name, file) if row["unit"] == unit]


def missing(name: str, unit: str) -> str:
    """Return the sentence that stands where there are no results."""
    command = f"python -m studies.reference {name if unit == 'episodes' else '--work MINUTES'}"
    return f"Not in this version of the package; `{command}` computes and stores these results."


def read(name: str, file: str) -> list[dict[str, str]]:
    """Return the rows of a table of reference results."""
    with (RESULTS / name / file).open(encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def number(text: str) -> float:
    """Return the number of a cell; nan for an empty one, as the interval of a single run is."""
    return float(text or "nan")


def interval(mean: float, low: float, high: float, form: str) -> str:
    """Return an estimate with its interval, if it has one, whose limits stay on one line."""
    if math.isnan(low):  # of one run
        return f"{mean:{form}}"
    return f"{mean:{form}} [{low:{form}},{_NO_BREAK}{high:{form}}]"
