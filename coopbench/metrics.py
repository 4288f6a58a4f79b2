"""Metrics: named scores of episodes, from what the environment measured and from returns."""

from collections.abc import Callable

import numpy as np

import coopbench_envs
from coopbench.episodes import Episodes
from coopbench_envs.parameters import unknown

__all__ = ["known_metrics", "values"]


def _total_return(block: Episodes) -> np.ndarray:
    return block.returns.sum(axis=1)


def _fairness(block: Episodes) -> np.ndarray:
    """Jain's index of the agents' returns; undefined (nan) where they have different signs."""
    from coopbench.statistics import jain

    return np.asarray(jain(block.returns))


# Metrics that every environment has, beside those that its own file lists.
_COMMON: dict[str, tuple[str, Callable[[Episodes], np.ndarray]]] = {
    "return": ("sum over agents and steps of the rewards", _total_return),
    "length": ("steps played", lambda block: block.lengths.astype(np.float64)),
    "fairness": ("Jain's index of the agents' returns, 1 = equal", _fairness),
}


def known_metrics(env_id: str) -> dict[str, str]:
    """Return the metrics of an environment as {name: meaning}."""
    own = dict(coopbench_envs.spec(env_id).metrics)
    return {name: text for name, (text, _) in _COMMON.items()} | own


def values(block: Episodes, metric: str) -> np.ndarray:
    """Value of ``metric`` in every episode of a cell, float64 (episodes,)."""
    if metric in _COMMON:
        return _COMMON[metric][1](block)
    if metric not in block.metrics:
        raise ValueError(unknown("metric", metric, {*_COMMON, *block.metrics}, block.cell.task))
    return block.metrics[metric]
