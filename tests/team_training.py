"""Trainings on the toy of teams, ``test/Team-v0``, and what their policies do there."""

from typing import Any

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.registry import make_learner
from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED

TEAM = "test/Team-v0"
QUICK = {"lanes": 32, "replay": 640, "batch_size": 32, "updates_per_episode": 1 / 32}
QUICK |= {"hidden": 16, "learning_rate": 5e-3, "target_every": 20, "epsilon": 1.0}
SMALL = QUICK | {"lanes": 4, "replay": 20, "batch_size": 6, "updates_per_episode": 0.5}


def trained(
    name: str, steps: int, seed: int = 0, changes: dict[str, Any] | None = None, **game: Any
) -> Any:
    """Return a learner of the toy after some steps; ``changes`` are to its quick settings."""
    learner = make_learner(name, TEAM, game, seed, **(QUICK | (changes or {})))
    learner.learn(steps)
    return learner


def played(policy: Any, lanes: int = 16, env: str = TEAM, **game: Any) -> tuple[float, np.ndarray]:
    """Return the mean return, and the actions of every step, of seeds that no training has."""
    engine, seeds, actions = Engine(env, lanes, **game), np.arange(lanes, dtype=np.uint64), []
    engine.reset(seeds)
    memory = policy.initial(Game.of(engine), seeds)
    while not engine.control.done.all():
        masks = engine.control.masks.astype(np.bool_)
        chosen, memory = policy.act(engine.control.obs, memory, masks)
        actions.append(chosen.copy())
        engine.step(chosen, DISABLED)
    assert not engine.control.invalid.any()
    return engine.control.returns[:, 0].mean(), np.array(actions)


def first_outputs(learner: Any, **game: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the state, outputs and memories of the first step, with one lane as axis 0."""
    engine = Engine(TEAM, 1, global_state=True, **game)
    engine.reset(np.zeros(1, np.uint64))
    network, control = learner.policy().network, engine.control
    agents = len(engine.agents)
    last = np.zeros((1, agents, 3), np.float32)
    hidden = np.zeros((1, agents, network.hidden), np.float32)
    return control.state.copy(), *network.step(control.obs, last, hidden)
