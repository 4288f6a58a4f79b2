"""Catalogue: names of environments, policies, learners and protocols; compiling them all."""

from collections.abc import Callable

import numpy as np

import coopbench_envs
from coopbench.baselines import registry
from coopbench.protocol.loading import protocol_files

__all__ = ["environments", "learners", "policies", "protocols", "warmup"]


def environments() -> tuple[str, ...]:
    """Return the ids of all environments."""
    return coopbench_envs.ids()


def policies() -> dict[str, str]:
    """Return all policies that need no training as {name: what it does}."""
    entries = registry.entries()
    return {name: entry.summary for name, entry in entries.items() if not entry.trained}


def learners() -> dict[str, str]:
    """Return all learners as {name: what it does}; their trained policies have the same name."""
    return {name: entry.summary for name, entry in registry.learners().items()}


def protocols() -> tuple[str, ...]:
    """Return the names of the protocols that come with this package."""
    return tuple(sorted(protocol_files()))


def warmup(report: Callable[[str], None] | None = None) -> None:
    """Compile and cache the drivers of every environment; ``report`` is called with each id."""
    for env_id in environments():
        engine = coopbench_envs.Engine(env_id)
        engine.reset(np.zeros(1, np.uint64))
        engine.global_state()
        if report is not None:
            report(env_id)
