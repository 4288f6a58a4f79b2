"""Train a learner on one game: a script to read, copy and change.

    python baselines/train_learner.py --env TrustDilemma-v1 --learner ippo --steps 204800
    python baselines/train_learner.py --env Skirmish-v0 --game map=3m --learner qmix_shared \
        --set replay=1500 --metric win --other smac_heuristic

It learns in intervals. After each of them it plays 32 episodes in which the policy sits in all
seats, and prints the mean return of an agent and the mean of a metric; the first line has those of
another policy on the same seeds. Then it saves the policy as data, which
``networks.kinds.read_policy`` reads. Needs the extra ``train``.
"""

import argparse
import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_learner
from coopbench_envs.engine import Engine
from coopbench_envs.parameters import named
from coopbench_envs.registration import spec

EPISODES = 32  # seeds 0 to 31, which are never those of training episodes


def score(policy: Any, env_id: str, game: dict[str, Any], metric: str | None) -> str:
    """Play the evaluation episodes, all of them at once; return the mean return and metric."""
    engine = Engine(env_id, EPISODES, **game)
    returns = Match(engine, [Player(policy, Game.of(engine))]).play(np.arange(EPISODES))
    text = f"{returns.mean():12.2f}"
    if metric is None:
        return text
    columns = {name: number for number, name in enumerate(engine.spec.metrics)}
    return f"{text}{engine.control.measures[:, named('metric', metric, columns)].mean():12.2f}"


def setting(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE, where the value is written as in Python, or is a text."""
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a learner on one game.")
    parser.add_argument("--env", default="TrustDilemma-v1")
    parser.add_argument("--learner", default="ippo", help="ippo_shared: one network for all")
    for option, text in (("--game", "parameter of the game"), ("--set", "hyperparameter")):
        parser.add_argument(
            option, type=setting, action="append", default=[], metavar="NAME=VALUE", help=text
        )
    parser.add_argument("--steps", type=int, default=204_800, help="of the environment, all lanes")
    parser.add_argument("--interval", type=int, default=20_480, help="steps between evaluations")
    parser.add_argument("--seed", type=int, default=0, help="of the training")
    parser.add_argument("--metric", help="of the game, printed behind the return")
    parser.add_argument("--other", default="random", help="policy to compare with")
    parser.add_argument("--out", type=Path, default=Path("policy.npz"), help="file of the policy")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, evaluate, save."""
    options = parse(arguments)
    env_id, game, metric = spec(options.env).id, dict(options.game), options.metric
    learner = make_learner(options.learner, env_id, game, options.seed, **dict(options.set))
    print(f"{'steps':>10}{'training':>10}{'evaluation':>12}{metric or '':>12}  {env_id}")
    print(f"{options.other:>20}{score(options.other, env_id, game, metric)}")
    for target in [*range(options.interval, options.steps, options.interval), options.steps]:
        training = learner.learn(target).get("episode_return", np.nan)
        evaluation = score(learner.policy(), env_id, game, metric)
        print(f"{learner.steps:>10,}{training:>10.2f}{evaluation}", flush=True)
    options.out.write_bytes(learner.policy().pack())
    print(f"The policy is in {options.out}.")


if __name__ == "__main__":
    main()
