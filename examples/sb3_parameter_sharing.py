"""One Stable-Baselines3 network in all seats of a game: every agent is a row of the VecEnv.

    python examples/sb3_parameter_sharing.py --steps 400000

Trains PPO with three seeds on what all agents see and earn, each its own reward. Then the runs play
a task of ``coopetition-standard``, all seats each, and a report compares them with the best
constant policy and a random one on the same seeds. ``--steps 0`` shows the networks before
training. Needs the extra ``train``.
"""

import argparse
import math

import torch
from gymnasium.spaces import Box
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnvWrapper

import coopbench
import coopbench_envs

PROTOCOL = "coopetition-standard"


class Rescaled(VecEnvWrapper):
    """Takes actions in [-1, 1] and gives the game's own.

    PPO begins with actions around 0, which has to be the middle of what can be done.
    """

    def __init__(self, games):
        super().__init__(games, action_space=Box(-1.0, 1.0, games.action_space.shape))

    def own(self, actions):
        """Actions in the units of the game."""
        bounds = self.venv.action_space
        return bounds.low + (actions + 1.0) / 2.0 * (bounds.high - bounds.low)

    def step_async(self, actions):
        self.venv.step_async(self.own(actions))

    def step_wait(self):
        return self.venv.step_wait()

    def reset(self):
        return self.venv.reset()


def train(env_id, steps, seed):
    """Return PPO after ``steps`` steps, counted for each agent, of 32 games; and the games."""
    torch.set_num_threads(1)  # small networks gain nothing from more
    games = Rescaled(coopbench_envs.sb3_vec_env(env_id, num_envs=32))
    model = PPO(
        "MlpPolicy",
        games,
        n_steps=100,
        batch_size=800,
        n_epochs=5,
        learning_rate=1e-3,
        seed=seed,  # also the seed of the games
        device="cpu",
    )
    return model.learn(steps), games


def as_policy(model, games):
    """Turn a model into what coopbench plays: a function of all seats of a batch of games."""

    def ppo(observations):
        rows = observations.reshape(-1, observations.shape[-1])
        actions, _ = model.predict(rows, deterministic=True)
        return games.own(actions).reshape(*observations.shape[:2], -1)

    return ppo


def show(task, models, folder):
    """Report all runs with baselines under the protocol; print a row per policy."""
    policies = [coopbench.TrainedRuns("sb3_ppo", models), "best_constant", "random"]
    report = coopbench.evaluate(PROTOCOL, policies, folder, tasks=[task], only=True)
    files = report.save(f"{folder}/report")
    print(f"{task:<24}{'own return':>12}  95 % interval")
    for row in report.estimates:
        if row.metric == "own_return":
            interval = f"{row.low:.2f} to {row.high:.2f}"
            known = "needs three runs" if math.isnan(row.low) else interval
            print(f"{row.policy:<24}{row.mean:>12.2f}  {known}")
    print(f"Report: {files['html']}")


def main():
    """Read the command line, train, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="trust-dilemma", help=f"one of {PROTOCOL}, in self-play")
    parser.add_argument("--steps", type=int, default=400_000, help="of training, of all agents")
    parser.add_argument("--seed", type=int, default=1000, help="of the first run")
    parser.add_argument("--runs", type=int, default=3, help="seeds in a row; intervals need 3")
    parser.add_argument("--out", default="results/sb3", help="folder of results and report")
    arguments = parser.parse_args()
    env_id = coopbench.load_protocol(PROTOCOL).task_of(arguments.task).env
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    runs = {seed: as_policy(*train(env_id, arguments.steps, seed)) for seed in seeds}
    show(arguments.task, {arguments.task: runs}, arguments.out)


if __name__ == "__main__":
    main()
