"""Facts of a report: what its protocol and its tasks are, and where its numbers come from."""

from typing import Any

from coopbench.analysis.deviations import bare_models, left_out_tasks, smoke_runs
from coopbench.analysis.findings import Findings
from coopbench.analysis.registered import DEVIATES, NOT_REGISTERED, REGISTERED
from coopbench.episodes.grouping import grouped
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Budget, Task
from coopbench.protocol.training import Training, held_out_parameters
from coopbench.protocol.variants import maps_text
from coopbench.provenance import versions
from coopbench.report.blocks import Verdict

STANDARD = "Standard report"
NOT_STANDARD = "Not a standard report"
_NOT_YET = "Not yet a standard report: runs of a required learner are missing"
_ONE_ENVIRONMENT = (
    "A single environment has no agreed tasks, score bounds or baselines; for a standard report "
    "evaluate a protocol."
)


def verdict(findings: Findings) -> Verdict:
    """Say what kind of report it is, and what a standard report of its protocol needs.

    Only what was played in another way is a warning: not a report of one environment, not a choice
    of tasks, and not a learner that is still missing.
    """
    deviations = findings.deviations
    if not deviations:
        return Verdict(STANDARD, ())
    if findings.protocol.ad_hoc:
        models = bare_models(findings.episodes)
        return Verdict("Report of one environment", (_ONE_ENVIRONMENT, *models))
    if smoke_runs(findings.protocol, findings.episodes):
        return Verdict(f"Smoke run. {NOT_STANDARD}", deviations, warning=True)
    others = set(deviations) - set(findings.missing_learners)
    if not others:
        return Verdict(_NOT_YET, deviations)
    left_out = left_out_tasks(findings.protocol)
    if others == {left_out}:
        return Verdict("Report of some tasks of a protocol", deviations)
    return Verdict(NOT_STANDARD, deviations, warning=True)


def identity(findings: Findings) -> dict[str, str]:
    """Return what the protocol is, as {label: text}."""
    protocol, maps = findings.protocol, maps_text(findings.protocol)
    head = protocol.protocol
    return {
        "Protocol": f"{head.name}, version {head.version}",
        "Digest": f"{protocol.digest[:12]} (SHA-256 {protocol.digest})",
        "Description": head.description,
        "Citation": head.citation or "none given",
        **({"Differs from the publication": "; ".join(head.differs)} if head.differs else {}),
        "Registration": registration_text(findings),
        **({"Maps": maps} if maps else {}),
        **({"Training": training_text(protocol)} if protocol.training else {}),
        **tuning_fact(protocol),
    }


def registration_text(findings: Findings) -> str:
    """Say whether the results keep to a registration: registered, not registered, or deviates."""
    registration = findings.registration
    if registration is None:
        return NOT_REGISTERED
    if findings.study_deviations:
        reasons = "; ".join(findings.study_deviations)
        return f"{DEVIATES} from the registration of {registration.date}: {reasons}"
    count = len(registration.hypotheses)
    text = f"{REGISTERED} on {registration.date}"
    return f"{text} with {count} hypothes{'is' if count == 1 else 'es'}"


def training_text(protocol: Protocol) -> str:
    """Say in words what learned policies are trained on, and for how long."""
    training = protocol.training
    if training is None:
        return "not fixed by the protocol"
    played = "its own task" if training.plays == "own" else "all tasks"
    on, count = f"one model per task, evaluated on {played}", len(protocol.trained_tasks)
    if count < len(protocol.task):
        several = f"each of {count} tasks" if count > 1 else "one task"
        on = f"one model trained on {several}, evaluated on that task and on its variants"
    if training.on == "any":
        parameter = held_out_parameters(protocol.task)
        on = f"one model, on any {parameter} but {', '.join(training.held_out)}"
        if training.task is not None:
            settings = _settings(training.task.parameters) or "defaults"
            on += f"; the learners of this package on {training.task.env} ({settings})"
    followed = protocol.seeds.selection is not None
    budgets = "; ".join(
        f"{name.replace('_', '-')} {_budget(budget, followed)}"
        for name, budget in training.budgets.items()
    )
    for text, names in _further_budgets(protocol, followed).items():
        budgets += f"; on {', '.join(names)} {text}"
    return f"{on}; {training.runs} runs; {budgets}; {_evaluations(protocol, training)}"


def tuning_fact(protocol: Protocol) -> dict[str, str]:
    """Say how hyperparameters were found, if the protocol does."""
    tuning = protocol.training.tuning if protocol.training else None
    return {"Tuning": tuning} if tuning else {}


def _budget(budget: Budget, followed: bool) -> str:
    every = f", evaluated every {budget.interval:,}" if followed else ""
    return f"{budget.steps:,} steps{every}"


def _further_budgets(protocol: Protocol, followed: bool) -> dict[str, list[str]]:
    """Return the budgets of single tasks in words, with the names of the tasks."""
    own = [(task.budget, task.id) for task in protocol.task if task.budget is not None]
    return grouped((_budget(budget, followed), name) for budget, name in own)


def _evaluations(protocol: Protocol, training: Training) -> str:
    """Say which policy of a run is evaluated, and on how many episodes it was chosen."""
    if protocol.seeds.selection is None:
        return "the last checkpoint is evaluated"
    which = "last" if training.evaluates == "last" else "best"
    return f"{training.episodes:,} episodes per evaluation; the {which} checkpoint is evaluated"


def task_facts(findings: Findings, task: Task) -> dict[str, str]:
    """Return what is played in a task, as {label: text}."""
    bounds = not findings.protocol.ad_hoc and findings.protocol.report.normalisation != "minmax"
    facts = {
        "Environment": task.env,
        "Parameters": _settings(task.parameters) or "defaults",
        "Episodes": f"{findings.protocol.episodes(task):,} per policy",
        "Players": _players(task),
    }
    if task.group:
        facts = {"Group": task.group} | facts
    if task.trained_on is not None:
        facts["Learned policies"] = f"those that were trained on {task.trained_on}"
    if bounds:
        low, high = (f"{bound:,.10g}" for bound in (task.bounds.low, task.bounds.high))
        facts["Score bounds"] = f"{low} counts as 0, {high} as 1"
    if task.instances is not None:
        facts["Instances"] = f"{task.instances.file} (SHA-256 {task.instances.sha256})"
    return facts


def _players(task: Task) -> str:
    """Say which policies sit where in a task."""
    if not task.partners:
        return "the policy in all seats (self-play)"
    pools = [
        ", ".join(names) + (f" as {role}" if role else "") for role, names in task.pools.items()
    ]
    return f"the policy in one seat, each seat in turn; in the others {'; '.join(pools)}"


def _settings(parameters: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} = {{{_settings(value)}}}" if isinstance(value, dict) else f"{name} = {value}"
        for name, value in parameters.items()
    )


def provenance(findings: Findings) -> dict[str, str]:
    """Return seeds and versions, as {label: text}."""
    seeds = findings.protocol.seeds
    first, last = seeds.evaluation.first, seeds.evaluation.first + seeds.evaluation.count - 1
    training = ", ".join(str(seed) for seed in seeds.training)
    evaluation = f"{first} to {last}, one episode each, the same for all policies"
    if findings.episodes.own_episodes:
        evaluation = "not given: every run counts as having played episodes of its own"
    return {
        "Evaluation seeds": evaluation,
        "Training seeds": training or "none named by the protocol",
        "Results": f"digest {findings.results}" if findings.results else "not stored in a folder",
        "Versions (of this report)": ", ".join(f"{k} {v}" for k, v in versions().items()),
    }
