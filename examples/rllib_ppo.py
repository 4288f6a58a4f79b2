"""RLlib's PPO in all seats of a game, through the PettingZoo interface.

    make interop                                      # makes the environment, runs the examples
    build/interop/rllib/bin/python examples/rllib_ppo.py --steps 40000

Trains one network for all agents on RLlib's new API stack, with three seeds. Then the runs play a
task of ``coopetition-standard``, all seats each, and a report compares them with the best constant
policy and a random one on the same seeds. ``--steps 0`` shows the networks before training. Needs
``requirements-rllib.txt``.
"""

import argparse
import math

import gymnasium as gym
import pettingzoo
import ray
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv

import coopbench
import coopbench_envs  # registers the environments

PROTOCOL = "coopetition-standard"
BATCH = 2000  # steps of the game between two updates


class Game(ParallelPettingZooEnv):
    """RLlib's wrapper of a game, with the agents in the game's order.

    The wrapper takes them from a set, whose order differs from process to process. Agents that are
    done stay to the joint end, as RLlib wants all of them in every episode.
    """

    def __init__(self, config):
        game = pettingzoo.make("parallel", config["env_id"], dead_agents="keep")
        super().__init__(game)
        self.agents = list(game.possible_agents)
        self.possible_agents = list(game.possible_agents)


def train(env_id, steps, seed):
    """Return the algorithm after ``steps`` steps of the game, in whole batches."""
    torch.set_num_threads(1)  # small networks gain nothing from more
    config = (
        PPOConfig()
        .environment(Game, env_config={"env_id": env_id})
        .multi_agent(policies={"shared"}, policy_mapping_fn=lambda agent, *_, **__: "shared")
        .env_runners(num_env_runners=0)
        .training(train_batch_size_per_learner=BATCH, minibatch_size=500, num_epochs=5, lr=1e-3)
        .debugging(seed=seed, log_level="ERROR")
    )
    algorithm = config.build_algo()
    for _ in range(steps // BATCH):
        algorithm.train()
    return algorithm


def as_policy(algorithm, env_id):
    """Turn the network into what coopbench plays: a function of all seats of a batch of games."""
    network = algorithm.get_module("shared")
    bounds = gym.make(env_id).action_space  # low and high are (agents, dim)

    def ppo(observations):
        rows = torch.as_tensor(observations).reshape(-1, observations.shape[-1])
        with torch.no_grad():
            logits = network.forward_inference({Columns.OBS: rows})[Columns.ACTION_DIST_INPUTS]
        mean, _ = logits.chunk(2, dim=-1)  # the other half are logarithms of deviations
        fractions = (mean.clamp(-1.0, 1.0).numpy() + 1.0) / 2.0  # RLlib learns actions in [-1, 1]
        fractions = fractions.reshape(*observations.shape[:2], -1)
        return bounds.low + fractions * (bounds.high - bounds.low)

    return ppo


def show(task, models, folder):
    """Report all runs with baselines under the protocol; print a row per policy."""
    policies = [coopbench.TrainedRuns("rllib_ppo", models), "best_constant", "random"]
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
    parser.add_argument("--steps", type=int, default=40_000, help="of the game")
    parser.add_argument("--seed", type=int, default=1000, help="of the first run")
    parser.add_argument("--runs", type=int, default=3, help="seeds in a row; intervals need 3")
    parser.add_argument("--out", default="results/rllib", help="folder of results and report")
    arguments = parser.parse_args()
    env_id = coopbench.load_protocol(PROTOCOL).task_of(arguments.task).env
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    algorithms = {seed: train(env_id, arguments.steps, seed) for seed in seeds}
    runs = {seed: as_policy(algorithm, env_id) for seed, algorithm in algorithms.items()}
    show(arguments.task, {arguments.task: runs}, arguments.out)
    for algorithm in algorithms.values():
        algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
