"""One Stable-Baselines3 learner in one seat of a game, with a partner that does not learn.

    python examples/sb3_focal.py --steps 100000

Trains PPO as agent 0. Then prints the mean return of one seat, over 100 episodes in which the
partner has all other seats: for what was learned, for the best constant policy and for a random
one, on the same seeds. ``--steps 0`` shows the network before training. Needs the extra ``train``.
"""

import argparse

import gymnasium as gym
import numpy as np
import torch
from gymnasium.wrappers import RescaleAction
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import coopbench
import coopbench_envs  # registers the environments

LOW, HIGH = np.float32(-1.0), np.float32(1.0)


def make_env(env_id, partner):
    """Make the game as one agent meets it, with actions in [-1, 1].

    PPO begins with actions around 0, which has to be the middle of what can be done.
    """
    return RescaleAction(gym.make(env_id, control="focal", ego=0, partner=partner), LOW, HIGH)


def train(env_id, partner, steps, seed):
    """Return PPO after ``steps`` steps of eight games."""
    torch.set_num_threads(1)  # small networks gain nothing from more
    games = make_vec_env(lambda: make_env(env_id, partner), n_envs=8, seed=seed)
    model = PPO(
        "MlpPolicy",
        games,
        n_steps=200,
        batch_size=400,
        n_epochs=5,
        learning_rate=1e-3,
        seed=seed,
        device="cpu",
    )
    return model.learn(steps)


def as_policy(model, env_id):
    """Turn a model into what coopbench plays: a function of all seats of a batch of games."""
    bounds = gym.make(env_id).action_space  # low and high are (agents, dim)

    def ppo(observations):
        rows = observations.reshape(-1, observations.shape[-1])
        actions, _ = model.predict(rows, deterministic=True)
        fractions = (actions.reshape(*observations.shape[:2], -1) + 1.0) / 2.0
        return bounds.low + fractions * (bounds.high - bounds.low)

    return ppo


def show(env_id, ppo, partner):
    """Print a row per policy: the mean return of its seat with the partner."""
    others = list(dict.fromkeys(["best_constant", "random", partner]))
    played = coopbench.crossplay(env_id, [ppo, *others])
    column = 1 + others.index(partner)
    print(f"{'with ' + partner:<24}{'mean return':>12}  95 % interval")
    for row in played.of(played.tasks[0])[:3]:
        estimate = row[column]
        interval = f"{estimate.low:.2f} to {estimate.high:.2f}"
        print(f"{estimate.policy:<24}{estimate.mean:>12.2f}  {interval}")


def main():
    """Read the command line, train, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="coopbench/TrustDilemma-v1")
    parser.add_argument("--partner", default="tit_for_tat", help="a name of coopbench.policies()")
    parser.add_argument(
        "--steps", type=int, default=100_000, help="of training, all games together"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    model = train(arguments.env, arguments.partner, arguments.steps, arguments.seed)
    show(arguments.env, as_policy(model, arguments.env), arguments.partner)


if __name__ == "__main__":
    main()
