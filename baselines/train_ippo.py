"""Train PPO on one game: a script to read, copy and change.

    python baselines/train_ippo.py --env TrustDilemma-v1 --steps 204800

By default it is IPPO with the hyperparameters of the published Coopetition-Gym evaluation.
Learns in intervals and prints after each of them the mean return of an agent over 32 episodes in
which the policy sits in all seats, beside that of the best constant policy on the same seeds. Then
it saves the policy as data, which ``networks.kinds.read_policy`` reads. Needs the extra ``train``.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_learner, make_policy, preset
from coopbench_envs.engine import Engine
from coopbench_envs.registration import spec

EPISODES = 32  # seeds 0 to 31, which are never those of training episodes


def mean_return(policy: Any, env_id: str) -> float:
    """Play the evaluation episodes, all of them at once, with one policy in all seats."""
    engine = Engine(env_id, EPISODES)
    match = Match(engine, [Player(policy, Game.of(engine))])
    return float(match.play(np.arange(EPISODES)).mean())


def reference(env_id: str) -> str:
    """Name the policy to compare with: the best constant one where it is known, else chance."""
    try:
        make_policy("best_constant", Game.at(env_id))
    except ValueError:  # no certificate says which constant is best, or actions are choices
        return "random"
    return "best_constant"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train PPO on one game.")
    parser.add_argument("--env", default="TrustDilemma-v1")
    parser.add_argument("--learner", default="ippo", help="or ippo_shared: one network for all")
    parser.add_argument("--steps", type=int, default=204_800, help="of the environment, all lanes")
    parser.add_argument("--interval", type=int, default=20_480, help="steps between evaluations")
    parser.add_argument("--seed", type=int, default=0, help="of the training")
    parser.add_argument("--learning-rate", type=float, help="default: as published")
    parser.add_argument("--layers", help="widths of the hidden layers; default: as published")
    parser.add_argument("--out", type=Path, default=Path("policy.npz"), help="file of the policy")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, evaluate, save."""
    options = parse(arguments)
    env_id, other = spec(options.env).id, reference(options.env)
    chosen = {"learning_rate": options.learning_rate, "layers": options.layers}
    published = preset("coopetition-published", "ippo")
    values = published | {name: value for name, value in chosen.items() if value is not None}
    learner = make_learner(
        options.learner,
        env_id,
        {},  # parameters of the environment
        options.seed,
        **values,
    )
    print(f"{env_id}, mean return of an agent; {other}: {mean_return(other, env_id):.2f}")
    print(f"{'steps':>10}{'training':>10}{'evaluation':>12}{'entropy':>9}{'value loss':>12}")
    for target in [*range(options.interval, options.steps, options.interval), options.steps]:
        report = learner.learn(target)
        evaluation = mean_return(learner.policy(), env_id)
        training, entropy, loss = (
            report.get(name, np.nan) for name in ("episode_return", "entropy", "value_loss")
        )
        print(
            f"{learner.steps:>10,}{training:>10.2f}{evaluation:>12.2f}{entropy:>9.2f}{loss:>12.4f}",
            flush=True,
        )
    options.out.write_bytes(learner.policy().pack())
    print(f"The policy is in {options.out}.")


if __name__ == "__main__":
    main()
