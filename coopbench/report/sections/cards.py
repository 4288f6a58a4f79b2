"""Cards: facts about every policy, as model cards have them (Mitchell et al. 2019, FAT*).

What protocol and results do not say is shown as missing.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from coopbench.analysis.findings import Findings, once
from coopbench.baselines.registry import entry_of
from coopbench.report.answers import (
    ACTS_ON,
    CODE,
    CODE_LEVEL,
    COMPUTE,
    LACKING,
    SIGNS,
    STATED,
    SUMMARY,
    Meta,
    counted,
    duration,
    fact,
    processor,
    span_text,
    stated,
    text_of,
    trained_steps,
    wall_time,
)
from coopbench.report.blocks import Details, Facts
from coopbench.report.section import ReportSection

SHIPPED = "shipped with coopbench; not trained for this report"
_MOST = 5  # different values of a hyperparameter that are written out


@once
def cards(findings: Findings) -> dict[str, dict[str, str]]:
    """Return facts about every policy, {policy: {label: text}}; unknown ones are marked."""
    return {
        name: {label: text or SIGNS[LACKING] for label, text in _card(findings, name)}
        for name in findings.policies
    }


def _card(study: Findings, name: str) -> Iterator[tuple[str, str]]:
    """Iterate over labels with what is known of a policy; an empty text is missing."""
    metas, entry = study.metas((name,)), entry_of(name)
    if entry is not None and entry.trained and not any(fact(meta, "training") for meta in metas):
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
    yield "Evaluation took", wall_time(metas)[1]
    for label, write in STATED.items():
        yield label, stated(metas, write)[1]
    days = sorted({text_of(meta, "created")[:10] for meta in metas} - {""})
    yield "Evaluated", " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def _training_facts(study: Findings, name: str) -> Iterator[tuple[str, str]]:
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
    chosen = sorted({step for meta in metas if (step := fact(meta, "chosen_step")) is not None})
    yield "Checkpoint evaluated", f"that of step {span_text(chosen)}" if chosen else ""
    yield "Compute of training", _trained_for(study, name)
    trained = [fact(meta, "training") or {} for meta in metas]
    yield "Processor of training", stated(trained, processor)[1]
    resumed = {
        (fact(meta, "training", "task"), fact(meta, "run"))
        for meta in metas
        if fact(meta, "training", "resumed")
    }
    text = f"{counted(len(resumed), 'run')} after an interruption" if resumed else "none"
    yield "Resumed", text if any(trained) else ""


def _trained_for(study: Findings, name: str) -> str:
    """Return the compute of the training runs of a policy: measured, or else as it declared."""
    measured = {}  # a run that plays several tasks is one training
    for block in study.episodes:
        if block.cell.policy == name:
            meta = study.metadata.get(block.cell, {})
            run = block.cell.run, fact(meta, "training", "task") or block.cell.task
            measured[run] = fact(meta, "training", "seconds")
    seconds = [float(value) for value in measured.values() if isinstance(value, int | float)]
    if not seconds:
        return _declared(study.metas((name,)), COMPUTE)
    total, mean = sum(seconds), sum(seconds) / len(seconds)
    return f"{duration(total)} in all, {duration(mean)} per run, on one core each"


def _declared(metas: Sequence[Meta], key: str) -> str:
    """Return what an object declared about itself in its hyperparameters."""
    return stated(metas, lambda meta: text_of(meta, "hyperparameters", key))[1]


def _hyperparameters(metas: Sequence[Meta]) -> str:
    """Write all hyperparameters; for one that differs between cells, its values."""
    facts = [fact(meta, "hyperparameters") for meta in metas]
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
        f"{name} = {json.dumps(value)} on {text_of(meta, 'training', 'task')}"
        for meta in metas
        if isinstance(reduced := fact(meta, "training", "reduced"), Mapping)
        for name, value in reduced.items()
    ]
    text = ", ".join(dict.fromkeys(parts))
    return f"{text}: more would take too much memory" if text else ""


def folded(findings: Findings) -> Iterator[Details]:
    """Iterate over the cards of all policies, folded."""
    for name, card in cards(findings).items():
        yield Details(name, (Facts(card),), "card")


SECTION = ReportSection(shows={"policies": folded}, json={"cards": cards})
