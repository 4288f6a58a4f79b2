"""Bench: speed of the environments, and the ratio to the same kernels in plain Python."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

import coopbench_envs
from coopbench_envs.engine import NEXT_STEP, Engine

__all__ = ["Rate", "agent_steps_per_second", "run", "single_steps_per_second"]

LANES = (1, 64, 1024)
_TWIN_LANES = 4
_TWIN = (
    "import json, sys; from coopbench.bench import agent_steps_per_second as f; "
    f"print(json.dumps(f(sys.argv[1], {_TWIN_LANES}, float(sys.argv[2]))))"
)


@dataclass(frozen=True)
class Rate:
    """How fast an environment is in one way of stepping it."""

    env: str
    how: str  # "batch", "plain Python" or "gymnasium.make"
    lanes: int
    rate: float  # per second of processor time
    unit: str  # what is counted


def run(
    env_ids: list[str] | None, seconds: float, report: Callable[[str], Any]
) -> Iterator[list[Rate]]:
    """Measure the named environments (default: all) and report one line per figure.

    After each environment the rates of all so far are yielded.
    """
    chosen = [coopbench_envs.spec(name).id for name in env_ids or coopbench_envs.ids()]
    report(f"{'environment':<34}{'agent-steps/s':>16}  how")
    rates: list[Rate] = []
    for env_id in chosen:
        for lanes in LANES:
            rate = agent_steps_per_second(env_id, lanes, seconds)
            report(f"{env_id:<34}{rate:>16,.0f}  batch engine, {lanes} lanes, one core")
            rates.append(Rate(env_id, "batch", lanes, rate, "agent-steps"))
        python = _python_twin(env_id, seconds)
        report(f"{env_id:<34}{python:>16,.0f}  the same kernels in plain Python")
        report(f"{'':<34}{rate / python:>15,.0f}x  batch of {LANES[-1]} against plain Python")
        rates.append(Rate(env_id, "plain Python", _TWIN_LANES, python, "agent-steps"))
        single = single_steps_per_second(env_id, seconds)
        report(f"{env_id:<34}{single:>16,.0f}  environment steps/s through gymnasium.make")
        rates.append(Rate(env_id, "gymnasium.make", 1, single, "environment steps"))
        yield rates


def agent_steps_per_second(env_id: str, lanes: int, seconds: float) -> float:
    """Return the agent-steps per second of processor time of an engine under random actions."""
    engine = Engine(env_id, lanes)
    engine.reset(np.arange(lanes, dtype=np.uint64))
    actions = [_random_actions(engine, seed) for seed in range(8)]
    engine.step(actions[0])
    steps, start = 0, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        for action in actions:
            engine.step(action, NEXT_STEP)
        steps += len(actions)
    return steps * lanes * len(engine.agents) / spent


def single_steps_per_second(env_id: str, seconds: float) -> float:
    """Return the environment steps per second of processor time through ``gymnasium.make``."""
    env: Any = gymnasium.make(env_id)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(64)]
    env.reset(seed=0)
    steps, start = 0, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        steps += len(actions)
    return steps / spent


def _random_actions(engine: Engine, seed: int) -> np.ndarray:
    rng, space = np.random.default_rng(seed), engine.action_spaces[0]
    if isinstance(space, gymnasium.spaces.Discrete):
        return rng.integers(0, space.n, engine.actions.shape)
    low, high = engine.action_bounds()
    return rng.uniform(low, high, engine.actions.shape)


def _python_twin(env_id: str, seconds: float) -> float:
    """Return the rate of the same code with compilation switched off, in another process."""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", _TWIN, env_id, str(seconds)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(json.loads(process.stdout))
