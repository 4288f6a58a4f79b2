"""The page of all hyperparameters, made at every build from the learners and the presets."""

from typing import Any

from coopbench.baselines.learner import LearnerEntry
from coopbench.baselines.registry import learners, preset, presets
from coopbench.report.markdown import rows_table
from coopbench_envs.parameters import Allowed
from coopbench_envs.parameters import describe as describe_parameters

_INTRODUCTION = """# Hyperparameters

Hyperparameters of all learners with their defaults and allowed values. `--set NAME=VALUE` of
`coopbench train` sets one. The columns after the default are [presets](../protocols.md#presets), in
parentheses the learners that have these values: a protocol names the one that it uses.
[Training](../training.md#the-learners) describes the learners.
"""


def page() -> str:
    """Return the page: a table for each learner, one for those that share their hyperparameters."""
    shared: dict[type, list[LearnerEntry]] = {}
    for entry in learners().values():
        shared.setdefault(entry.params, []).append(entry)
    parts = [
        f"## {' and '.join(f'`{entry.name}`' for entry in entries)}\n\n{table(entries)}"
        for entries in shared.values()
    ]
    return "\n\n".join([_INTRODUCTION, *parts]) + "\n"


def table(entries: list[LearnerEntry]) -> str:
    """Hyperparameters of learners that share them, with their default and their presets."""
    named = {
        heading: values
        for name in presets()
        for heading, values in columns(name, [entry.name for entry in entries]).items()
    }
    rows = [
        (
            f"`{key}`",
            text,
            str(default),
            *(str(values.get(key, default)) for values in named.values()),
        )
        for key, (kind, default, allowed) in describe_parameters(entries[0].params).items()
        for text in [f"{allowed.text}; {allowed}" if has_range(kind, allowed) else allowed.text]
    ]
    return rows_table(["Hyperparameter", "Meaning", "Default", *named], rows)


def columns(name: str, learning: list[str]) -> dict[str, dict[str, Any]]:
    """Return what a preset has for learners by the headings of columns.

    The heading names the learners of the column unless the preset has the same for all.
    """
    values = {learner: preset(name, learner) for learner in learning}
    found: dict[str, dict[str, Any]] = {}
    for chosen in values.values():
        same = [learner for learner in learning if values[learner] == chosen]
        whom = "" if same == learning else f" ({', '.join(same)})"
        if chosen:
            found[f"{name}{whom}"] = chosen
    return found


def has_range(kind: str, allowed: Allowed) -> bool:
    """Whether the allowed values of a parameter are narrower than its type."""
    return bool(allowed.choices) or kind in ("int", "float")


MADE = {"learners/hyperparameters.md": page}
