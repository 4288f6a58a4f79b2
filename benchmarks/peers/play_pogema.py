"""Probe: steps of POGEMA: ``python play_pogema.py AGENTS SIDE DENSITY``.

Agents walk on a grid, one cell in a step, and see the cells around them.
"""

import sys

import numpy as np
from pogema import GridConfig, pogema_v0
from stopwatch import Stopwatch

AGENTS, SIDE, DENSITY = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
config = GridConfig(
    num_agents=AGENTS,
    size=SIDE,
    density=DENSITY,
    seed=0,
    on_target="nothing",
    max_episode_steps=1000,
)
env = pogema_v0(grid_config=config)
draws = np.random.default_rng(0)
env.reset()
watch = Stopwatch()
while watch.running:
    actions = draws.integers(0, 5, AGENTS).tolist()
    with watch:
        _, _, terminated, truncated, _ = env.step(actions)
        if all(terminated) or all(truncated):
            env.reset()
    watch.steps += 1
watch.report("pogema", "numpy")
