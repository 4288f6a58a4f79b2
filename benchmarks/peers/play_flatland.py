"""Probe: steps of flatland-rl: ``python play_flatland.py TRAINS OBSERVATION``.

The observation is "none" or "tree" (depth 2, without a predictor, as in Rail-v0).
"""

import sys

import numpy as np
from flatland.core.env_observation_builder import DummyObservationBuilder
from flatland.envs.line_generators import sparse_line_generator
from flatland.envs.observations import TreeObsForRailEnv
from flatland.envs.rail_env import RailEnv
from flatland.envs.rail_env_action import RailEnvActions
from flatland.envs.rail_generators import sparse_rail_generator
from stopwatch import Stopwatch

TRAINS = int(sys.argv[1])
BUILDERS = {
    "none": DummyObservationBuilder,
    "tree": lambda: TreeObsForRailEnv(2),
}
env = RailEnv(
    width=30,
    height=30,
    rail_generator=sparse_rail_generator(
        max_num_cities=3, grid_mode=False, max_rails_between_cities=2, max_rail_pairs_in_city=2
    ),
    line_generator=sparse_line_generator({1.0: 1.0}),
    number_of_agents=TRAINS,
    obs_builder_object=BUILDERS[sys.argv[2]](),
    random_seed=1,
)
draws = np.random.default_rng(0)
env.reset()
watch = Stopwatch()
while watch.running:
    actions = {a: RailEnvActions(k) for a, k in enumerate(draws.integers(0, 5, TRAINS).tolist())}
    with watch:
        _, _, dones, _ = env.step(actions)
    watch.steps += 1
    if dones["__all__"]:
        env.reset()
watch.report("flatland-rl", "numpy")
