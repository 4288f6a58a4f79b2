"""Train QMIX on battles: a script to read, copy and change.

    python baselines/train_qmix.py --map 3m --steps 100000

Agents with memory learn from whole episodes and one common reward. The script learns in intervals
and prints after each of them, over the same 32 episodes, how many battles the policy wins and its
mean return, beside the heuristic of SMAC. Then it saves the policy as data, which
``networks.kinds.read_policy`` reads. Needs the extra ``train``.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_learner, make_policy
from coopbench_envs.engine import Engine
from coopbench_envs.registration import spec

EPISODES = 32  # seeds 0 to 31, which are never those of training episodes


class Score(NamedTuple):
    """Means over the evaluation episodes."""

    wins: float
    mean_return: float


def score(policy: Any, env_id: str, map_name: str) -> Score:
    """Play the evaluation episodes, all of them at once, with one policy for all agents."""
    engine = Engine(env_id, EPISODES, map=map_name)
    returns = Match(engine, [Player(policy, Game.of(engine))]).play(np.arange(EPISODES))
    wins = engine.control.measures[:, list(engine.spec.metrics).index("win")]
    return Score(float(wins.mean()), float(returns.mean()))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train QMIX on battles.")
    parser.add_argument("--env", default="Skirmish-v0", help="a version of Skirmish")
    parser.add_argument("--map", default="3m", help="of SMAC, for instance 3m, 8m or 2s3z")
    parser.add_argument(
        "--learner", default="qmix_shared", help="or iql_shared, vdn_shared, qtran_shared"
    )
    parser.add_argument("--steps", type=int, default=100_000, help="of the environment, all lanes")
    parser.add_argument("--interval", type=int, default=10_000, help="steps between evaluations")
    parser.add_argument("--seed", type=int, default=0, help="of the training")
    parser.add_argument("--replay", type=int, default=1500, help="episodes that are stored")
    parser.add_argument("--learning-rate", type=float, default=5e-4, help="step size of Adam")
    parser.add_argument(
        "--updates-per-episode", type=float, default=0.25, help="gradient steps; compare equal ones"
    )
    parser.add_argument("--out", type=Path, default=Path("policy.npz"), help="file of the policy")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, evaluate, save."""
    options = parse(arguments)
    env_id = spec(options.env).id
    learner = make_learner(
        options.learner,
        env_id,
        {"map": options.map},  # parameters of the environment
        options.seed,
        learning_rate=options.learning_rate,
        replay=options.replay,
        updates_per_episode=options.updates_per_episode,
    )
    heuristic = make_policy("smac_heuristic", Game.at(env_id, map=options.map))
    other = score(heuristic, env_id, options.map)
    print(f"{env_id}, {options.map}; smac_heuristic wins {other.wins:.2f} of {EPISODES} battles")
    print(f"{'steps':>10}{'training':>10}{'return':>8}{'wins':>6}{'loss':>9}")
    for target in [*range(options.interval, options.steps, options.interval), options.steps]:
        report = learner.learn(target)
        result = score(learner.policy(), env_id, options.map)
        training, loss = (report.get(name, np.nan) for name in ("episode_return", "loss"))
        print(
            f"{learner.steps:>10,}{training:>10.2f}{result.mean_return:>8.2f}{result.wins:>6.2f}"
            f"{loss:>9.4f}",
            flush=True,
        )
    options.out.write_bytes(learner.policy().pack())
    print(f"The policy is in {options.out}.")


if __name__ == "__main__":
    main()
