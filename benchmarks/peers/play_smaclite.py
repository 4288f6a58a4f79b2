"""Probe: steps of SMAClite with its NumPy back-end: ``python play_smaclite.py MAP``."""

import sys

import gymnasium
import numpy as np
import smaclite  # registers the environments
from stopwatch import Stopwatch

env = gymnasium.make(f"smaclite/{sys.argv[1]}-v0", disable_env_checker=True).unwrapped
draws = np.random.default_rng(0)
env.reset(seed=0)
watch = Stopwatch()
while watch.running:
    masks = np.asarray(env.get_avail_actions())
    actions = (draws.random(masks.shape) * masks).argmax(axis=1).tolist()
    with watch:
        *_, done, _, _ = env.step(actions)
        if done:
            env.reset()
    watch.steps += 1
watch.report("smaclite", "numpy")
