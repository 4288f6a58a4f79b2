"""Probe: training with Stable-Baselines3, four epochs: ``python train_sb3.py ENV_ID WIDTH``.

PPO learns the part of one agent in eight single environments of this package, each of which plays
the other part itself. A step is one of that agent.
"""

import sys

import gymnasium
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv
from stopwatch import Stopwatch

import coopbench_envs  # registers the environments

STEPS, WIDTH = 2048, int(sys.argv[2])


def make():
    """Make one environment."""
    return gymnasium.make(sys.argv[1], control="focal", ego=0, partner="tit_for_tat")


torch.set_num_threads(1)
model = PPO(
    "MlpPolicy",
    DummyVecEnv([make] * 8),
    n_steps=STEPS // 8,
    batch_size=STEPS,
    n_epochs=4,
    policy_kwargs={"net_arch": [WIDTH, WIDTH]},
    device="cpu",
)
model.learn(STEPS)
watch = Stopwatch()
while watch.running:
    with watch:
        model.learn(STEPS, reset_num_timesteps=False)
    watch.steps += STEPS
watch.report("stable-baselines3", "torch", "numpy")
