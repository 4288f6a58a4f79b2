"""The page of all hyperparameters, made at every build from the learners and the presets."""

from coopbench.baselines.learner import LearnerEntry
from coopbench.baselines.registry import learners, preset, presets
from coopbench.report.markdown import rows_table
from coopbench_envs.parameters import Allowed
from coopbench_envs.parameters import describe as describe_parameters

_INTRODUCTION = """# Hyperparameters

Hyperparameters of all learners with their defaults and allowed values. `--set NAME=VALUE` of
`coopbench train` sets one. The columns in the middle are [presets](../protocols.md#presets): a
protocol names the one that it uses. [Training](../training.md#the-learners) describes the learners.
"""


def page() -> str:
    """Return the page: a table for each learner, one for those that share their hyperparameters."""
    shared: dict[type, list[LearnerEntry]] = {}
    for entry in learners().values():
        shared.setdefault(entry.params, []).append(entry)
    parts = [
        f"## {' and '.join(f'`{entry.name}`' for entry in entries)}\n\n{learner_table(entries[0])}"
        for entries in shared.values()
    ]
    return "\n\n".join([_INTRODUCTION, *parts]) + "\n"


def learner_table(entry: LearnerEntry) -> str:
    """Hyperparameters of a learner, with its default and the presets that have some for it."""
    named = {name: preset(name, entry.name) for name in presets()}
    named = {name: values for name, values in named.items() if values}
    rows = [
        (
            f"`{key}`",
            str(default),
            *(str(values.get(key, default)) for values in named.values()),
            text,
        )
        for key, (kind, default, allowed) in describe_parameters(entry.params).items()
        for text in [f"{allowed.text}; {allowed}" if has_range(kind, allowed) else allowed.text]
    ]
    return rows_table(["Hyperparameter", "Default", *named, "Meaning"], rows)


def has_range(kind: str, allowed: Allowed) -> bool:
    """Whether the allowed values of a parameter are narrower than its type."""
    return bool(allowed.choices) or kind in ("int", "float")


MADE = {"learners/hyperparameters.md": page}
