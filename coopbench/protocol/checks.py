"""Checks of a protocol's sections against each other.

Every function raises ``ValueError`` with a message that names the section, its value and what is
allowed.
"""

import itertools
import json
from collections.abc import Mapping, Sequence

import coopbench_envs
from coopbench.episodes.metrics import known_metrics, missing_metric
from coopbench.protocol.sections import (
    Chart,
    Limits,
    Reporting,
    Seeds,
    Task,
    Training,
)
from coopbench_envs.parameters import unknown

__all__ = [
    "check_budgets",
    "check_charts",
    "check_dependent_metrics",
    "check_domains",
    "check_groups",
    "check_limits",
    "check_metrics",
    "check_normalisation",
    "check_tasks",
    "check_trained_on",
    "check_training",
    "check_variants",
    "groups_of",
    "held_out_parameters",
    "partners_met",
    "tasks_beside",
]


def groups_of(tasks: Sequence[Task]) -> dict[str, tuple[Task, ...]]:
    """Return tasks by group, in their order; one group named "" if there are none."""
    names = dict.fromkeys(task.group for task in tasks)
    return {name: tuple(t for t in tasks if t.group == name) for name in names}


def held_out_parameters(tasks: Sequence[Task]) -> str:
    """Return the parameters of tasks that ``held_out`` refers to, joined by "or"; "" if none."""
    names = dict.fromkeys(coopbench_envs.spec(task.env).held_out for task in tasks)
    return " or ".join(filter(None, names))


def check_tasks(tasks: Sequence[Task], seeds: Seeds) -> None:
    """Check that tasks differ by name and content and have enough evaluation seeds."""
    contents: dict[str, str] = {}
    for task in tasks:
        instances = task.instances and task.instances.sha256
        content = json.dumps([task.env, task.parameters, instances, task.partners], sort_keys=True)
        if task.id in contents:
            raise ValueError(f"two tasks are called {task.id!r}; rename one")
        for other, same in contents.items():
            if same == content:
                raise ValueError(f"tasks {other!r} and {task.id!r} are the same; remove one")
        contents[task.id] = content
        if (task.episodes or 0) > seeds.evaluation.count:
            raise ValueError(
                f"task {task.id!r} wants {task.episodes} episodes, but there are only "
                f"{seeds.evaluation.count} evaluation seeds"
            )


def check_groups(tasks: Sequence[Task]) -> None:
    """Check that all tasks have a group, or none has."""
    without = [task.id for task in tasks if not task.group]
    if without and len(without) < len(tasks):
        raise ValueError(f"task {without[0]!r} has no group, but others have; give it one")


def check_domains(report: Reporting, tasks: Sequence[Task]) -> None:
    """Check that the domains of a report are groups of the tasks."""
    groups = groups_of(tasks)
    for name in report.domain or {}:
        if name not in groups:
            raise ValueError(unknown("group", name, groups, "the domains of the report"))


def check_normalisation(report: Reporting, tasks: Sequence[Task]) -> None:
    """Check that every task has bounds, or that scores are normalised without them and a margin."""
    if report.normalisation != "minmax":
        for task in tasks:
            if "bounds" not in task.model_fields_set:
                raise ValueError(
                    f"task {task.id!r} has no bounds, the scores that count as 0 and as 1; add "
                    f"them, or set normalisation = 'minmax' in [report]"
                )
        return
    if report.margin is not None:
        raise ValueError(
            "a margin is in units of the tasks' bounds, which normalisation 'minmax' does not "
            "use; remove one of them"
        )


def check_variants(tasks: Sequence[Task]) -> None:
    """Check that tasks which vary others name tasks of the same environment that vary none."""
    by_id = {task.id: task for task in tasks}
    for task in (task for task in tasks if task.varies is not None):
        others = [o.id for o in tasks if o.env == task.env and o.varies is None]
        if task.varies not in by_id:
            raise ValueError(unknown("task", str(task.varies), others, f"'varies' of {task.id!r}"))
        if task.varies not in others:
            raise ValueError(
                f"task {task.id!r} has varies = {task.varies!r}, which is of another environment "
                f"or varies a task itself; allowed: {', '.join(others) or 'none here'}"
            )


def check_dependent_metrics(report: Reporting, tasks: Sequence[Task]) -> None:
    """Check that metrics which mean nothing alone are reported directly after their reference."""
    pairs = {pair for task in tasks for pair in coopbench_envs.spec(task.env).dependent.items()}
    lists = [report.metrics_of(task) for task in tasks if task.metrics]
    for metric, reference in sorted(pairs):
        _check_single(report, metric, reference)
        _check_listed(report, lists, metric, reference)
        _check_drawn(report.chart, metric, reference)


def _check_single(report: Reporting, metric: str, reference: str) -> None:
    """Check that a dependent metric is neither the score nor a curve."""
    curves = (report.curve, *(domain.curve for domain in (report.domain or {}).values()))
    for use, name in (("score", report.score), *(("curve", curve) for curve in curves)):
        if name == metric:
            raise ValueError(f"{use} {metric!r} means nothing alone; allowed: {reference!r}")


def _check_listed(
    report: Reporting, lists: Sequence[tuple[str, ...]], metric: str, reference: str
) -> None:
    """Check that a dependent metric directly follows its reference in every list."""
    shown = tuple(dict.fromkeys((report.score, *report.metrics)))
    domains = [domain.metrics for domain in (report.domain or {}).values()]
    for names in (report.metrics, shown, *domains, *lists):
        if metric in names and (reference, metric) not in itertools.pairwise(names):
            raise ValueError(
                f"{metric!r} must be reported together with {reference!r}, placed right after it"
            )


def _check_drawn(charts: Sequence[Chart], metric: str, reference: str) -> None:
    """Check that a chart of a dependent metric has a twin of its reference."""
    for chart in (chart for chart in charts if chart.metric == metric):
        twins = (
            chart.model_copy(update={"metric": reference, "scale": other.scale}) == other
            for other in charts
        )
        if not any(twins):
            raise ValueError(f"a chart of {metric!r} needs one of {reference!r} beside it")


def check_training(training: Training | None, seeds: Seeds, tasks: Sequence[Task]) -> None:
    """Check that training has a seed for every run and episode; see also ``_check_held_out``."""
    if training is None:
        return
    if training.runs != len(seeds.training):
        raise ValueError(
            f"training has {training.runs} runs, but there are {len(seeds.training)} "
            f"training seeds; allowed: one seed per run"
        )
    _check_held_out(training, tasks)
    _check_training_task(training, seeds)
    _check_training_partners(training, tasks)
    selection = seeds.selection
    if training.evaluates is not None and selection is None:
        raise ValueError(
            "evaluates = 'last' is of protocols that play selection episodes; name the seeds of "
            "these, or remove the key: the last policy is then evaluated anyway"
        )
    if selection is not None and selection.count != training.episodes:
        raise ValueError(
            f"training evaluates {training.episodes} episodes, but there are "
            f"{selection.count} selection seeds; allowed: one seed per episode"
        )


def _check_held_out(training: Training, tasks: Sequence[Task]) -> None:
    """Check that what is held out are values that tasks have in the parameter for that."""
    parameters = held_out_parameters(tasks)
    if training.held_out and not parameters:
        names = ", ".join(dict.fromkeys(task.env for task in tasks))
        raise ValueError(
            f"held_out needs a parameter whose values can be held out; {names} has none"
        )
    values = {
        str(value)
        for task in tasks
        if (value := task.parameters.get(coopbench_envs.spec(task.env).held_out)) is not None
    }
    for name in training.held_out:
        if name not in values:
            raise ValueError(unknown(f"held-out {parameters}", name, values, "the tasks"))


def _check_training_task(training: Training, seeds: Seeds) -> None:
    """Check what a model is trained on that plays all tasks: not what is held out."""
    task = training.task
    if training.on == "any" and seeds.selection is not None:
        raise ValueError(
            "selection seeds go with on = 'each': with 'any' a checkpoint would be chosen on what "
            "nobody may train on; remove one of them"
        )
    if task is None:
        return
    value = str(task.parameters.get(coopbench_envs.spec(task.env).held_out))
    if value in training.held_out:
        raise ValueError(f"[training.task] has {value!r}, which is held out; choose another one")
    if task.partners or any((task.trained_on, task.instances, task.budget)):
        raise ValueError(
            "[training.task] takes id, env, parameters and bounds; remove partners, trained_on, "
            "instances and budget"
        )


def partners_met(training: Training | None, tasks: Sequence[Task], trained: str) -> tuple[str, ...]:
    """Return the partners beside whom the models of a task are trained; empty if there are none."""
    beside = tasks_beside(training, tasks, trained)
    return tuple(dict.fromkeys(name for task in beside for name in task.partner_names))


def tasks_beside(training: Training | None, tasks: Sequence[Task], trained: str) -> list[Task]:
    """Return the tasks whose partners training on a task meets; empty if it meets none."""
    group = None if training is None else training.partners
    return [task for task in tasks if group and (task.group, task.trained_on) == (group, trained)]


def _check_training_partners(training: Training, tasks: Sequence[Task]) -> None:
    """Check that every trained task has training partners, and that none of them is held out.

    Held out are the partners in groups whose name ends in "held-out".
    """
    if training.partners is None:
        return
    groups = groups_of(tasks)
    if training.partners not in groups:
        raise ValueError(unknown("group", training.partners, groups, "the partners of training"))
    if training.partners.endswith("held-out"):
        raise ValueError(f"training has the partners of {training.partners!r}, which are held out")
    for task in tasks:
        members = partners_met(training, tasks, task.trained_on or task.id)
        if isinstance(task.partners, dict) and task.group == training.partners:
            raise ValueError(f"task {task.id!r} has partners by role; allowed in training: a list")
        if task.trained_on is None and not members:
            raise ValueError(
                f"group {training.partners!r}, beside whose partners is trained, has no task with "
                f"trained_on = {task.id!r} and partners; add one"
            )
        held = [name for name in task.partner_names if name in members]
        if held and task.group.endswith("held-out"):
            raise ValueError(f"{held[0]!r} is held out in {task.id!r}, but met in training")


def check_budgets(training: Training | None, tasks: Sequence[Task]) -> None:
    """Check that only tasks on which a model of their own is trained have a budget."""
    for task in tasks:
        where = f"task {task.id!r} has a budget"
        if task.budget is not None and (training is None or training.on != "each"):
            raise ValueError(f"{where}, which goes with on = 'each' in [training]; remove it")
        if task.budget is not None and task.trained_on is not None:
            raise ValueError(
                f"{where}, but is played by models of {task.trained_on!r}; remove it, or give "
                f"{task.trained_on!r} one"
            )


def check_trained_on(training: Training | None, tasks: Sequence[Task]) -> None:
    """Check that the tasks named by ``trained_on`` have models that can play the task."""
    by_id = {task.id: task for task in tasks}
    for task in tasks:
        if task.trained_on is None:
            continue
        where = f"task {task.id!r} has trained_on = {task.trained_on!r}"
        if training is None:
            raise ValueError(f"{where}, but there is no [training]; add it or remove the key")
        if training.plays != "own":
            raise ValueError(
                f"{where}, but training has on = {training.on!r} and plays = "
                f"{training.plays!r}; allowed: 'each' and 'own'"
            )
        _check_trainable(task, task.trained_on, by_id, where)


def _check_trainable(task: Task, other_id: str, tasks: Mapping[str, Task], where: str) -> None:
    """Check that the task ``other_id`` is trained on, in the game of ``task``."""
    allowed = [
        other.id
        for other in tasks.values()
        if other.trained_on is None and other.env == task.env and not other.partners
    ]
    if other_id not in tasks:
        raise ValueError(unknown("task", other_id, allowed, where))
    reason = _unfit(task, tasks[other_id])
    if reason:
        raise ValueError(f"{where}, {reason}; allowed: {', '.join(allowed) or 'none here'}")


def _unfit(task: Task, other: Task) -> str:
    """Say why models trained on ``other`` cannot be those of ``task``; empty if they can."""
    if other.id == task.id:
        return "which is the task itself"
    if other.env != task.env:
        return f"which is {other.env}, not {task.env}"
    if other.trained_on is not None:
        return f"which has models of another task itself ({other.trained_on!r})"
    return "which has partners and is not trained on" if other.partners else ""


def check_limits(limits: Limits | None, tasks: Sequence[Task]) -> None:
    """Check that a share arrived is asked only of tasks that measure one."""
    for task in tasks if limits is not None and limits.stop_below is not None else ():
        if "arrived" not in task.spec.metrics:
            raise ValueError(
                f"stop_below goes with tasks that have the metric 'arrived', and {task.id!r} has "
                f"none; remove it"
            )


def check_charts(report: Reporting, tasks: Sequence[Task]) -> None:
    """Check that charts show reported metrics against axes with at least two positions."""
    axes, groups = {name for task in tasks for name in task.axes}, groups_of(tasks)
    for chart in report.chart:
        for name in filter(None, (chart.x, chart.per)):
            if name not in axes:
                problem = unknown("axis", name, axes, f"a chart of {chart.metric}")
                raise ValueError(f"{problem} The key 'axes' of a task sets its positions.")
        if chart.group and chart.group not in groups:
            raise ValueError(unknown("group", chart.group, groups, "a chart"))
        if chart.metric not in report.metrics:
            raise ValueError(unknown("metric", chart.metric, report.metrics, "a chart"))
        _check_positions(chart, tasks)
    names = [name for chart in report.chart for name in chart.panels(tasks)]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(f"two charts are called {repeated[0]!r}; remove one")


def _check_positions(chart: Chart, tasks: Sequence[Task]) -> None:
    """Check that tasks have enough positions on the axis of a chart, and that its scale fits."""
    panels = chart.panels(tasks).values()
    positions = [{task.axes[chart.x] for task in panel} for panel in panels]
    if max(map(len, positions), default=0) < 2:
        raise ValueError(f"a chart against {chart.x!r} has one position only; allowed: 2")
    low = min(map(min, positions))
    if chart.scale == "log2" and low <= 0:
        raise ValueError(f"a log2 chart against {chart.x!r} has {low:g}; allowed: above 0")


def check_metrics(report: Reporting, tasks: Sequence[Task]) -> None:
    """Check that every task has the metrics that are reported of it, and its curve a course."""
    for task in tasks:
        spec, curve = task.spec, report.curve_of(task)
        metrics = known_metrics(spec)
        for name in report.reproduces.summary:
            if name not in metrics:
                raise ValueError(missing_metric(task.env, name, f"the summary of {task.id!r}"))
        for name in (*report.metrics_of(task), curve):
            if name not in metrics:
                raise ValueError(missing_metric(spec, name, f"task {task.id!r}"))
        measured = spec.metrics
        if curve not in measured:
            raise ValueError(
                f"curve {curve!r} of task {task.id!r} has no course over an "
                f"episode; allowed: what the game itself measures, {', '.join(measured)}"
            )
