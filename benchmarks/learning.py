"""Measure how fast PPO learns, in processor time of one thread.

    python benchmarks/learning.py [--record]

prints agent-steps per second (rows of all agents in all lanes) of parameter sharing with updates
and without, in 256 lanes of TrustDilemma with networks of two sizes, and the cost of periodic
evaluations. Every figure is the median of ``--repeats``. ``benchmarks/peers.py`` compares with
Stable-Baselines3.
"""

import time
from collections.abc import Callable

import numpy as np
import speed
import torch

import coopbench_envs  # registers the environments
from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_learner
from coopbench_envs.engine import Engine

GAMES = ("coopbench/TrustDilemma-v1", "coopbench/TrustDilemma-v0")
LANES, STEPS, EPOCHS = 256, 64, 4  # games at once, steps of each between updates, passes
WIDE = {"lanes": LANES, "rollout": LANES * STEPS, "epochs": EPOCHS, "batch_size": 2048}
EVALUATED = 32  # episodes of an evaluation


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Median processor time of ``work``, which runs once before."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return float(np.median(times))


def going_on(learner, steps: int) -> Callable[[], object]:
    """Return a function that trains ``steps`` more steps."""
    return lambda: learner.learn(learner.steps + steps)


def trained(game: str, layers: str, repeats: int) -> float:
    """Agent-steps per second with updates."""
    learner = make_learner("ippo_shared", game, {}, 0, layers=layers, **WIDE)
    return 2 * LANES * STEPS / seconds(going_on(learner, LANES * STEPS), repeats)


def played(game: str, layers: str, repeats: int) -> float:
    """Agent-steps per second of rollouts alone: no update comes in these few steps."""
    several = WIDE | {"rollout": LANES * STEPS * (repeats + 2)}
    learner = make_learner("ippo_shared", game, {}, 0, layers=layers, **several)
    return 2 * LANES * STEPS / seconds(going_on(learner, LANES * STEPS), repeats)


def evaluate(learner, game: str) -> None:
    """Play some episodes with the trained policy."""
    engine = Engine(game, EVALUATED)
    player = Player(learner.policy(), Game.of(engine))
    Match(engine, [player]).play(np.arange(EVALUATED, dtype=np.uint64))


def evaluations(game: str, settings: dict, repeats: int) -> tuple[float, float]:
    """Processor seconds of an evaluation, and of 10,000 steps of training."""
    learner = make_learner("ippo_shared", game, {}, 0, **settings)
    learner.learn(settings["rollout"])
    once = seconds(lambda: evaluate(learner, game), repeats)
    rollouts = -(-10_000 // settings["rollout"])
    work = seconds(going_on(learner, rollouts * settings["rollout"]), repeats)
    return once, work * 10_000 / (rollouts * settings["rollout"])


def main() -> None:
    """Measure and print."""
    parser = speed.parser(__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    repeats, machine = options.repeats, speed.machine()
    torch.set_num_threads(1)
    rows = []
    for game in GAMES:
        for layers in ("64x64", "128x128"):
            rates = (measure(game, layers, repeats) for measure in (trained, played))
            rows.append([game.partition("/")[2], layers, *rates])
    head = ("Game", "Hidden layers", "Training, updates included", "Rollouts alone")
    speed.finish("learning", speed.Table(head, rows, machine), options.record)
    print(f"{EVALUATED} episodes as share of all time{'every 10,000 steps':>24}{'50,000':>10}")
    published = {"layers": "128x128", "rollout": 2048}
    for name, settings in (("256 lanes", WIDE | {"layers": "64x64"}), ("defaults", published)):
        once, work = evaluations(GAMES[0], settings, repeats)
        shares = [once / (once + work * many) for many in (1, 5)]
        print(f"{name:<34}{shares[0]:>24.1%}{shares[1]:>10.1%}")


if __name__ == "__main__":
    main()
