"""Export as marl-eval JSON.

The JSON is that of Gorsane et al. 2022, "Towards a Standardised Performance Evaluation Protocol
for Cooperative MARL"; see ``marl_eval_import``, which reads it.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.analysis.findings import Findings
from coopbench.episodes.metrics import values
from coopbench.episodes.names import check_case, names_given
from coopbench.episodes.table import Episodes, EpisodeTable, Progress
from coopbench.files import write_text
from coopbench_envs.parameters import named, unknown

_RENAME = "give it another with policies={policy: name} (--policy POLICY=NAME)"


def to_marl_eval(
    findings: Findings,
    policies: Mapping[str, str] | Iterable[str] | None = None,
    metrics: str | Iterable[str] | None = None,
) -> dict[str, Any]:
    """Return the results of a report as the nested mapping that marl-eval reads.

    A group of tasks is an environment; without groups the protocol is. ``policies`` are the
    algorithms, {policy: name in the file}, or a list of names; all if not given. ``metrics`` are
    the return and the score if not given; the score alone if the scores of some policy have shipped
    with this package, which hold nothing else. ``absolute_metrics`` are the evaluation episodes,
    those of the best checkpoint where there are several. A learned policy has a run ``seed_N``
    per training seed, without those that failed. A fixed one has the run ``run_0`` with the same
    episodes as ``step_0`` too, since marl-eval reads no run without a step. One trained model
    without a training seed has the run ``run_0`` without a step: it is a run of a learner, and at
    step 0 it would be taken for a fixed policy.

    A metric with another's name between its underscores (own_return, with return) is written
    with hyphens, because marl-eval loses it when the other is normalized.

    Raises:
        ValueError: for unknown names, for names that marl-eval cannot keep apart (upper and lower
            case, commas), and for a metric that is undefined in an episode.
    """
    table, protocol = findings.episodes, findings.protocol
    algorithms = _algorithms(table, policies)
    usual = () if _without_return(findings, algorithms) else ("return",)
    shown = _metric_names(names_given(metrics) or (*usual, protocol.report.score))
    environments: dict[str, Any] = {}
    for group, tasks in protocol.groups.items():
        played = {task.id: _task_runs(table, task.id, algorithms, shown) for task in tasks}
        environments[group or protocol.name] = {task: runs for task, runs in played.items() if runs}
    content = {environment: tasks for environment, tasks in environments.items() if tasks}
    if not content:
        raise ValueError("Nothing to export: no policy that was asked for has played a task.")
    return content


def save_marl_eval(
    findings: Findings,
    path: str | Path,
    policies: Mapping[str, str] | Iterable[str] | None = None,
    metrics: str | Iterable[str] | None = None,
) -> tuple[str, ...]:
    """Write ``to_marl_eval`` of a report to a file and return the ``obstacles`` in it.

    They begin with a note if the return is left out because scores that ship lack it.
    """
    exported, wanted = _algorithms(findings.episodes, policies), names_given(metrics)
    content = to_marl_eval(findings, exported, wanted)
    write_text(Path(path), json.dumps(content, allow_nan=False) + "\n")
    left_out = () if wanted else _without_return(findings, exported)
    return (*left_out, *obstacles(content))


def obstacles(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return why marl-eval would fail on a file: it takes names from the first algorithm only.

    ``content`` is what ``to_marl_eval`` returns. Empty if marl-eval can read the file.
    """
    reasons = []
    if len(content) > 1:
        reasons.append("marl-eval reads one environment at a time: process the file anew for each")
    for environment, tasks in content.items():
        everyone = dict.fromkeys(name for runs in tasks.values() for name in runs)
        first: tuple[str, Any] | None = None
        for task, algorithms in tasks.items():
            for algorithm in everyone:
                where = f"{environment} / {task} / {algorithm}"
                if algorithm not in algorithms:
                    reasons.append(f"{where} is missing")
                    continue
                outline = {run: _outline(parts) for run, parts in algorithms[algorithm].items()}
                first = first or (where, outline)
                if outline != first[1]:
                    reasons.append(f"{where} has other runs or steps than {first[0]}")
                elif not all(outline.values()):
                    reasons.append(f"{where} has a run without steps")
    return tuple(reasons)


def _outline(parts: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the evaluations of a run with their steps."""
    return [(name, part["step_count"]) for name, part in parts.items() if "step_count" in part]


def _without_return(findings: Findings, exported: Mapping[str, str]) -> tuple[str, ...]:
    """Say that the return is not exported, if one of the policies has shipped scores alone."""
    shipped = {block.cell.policy for block in findings.episodes if block.scores_alone}
    names = [policy for policy in exported if policy in shipped]
    if not names or findings.protocol.report.score == "return":
        return ()
    return (
        f"the return is left out, which the scores of {', '.join(names)} that ship with this "
        "package do not have: play them (--play-shipped), or export others",
    )


def _algorithms(
    table: EpisodeTable, policies: Mapping[str, str] | Iterable[str] | None
) -> dict[str, str]:
    """Return the names in the file of the policies to export, {policy: name}."""
    present = dict.fromkeys(block.cell.policy for block in table)
    if isinstance(policies, Mapping):
        chosen = dict(policies)
    else:
        listed = present if policies is None else names_given(policies)
        chosen = dict(zip(listed, listed, strict=True))
    names = list(chosen.values())
    for policy, name in chosen.items():
        if policy not in present:
            raise ValueError(unknown("policy", policy, present, "the results"))
        if not name.strip() or "," in name:
            why = "a comma, with which marl-eval joins names" if name.strip() else "no letters"
            raise ValueError(f"The algorithm {name!r} has {why}; {_RENAME}.")
        if names.count(name) > 1:
            raise ValueError(f"Two policies are to be called {name!r}; give them two names.")
    check_case("marl-eval takes names in lower case: the algorithms", names, _RENAME)
    return chosen


def _metric_names(metrics: Iterable[str]) -> dict[str, str]:
    """Return the names in the file of the metrics to export, such that marl-eval keeps each."""
    unique = dict.fromkeys(metrics)
    return {
        name: name.replace("_", "-") if {*name.split("_")} & ({*unique} - {name}) else name
        for name in unique
    }


def _task_runs(
    table: EpisodeTable, task: str, algorithms: Mapping[str, str], shown: Mapping[str, str]
) -> dict[str, Any]:
    """Return the runs of every algorithm that has played a task."""
    runs: dict[str, Any] = {}
    for policy, name in algorithms.items():
        progress = {course.cell: course for course in table.progress_of(task, policy)}
        for block in table.runs(task, policy):
            run = "run_0" if block.cell.run is None else f"seed_{block.cell.run}"
            parts = _run_parts(table, block, progress.get(block.cell), shown)
            runs.setdefault(name, {})[run] = parts
    return runs


def _run_parts(
    table: EpisodeTable, block: Episodes, progress: Progress | None, shown: Mapping[str, str]
) -> dict[str, Any]:
    """Return the evaluations of a run, then its absolute metrics, which must come last."""
    where, padded = f"{block.cell.task} / {block.cell.policy}", table.own_episodes
    final = {n: _plain(values(block, m), m, where, padded) for m, n in shown.items()}
    parts: dict[str, Any] = {}
    if progress is not None:
        for metric in shown:
            named("metric", metric, progress.metrics, f"the checkpoints of {where}")
        for k, step in enumerate(progress.steps):
            row = {n: _plain(progress.metrics[m][k], m, where, padded) for m, n in shown.items()}
            parts[f"step_{k}"] = {"step_count": int(step), **row}
    elif table.run_of(block.cell) is None:
        parts["step_0"] = {"step_count": 0, **final}
    return parts | {"absolute_metrics": final}


def _plain(sample: np.ndarray, metric: str, where: str, padded: bool) -> list[float]:
    """Return the values of a metric; ``padded``: those that an import has not found are nan."""
    defined = np.isfinite(sample)
    undefined = int(np.sum(~defined))
    if undefined and not (padded and defined.any()):
        raise ValueError(
            f"{where}: {metric} is undefined in {undefined} of {len(sample)} episodes, for which "
            f"marl-eval has no value. Export other metrics."
        )
    return [float(value) for value in sample[defined]]
