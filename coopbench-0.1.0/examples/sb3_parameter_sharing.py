"""One Stable-Baselines3 network in all seats of a game: every agent is a row of the VecEnv.

    python examples/sb3_parameter_sharing.py --steps 400000

Trains PPO on what all agents see and earn, each its own reward. Then prints the mean return, summed
over agents, of 100 episodes in which one policy has all seats: for what was learned, for the best
constant policy and for a random one, on the same seeds. ``--steps 0`` shows the network before
training. Needs the extra ``train``.
"""

import argparse

import torch
from gymnasium.spaces import Box
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnvWrapper

import coopbench
import coopbench_envs


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


def show(env_id, ppo):
    """Print a row per policy: the mean return of all agents together under self-play."""
    report = coopbench.evaluate(env_id, [ppo, "best_constant", "random"])
    print(f"{'in all seats':<24}{'mean return':>12}  95 % interval")
    for row in report.estimates:
        if row.metric == "return":
            print(f"{row.policy:<24}{row.mean:>12.2f}  {row.low:.2f} to {row.high:.2f}")


def main():
    """Read the command line, train, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="coopbench/TrustDilemma-v1")
    parser.add_argument("--steps", type=int, default=400_000, help="of training, of all agents")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    model, games = train(arguments.env, arguments.steps, arguments.seed)
    show(arguments.env, as_policy(model, games))


if __name__ == "__main__":
    main()
