"""Answers: what results and their metadata say of a study, for its checklist and its cards."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import metadata
from typing import Any

from coopbench.analysis.findings import Findings
from coopbench.baselines.registry import entries, parse_name
from coopbench.report.numbers import MISSING

YES, NO, LACKING, NOT_NEEDED = "yes", "no", "missing", "not needed"
SIGNS = {YES: "✓ yes", NO: "✗ no", LACKING: f"{MISSING} missing", NOT_NEEDED: "not needed"}
# Hyperparameters of an object with lines of their own.
SUMMARY, ACTS_ON, COMPUTE = "summary", "acts_on", "compute"
CODE, CODE_LEVEL = "code", "code_level"

Meta = Mapping[str, Any]
Answer = tuple[str, str]  # its state, and what is known


def stated(metas: Sequence[Meta], write: Callable[[Meta], str]) -> Answer:
    """Return what the metadata of cells state, as ``write`` does of one; "" means not at all."""
    texts = [write(meta) for meta in metas]
    lacking, text = texts.count(""), "; ".join(dict.fromkeys(filter(None, texts)))
    if lacking and text:
        text += f" (not known of {cells_text(lacking, len(texts))})"
    return yes_if(bool(texts) and not lacking, LACKING), text


def yes_if(fulfilled: bool, otherwise: str = NO) -> str:
    """Return the state of an answer."""
    return YES if fulfilled else otherwise


def counted(count: int, what: str) -> str:
    """Write a number of things, in the singular or the plural."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def cells_text(some: int, count: int) -> str:
    """Write how many of all cells a fact is about."""
    every = "all " if count > 1 else ""
    return every + counted(count, "cell") if some == count else f"{some:,} of {count:,} cells"


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


def fact(meta: Meta, *keys: str) -> Any:
    """Return the value under nested keys of the metadata; None if there is none."""
    value: Any = meta
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def text_of(meta: Meta, *keys: str) -> str:
    """Return the value under nested keys as text; empty if there is none."""
    value = fact(meta, *keys)
    return "" if value is None else str(value)


def _code(meta: Meta) -> str:
    """Write where the code of a policy is: declared by an object, or the home of this package."""
    declared = text_of(meta, "hyperparameters", CODE)
    if declared or parse_name(text_of(meta, "policy")).kind not in entries():
        return declared
    return _home()


@cache
def _home() -> str:
    """Return the repository of this package as its metadata name it; empty if they do not."""
    links = metadata("coopbench").get_all("Project-URL") or []
    pairs = [link.partition(", ") for link in links]
    return next((url for label, _, url in pairs if label in ("Repository", "Source")), "")


def _versions(meta: Meta) -> str:
    versions = fact(meta, "versions")
    if not isinstance(versions, Mapping):
        return ""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def processor(meta: Meta) -> str:
    """Write the processor that a cell was played on, with cores and memory."""
    cpu, cores, memory = (fact(meta, "machine", key) for key in ("cpu", "cores", "memory"))
    parts = [
        str(cpu) if cpu else "",
        counted(cores, "core") if isinstance(cores, int) else "",
        f"{memory / 1e9:.3g} GB of memory" if isinstance(memory, int) else "",
    ]
    return ", ".join(filter(None, parts)) if cpu else ""


def _gpu(meta: Meta) -> str:
    """Write the GPUs of the machine that a cell was played on, and where a torch module was."""
    if not isinstance(fact(meta, "machine"), Mapping):
        return ""
    names, device = (fact(meta, "machine", key) for key in ("gpu", "device"))
    text = ", ".join(map(str, names)) if isinstance(names, list) else "none found"
    return f"{text}; the policy computed on {device}" if device else text


def wall_time(metas: Sequence[Meta]) -> Answer:
    """Return the time that the evaluation of cells took."""
    values = [fact(meta, "seconds") for meta in metas]
    seconds = [value for value in values if isinstance(value, int | float)]
    if not seconds:
        return LACKING, ""
    whole = len(seconds) == len(values)
    where = "in all" if whole else f"in {cells_text(len(seconds), len(values))}"
    return yes_if(whole, LACKING), f"{duration(sum(seconds))} {where}"


def duration(seconds: float) -> str:
    """Write a duration in the largest unit of which it has at least two."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


# What metadata state of cells, asked of the study and of every policy.
STATED: dict[str, Callable[[Meta], str]] = {
    "Code": _code,
    "Versions": _versions,
    "Commit": lambda meta: text_of(meta, "commit"),
    "Platform": lambda meta: text_of(meta, "platform"),
    "Processor": processor,
    "GPU": _gpu,
}
