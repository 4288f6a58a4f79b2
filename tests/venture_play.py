"""Games of version 1 without chance, for numbers that are worked out by hand."""

from typing import Any

import builders
import numpy as np

from coopbench_envs.engine import DISABLED, Engine

STILL = {"shock": (0.0, 0.0), "noise": (0.0, 0.0), "persistence": (1.0, 1.0), "trembles": 0.0}


def begun(name: str, state: Any = None, seed: int = 0, **parameters: Any) -> Engine:
    """Return one lane of a game in which times stay as they are and nothing is blurred."""
    return builders.begun(name, seed=seed, state=state, **(STILL | parameters))


def step(engine: Engine, *actions: Any) -> np.ndarray:
    """Play one step with the actions of each agent; return the rewards of the first lane."""
    engine.step(np.array(actions, np.float64).reshape(engine.actions.shape), DISABLED)
    return engine.control.rewards[0]


def worded(engine: Engine) -> str:
    """Return the text that shows the first lane."""
    return engine.spec.text(engine.constants, engine.lane_state(), engine.agents)
