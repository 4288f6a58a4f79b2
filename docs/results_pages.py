"""Pages ``results/NAME.md``: scores, then every metric, and how learners came there.

The files have the scores of groups and tasks (parts that ``generate.py`` fills), and what is said
of them. Their last paragraph, which begins with ``DETAILS``, says where all other tables lie; the
build of the site puts these in its place.
"""

import itertools
import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import results_tables
import stored_results as stored
from checkout import ROOT

from coopbench.protocol.schema import Protocol
from coopbench.report.markdown import rows_table
from coopbench.report.plots.drawing import Line, LineChart, Sheet
from coopbench.report.plots.marks import short
from coopbench.report.plots.style import styles
from studies.reference import PROFILES

DETAILS = "<!-- details -->"
TEAM = "coopetition-standard"  # its page has the table of the team's reward
TRIALS = ROOT / "benchmarks" / "results"
_UNDEFINED = re.compile(r"undefined in (\d+) of (\d+) episodes")  # in flags of estimates
_DEFINED = "In parentheses: the share of episodes in which the metric is defined, if not in all."
_CURVES = (
    "The trimmed mean over the tasks of a group along the training, in the selection "
    "episodes, with a 95 % band. The area is that under the curve, divided by the steps that "
    "it spans. The steps are those to the first checkpoint at or above the threshold; their "
    "interval has the steps at which the upper and the lower end of the band reach it."
)
_PROFILE = (
    "The share of the runs of a learner, over all tasks of a group, that score above a threshold, "
    "with a 95 % band at each threshold: the higher the line, the better."
)
_IMPROVEMENT = "The probability that a run of the first learner scores more than one of the second."


def parts(name: str) -> dict[str, str]:
    """Return the generated parts of the page of a protocol."""
    own = {"scores": results_tables.groups(name), "tasks": results_tables.tasks(name)}
    return own | ({"team_reward": results_tables.team_reward()} if name == TEAM else {})


def new_page(name: str) -> str:
    """Return the page of a protocol of which nothing has been said yet."""
    empty = "<!-- generated: begin {} -->\n<!-- generated: end -->"
    return "\n\n".join(
        [
            f"# Results: {name}",
            "[Reference results](../results.md) explains the columns.",
            *(f"## {title}\n\n{empty.format(title.lower())}" for title in ("Scores", "Tasks")),
            f"{DETAILS} In a checkout, `benchmarks/results/tables/{name}` has\nevery metric, all "
            "comparisons and learning curves; the built site shows them here.\n",
        ]
    )


def filled(text: str, name: str) -> str:
    """Return the text of a page with all further tables in place of its last paragraph."""
    head, marker, _ = text.partition(DETAILS)
    if not marker:
        raise ValueError(f"docs/results/{name}.md has no {DETAILS!r}; end it as other pages do.")
    return head + details(name)


def details(name: str) -> str:
    """Return what only the site shows of a protocol: every metric, curves, trials, pictures."""
    protocol = stored.protocol_of(name)
    parts = [
        f"![Scores: {name}]({name}.svg)",
        f"Means over episodes, for learners over runs and episodes, with the "
        f"{100 * protocol.report.confidence:g} % interval, if there is one; those of metrics "
        f"between 0 and 1 end there. `benchmarks/results/tables/{name}` has comparisons, ranks "
        f"and further statistics; `python -m studies.reference {name}` makes them again.",
    ]
    rows = stored.read(name, "estimates.csv")
    for metric in dict.fromkeys((protocol.report.score, *protocol.report.metrics)):
        some = [row for row in rows if row["metric"] == metric]
        if some:
            scored = metric == protocol.report.score
            title = f"Score: {metric}" if scored else metric
            title += ", normalized by the bounds of each task" if scored else ""
            parts += [f"## {title}", by_task(protocol, metric, some, scored)]
    parts += learners(name)
    parts += [text for picture, text in shown(name) if not picture.startswith(PROFILES)]
    trials = TRIALS / f"tuning_{name.replace('-', '_')}.jsonl"
    if trials.is_file():
        parts += ["## Settings that were tried", tried(trials)]
    return "\n\n".join(parts) + "\n"


def learners(name: str) -> list[str]:
    """Return the parts of the page about learners; none where no learner was trained."""
    tables = {
        "Learning curves": (f"![Learning curves]({name}-learning.svg)\n\n{_CURVES}", areas(name)),
        "Performance profiles": (
            _PROFILE,
            "\n".join(text for picture, text in shown(name) if picture.startswith(PROFILES)),
        ),
        "Probability of improvement": (_IMPROVEMENT, improvements(name)),
    }
    return [f"## {title}\n\n{text}\n\n{table}" for title, (text, table) in tables.items() if table]


def shown(name: str) -> list[tuple[str, str]]:
    """Return the stored pictures of a protocol by name, and what shows them on a page."""
    files = [file for file in stored.pictures() if file.parts[-3] == name]
    return [(file.stem, f"![{file.stem}]({name}/{file.name})") for file in files]


def curves(name: str) -> str:
    """Draw the learning curves of all learners in every group of tasks; return the SVG."""
    rows = [row for row in stored.read(name, "learning.csv") if not row["task"]]
    looks = styles(list(dict.fromkeys(row["policy"] for row in rows)))
    panels = []
    for group, some in itertools.groupby(rows, lambda row: row["group"]):
        lines = []
        for policy, points in itertools.groupby(some, lambda row: row["policy"]):
            table = list(points)
            numbers = [
                np.array([stored.number(row[key]) for row in table])
                for key in ("step", "estimate", "low", "high")
            ]
            lines.append(Line(policy, looks[policy], *numbers))
        title = group or "all tasks"
        panels.append(LineChart(tuple(lines), title, "steps", "score", shares=True, written=short))
    return Sheet(tuple(panels), beside=True).svg


def areas(name: str) -> str:
    """Area under every learning curve, and the steps to its threshold."""
    body = [
        (
            f"`{row['policy']}`",
            row["group"] or "all",
            stored.score(row, "area", "area_low", "area_high"),
            f"{float(row['threshold']):g}",
            steps_text(row),
        )
        for row in stored.read(name, "efficiency.csv")
    ]
    heads = ["Learner", "Tasks", "Area", "Threshold", "Steps to the threshold"]
    return rows_table(heads, body) if body else ""


def steps_text(row: stored.Row) -> str:
    """Return the steps to the threshold with their interval, whose ends may be out of reach."""
    reached, low, high = (
        f"{float(row[key]):,.0f}" if row[key] else "not reached"
        for key in ("steps", "steps_low", "steps_high")
    )
    return f"{reached} [{low}, {high}]"


def improvements(name: str) -> str:
    """Probability of improvement of every pair of learners in every group of tasks."""
    body = [
        (row["group"] or "all", f"`{row['first']}`", f"`{row['second']}`", stored.score(row))
        for row in stored.read(name, "improvements.csv")
        if row["unit"] == stored.RUNS
    ]
    return rows_table(["Tasks", "First", "Second", "Probability"], body) if body else ""


def by_task(protocol: Protocol, metric: str, rows: list[stored.Row], normalized: bool) -> str:
    """Means of a metric in every task, ``normalized`` by the bounds of the task or as they are."""
    cells = {(row["task"], row["policy"]): row for row in rows}
    # The first row with the most runs names a learner: some tasks may have none with a value.
    policies = {
        policy: max((row for row in rows if row["policy"] == policy), key=lambda r: int(r["count"]))
        for policy in dict.fromkeys(row["policy"] for row in rows)
    }

    def entry(task: str, policy: str) -> str:
        row = cells.get((task, policy))
        if row is None:
            return "—"  # not played
        bounds = protocol.task_of(task).bounds
        low, high = (bounds.low, bounds.high) if normalized else (0.0, 1.0)
        numbers = [
            (stored.number(row[key]) - low) / (high - low) for key in ("mean", "low", "high")
        ]
        if metric in stored.SHARES:
            numbers = [stored.within(value) for value in numbers]
        return stored.interval(*numbers) + defined(row)

    body = [
        (f"`{task}`", *(entry(task, policy) for policy in policies))
        for task in dict.fromkeys(row["task"] for row in rows)
    ]
    heads = [_breakable(stored.titled(protocol.protocol.name, row)) for row in policies.values()]
    table = rows_table(["Task", *heads], body)
    return f"{_DEFINED}\n\n{table}" if any(defined(row) for row in rows) else table


def defined(row: stored.Row) -> str:
    """Return the share of episodes in which a metric has a value, if in some of them alone."""
    undefined = _UNDEFINED.match(row["flag"])
    if undefined is None or not row["mean"]:
        return ""
    without, episodes = map(int, undefined.groups())
    return f" ({100 * (1 - without / episodes):.2g} %)"


def _breakable(title: str) -> str:
    """Return a title above a narrow column: names may break behind an underscore alone."""
    return re.sub("`(.*?)`", lambda name: f"<code>{name[1].replace('_', '_<wbr>')}</code>", title)


def tried(file: Path) -> str:
    """Settings that were tried for a protocol, learner by learner, with the mean scores."""
    lines = file.read_text(encoding="utf-8").splitlines()
    trials = sorted(map(json.loads, lines), key=lambda trial: str(trial["learner"]))
    body, notes = [], []
    for learner, group in itertools.groupby(trials, key=lambda trial: str(trial["learner"])):
        some = list(group)
        shared = _shared([trial["settings"] for trial in some])
        if shared:
            notes.append(f"All trials of `{learner}` have {_settings(shared)}.")
        for trial in some:
            own = {key: value for key, value in trial["settings"].items() if key not in shared}
            seeds, steps = ", ".join(map(str, trial["seeds"])), f"{trial['steps']:,}"
            score, tasks = f"{trial['mean']:z.2f}", _tasks([*trial["scores"]])
            body.append((f"`{learner}`", _settings(own) or "—", tasks, seeds, steps, score))
    heads = ["Learner", "Settings", "Tasks", "Training seed", "Steps", "Score"]
    table = rows_table(heads, body)
    return "\n\n".join([table, *notes])


def _tasks(names: list[str]) -> str:
    """Name the task of a trial, or count several."""
    return f"`{names[0]}`" if len(names) == 1 else str(len(names))


def _shared(settings: list[dict[str, object]]) -> dict[str, object]:
    """Return what all of several trials have in common; nothing for a single trial."""
    first, *others = settings
    return {k: v for k, v in first.items() if others and all(o.get(k) == v for o in others)}


def _settings(chosen: Mapping[str, object]) -> str:
    return ", ".join(f"`{key}={value}`" for key, value in chosen.items())


PAGES = {f"results/{name}.md": name for name in stored.names()}
CURVES = {
    f"results/{name}-learning.svg": partial(curves, name)
    for name in stored.names()
    if stored.read(name, "learning.csv")
}
