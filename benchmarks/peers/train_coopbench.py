"""Probe: training with parameter sharing, four epochs: ``python train_coopbench.py ENV_ID LAYERS``.

A step is one of one agent, in 256 lanes.
"""

import sys

import torch
from stopwatch import Stopwatch

import coopbench_envs  # registers the environments
from coopbench.baselines.registry import make_learner

LANES, STEPS, AGENTS = 256, 64, 2
torch.set_num_threads(1)
learner = make_learner(
    "ippo_shared",
    sys.argv[1],
    {},
    0,
    layers=sys.argv[2],
    lanes=LANES,
    rollout=LANES * STEPS,
    epochs=4,
    batch_size=2048,
)
learner.learn(LANES * STEPS)
watch = Stopwatch()
while watch.running:
    with watch:
        learner.learn(learner.steps + LANES * STEPS)
    watch.steps += AGENTS * LANES * STEPS
watch.report("coopbench", "torch", "numpy")
