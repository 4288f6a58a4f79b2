"""Checklist: what reviewers ask of a study, answered from protocol and results alone.

The questions are those of Gorsane et al. 2022 (arXiv 2209.10485) and Pineau et al. 2021 (JMLR 22,
164), in our own words. What protocol and results do not answer is shown as missing.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from coopbench.analysis.deviations import changed_settings, choosing
from coopbench.analysis.findings import Findings, once
from coopbench.baselines.registry import learners, parse_name
from coopbench.episodes.actions import stored_episodes
from coopbench.episodes.grouping import grouped
from coopbench.episodes.table import Episodes
from coopbench.playing.contestants import contestant_of
from coopbench.playing.plan import game_of
from coopbench.report.answers import (
    CODE_LEVEL,
    COMPUTE,
    LACKING,
    NOT_NEEDED,
    SIGNS,
    STATED,
    YES,
    Answer,
    Meta,
    cells_text,
    counted,
    fact,
    span_text,
    stated,
    text_of,
    trained_steps,
    wall_time,
    yes_if,
)
from coopbench.report.facts import training_text
from coopbench.report.numbers import MISSING, level_text
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import decisions_text
from coopbench.report.tables.model import Column, Entry, Group, Table
from coopbench_envs.foreign_names import is_foreign

# Hyperparameters of the learners here that are optimisations of their code, not of the algorithm
# (Engstrom et al. 2020, Implementation Matters in Deep Policy Gradients).
_OPTIMISATIONS = (
    *("scale_observations", "scale_rewards", "max_grad_norm", "anneal"),
    *("target_kl", "squash", "history"),
)
_ENOUGH = 10  # training runs, as Gorsane et al. ask
_BELOW = "with every policy, below"

Answers = Iterator[tuple[str, str, str]]  # question, state, what is known


@dataclass(frozen=True)
class Item:
    """One line of the checklist."""

    topic: str
    item: str
    state: str  # "yes", "no", "missing": not stated, or "not needed": it does not apply
    known: str


@once
def checklist(findings: Findings) -> tuple[Item, ...]:
    """Return the checklist of a study."""
    return tuple(
        Item(topic, question, state, text or MISSING)
        for topic, answers in _TOPICS.items()
        for question, state, text in answers(findings)
    )


def checklist_table(findings: Findings) -> Table:
    """Return the checklist as a table."""
    topics: dict[str, list[tuple[Entry, ...]]] = {}
    for item in checklist(findings):
        sign = SIGNS[item.state].replace(" ", "\u00a0")  # in one line
        row = Entry(item.item, item.item), Entry(sign, item.state), Entry(item.known, item.known)
        topics.setdefault(item.topic, []).append(row)
    return Table(
        title="What reviewers ask, and what is known",
        columns=(
            Column("Asked", "what a reviewer wants to know", numeric=False),
            Column("State", "yes, no, missing or not needed", numeric=False),
            Column("What is known", "by the protocol and the results", numeric=False),
        ),
        groups=tuple(Group(topic, "", tuple(rows)) for topic, rows in topics.items()),
        unit="Filled in from the protocol, the results and their metadata. Missing: none of them "
        "says it. Not needed: it does not apply to the policies of this report.",
        kind="Topic",
    )


def _tasks(study: Findings) -> Answers:
    protocol, deviations = study.protocol, len(study.deviations)
    groups = f" in {len(protocol.groups)} groups" if len(protocol.groups) > 1 else ""
    fixed = f"{counted(len(protocol.task), 'task')}{groups}, fixed by {protocol.name}"
    text = "an ad-hoc evaluation" if protocol.ad_hoc else fixed
    state = yes_if(not protocol.ad_hoc)
    if study.episodes.own_episodes:
        state, text = LACKING, f"{counted(len(protocol.task), 'task')}{groups} of the files"
    yield "Tasks were fixed before the policies", state, text
    environments = dict.fromkeys(task.env for task in protocol.task)
    yield "More than one environment", yes_if(len(environments) > 1), ", ".join(environments)
    followed = f"{counted(deviations, 'deviation')}, named at the top"
    text, state = followed if deviations else "no deviations", yes_if(not deviations)
    if study.episodes.own_episodes:
        state, text = NOT_NEEDED, "results of another program have none here"
    yield "The protocol was followed", state, text
    required = (*protocol.report.fixed, *protocol.report.learned)
    lacking = protocol.missing(study.episodes.policies)
    text = ", ".join(required) or "none required"
    text = f"lacking: {', '.join(lacking)}" if lacking else text
    state = yes_if(not lacking) if required else NOT_NEEDED
    yield "Required baselines are there", state, text
    yield "Digest of the protocol", YES, protocol.digest


def _training(study: Findings) -> Answers:
    metas = study.metas((*study.learned, *study.unregistered))
    answers: dict[str, Callable[[], Answer]] = {
        "Seeds of training and evaluation are apart": lambda: _apart(study),
        f"At least {_ENOUGH} runs of each learned policy": lambda: _runs(study),
        "Budget of training": lambda: _budget(study),
        "Checkpoints were chosen on episodes of their own": lambda: _choice(study),
        "How hyperparameters were tuned, with how many trials": lambda: _tuning(study),
        "Code-level optimisations": lambda: stated(metas, _optimisations),
        "Compute of training": lambda: stated(metas, _compute),
    }
    for question, answer in answers.items():
        known = (NOT_NEEDED, "no policy was trained") if not metas else answer()
        yield question, *known


def _apart(study: Findings) -> Answer:
    seeds = study.protocol.seeds
    training = {block.cell.run for block in study.episodes if block.cell.run is not None}
    training |= set(seeds.training)
    if study.episodes.own_episodes:
        return LACKING, "seeds of episodes are not given"
    span = f"evaluation {seeds.evaluation.seeds[0]} to {seeds.evaluation.seeds[-1]}"
    if study.episodes.bare:
        names = ", ".join(study.episodes.bare)
        return LACKING, f"{span}; training seeds of {names} are not given"
    if not training:
        return LACKING, f"{span}; training seeds are not given"
    shared = [str(seed) for seed in sorted(training) if seed in seeds.evaluation.seeds]
    text = f"{span}; training {', '.join(map(str, sorted(training)))}"
    return yes_if(not shared), text + (f"; shared: {', '.join(shared)}" if shared else "")


def _runs(study: Findings) -> Answer:
    if study.unregistered:
        names = ", ".join(study.unregistered)
        return LACKING, f"{names} may have been trained: models are given by run"
    fewest = {
        name: min(len(study.episodes.runs(task.id, name)) for task in study.protocol.task)
        for name in study.learned
    }
    text = "; ".join(
        f"{name}: {counted(count, 'run')} on the task with the fewest"
        for name, count in fewest.items()
    )
    return yes_if(min(fewest.values()) >= _ENOUGH), text


def _budget(study: Findings) -> Answer:
    protocol = study.protocol
    reached = {name: trained_steps(study, name) for name in study.learned}
    texts = [
        f"{name}: {' or '.join(f'{n:,}' for n in s)} steps" for name, s in reached.items() if s
    ]
    if protocol.training is not None:
        texts.append(f"asked by the protocol: {training_text(protocol)}")
    return yes_if(bool(reached) and all(reached.values()), LACKING), "; ".join(texts)


def _tuning(study: Findings) -> Answer:
    """Quote the protocol on the tuning of learners of this package; of others nobody says it.

    Nor of runs with other hyperparameters than the protocol's.
    """
    policies = (*study.learned, *study.unregistered)
    others = [name for name in policies if parse_name(name).kind not in learners()]
    training = study.protocol.training
    texts = [training.tuning] if training is not None and training.tuning else []
    changed = {
        name: names
        for name in study.learned
        if (names := changed_settings(study.protocol, study.episodes, name))
    }
    if others:
        texts.append(f"not stated of {', '.join(others)}")
    texts += [
        f"not stated of the values that runs of {name} have of {', '.join(names)}"
        for name, names in changed.items()
    ]
    return yes_if(bool(texts) and not (others or changed), LACKING), " ".join(texts)


def _choice(study: Findings) -> Answer:
    protocol, table = study.protocol, study.episodes
    played = [block.cell for block in table if block.cell.policy in study.learned]
    cells = choosing(protocol, table, played)
    chosen = {progress.cell for progress in table.progress}
    span, training = protocol.seeds.selection, protocol.training
    if not cells:
        return LACKING, "they were chosen on tasks that are left out" if played else ""
    if training is not None and (training.on == "any" or training.evaluates == "last"):
        others = sorted({cell.policy for cell in cells if cell not in table.trained})
        if others:
            return LACKING, f"not stated of {', '.join(others)}, which was not trained here"
        return NOT_NEEDED, "none is chosen: the last policy of every run is evaluated"
    if span is None or not chosen.issuperset(cells):
        return LACKING, f"no checkpoints of {len(set(cells) - chosen)} of {len(cells)} runs"
    seeds = f"{span.seeds[0]} to {span.seeds[-1]}"
    return YES, f"highest mean {protocol.report.score} on the seeds {seeds}"


def _numbers(study: Findings) -> Answers:
    protocol, settings = study.protocol, study.protocol.report
    required = {task.id: protocol.episodes(task) for task in protocol.task}
    short = [b for b in study.episodes if len(b) < required[b.cell.task]]
    text = f"{span_text(sorted({len(b) for b in study.episodes}))} of each policy on a task"
    text += f"; fewer than asked in {counted(len(short), 'cell')}" if short else ""
    state = NOT_NEEDED if study.episodes.own_episodes else yes_if(not short)
    yield "As many episodes as the protocol asks", state, text
    metrics = dict.fromkeys(("return", settings.score, *settings.metrics))
    yield "Return and metrics of the game", YES, ", ".join(metrics)
    unbounded = [row for row in study.estimates if not math.isfinite(row.low)]
    text = f"{level_text(protocol)}: for new training runs and new episodes, in closed form"
    text += f"; none of {counted(len(unbounded), 'estimate')}" if unbounded else ""
    yield "Estimates have intervals", yes_if(not unbounded), text
    by_unit = grouped((unit, name) for name, unit in study.units.items())
    text = "; ".join(f"{unit}: {', '.join(names)}" for unit, names in by_unit.items())
    yield "Unit of inference", YES, text
    test = {"welch": "independent", "paired": "paired by episodes"}[settings.comparison]
    text = f"{test}, alpha {settings.alpha:g}. {decisions_text(study)}"
    yield "Tests are adjusted for their number", YES, text
    models = {task.id: protocol.model_of(task) for task in protocol.task}
    missing = {(row.policy, models[row.task], row.run) for row in study.missing_runs}
    text = counted(len(missing), "run") if missing else "there are none"
    yield "Runs that failed or are missing are listed", YES, text


def _sources(study: Findings) -> Answers:
    blocks = study.episodes.blocks
    traced = [block.trace for block in blocks if block.trace is not None]
    recorded = sum(len(trace.recorded) for trace in traced)
    files = "episodes.npz of each cell; without a results folder, episodes.csv"
    if study.episodes.own_episodes:
        yield "Raw data of every episode", LACKING, "episodes.csv has the values of the files"
    else:
        yield "Raw data of every episode", YES, files
    text = f"fingerprints of {cells_text(len(traced), len(blocks))}"
    text += f"; actions of {counted(recorded, 'episode')}{_sample_text(study)}"
    yield "Episodes can be verified", yes_if(len(traced) == len(blocks)), text
    metas = study.metas(study.episodes.policies)
    yield "Hyperparameters", *stated(metas, _settings_given)
    yield "Ablations", *_ablations(study)
    for label, write in STATED.items():
        yield label, *stated(metas, write)
    yield "Wall time of the evaluation", *wall_time(metas)


def _sample_text(findings: Findings) -> str:
    """Say how many episodes of third-party policies can be played again; empty if all can."""
    stored = total = 0
    for block in findings.episodes.blocks:
        trained = findings.metadata.get(block.cell, {}).get("training") is not None
        elsewhere = contestant_of(findings.protocol, block.cell.policy).elsewhere
        if block.trace is None or trained or not elsewhere:
            continue
        stored += len(stored_episodes(block, *_action_sizes(findings, block)))
        total += len(block)
    if stored == total:
        return ""
    return f"; of policies from elsewhere all actions in a sample of {stored:,} of {total:,}"


def _action_sizes(findings: Findings, block: Episodes) -> tuple[int, int]:
    """Return how many numbers an action of an agent has, and the limit of steps.

    Of an environment of another package, whose code results must not execute, both are as recorded.
    """
    task = findings.protocol.played_in(block.cell)
    if is_foreign(task.env):
        recorded = {} if block.trace is None else block.trace.recorded
        widths = [int(np.prod(actions.shape[2:])) for actions, _ in recorded.values()]
        return max(widths, default=1), int(findings.metadata[block.cell]["environment"]["horizon"])
    game = game_of(task)
    return int(np.prod(game.action_space.shape or ())), int(game.constants.horizon)


def _ablations(study: Findings) -> Answer:
    """Name the ablations among the contestants; they are asked of those that were trained."""
    names = [name for name in study.episodes.policies if " without " in name]
    if names:
        return YES, ", ".join(names)
    asked = study.learned or study.unregistered
    return (LACKING, "no contestant is called NAME without PART") if asked else (NOT_NEEDED, "")


def _optimisations(meta: Meta) -> str:
    """Write the code-level optimisations of a policy: declared, or hyperparameters of a learner."""
    settings = fact(meta, "hyperparameters")
    if not isinstance(settings, Mapping):
        return ""
    if CODE_LEVEL in settings:
        return str(settings[CODE_LEVEL])
    return ", ".join(f"{name} = {settings[name]}" for name in _OPTIMISATIONS if name in settings)


def _compute(meta: Meta) -> str:
    measured = isinstance(fact(meta, "training", "seconds"), int | float)
    return _BELOW if measured else text_of(meta, "hyperparameters", COMPUTE)


def _settings_given(meta: Meta) -> str:
    return _BELOW if isinstance(fact(meta, "hyperparameters"), Mapping) else ""


_TOPICS: dict[str, Callable[[Findings], Answers]] = {
    "Tasks": _tasks,
    "Training": _training,
    "Numbers": _numbers,
    "Data and code": _sources,
}


def items(findings: Findings) -> list[dict[str, str]]:
    """Return the checklist as plain data."""
    return [dataclasses.asdict(item) for item in checklist(findings)]


SECTION = ReportSection(shows={"checklist": checklist_table}, json={"checklist": items})
