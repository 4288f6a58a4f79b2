"""Probe: steps of Coopetition-Gym: ``python play_coopetition_gym.py GAME``, resets included."""

import sys

import coopetition_gym
from stopwatch import Stopwatch

PLANNED = 16
env = coopetition_gym.make(sys.argv[1])
env.action_space.seed(0)
planned = [env.action_space.sample() for _ in range(PLANNED)]
env.reset(seed=0)
watch = Stopwatch()
while watch.running:
    with watch:
        for actions in planned:
            _, _, terminated, truncated, _ = env.step(actions)
            if terminated or truncated:
                env.reset()
    watch.steps += PLANNED
watch.report("coopetition-gym", "gymnasium", "numpy")
