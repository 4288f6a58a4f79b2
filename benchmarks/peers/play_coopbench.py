"""Probe: steps of an environment of this package under random legal actions.

``python play_coopbench.py ENV_ID LANES [PARAMETERS]``: parameters as JSON; 0 lanes play a single
environment through ``gymnasium.make``.
"""

import json
import sys

import gymnasium
import numpy as np
from stopwatch import Stopwatch

import coopbench_envs  # registers the environments
from coopbench_envs.engine import NEXT_STEP, Engine

PLANNED = 16


def play_batch(watch: Stopwatch, env_id: str, lanes: int, parameters: dict) -> None:
    """Step a batch; where actions are masked, draw them among the legal ones."""
    engine = Engine(env_id, lanes, **parameters)
    engine.reset(np.arange(lanes, dtype=np.uint64))
    draws = np.random.default_rng(0)
    planned = [random_actions(engine, draws) for _ in range(PLANNED)]
    engine.step(planned[0], NEXT_STEP)
    while watch.running:
        for actions in planned:
            masks = engine.control.masks
            if masks.size:
                actions = (draws.random(masks.shape) * masks).argmax(axis=2)
            with watch:
                engine.step(actions, NEXT_STEP)
            watch.steps += lanes


def random_actions(engine: Engine, draws: np.random.Generator) -> np.ndarray:
    """Draw an action for every agent in every lane."""
    space = engine.action_spaces[0]
    if isinstance(space, gymnasium.spaces.Discrete):
        return draws.integers(0, space.n, engine.actions.shape)
    low, high = engine.action_bounds()
    return draws.uniform(low, high, engine.actions.shape)


def play_single(watch: Stopwatch, env_id: str, parameters: dict) -> None:
    """Step a single environment, resets included."""
    env = gymnasium.make(env_id, **parameters)
    env.action_space.seed(0)
    planned = [env.action_space.sample() for _ in range(PLANNED)]
    env.reset(seed=0)
    env.step(planned[0])
    while watch.running:
        with watch:
            for actions in planned:
                _, _, terminated, truncated, _ = env.step(actions)
                if terminated or truncated:
                    env.reset()
        watch.steps += PLANNED


def main() -> None:
    """Measure what the command line names."""
    env_id, lanes = sys.argv[1], int(sys.argv[2])
    parameters = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    watch = Stopwatch()
    if lanes:
        play_batch(watch, env_id, lanes, parameters)
    else:
        play_single(watch, env_id, parameters)
    watch.report("coopbench", "numpy", "numba")


if __name__ == "__main__":
    main()
