"""Trajectories: metrics that need the whole course of an episode, from what its game traces.

A game whose ``EnvSpec`` has a ``trace`` gets the metrics of its ``episode_metrics`` and
``agent_metrics`` whose traces it gives.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from coopbench_envs.core import EnvSpec, TrajectoryMetric
from coopbench_envs.lanes import Readable
from coopbench_envs.parameters import resolve
from coopbench_envs.states import allocated

_TRACES: dict[tuple[str, Any], frozenset[str]] = {}  # names that games trace, by id and function


class Recorder:
    """Copies what the game of an engine traces; call ``note`` after the reset and every step.

    It keeps 8 bytes for each step, lane, agent and trace until it is dropped.
    """

    def __init__(self, engine: Readable) -> None:
        self._engine = engine
        self._episode = episode_metrics(engine.spec)
        self._agent = agent_metrics(engine.spec)
        metrics = (*self._episode.values(), *self._agent.values())
        self._moved: list[np.ndarray] = []
        self._course: dict[str, list[np.ndarray]] = {n: [] for m in metrics for n in m.needs}

    def note(self) -> None:
        """Copy the present traces, and which lanes the last call has moved."""
        engine = self._engine
        if engine.spec.trace is None:
            return
        self._moved.append(engine.control.moved.copy())
        traces = engine.spec.trace(engine.constants, engine.state)
        for name, course in self._course.items():
            course.append(np.array(np.atleast_2d(traces[name]), np.float64))

    def metrics(self) -> dict[str, np.ndarray]:
        """Metrics of the episodes so far that the game does not measure itself, (lanes,) each."""
        return self._values(self._episode)

    def agent_metrics(self) -> dict[str, np.ndarray]:
        """Metrics of every agent in the episodes so far, (lanes, agents) each."""
        return self._values(self._agent)

    def _values(self, table: Mapping[str, TrajectoryMetric]) -> dict[str, np.ndarray]:
        traces = {name: np.stack(course) for name, course in self._course.items()}
        played = np.array(self._moved[1:], np.bool_).reshape(-1, self._engine.lanes)
        return {
            name: metric.function(played, *(traces[need] for need in metric.needs))
            for name, metric in table.items()
        }


def episode_metrics(spec: EnvSpec) -> dict[str, TrajectoryMetric]:
    """Return the metrics of an episode that a game traces: not those that it measures itself."""
    traced = _traced(spec, spec.episode_metrics)
    return {name: metric for name, metric in traced.items() if name not in spec.metrics}


def agent_metrics(spec: EnvSpec) -> dict[str, TrajectoryMetric]:
    """Return the metrics of each agent that a game traces."""
    return _traced(spec, spec.agent_metrics)


def _traced(spec: EnvSpec, table: Mapping[str, TrajectoryMetric]) -> dict[str, TrajectoryMetric]:
    """Metrics of ``table`` whose traces a game gives; all its parameters give the same ones."""
    if spec.trace is None or not table:
        return {}
    key = spec.id, spec.trace
    if key not in _TRACES:
        constants = spec.constants(resolve(spec.params, {}, spec.id))
        state = allocated(spec.kernels_of(constants).state, constants, 1)
        _TRACES[key] = frozenset(spec.trace(constants, state))
    return {name: metric for name, metric in table.items() if _TRACES[key] >= {*metric.needs}}
