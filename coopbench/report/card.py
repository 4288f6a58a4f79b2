"""Card: what a reviewer asks of a study, and what is known of each policy, from data alone.

The items are those of Gorsane et al. 2022 (arXiv 2209.10485) and Pineau et al. 2021 (JMLR 22,
164), the facts of policies those of model cards (Mitchell et al. 2019, FAT*), in our own words.
What neither the protocol nor the results say is missing, and shown so.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coopbench.analysis.departures import chooses
from coopbench.analysis.findings import Findings
from coopbench.report.numbers import MISSING
from coopbench.report.tables.overall import (
    Column,
    Entry,
    Group,
    Table,
    bullet_facts,
    escaped,
    markdown_table,
    missing_table,
    policies,
    training_text,
    units,
)

__all__ = ["Item", "as_markdown", "cards", "checklist", "checklist_table"]

YES, NO, LACKING, NOT_NEEDED = "yes", "no", "missing", "not needed"
_SIGNS = {YES: "✓ yes", NO: "✗ no", LACKING: f"{MISSING} missing", NOT_NEEDED: "not needed"}
_ENOUGH = 10  # training runs, as Gorsane et al. ask
_MOST = 5  # different values of a hyperparameter that are written out
_SUMMARY, _ACTS_ON, _COMPUTE = "summary", "acts_on", "compute"  # hyperparameters with own lines

Meta = Mapping[str, Any]


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
        Item(topic, asked, state, known or MISSING)
        for topic, answers in topics.items()
        for asked, state, known in answers(findings)
    )


def checklist_table(findings: Findings) -> Table:
    """Return the checklist as a table."""
    items, topics = checklist(findings), dict.fromkeys(item.topic for item in checklist(findings))
    return Table(
        title="What reviewers ask, and what is known",
        columns=(
            Column("Asked", "what a reviewer wants to know", numeric=False),
            Column("State", "yes, no, missing or not needed", numeric=False),
            Column("What is known", "by the protocol and the results", numeric=False),
        ),
        groups=tuple(
            Group(topic, "", tuple(_row(item) for item in items if item.topic == topic))
            for topic in topics
        ),
        footnotes=(),
        unit="Filled in from the protocol, the results and their metadata. Missing: none of them "
        "says it. Not needed: it does not apply to the policies of this report.",
        kind="Topic",
    )


def _row(item: Item) -> tuple[Entry, ...]:
    return (
        Entry(item.item, item.item),
        Entry(_SIGNS[item.state].replace(" ", "\u00a0"), item.state),  # in one line
        Entry(item.known, item.known),
    )


def as_markdown(findings: Findings) -> str:
    """Return the checklist and the cards of all policies as Markdown."""
    parts = [
        "## Reproducibility checklist",
        markdown_table(checklist_table(findings)),
        "## Policies",
    ]
    for name, facts in cards(findings).items():
        parts += [f"### {escaped(name)}", bullet_facts(facts)]
    return "\n\n".join(parts)


# --- the checklist -------------------------------------------------------------------------------

Answer = tuple[str, str, str]  # what is asked, state, what is known


def _of_tasks(findings: Findings) -> list[Answer]:
    found, many = findings.protocol, len(findings.departures)
    environments = dict.fromkeys(task.env for task in found.task)
    groups = f" in {len(found.groups)} groups" if len(found.groups) > 1 else ""
    fixed = f"{_counted(len(found.task), 'task')}{groups}, fixed by {found.name}"
    lacking = found.missing(_present(findings))
    required = (*found.report.baselines, *found.report.learned)
    return [
        (
            "Tasks were fixed before the policies",
            _whether(not found.ad_hoc),
            "an ad-hoc evaluation" if found.ad_hoc else fixed,
        ),
        ("More than one environment", _whether(len(environments) > 1), ", ".join(environments)),
        (
            "The protocol was followed",
            _whether(not many),
            f"{_counted(many, 'departure')}, named at the top" if many else "no departures",
        ),
        (
            "Required baselines are there",
            _whether(not lacking) if required else NOT_NEEDED,
            f"lacking: {', '.join(lacking)}" if lacking else ", ".join(required) or "none required",
        ),
        ("Digest of the protocol", YES, found.digest),
    ]


def _of_training(findings: Findings) -> list[Answer]:
    trained, untold = _learned(findings), _untold(findings)
    answers: dict[str, Callable[[], tuple[str, str]]] = {
        "Seeds of training and evaluation are apart": lambda: _apart(findings),
        f"At least {_ENOUGH} runs of each learned policy": lambda: _runs(findings, trained, untold),
        "Budget of training": lambda: _budget(findings, trained),
        "Checkpoints were chosen on episodes of their own": lambda: _choice(findings, trained),
        "Policies were tuned with like effort": lambda: (LACKING, "results do not show it"),
        "Compute of training": lambda: _stated(_metas(findings, (*trained, *untold)), _compute),
    }
    if not trained and not untold:
        return [(asked, NOT_NEEDED, "no policy was trained") for asked in answers]
    return [(asked, *answer()) for asked, answer in answers.items()]


def _apart(findings: Findings) -> tuple[str, str]:
    seeds = findings.protocol.seeds
    own = {block.cell.run for block in findings.episodes if block.cell.run is not None}
    own |= set(seeds.training)
    span = f"evaluation {seeds.evaluation.seeds[0]} to {seeds.evaluation.seeds[-1]}"
    if not own:
        return LACKING, f"{span}; training seeds are not said"
    shared = [str(seed) for seed in sorted(own) if seed in seeds.evaluation.seeds]
    known = f"{span}; training {', '.join(map(str, sorted(own)))}"
    return _whether(not shared), known + (f"; shared: {', '.join(shared)}" if shared else "")


def _runs(findings: Findings, trained: Sequence[str], untold: Sequence[str]) -> tuple[str, str]:
    if untold:
        return LACKING, f"{', '.join(untold)} may have been trained: models are given by run"
    tasks = [task.id for task in findings.protocol.task]
    fewest = {
        name: min(len(findings.episodes.runs(task, name)) for task in tasks) for name in trained
    }
    known = "; ".join(f"{name}: at least {count} on every task" for name, count in fewest.items())
    return _whether(min(fewest.values()) >= _ENOUGH), known


def _budget(findings: Findings, trained: Sequence[str]) -> tuple[str, str]:
    reached = {name: _steps(findings, name) for name in trained}
    texts = [
        f"{name}: {' or '.join(f'{n:,}' for n in s)} steps" for name, s in reached.items() if s
    ]
    if findings.protocol.training is not None:
        texts.append(f"asked by the protocol: {training_text(findings.protocol)}")
    return _whether(bool(trained) and all(reached.values()), LACKING), "; ".join(texts)


def _steps(findings: Findings, name: str) -> list[int]:
    """For how many steps the runs of a policy were trained, by their checkpoints or their word."""
    table = findings.episodes
    steps = {int(each.steps[-1]) for each in table.progress if _is(each, name)}
    return sorted(steps | {n for cell, n in table.trained.items() if cell.policy == name})


def _choice(findings: Findings, trained: Sequence[str]) -> tuple[str, str]:
    played = [block.cell for block in findings.episodes if block.cell.policy in trained]
    cells = [cell for cell in played if chooses(findings.protocol, findings.episodes, cell)]
    chosen = {each.cell for each in findings.episodes.progress}
    span = findings.protocol.seeds.selection
    if not cells:
        return LACKING, ""
    if span is None or not chosen.issuperset(cells):
        return LACKING, f"no checkpoints of {len(set(cells) - chosen)} of {len(cells)} runs"
    return YES, f"highest mean return on the seeds {span.seeds[0]} to {span.seeds[-1]}"


def _of_numbers(findings: Findings) -> list[Answer]:
    found, settings = findings.protocol, findings.protocol.report
    wanted = {task.id: found.episodes(task) for task in found.task}
    short = [b for b in findings.episodes if len(b) < wanted[b.cell.task]]
    counts = sorted({len(block) for block in findings.episodes})
    lacking = missing_table(findings)
    test = {"welch": "Welch's t", "paired": "paired t"}[settings.comparison]
    by_unit: dict[str, list[str]] = {}
    for name, unit in units(findings).items():
        by_unit.setdefault(unit, []).append(name)
    level = f"{100 * settings.confidence:g} %"
    metrics = dict.fromkeys(("return", settings.score, *settings.metrics))
    return [
        (
            "As many episodes as the protocol asks",
            _whether(not short),
            f"{_span(counts)} of each policy on a task"
            + (f"; fewer than asked in {_counted(len(short), 'cell')}" if short else ""),
        ),
        ("Return and metrics of the game", YES, ", ".join(metrics)),
        (
            "Estimates have intervals",
            YES,
            f"{level}: t intervals of means, bootstrap of aggregates over the tasks as strata "
            f"({settings.resamples:,} resamples)",
        ),
        (
            "Unit of inference",
            YES,
            "; ".join(f"{unit}: {', '.join(names)}" for unit, names in by_unit.items()),
        ),
        ("Tests are adjusted for their number", YES, f"{test}, Holm, alpha {settings.alpha:g}"),
        (
            "Runs that failed or are missing are listed",
            YES,
            "there are none" if lacking is None else _counted(len(lacking.groups[0].rows), "run"),
        ),
    ]


def _of_sources(findings: Findings) -> list[Answer]:
    blocks = findings.episodes.blocks
    traced = [block.trace for block in blocks if block.trace is not None]
    recorded = sum(len(trace.recorded) for trace in traced)
    prints = f"fingerprints of {_cells(len(traced), len(blocks))}"
    metas = _metas(findings, _present(findings))
    return [
        ("Raw data of every episode", YES, "episodes.csv, and results.jsonl of each cell"),
        (
            "Episodes can be verified",
            _whether(len(traced) == len(blocks)),
            f"{prints}; actions of {_counted(recorded, 'episode')}",
        ),
        ("Hyperparameters", *_stated(metas, _hyperparameters_given)),
        ("Versions", *_stated(metas, _versions)),
        ("Commit", *_stated(metas, lambda meta: _text(meta, "commit"))),
        ("Platform", *_stated(metas, lambda meta: _text(meta, "platform"))),
        ("Wall time of the evaluation", *_took(metas)),
        ("Processor", *_stated(metas, _processor)),
        ("GPU", *_stated(metas, _gpu)),
    ]


def _present(findings: Findings) -> tuple[str, ...]:
    """Policies that have results, in the order of the report."""
    return tuple(dict.fromkeys(policy for _, policy in findings.episodes.pairs))


def _learned(findings: Findings) -> tuple[str, ...]:
    """Policies that have training runs, failed ones included."""
    cells = [block.cell for block in findings.episodes]
    cells += [failure.cell for failure in findings.episodes.failures]
    return tuple(dict.fromkeys(cell.policy for cell in cells if cell.run is not None))


def _untold(findings: Findings) -> tuple[str, ...]:
    """Policies without runs that are not of the registry: they may have been trained, or not."""
    from coopbench.baselines.registry import entries

    known = [name for name, entry in entries().items() if not entry.trained]
    trained = _learned(findings)
    present = _present(findings)
    return tuple(n for n in present if n not in trained and n.partition(":")[0] not in known)


def _is(each: Any, name: str) -> bool:
    return bool(each.cell.policy == name)


def _whether(fulfilled: bool, otherwise: str = NO) -> str:
    return YES if fulfilled else otherwise


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _cells(known: int, count: int) -> str:
    every = "all " if count > 1 else ""
    return every + _counted(count, "cell") if known == count else f"{known:,} of {count:,} cells"


def _span(counts: Sequence[int]) -> str:
    if not counts:
        return "none"
    return f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"


# --- what metadata say ---------------------------------------------------------------------------


def _metas(findings: Findings, names: Iterable[str]) -> list[Meta]:
    """Metadata of the cells of some policies; empty where there are none."""
    wanted = set(names)
    cells = [block.cell for block in findings.episodes if block.cell.policy in wanted]
    return [findings.metadata.get(cell, {}) for cell in cells]


def _stated(metas: Sequence[Meta], write: Callable[[Meta], str]) -> tuple[str, str]:
    """State and text of a fact that every cell should know; ``write`` gives "" where it does not.

    What all cells say alike is said once.
    """
    texts = [write(meta) for meta in metas]
    lacking, known = texts.count(""), "; ".join(dict.fromkeys(filter(None, texts)))
    if lacking and known:
        known += f" (not known of {_cells(lacking, len(texts))})"
    return _whether(bool(texts) and not lacking, LACKING), known


def _at(meta: Meta, *keys: str) -> Any:
    """What stands at a place of the metadata, None if there is no such place."""
    found: Any = meta
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _text(meta: Meta, *keys: str) -> str:
    found = _at(meta, *keys)
    return "" if found is None else str(found)


def _versions(meta: Meta) -> str:
    found = _at(meta, "versions")
    return ", ".join(f"{k} {v}" for k, v in found.items()) if isinstance(found, Mapping) else ""


def _processor(meta: Meta) -> str:
    cpu, cores, memory = (_at(meta, "machine", key) for key in ("cpu", "cores", "memory"))
    parts = [
        str(cpu) if cpu else "",
        _counted(cores, "core") if isinstance(cores, int) else "",
        f"{memory / 1e9:.3g} GB of memory" if isinstance(memory, int) else "",
    ]
    return ", ".join(filter(None, parts)) if cpu else ""


def _gpu(meta: Meta) -> str:
    if not isinstance(_at(meta, "machine"), Mapping):
        return ""
    found = _at(meta, "machine", "gpu")
    return ", ".join(map(str, found)) if isinstance(found, list) else "none found"


def _compute(meta: Meta) -> str:
    measured = isinstance(_at(meta, "training", "seconds"), int | float)
    return "with every policy, below" if measured else _text(meta, "hyperparameters", _COMPUTE)


def _hyperparameters_given(meta: Meta) -> str:
    return "with every policy, below" if isinstance(_at(meta, "hyperparameters"), Mapping) else ""


def _took(metas: Sequence[Meta]) -> tuple[str, str]:
    seconds = [_at(meta, "seconds") for meta in metas]
    known = [value for value in seconds if isinstance(value, int | float)]
    if not known:
        return LACKING, ""
    whole = len(known) == len(seconds)
    where = "in all" if whole else f"in {_cells(len(known), len(seconds))}"
    return _whether(whole, LACKING), f"{_duration(sum(known))} {where}"


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


# --- the cards -----------------------------------------------------------------------------------


def cards(findings: Findings) -> dict[str, dict[str, str]]:
    """Return what is known of every policy, {policy: {label: text}}; what is not, is missing."""
    return {name: _card(findings, name) for name in policies(findings)}


def _card(findings: Findings, name: str) -> dict[str, str]:
    from coopbench.baselines.registry import entries

    metas = _metas(findings, (name,))
    entry = entries().get(name.partition(":")[0])
    if entry is not None and entry.trained and not any(_at(meta, "training") for meta in metas):
        entry = None  # an object of that name
    counts = sorted({len(b) for b in findings.episodes if b.cell.policy == name})
    played = {b.cell.task for b in findings.episodes if b.cell.policy == name}
    learned = name in _learned(findings)
    facts = {
        "What it does": entry.summary if entry else _said(metas, _SUMMARY),
        "Acts on": entry.information if entry else _said(metas, _ACTS_ON),
        "Tasks played": f"{len(played)} of {len(findings.protocol.task)}",
        **(_training_facts(findings, name) if learned else {}),
        **(
            {"Training": "none: a fixed policy"} if entry and name not in _learned(findings) else {}
        ),
        **({"Training": ""} if name in _untold(findings) else {}),
        "Hyperparameters": _hyperparameters(metas),
        "Episodes": f"{_span(counts)} on each task" if counts else "",
        "Evaluation took": _took(metas)[1],
        "Processor": _stated(metas, _processor)[1],
        "GPU": _stated(metas, _gpu)[1],
        "Versions": _stated(metas, _versions)[1],
        "Commit": _stated(metas, lambda meta: _text(meta, "commit"))[1],
        "Platform": _stated(metas, lambda meta: _text(meta, "platform"))[1],
        "Evaluated": _days(metas),
    }
    return {label: text or _SIGNS[LACKING] for label, text in facts.items()}


def _training_facts(findings: Findings, name: str) -> dict[str, str]:
    """What is known of the training of a policy with runs."""
    blocks = [block for block in findings.episodes if block.cell.policy == name]
    runs = sorted({block.cell.run for block in blocks if block.cell.run is not None})
    failed = [each.cell for each in findings.episodes.failures if _is(each, name)]
    courses = [each for each in findings.episodes.progress if _is(each, name)]
    chosen = sorted({int(each.steps[each.best]) for each in courses})
    reached = _steps(findings, name)
    return {
        "Training runs": ", ".join(map(str, runs)),
        "Failed runs": ", ".join(f"{cell.run} on {cell.task}" for cell in failed) or "none",
        "Training steps": _span(reached) if reached else "",
        "Checkpoint evaluated": f"that of step {_span(chosen)}" if chosen else "",
        "Compute of training": _trained_for(findings, name),
        "Resumed": _resumed(_metas(findings, (name,))),
    }


def _trained_for(findings: Findings, name: str) -> str:
    """What the training runs of a policy took; as it was said, where nobody measured it."""
    own = {task.id for task in findings.protocol.trained_tasks}
    cells = [block.cell for block in findings.episodes if block.cell.policy == name]
    metas = [findings.metadata.get(cell, {}) for cell in cells if cell.task in own]
    seconds = [_at(meta, "training", "seconds") for meta in metas]
    known = [float(value) for value in seconds if isinstance(value, int | float)]
    if not known:
        return _said(_metas(findings, (name,)), _COMPUTE)
    each = sum(known) / len(known)
    return f"{_duration(sum(known))} in all, {_duration(each)} per run, on one core each"


def _resumed(metas: Sequence[Meta]) -> str:
    """How many runs went on after they had been stopped; empty where it is not known."""
    known = [_at(meta, "training", "resumed") for meta in metas if _at(meta, "training")]
    runs = {
        (_at(meta, "training", "task"), _at(meta, "run"))
        for meta in metas
        if _at(meta, "training", "resumed")
    }
    if not known:
        return ""
    return f"{_counted(len(runs), 'run')} went on after an interruption" if runs else "none"


def _said(metas: Sequence[Meta], key: str) -> str:
    """What an object said of itself."""
    return _stated(metas, lambda meta: _text(meta, "hyperparameters", key))[1]


def _hyperparameters(metas: Sequence[Meta]) -> str:
    """All of them; of one that differs between cells, its values."""
    given = [_at(meta, "hyperparameters") for meta in metas]
    told = [each for each in given if isinstance(each, Mapping)]
    if not told:
        return ""
    parts, own_lines = [], (_SUMMARY, _ACTS_ON, _COMPUTE)
    for key in dict.fromkeys(key for each in told for key in each if key not in own_lines):
        values = dict.fromkeys(json.dumps(each[key]) for each in told if key in each)
        many = len(values) > _MOST
        parts.append(f"{key} = {f'{len(values)} values' if many else ' or '.join(values)}")
    return ", ".join(parts) or "none"


def _days(metas: Sequence[Meta]) -> str:
    days = sorted({_text(meta, "created")[:10] for meta in metas} - {""})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""
