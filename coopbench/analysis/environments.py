"""Environments from outside of this package: what a report has to say of results on them."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coopbench.episodes.grouping import grouped
from coopbench.episodes.table import Episodes
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench_envs.choices import as_played
from coopbench_envs.exactness import EXACT, promised_bits
from coopbench_envs.foreign_names import is_foreign
from coopbench_envs.registration import added


def environment_notes(protocol: Protocol, blocks: Sequence[Episodes]) -> Iterator[str]:
    """Yield sentences on every environment from outside of this package that was played.

    They name its code, what does not hold there, and whether its episodes can be repeated.
    """
    outside = (task.env for task in protocol.task if is_foreign(task.env) or task.env in added())
    for env in dict.fromkeys(outside):
        tasks = [task.id for task in protocol.task if task.env == env]
        played = [b for b in blocks if b.cell.task in tasks and b.environment]
        codes = dict.fromkeys(code_text(block.environment["code"]) for block in played)
        if not played:
            continue
        if len(codes) > 1:
            yield f"Results on {env} were made with different code; they cannot be compared."
        if not is_foreign(env):
            yield (
                f"{env} is not an environment of coopbench ({'; '.join(codes)}). Commands that "
                "read these results elsewhere need the package that registers it, or its file: "
                "--register FILE.py:SPEC."
            )
            bits = dict.fromkeys(_bits(task) for task in protocol.task if task.env == env)
            yield from (f"{env} on other processors and GPUs: {text}." for text in bits if text)
            continue
        yield (
            f"{env} is an environment of another package ({'; '.join(codes)}), played as Python "
            f"objects. Equal bits on other machines, speed and saved states are not promised for "
            f"it."
        )
        yield _repetition(env, played)
        if not all(block.environment["stated"] for block in played):
            steps = max(block.environment["horizon"] for block in played)
            yield (
                f"{env} does not say how long an episode may be: episodes are truncated after "
                f"{steps:,} steps ('steps' of a task in a protocol)."
            )


def _bits(task: Task) -> str:
    """Return what a task promises on other machines if it is not the same bits; else nothing."""
    environment, _, constants = as_played(task.spec, task.parameters)
    promised = promised_bits(environment.kernels_of(constants))
    return "" if promised == EXACT else promised.replace("`", "")


def action_notes(blocks: Sequence[Episodes]) -> Iterator[str]:
    """Yield sentences on policies whose actions were scaled.

    Those of policies that act by numbers in a game of choices are among them.
    """
    yield from _nearest_notes(blocks)
    for policy, played in grouped((block.cell.policy, block) for block in blocks).items():
        scaled = grouped((b.rescaled, b.cell.task) for b in played if b.rescaled)
        for bounds, tasks in scaled.items():
            names = ", ".join(dict.fromkeys(tasks))
            yield (
                f"The actions of {policy} on {names} are scaled {bounds}, "
                f"from the bounds of the model's action space to those of the environment."
            )


def _nearest_notes(blocks: Sequence[Episodes]) -> Iterator[str]:
    """Yield sentences on policies and partners that act by numbers in games of choices."""
    tasks = grouped((kind, b.cell.task) for b in blocks for kind in b.nearest.items())
    for (name, choices), where in tasks.items():
        yield (
            f"{name} acts by numbers on {', '.join(dict.fromkeys(where))} and plays the nearest of "
            f"{choices}, of two equally near ones the lower."
        )


def code_text(code: Mapping[str, Any]) -> str:
    """Write packages with their versions; of files the first digits of their digests."""
    return ", ".join(f"{name} {str(text)[:12]}" for name, text in sorted(code.items()))


def _repetition(env: str, played: Sequence[Episodes]) -> str:
    """Say whether episodes went the same way when they were played twice."""
    others = [block.cell for block in played if not block.environment["repeats"]]
    if not others:
        return (
            f"The first episode of every cell of {env} was played twice and went the same way: "
            f"coopbench verify --execute {shlex.quote(env)} can play its episodes again."
        )
    names = ", ".join(f"{cell.task} / {cell.policy}" for cell in others[:3])
    return (
        f"{env} is not deterministic: the first episode of {names} was played twice and went "
        f"another way. Its results cannot be verified by playing them again, and a seed does not "
        f"fix an episode."
    )
