"""Cards: what is known of every policy, from data alone.

The facts are those of model cards (Mitchell et al. 2019, FAT*), in our own words. What neither the
protocol nor the results say is missing, and shown so.
"""

import json
from collections.abc import Mapping, Sequence

from coopbench.analysis.findings import Findings
from coopbench.baselines.registry import entry_of
from coopbench.report.metadata import (
    ACTS_ON,
    CODE,
    CODE_LEVEL,
    COMPUTE,
    LACKING,
    SIGNS,
    SUMMARY,
    Meta,
    code_text,
    counted,
    duration_text,
    fact,
    gpu_text,
    learned_policies,
    metadata_of,
    processor_text,
    span_text,
    stated,
    text_of,
    trained_steps,
    unregistered_policies,
    versions_text,
    wall_time,
)
from coopbench.report.tables.words import policies

__all__ = ["SHIPPED", "cards"]

SHIPPED = "shipped with coopbench; not trained or played for this report"
_MOST = 5  # different values of a hyperparameter that are written out


def cards(findings: Findings) -> dict[str, dict[str, str]]:
    """Return what is known of every policy, {policy: {label: text}}; what is not, is missing."""
    return {name: _card(findings, name) for name in policies(findings)}


def _card(findings: Findings, name: str) -> dict[str, str]:
    metas = metadata_of(findings, (name,))
    entry = entry_of(name)
    if entry is not None and entry.trained and not any(fact(meta, "training") for meta in metas):
        entry = None  # an object of that name
    counts = sorted({len(b) for b in findings.episodes if b.cell.policy == name})
    played = {b.cell.task for b in findings.episodes if b.cell.policy == name}
    learned = name in learned_policies(findings)
    facts = {
        "What it does": entry.summary if entry else _declared(metas, SUMMARY),
        "Acts on": entry.acts_on if entry else _declared(metas, ACTS_ON),
        "Tasks played": f"{len(played)} of {len(findings.protocol.task)}",
        **(_training_facts(findings, name) if learned else {}),
        **({"Origin": SHIPPED} if name in findings.shipped else {}),
        **({"Training": "none: a fixed policy"} if entry and not learned else {}),
        **({"Training": ""} if name in unregistered_policies(findings) else {}),
        "Hyperparameters": _hyperparameters(metas),
        **({"Used instead": reduced} if (reduced := _reduced(metas)) else {}),
        "Episodes": f"{span_text(counts)} on each task" if counts else "",
        "Evaluation took": wall_time(metas)[1],
        "Processor": stated(metas, processor_text)[1],
        "GPU": stated(metas, gpu_text)[1],
        "Versions": stated(metas, versions_text)[1],
        "Code": stated(metas, code_text)[1],
        "Commit": stated(metas, lambda meta: text_of(meta, "commit"))[1],
        "Platform": stated(metas, lambda meta: text_of(meta, "platform"))[1],
        "Evaluated": _days(metas),
    }
    return {label: text or SIGNS[LACKING] for label, text in facts.items()}


def _training_facts(findings: Findings, name: str) -> dict[str, str]:
    """Return what is known of the training of a policy with runs."""
    blocks = [block for block in findings.episodes if block.cell.policy == name]
    runs = sorted({block.cell.run for block in blocks if block.cell.run is not None})
    failed = [f.cell for f in findings.episodes.failures if f.cell.policy == name]
    courses = [course for course in findings.episodes.progress if course.cell.policy == name]
    protocol = findings.protocol
    chosen = sorted({int(course.steps[protocol.chosen(course)]) for course in courses})
    reached = trained_steps(findings, name)
    return {
        "Training runs": ", ".join(map(str, runs)),
        "Failed runs": ", ".join(f"{cell.run} on {cell.task}" for cell in failed) or "none",
        "Training steps": span_text(reached) if reached else "",
        "Checkpoint evaluated": f"that of step {span_text(chosen)}" if chosen else "",
        "Compute of training": _trained_for(findings, name),
        "Processor of training": _trained_on(metadata_of(findings, (name,))),
        "Resumed": _resumed(metadata_of(findings, (name,))),
    }


def _trained_on(metas: Sequence[Meta]) -> str:
    """Return the processors that finished the training runs; empty where it is not known."""
    return stated([fact(meta, "training") or {} for meta in metas], processor_text)[1]


def _trained_for(findings: Findings, name: str) -> str:
    """Return the compute of the training runs of a policy: measured, or else as it declared."""
    cells = [block.cell for block in findings.episodes if block.cell.policy == name]
    measured = {}  # a run that plays several tasks is one training
    for cell in cells:
        meta = findings.metadata.get(cell, {})
        measured[cell.run, fact(meta, "training", "task") or cell.task] = fact(
            meta, "training", "seconds"
        )
    seconds = [float(value) for value in measured.values() if isinstance(value, int | float)]
    if not seconds:
        return _declared(metadata_of(findings, (name,)), COMPUTE)
    total, mean = sum(seconds), sum(seconds) / len(seconds)
    return f"{duration_text(total)} in all, {duration_text(mean)} per run, on one core each"


def _resumed(metas: Sequence[Meta]) -> str:
    """Return how many runs were resumed after an interruption; empty where it is not known."""
    runs = {
        (fact(meta, "training", "task"), fact(meta, "run"))
        for meta in metas
        if fact(meta, "training", "resumed")
    }
    if not any(fact(meta, "training") for meta in metas):
        return ""
    return f"{counted(len(runs), 'run')} went on after an interruption" if runs else "none"


def _declared(metas: Sequence[Meta], key: str) -> str:
    """Return what an object declared about itself in its hyperparameters."""
    return stated(metas, lambda meta: text_of(meta, "hyperparameters", key))[1]


def _hyperparameters(metas: Sequence[Meta]) -> str:
    """Write all hyperparameters; for one that differs between cells, its values."""
    entries = [fact(meta, "hyperparameters") for meta in metas]
    settings = [entry for entry in entries if isinstance(entry, Mapping)]
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
    entries = [(text_of(m, "training", "task"), fact(m, "training", "reduced")) for m in metas]
    parts = [
        f"{name} = {json.dumps(value)} on {task}"
        for task, reduced in entries
        for name, value in (reduced.items() if isinstance(reduced, Mapping) else ())
    ]
    text = ", ".join(dict.fromkeys(parts))
    return f"{text}: more would take too much memory" if text else ""


def _days(metas: Sequence[Meta]) -> str:
    """Return the first and the last day on which cells were played."""
    days = sorted({text_of(meta, "created")[:10] for meta in metas} - {""})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""
