"""Checklist: what a reviewer asks of a study, answered by the protocol and the results alone.

The items are those of Gorsane et al. 2022 (arXiv 2209.10485) and Pineau et al. 2021 (JMLR 22,
164), in our own words. What neither the protocol nor the results say is missing, and shown so.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coopbench.analysis.departures import chooses
from coopbench.analysis.findings import Findings
from coopbench.episodes.actions import stored_episodes
from coopbench.playing.contestants import contestant_of
from coopbench.playing.plan import game_of
from coopbench.report.facts import training_text
from coopbench.report.metadata import (
    COMPUTE,
    LACKING,
    NOT_NEEDED,
    YES,
    Meta,
    cells_text,
    code_text,
    counted,
    fact,
    gpu_text,
    learned_policies,
    metadata_of,
    optimisations_text,
    played_policies,
    processor_text,
    span_text,
    stated,
    text_of,
    trained_steps,
    unregistered_policies,
    versions_text,
    wall_time,
    yes_if,
)
from coopbench.report.numbers import MISSING, level_text
from coopbench.report.tables.overall import missing_table
from coopbench.report.tables.words import decisions_text, units

__all__ = ["Item", "checklist"]

Answer = tuple[str, str, str]  # the question, its state, and the answer's text

_ENOUGH = 10  # training runs, as Gorsane et al. ask


@dataclass(frozen=True)
class Item:
    """One line of the checklist."""

    topic: str
    item: str
    state: str  # "yes", "no", "missing": nobody has said it, or "not needed": it does not apply
    known: str


def checklist(findings: Findings) -> tuple[Item, ...]:
    """Answer what a reviewer asks, as far as the protocol and the results do."""
    topics = {
        "Tasks": _of_tasks,
        "Training": _of_training,
        "Numbers": _of_numbers,
        "Data and code": _of_sources,
    }
    return tuple(
        Item(topic, question, state, text or MISSING)
        for topic, answers in topics.items()
        for question, state, text in answers(findings)
    )


def _of_tasks(findings: Findings) -> list[Answer]:
    protocol, departures = findings.protocol, len(findings.departures)
    environments = dict.fromkeys(task.env for task in protocol.task)
    groups = f" in {len(protocol.groups)} groups" if len(protocol.groups) > 1 else ""
    fixed = f"{counted(len(protocol.task), 'task')}{groups}, fixed by {protocol.name}"
    lacking = protocol.missing(played_policies(findings))
    required = (*protocol.report.baselines, *protocol.report.learned)
    return [
        (
            "Tasks were fixed before the policies",
            yes_if(not protocol.ad_hoc),
            "an ad-hoc evaluation" if protocol.ad_hoc else fixed,
        ),
        ("More than one environment", yes_if(len(environments) > 1), ", ".join(environments)),
        (
            "The protocol was followed",
            yes_if(not departures),
            f"{counted(departures, 'departure')}, named at the top"
            if departures
            else "no departures",
        ),
        (
            "Required baselines are there",
            yes_if(not lacking) if required else NOT_NEEDED,
            f"lacking: {', '.join(lacking)}" if lacking else ", ".join(required) or "none required",
        ),
        ("Digest of the protocol", YES, protocol.digest),
    ]


def _of_training(findings: Findings) -> list[Answer]:
    trained, unclear = learned_policies(findings), unregistered_policies(findings)
    answers: dict[str, Callable[[], tuple[str, str]]] = {
        "Seeds of training and evaluation are apart": lambda: _apart(findings),
        f"At least {_ENOUGH} runs of each learned policy": lambda: _runs(
            findings, trained, unclear
        ),
        "Budget of training": lambda: _budget(findings, trained),
        "Checkpoints were chosen on episodes of their own": lambda: _choice(findings, trained),
        "Policies were tuned with like effort": lambda: (LACKING, "results do not show it"),
        "Code-level optimisations": lambda: stated(
            metadata_of(findings, (*trained, *unclear)), optimisations_text
        ),
        "Compute of training": lambda: stated(
            metadata_of(findings, (*trained, *unclear)), _compute
        ),
    }
    if not trained and not unclear:
        return [(question, NOT_NEEDED, "no policy was trained") for question in answers]
    return [(question, *answer()) for question, answer in answers.items()]


def _apart(findings: Findings) -> tuple[str, str]:
    seeds = findings.protocol.seeds
    training = {block.cell.run for block in findings.episodes if block.cell.run is not None}
    training |= set(seeds.training)
    span = f"evaluation {seeds.evaluation.seeds[0]} to {seeds.evaluation.seeds[-1]}"
    if not training:
        return LACKING, f"{span}; training seeds are not said"
    shared = [str(seed) for seed in sorted(training) if seed in seeds.evaluation.seeds]
    text = f"{span}; training {', '.join(map(str, sorted(training)))}"
    return yes_if(not shared), text + (f"; shared: {', '.join(shared)}" if shared else "")


def _runs(findings: Findings, trained: Sequence[str], unclear: Sequence[str]) -> tuple[str, str]:
    if unclear:
        return LACKING, f"{', '.join(unclear)} may have been trained: models are given by run"
    tasks = [task.id for task in findings.protocol.task]
    fewest = {
        name: min(len(findings.episodes.runs(task, name)) for task in tasks) for name in trained
    }
    text = "; ".join(
        f"{name}: {count} {'run' if count == 1 else 'runs'} on the task with the fewest"
        for name, count in fewest.items()
    )
    return yes_if(min(fewest.values()) >= _ENOUGH), text


def _budget(findings: Findings, trained: Sequence[str]) -> tuple[str, str]:
    reached = {name: trained_steps(findings, name) for name in trained}
    texts = [
        f"{name}: {' or '.join(f'{n:,}' for n in s)} steps" for name, s in reached.items() if s
    ]
    if findings.protocol.training is not None:
        texts.append(f"asked by the protocol: {training_text(findings.protocol)}")
    return yes_if(bool(trained) and all(reached.values()), LACKING), "; ".join(texts)


def _choice(findings: Findings, trained: Sequence[str]) -> tuple[str, str]:
    played = [block.cell for block in findings.episodes if block.cell.policy in trained]
    cells = [cell for cell in played if chooses(findings.protocol, findings.episodes, cell)]
    chosen = {progress.cell for progress in findings.episodes.progress}
    span, training = findings.protocol.seeds.selection, findings.protocol.training
    if not cells:
        return LACKING, ""
    if training is not None and (training.on == "any" or training.evaluates == "last"):
        return NOT_NEEDED, "none is chosen: the last policy of every run is evaluated"
    if span is None or not chosen.issuperset(cells):
        return LACKING, f"no checkpoints of {len(set(cells) - chosen)} of {len(cells)} runs"
    score, share = findings.protocol.report.score, training and training.share
    beside = f", {share:.0%} of it beside the partners of training" if share else ""
    return YES, f"highest mean {score} on the seeds {span.seeds[0]} to {span.seeds[-1]}{beside}"


def _of_numbers(findings: Findings) -> list[Answer]:
    protocol, settings = findings.protocol, findings.protocol.report
    required = {task.id: protocol.episodes(task) for task in protocol.task}
    short = [b for b in findings.episodes if len(b) < required[b.cell.task]]
    counts = sorted({len(block) for block in findings.episodes})
    lacking = missing_table(findings)
    test = {"welch": "independent", "paired": "paired by episodes"}[settings.comparison]
    by_unit: dict[str, list[str]] = {}
    for name, unit in units(findings).items():
        by_unit.setdefault(unit, []).append(name)
    metrics = dict.fromkeys(("return", settings.score, *settings.metrics))
    unbounded = [row for row in findings.estimates if not math.isfinite(row.low)]
    return [
        (
            "As many episodes as the protocol asks",
            yes_if(not short),
            f"{span_text(counts)} of each policy on a task"
            + (f"; fewer than asked in {counted(len(short), 'cell')}" if short else ""),
        ),
        ("Return and metrics of the game", YES, ", ".join(metrics)),
        (
            "Estimates have intervals",
            yes_if(not unbounded),
            f"{level_text(protocol)}: for new training runs and new episodes, in closed form"
            + (f"; none of {counted(len(unbounded), 'estimate')}" if unbounded else ""),
        ),
        (
            "Unit of inference",
            YES,
            "; ".join(f"{unit}: {', '.join(names)}" for unit, names in by_unit.items()),
        ),
        (
            "Tests are adjusted for their number",
            YES,
            f"{test}, alpha {settings.alpha:g}. {decisions_text(findings)}",
        ),
        (
            "Runs that failed or are missing are listed",
            YES,
            "there are none" if lacking is None else counted(len(lacking.groups[0].rows), "run"),
        ),
    ]


def _sample_text(findings: Findings) -> str:
    """Say how many episodes of policies of others can be played again; empty if all can."""
    stored = total = 0
    for block in findings.episodes.blocks:
        trained = findings.metadata.get(block.cell, {}).get("training") is not None
        elsewhere = contestant_of(findings.protocol, block.cell.policy).elsewhere
        if block.trace is None or trained or not elsewhere:
            continue
        game = game_of(findings.protocol.played_in(block.cell))
        width = int(np.prod(game.action_space.shape or ()))
        stored += len(stored_episodes(block, width, int(game.constants.horizon)))
        total += len(block)
    if stored == total:
        return ""
    return f"; of policies from elsewhere all actions in a sample of {stored:,} of {total:,}"


def _of_sources(findings: Findings) -> list[Answer]:
    blocks = findings.played.blocks
    traced = [block.trace for block in blocks if block.trace is not None]
    recorded = sum(len(trace.recorded) for trace in traced)
    prints = f"fingerprints of {cells_text(len(traced), len(blocks))}"
    files = "results.jsonl.gz of each cell; without a results folder, episodes.csv"
    if findings.shipped:
        names = ", ".join(sorted(findings.shipped))
        prints += f"; digests of the trajectories of {names}, which are shipped"
        files += f"; without {names}, which are shipped"
    metas = metadata_of(findings, played_policies(findings))
    return [
        ("Raw data of every episode", YES, files),
        (
            "Episodes can be verified",
            yes_if(len(traced) == len(blocks)),
            f"{prints}; actions of {counted(recorded, 'episode')}{_sample_text(findings)}",
        ),
        ("Hyperparameters", *stated(metas, _hyperparameters_given)),
        ("Code", *stated(metas, code_text)),
        ("Ablations", *_ablations(findings)),
        ("Versions", *stated(metas, versions_text)),
        ("Commit", *stated(metas, lambda meta: text_of(meta, "commit"))),
        ("Platform", *stated(metas, lambda meta: text_of(meta, "platform"))),
        ("Wall time of the evaluation", *wall_time(metas)),
        ("Processor", *stated(metas, processor_text)),
        ("GPU", *stated(metas, gpu_text)),
    ]


def _ablations(findings: Findings) -> tuple[str, str]:
    """Name the ablations among the contestants; they are asked of those that were trained."""
    names = [name for name in played_policies(findings) if " without " in name]
    if names:
        return YES, ", ".join(names)
    asked = learned_policies(findings) or unregistered_policies(findings)
    return (LACKING, "no contestant is called NAME without PART") if asked else (NOT_NEEDED, "")


def _compute(meta: Meta) -> str:
    measured = isinstance(fact(meta, "training", "seconds"), int | float)
    return "with every policy, below" if measured else text_of(meta, "hyperparameters", COMPUTE)


def _hyperparameters_given(meta: Meta) -> str:
    return "with every policy, below" if isinstance(fact(meta, "hyperparameters"), Mapping) else ""
