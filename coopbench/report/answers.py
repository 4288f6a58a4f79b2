"""Answers: what reviewers ask of a study and of its policies, from protocol and results alone.

The questions of the checklist are those of Gorsane et al. 2022 (arXiv 2209.10485) and Pineau et al.
2021 (JMLR 22, 164), those about policies of model cards (Mitchell et al. 2019, FAT*), in our own
words. Questions that protocol and results do not answer are shown as missing.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import metadata
from typing import Any

import numpy as np

from coopbench.analysis.deviations import choosing
from coopbench.analysis.findings import Findings
from coopbench.baselines.registry import entries, entry_of, parse_name
from coopbench.episodes.actions import stored_episodes
from coopbench.episodes.table import Episodes
from coopbench.playing.contestants import contestant_of
from coopbench.playing.plan import game_of
from coopbench.report.facts import training_text
from coopbench.report.numbers import MISSING, level_text
from coopbench.report.tables.entries import decisions_text
from coopbench.report.tables.model import Column, Entry, Group, Table
from coopbench_envs.foreign_names import is_foreign

YES, NO, LACKING, NOT_NEEDED = "yes", "no", "missing", "not needed"
SIGNS = {YES: "✓ yes", NO: "✗ no", LACKING: f"{MISSING} missing", NOT_NEEDED: "not needed"}
# Hyperparameters of an object with lines of their own.
SUMMARY, ACTS_ON, COMPUTE = "summary", "acts_on", "compute"
CODE, CODE_LEVEL = "code", "code_level"
# Hyperparameters of the learners here that are optimisations of their code, not of the algorithm
# (Engstrom et al. 2020, Implementation Matters in Deep Policy Gradients).
_OPTIMISATIONS = (
    *("scale_observations", "scale_rewards", "max_grad_norm", "anneal"),
    *("target_kl", "squash", "history"),
)
SHIPPED = "shipped with coopbench; not trained for this report"
_ENOUGH = 10  # training runs, as Gorsane et al. ask
_MOST = 5  # different values of a hyperparameter that are written out
_BELOW = "with every policy, below"

Meta = Mapping[str, Any]
Answer = tuple[str, str]  # its state, and what is known
Answers = Iterator[tuple[str, str, str]]  # question, state, what is known


@dataclass(frozen=True)
class Item:
    """One line of the checklist."""

    topic: str
    item: str
    state: str  # "yes", "no", "missing": not stated, or "not needed": it does not apply
    known: str


class Answered(Findings):
    """Findings with the answers to what reviewers ask."""

    @cached_property
    def checklist(self) -> tuple[Item, ...]:
        """The checklist of the study."""
        return tuple(
            Item(topic, question, state, text or MISSING)
            for topic, answers in _TOPICS.items()
            for question, state, text in answers(self)
        )

    @cached_property
    def cards(self) -> dict[str, dict[str, str]]:
        """Facts about every policy, {policy: {label: text}}; unknown ones are marked as missing."""
        return {
            name: {label: text or SIGNS[LACKING] for label, text in _card(self, name)}
            for name in self.policies
        }

    @cached_property
    def learned(self) -> tuple[str, ...]:
        """The policies that have training runs, failed ones included, or are one trained model."""
        cells = [block.cell for block in self.episodes]
        cells += [failure.cell for failure in self.episodes.failures]
        bare = self.episodes.bare
        trained = (c.policy for c in cells if c.run is not None or c.policy in bare)
        return tuple(dict.fromkeys(trained))

    @cached_property
    def unregistered(self) -> tuple[str, ...]:
        """The policies without runs that are not in the registry; they may have been trained."""
        others = [name for name in self.episodes.policies if name not in self.learned]
        found = {name: entry_of(name) for name in others}
        return tuple(name for name, entry in found.items() if entry is None or entry.trained)

    def metas(self, names: Sequence[str]) -> list[Meta]:
        """Return the metadata of every cell of some policies, empty for a cell that has none."""
        cells = [block.cell for block in self.episodes if block.cell.policy in names]
        return [self.metadata.get(cell, {}) for cell in cells]


def checklist_table(findings: Answered) -> Table:
    """Return the checklist as a table."""
    topics: dict[str, list[tuple[Entry, ...]]] = {}
    for item in findings.checklist:
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
        footnotes=(),
        unit="Filled in from the protocol, the results and their metadata. Missing: none of them "
        "says it. Not needed: it does not apply to the policies of this report.",
        kind="Topic",
    )


# --- the checklist --------------------------------------------------------------------------------


def _tasks(study: Answered) -> Answers:
    protocol, deviations = study.protocol, len(study.deviations)
    groups = f" in {len(protocol.groups)} groups" if len(protocol.groups) > 1 else ""
    fixed = f"{_counted(len(protocol.task), 'task')}{groups}, fixed by {protocol.name}"
    text = "an ad-hoc evaluation" if protocol.ad_hoc else fixed
    yield "Tasks were fixed before the policies", _yes_if(not protocol.ad_hoc), text
    environments = dict.fromkeys(task.env for task in protocol.task)
    yield "More than one environment", _yes_if(len(environments) > 1), ", ".join(environments)
    followed = f"{_counted(deviations, 'deviation')}, named at the top"
    text = followed if deviations else "no deviations"
    yield "The protocol was followed", _yes_if(not deviations), text
    required = (*protocol.report.fixed, *protocol.report.learned)
    lacking = protocol.missing(study.episodes.policies)
    text = ", ".join(required) or "none required"
    text = f"lacking: {', '.join(lacking)}" if lacking else text
    state = _yes_if(not lacking) if required else NOT_NEEDED
    yield "Required baselines are there", state, text
    yield "Digest of the protocol", YES, protocol.digest


def _training(study: Answered) -> Answers:
    metas = study.metas((*study.learned, *study.unregistered))
    answers: dict[str, Callable[[], Answer]] = {
        "Seeds of training and evaluation are apart": lambda: _apart(study),
        f"At least {_ENOUGH} runs of each learned policy": lambda: _runs(study),
        "Budget of training": lambda: _budget(study),
        "Checkpoints were chosen on episodes of their own": lambda: _choice(study),
        "Policies were tuned with like effort": lambda: (LACKING, "results do not show it"),
        "Code-level optimisations": lambda: _stated(metas, _optimisations),
        "Compute of training": lambda: _stated(metas, _compute),
    }
    for question, answer in answers.items():
        known = (NOT_NEEDED, "no policy was trained") if not metas else answer()
        yield question, *known


def _apart(study: Answered) -> Answer:
    seeds = study.protocol.seeds
    training = {block.cell.run for block in study.episodes if block.cell.run is not None}
    training |= set(seeds.training)
    span = f"evaluation {seeds.evaluation.seeds[0]} to {seeds.evaluation.seeds[-1]}"
    if study.episodes.bare:
        names = ", ".join(study.episodes.bare)
        return LACKING, f"{span}; training seeds of {names} are not given"
    if not training:
        return LACKING, f"{span}; training seeds are not given"
    shared = [str(seed) for seed in sorted(training) if seed in seeds.evaluation.seeds]
    text = f"{span}; training {', '.join(map(str, sorted(training)))}"
    return _yes_if(not shared), text + (f"; shared: {', '.join(shared)}" if shared else "")


def _runs(study: Answered) -> Answer:
    if study.unregistered:
        names = ", ".join(study.unregistered)
        return LACKING, f"{names} may have been trained: models are given by run"
    fewest = {
        name: min(len(study.episodes.runs(task.id, name)) for task in study.protocol.task)
        for name in study.learned
    }
    text = "; ".join(
        f"{name}: {_counted(count, 'run')} on the task with the fewest"
        for name, count in fewest.items()
    )
    return _yes_if(min(fewest.values()) >= _ENOUGH), text


def _budget(study: Answered) -> Answer:
    protocol = study.protocol
    reached = {name: trained_steps(study, name) for name in study.learned}
    texts = [
        f"{name}: {' or '.join(f'{n:,}' for n in s)} steps" for name, s in reached.items() if s
    ]
    if protocol.training is not None:
        texts.append(f"asked by the protocol: {training_text(protocol)}")
    return _yes_if(bool(reached) and all(reached.values()), LACKING), "; ".join(texts)


def _choice(study: Answered) -> Answer:
    protocol, table = study.protocol, study.episodes
    played = [block.cell for block in table if block.cell.policy in study.learned]
    cells = choosing(protocol, table, played)
    chosen = {progress.cell for progress in table.progress}
    span, training = protocol.seeds.selection, protocol.training
    if not cells:
        return LACKING, "they were chosen on tasks that are left out" if played else ""
    if training is not None and (training.on == "any" or training.evaluates == "last"):
        return NOT_NEEDED, "none is chosen: the last policy of every run is evaluated"
    if span is None or not chosen.issuperset(cells):
        return LACKING, f"no checkpoints of {len(set(cells) - chosen)} of {len(cells)} runs"
    seeds = f"{span.seeds[0]} to {span.seeds[-1]}"
    return YES, f"highest mean {protocol.report.score} on the seeds {seeds}"


def _numbers(study: Answered) -> Answers:
    protocol, settings = study.protocol, study.protocol.report
    required = {task.id: protocol.episodes(task) for task in protocol.task}
    short = [b for b in study.episodes if len(b) < required[b.cell.task]]
    text = f"{span_text(sorted({len(b) for b in study.episodes}))} of each policy on a task"
    text += f"; fewer than asked in {_counted(len(short), 'cell')}" if short else ""
    yield "As many episodes as the protocol asks", _yes_if(not short), text
    metrics = dict.fromkeys(("return", settings.score, *settings.metrics))
    yield "Return and metrics of the game", YES, ", ".join(metrics)
    unbounded = [row for row in study.estimates if not math.isfinite(row.low)]
    text = f"{level_text(protocol)}: for new training runs and new episodes, in closed form"
    text += f"; none of {_counted(len(unbounded), 'estimate')}" if unbounded else ""
    yield "Estimates have intervals", _yes_if(not unbounded), text
    by_unit: dict[str, list[str]] = {}
    for name, unit in study.units.items():
        by_unit.setdefault(unit, []).append(name)
    text = "; ".join(f"{unit}: {', '.join(names)}" for unit, names in by_unit.items())
    yield "Unit of inference", YES, text
    test = {"welch": "independent", "paired": "paired by episodes"}[settings.comparison]
    text = f"{test}, alpha {settings.alpha:g}. {decisions_text(study)}"
    yield "Tests are adjusted for their number", YES, text
    alike = {(row.task, row.policy, row.state, row.reason) for row in study.missing_runs}
    text = _counted(len(alike), "run") if alike else "there are none"
    yield "Runs that failed or are missing are listed", YES, text


def _sources(study: Answered) -> Answers:
    blocks = study.episodes.blocks
    traced = [block.trace for block in blocks if block.trace is not None]
    recorded = sum(len(trace.recorded) for trace in traced)
    files = "episodes.npz of each cell; without a results folder, episodes.csv"
    yield "Raw data of every episode", YES, files
    text = f"fingerprints of {_cells_text(len(traced), len(blocks))}"
    text += f"; actions of {_counted(recorded, 'episode')}{_sample_text(study)}"
    yield "Episodes can be verified", _yes_if(len(traced) == len(blocks)), text
    metas = study.metas(study.episodes.policies)
    yield "Hyperparameters", *_stated(metas, _settings_given)
    yield "Ablations", *_ablations(study)
    for label, write in _STATED.items():
        yield label, *_stated(metas, write)
    yield "Wall time of the evaluation", *_wall_time(metas)


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


def _ablations(study: Answered) -> Answer:
    """Name the ablations among the contestants; they are asked of those that were trained."""
    names = [name for name in study.episodes.policies if " without " in name]
    if names:
        return YES, ", ".join(names)
    asked = study.learned or study.unregistered
    return (LACKING, "no contestant is called NAME without PART") if asked else (NOT_NEEDED, "")


_TOPICS: dict[str, Callable[[Answered], Answers]] = {
    "Tasks": _tasks,
    "Training": _training,
    "Numbers": _numbers,
    "Data and code": _sources,
}


# --- the card of a policy -------------------------------------------------------------------------


def _card(study: Answered, name: str) -> Iterator[tuple[str, str]]:
    """Iterate over labels with what is known of a policy; an empty text is missing."""
    metas, entry = study.metas((name,)), entry_of(name)
    if entry is not None and entry.trained and not any(_fact(meta, "training") for meta in metas):
        entry = None  # an object of that name
    blocks = [block for block in study.episodes if block.cell.policy == name]
    learned, counts = name in study.learned, sorted({len(block) for block in blocks})
    yield "What it does", entry.summary if entry else _declared(metas, SUMMARY)
    yield "Acts on", entry.acts_on if entry else _declared(metas, ACTS_ON)
    played = {block.cell.task for block in blocks}
    yield "Tasks played", f"{len(played)} of {len(study.protocol.task)}"
    if learned:
        yield from _training_facts(study, name)
    if name in study.shipped:
        yield "Origin", SHIPPED
    if name in study.unregistered:
        yield "Training", ""
    elif entry and not learned:
        yield "Training", "none: a fixed policy"
    yield "Hyperparameters", _hyperparameters(metas)
    if reduced := _reduced(metas):
        yield "Used instead", reduced
    yield "Episodes", f"{span_text(counts)} on each task" if counts else ""
    yield "Evaluation took", _wall_time(metas)[1]
    for label, write in _STATED.items():
        yield label, _stated(metas, write)[1]
    days = sorted({_text_of(meta, "created")[:10] for meta in metas} - {""})
    yield "Evaluated", " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def _training_facts(study: Answered, name: str) -> Iterator[tuple[str, str]]:
    """Iterate over what is known of the training of a policy with runs."""
    table, metas = study.episodes, study.metas((name,))
    cells = [block.cell for block in table if block.cell.policy == name]
    runs = sorted({cell.run for cell in cells if cell.run is not None})
    bare = table.bare.get(name, "")
    text = f"one trained model ({bare}), without a training seed" if bare else ""
    yield "Training runs", text or ", ".join(map(str, runs))
    failed = [f"{f.cell.run} on {f.cell.task}" for f in table.failures if f.cell.policy == name]
    yield "Failed runs", ", ".join(failed) or "none"
    reached = trained_steps(study, name)
    yield "Training steps", span_text(reached) if reached else ""
    chosen = sorted({step for meta in metas if (step := _fact(meta, "chosen_step")) is not None})
    yield "Checkpoint evaluated", f"that of step {span_text(chosen)}" if chosen else ""
    yield "Compute of training", _trained_for(study, name)
    trained = [_fact(meta, "training") or {} for meta in metas]
    yield "Processor of training", _stated(trained, _processor)[1]
    resumed = {
        (_fact(meta, "training", "task"), _fact(meta, "run"))
        for meta in metas
        if _fact(meta, "training", "resumed")
    }
    text = f"{_counted(len(resumed), 'run')} after an interruption" if resumed else "none"
    yield "Resumed", text if any(trained) else ""


def _trained_for(study: Answered, name: str) -> str:
    """Return the compute of the training runs of a policy: measured, or else as it declared."""
    measured = {}  # a run that plays several tasks is one training
    for block in study.episodes:
        if block.cell.policy == name:
            meta = study.metadata.get(block.cell, {})
            run = block.cell.run, _fact(meta, "training", "task") or block.cell.task
            measured[run] = _fact(meta, "training", "seconds")
    seconds = [float(value) for value in measured.values() if isinstance(value, int | float)]
    if not seconds:
        return _declared(study.metas((name,)), COMPUTE)
    total, mean = sum(seconds), sum(seconds) / len(seconds)
    return f"{_duration(total)} in all, {_duration(mean)} per run, on one core each"


def _declared(metas: Sequence[Meta], key: str) -> str:
    """Return what an object declared about itself in its hyperparameters."""
    return _stated(metas, lambda meta: _text_of(meta, "hyperparameters", key))[1]


def _hyperparameters(metas: Sequence[Meta]) -> str:
    """Write all hyperparameters; for one that differs between cells, its values."""
    facts = [_fact(meta, "hyperparameters") for meta in metas]
    settings = [one for one in facts if isinstance(one, Mapping)]
    if not settings:
        return ""
    parts, elsewhere = [], (SUMMARY, ACTS_ON, COMPUTE, CODE, CODE_LEVEL)
    for key in dict.fromkeys(k for setting in settings for k in setting if k not in elsewhere):
        values = dict.fromkeys(json.dumps(setting[key]) for setting in settings if key in setting)
        many = len(values) > _MOST
        parts.append(f"{key} = {f'{len(values)} values' if many else ' or '.join(values)}")
    return ", ".join(parts) or "none"


def _reduced(metas: Sequence[Meta]) -> str:
    """Write the hyperparameters that memory had no room for, with what was used, by task."""
    parts = [
        f"{name} = {json.dumps(value)} on {_text_of(meta, 'training', 'task')}"
        for meta in metas
        if isinstance(reduced := _fact(meta, "training", "reduced"), Mapping)
        for name, value in reduced.items()
    ]
    text = ", ".join(dict.fromkeys(parts))
    return f"{text}: more would take too much memory" if text else ""


# --- metadata of cells ----------------------------------------------------------------------------


def _stated(metas: Sequence[Meta], write: Callable[[Meta], str]) -> Answer:
    texts = [write(meta) for meta in metas]
    lacking, text = texts.count(""), "; ".join(dict.fromkeys(filter(None, texts)))
    if lacking and text:
        text += f" (not known of {_cells_text(lacking, len(texts))})"
    return _yes_if(bool(texts) and not lacking, LACKING), text


def _yes_if(fulfilled: bool, otherwise: str = NO) -> str:
    return YES if fulfilled else otherwise


def _counted(count: int, what: str) -> str:
    """Write a number of things, in the singular or the plural."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _cells_text(some: int, count: int) -> str:
    """Write how many of all cells a fact is about."""
    every = "all " if count > 1 else ""
    return every + _counted(count, "cell") if some == count else f"{some:,} of {count:,} cells"


def span_text(counts: Sequence[int]) -> str:
    """Write the first and the last of some rising numbers."""
    if not counts:
        return "none"
    return f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"


def trained_steps(findings: Findings, name: str) -> list[int]:
    """Return for how many steps the runs of a policy were trained, as far as results say it."""
    table = findings.episodes
    steps = {int(course.steps[-1]) for course in table.progress if course.cell.policy == name}
    return sorted(steps | {n for cell, n in table.trained.items() if cell.policy == name})


def _fact(meta: Meta, *keys: str) -> Any:
    """Return the value under nested keys of the metadata; None if there is none."""
    value: Any = meta
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _text_of(meta: Meta, *keys: str) -> str:
    """Return the value under nested keys as text; empty if there is none."""
    value = _fact(meta, *keys)
    return "" if value is None else str(value)


def _optimisations(meta: Meta) -> str:
    """Write the code-level optimisations of a policy: declared, or hyperparameters of a learner."""
    settings = _fact(meta, "hyperparameters")
    if not isinstance(settings, Mapping):
        return ""
    if CODE_LEVEL in settings:
        return str(settings[CODE_LEVEL])
    return ", ".join(f"{name} = {settings[name]}" for name in _OPTIMISATIONS if name in settings)


def _code(meta: Meta) -> str:
    """Write where the code of a policy is: declared by an object, or the home of this package."""
    declared = _text_of(meta, "hyperparameters", CODE)
    if declared or parse_name(_text_of(meta, "policy")).kind not in entries():
        return declared
    return _home()


@cache
def _home() -> str:
    """Return the repository of this package as its metadata name it; empty if they do not."""
    links = metadata("coopbench").get_all("Project-URL") or []
    pairs = [link.partition(", ") for link in links]
    return next((url for label, _, url in pairs if label in ("Repository", "Source")), "")


def _versions(meta: Meta) -> str:
    versions = _fact(meta, "versions")
    if not isinstance(versions, Mapping):
        return ""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _processor(meta: Meta) -> str:
    """Write the processor that a cell was played on, with cores and memory."""
    cpu, cores, memory = (_fact(meta, "machine", key) for key in ("cpu", "cores", "memory"))
    parts = [
        str(cpu) if cpu else "",
        _counted(cores, "core") if isinstance(cores, int) else "",
        f"{memory / 1e9:.3g} GB of memory" if isinstance(memory, int) else "",
    ]
    return ", ".join(filter(None, parts)) if cpu else ""


def _gpu(meta: Meta) -> str:
    """Write the GPUs of the machine that a cell was played on, and where a torch module was."""
    if not isinstance(_fact(meta, "machine"), Mapping):
        return ""
    names, device = (_fact(meta, "machine", key) for key in ("gpu", "device"))
    text = ", ".join(map(str, names)) if isinstance(names, list) else "none found"
    return f"{text}; the policy computed on {device}" if device else text


def _compute(meta: Meta) -> str:
    measured = isinstance(_fact(meta, "training", "seconds"), int | float)
    return _BELOW if measured else _text_of(meta, "hyperparameters", COMPUTE)


def _settings_given(meta: Meta) -> str:
    return _BELOW if isinstance(_fact(meta, "hyperparameters"), Mapping) else ""


def _wall_time(metas: Sequence[Meta]) -> Answer:
    """Return the time that the evaluation of cells took."""
    values = [_fact(meta, "seconds") for meta in metas]
    seconds = [value for value in values if isinstance(value, int | float)]
    if not seconds:
        return LACKING, ""
    whole = len(seconds) == len(values)
    where = "in all" if whole else f"in {_cells_text(len(seconds), len(values))}"
    return _yes_if(whole, LACKING), f"{_duration(sum(seconds))} {where}"


def _duration(seconds: float) -> str:
    """Write a duration in the largest unit of which it has at least two."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


# What metadata state of cells, asked of the study and of every policy.
_STATED: dict[str, Callable[[Meta], str]] = {
    "Code": _code,
    "Versions": _versions,
    "Commit": lambda meta: _text_of(meta, "commit"),
    "Platform": lambda meta: _text_of(meta, "platform"),
    "Processor": _processor,
    "GPU": _gpu,
}
