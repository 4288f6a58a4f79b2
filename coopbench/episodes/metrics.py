"""Metrics: named scores of episodes, from what was measured or traced and from returns."""

from collections.abc import Callable, Mapping

import numpy as np

import coopbench_envs
from coopbench.episodes import trajectories
from coopbench.episodes.table import Episodes
from coopbench.statistics import gini, jain
from coopbench_envs.core import EnvSpec, TrajectoryMetric
from coopbench_envs.parameters import unknown


def _own_return(block: Episodes) -> np.ndarray:
    return np.asarray(block.returns.mean(axis=1, where=block.seats))


def _fairness(block: Episodes) -> np.ndarray:
    """Return Jain's index of the agents' returns; nan where they have different signs."""
    return np.asarray(jain(block.returns))


def _gini(block: Episodes) -> np.ndarray:
    """Return the Gini coefficient of the returns; nan for mixed signs or a total of zero."""
    return np.asarray(gini(block.returns))


# Metrics that every environment has, besides those that its own file lists; those of fairness only
# where agents are paid apart.
_FAIRNESS = ("fairness", "gini")
COMMON: dict[str, tuple[str, Callable[[Episodes], np.ndarray]]] = {
    "return": ("sum over agents and steps of the rewards", lambda block: block.team_returns),
    "own_return": ("mean return of the agents that the policy played", _own_return),
    "length": ("steps played", lambda block: block.lengths.astype(np.float64)),
    "fairness": ("Jain's index of the agents' returns, 1 = equal", _fairness),
    "gini": ("Gini coefficient of the agents' returns, 0 = equal", _gini),
}


def _spec_of(env: str | EnvSpec) -> EnvSpec:
    return coopbench_envs.spec(env) if isinstance(env, str) else env


def known_metrics(env: str | EnvSpec) -> dict[str, str]:
    """Return the metrics of an environment, or of one of this id, as {name: meaning}."""
    spec = _spec_of(env)
    common = {name: text for name, (text, _) in COMMON.items()}
    if spec.common_reward:
        common = {name: text for name, text in common.items() if name not in _FAIRNESS}
        common["return"] = "sum over steps of the team's reward"
    return common | dict(spec.metrics) | _meanings(trajectories.episode_metrics(spec))


def missing_metric(env: str | EnvSpec, metric: str, where: str) -> str:
    """Say why there is no ``metric`` of an environment, and which ones there are."""
    if metric in _FAIRNESS and _spec_of(env).common_reward:
        return _compares_agents(metric, where)
    return unknown("metric", metric, known_metrics(env), where)


def _compares_agents(metric: str, where: str) -> str:
    return (
        f"There is no metric {metric!r} in {where}: it compares what agents earn, and all agents "
        "of this environment earn the same team reward. Leave it out, or use an environment that "
        "rewards every agent separately."
    )


def known_agent_metrics(env: str | EnvSpec) -> dict[str, str]:
    """Return the metrics of each agent in an environment as {name: meaning}."""
    rewards = {"return": "sum over steps of the agent's rewards"}
    return rewards | _meanings(trajectories.agent_metrics(_spec_of(env)))


def _meanings(table: Mapping[str, TrajectoryMetric]) -> dict[str, str]:
    return {name: metric.meaning for name, metric in table.items()}


def values(block: Episodes, metric: str) -> np.ndarray:
    """Return the value of ``metric`` in every episode of a cell, float64 (episodes,)."""
    if block.common_reward and metric in _FAIRNESS:
        raise ValueError(_compares_agents(metric, f"task {block.cell.task!r}"))
    if metric in block.metrics:  # of scores that were packed, what returns would say is among them
        return block.metrics[metric]
    if metric not in COMMON:
        raise ValueError(unknown("metric", metric, {*COMMON, *block.metrics}, block.cell.task))
    return COMMON[metric][1](block)


def agent_values(block: Episodes, metric: str) -> np.ndarray:
    """Return ``metric`` for every agent in every episode, float64 (episodes, agents)."""
    metrics = {"return": block.returns} | block.agent_metrics
    if metric not in metrics:
        raise ValueError(unknown("metric of an agent", metric, metrics, block.cell.task))
    return metrics[metric]
