"""Probe: training with QMIX, recurrent agents of one network: ``python train_qmix.py MAP``.

The learner's own settings: an update of 32 episodes after every fourth. A step is one of the game.
"""

import sys

import torch
from stopwatch import Stopwatch

from coopbench.baselines.registry import make_learner

STEPS = 5000
torch.set_num_threads(1)
learner = make_learner("qmix_shared", "coopbench/Skirmish-v0", {"map": sys.argv[1]}, 0)
learner.learn(STEPS)  # loads compiled code and stores the episodes that updates need
watch = Stopwatch()
while watch.running:
    with watch:
        learner.learn(learner.steps + STEPS)
    watch.steps += STEPS
watch.report("coopbench", "torch", "numpy")
