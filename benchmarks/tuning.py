"""Search for the hyperparameters of a learner on a protocol; every trial is stored as data.

    python benchmarks/tuning.py ippo --trials 40 --steps 150000 --out tuning.jsonl
    python benchmarks/tuning.py ippo --finalists 5 --steps 500000 --out tuning.jsonl
    python benchmarks/tuning.py qmix_shared --protocol skirmish-small --task 3m-drawn \
        --steps 300000 --episodes 400 --settings '{"learning_rate": 0.001}' --out tuning.jsonl

The first command draws settings at random from ``SPACE`` and trains each of them once on some
tasks; the second trains the best of these on all trained tasks, with other seeds; the third tries
settings that are named. Neither training seeds nor episodes are those of the protocol. Training
meets the partners of the protocol, and the last policy plays what training meets: the trained task
and, beside partners, the focal task of its game. The score of a trial is the mean of the normalised
scores over these tasks. Trials already in the file are kept.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.baselines.registry import make_learner
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell
from coopbench.errors import Diverged
from coopbench.playing.rollout import play
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Task

LANES = 125  # divides the intervals of coopetition-standard
COMMON: dict[str, Any] = {"lanes": LANES, "scale_observations": True}
ON_POLICY: dict[str, list[Any]] = {
    "learning_rate": [5e-4, 1e-3, 2e-3],
    "rollout": [10 * LANES, 25 * LANES, 50 * LANES],
    "batch_size": [250, 625, 1250],
    "epochs": [4, 8],
    "gamma": [0.98, 0.99, 0.995],
    "gae_lambda": [0.95, 0.98, 0.99],
    "entropy": [0.0, 0.003, 0.01],
    "log_std": [-1.5, -1.0, -0.5],
    "squash": [False, True],
    "scale_rewards": [True],
    "layers": ["64x64"],
    "activation": ["tanh", "relu"],
}
OFF_POLICY: dict[str, list[Any]] = {
    "learning_rate": [3e-4, 1e-3, 2e-3],
    "batch_size": [128, 256, 512],
    "train_every": [125, 250, 500],
    "updates": [4],
    "warmup": [2500],
    "gamma": [0.9, 0.95, 0.98, 0.99],
    "tau": [0.005, 0.02],
    "entropy": [0.02, 0.1],
    "adapt_entropy": [False, True],
    "layers": ["64x64"],
}
SPACE = {"ippo": ON_POLICY, "ippo_shared": ON_POLICY, "isac": OFF_POLICY, "isac_shared": OFF_POLICY}
SEEDS, FINAL_SEEDS = (900,), (901,)  # of the trainings of a trial, and of a finalist
FIRST_EPISODE = 700_000


def drawn(learner: str, trials: int, seed: int) -> Iterator[dict[str, Any]]:
    """Settings of the trials of a search."""
    rng = np.random.default_rng(seed)
    for _ in range(trials):
        chosen = {name: each[rng.integers(len(each))] for name, each in SPACE[learner].items()}
        yield COMMON | chosen


def scored(
    protocol: Protocol,
    task: Task,
    learner: str,
    steps: int,
    seed: int,
    settings: dict[str, Any],
    episodes: int,
) -> dict[str, float | None]:
    """Normalised scores after training on a task, by tasks played; None if training diverges."""
    tasks = (task, *protocol.tasks_beside(task.id))
    beside: dict[str, Any] = {}
    if partners := protocol.training_partners(task.id):
        beside = {"partners": list(partners), "share": protocol.training.share or 0.0}
    made = make_learner(learner, task.env, task.parameters, seed, **settings, **beside)
    try:
        made.learn(steps)
    except Diverged:
        return dict.fromkeys((played.id for played in tasks), None)
    scores = {}
    seeds = np.arange(FIRST_EPISODE, FIRST_EPISODE + episodes, dtype=np.uint64)
    for played in tasks:
        block = play(protocol, Cell(played.id, learner, seed), made.policy(), seeds=seeds)
        returns = values(block, protocol.report.score)
        scores[played.id] = float(played.bounds.normalise(returns).mean())
    return scores


def trial(
    protocol: Protocol,
    tasks: list[Task],
    learner: str,
    steps: int,
    seeds: tuple[int, ...],
    settings: dict[str, Any],
    episodes: int,
) -> dict[str, Any]:
    """Train and evaluate one setting."""
    begun = time.process_time()
    scores: dict[str, list[float | None]] = {}
    for task, seed in product(tasks, seeds):
        for name, score in scored(protocol, task, learner, steps, seed, settings, episodes).items():
            scores.setdefault(name, []).append(score)
    every = [-1.0 if each is None else each for row in scores.values() for each in row]
    return {
        "learner": learner,
        "protocol": protocol.name,
        "steps": steps,
        "seeds": list(seeds),
        "episodes": episodes,
        "settings": settings,
        "scores": {name: [each and round(each, 4) for each in row] for name, row in scores.items()},
        "mean": round(float(np.mean(every)), 4),
        "processor_seconds": round(time.process_time() - begun, 1),
    }


def kept(file: Path) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    return [json.loads(line) for line in file.read_text().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("learner", help=f"has a search space: {', '.join(SPACE)}")
    parser.add_argument("--protocol", default="coopetition-standard")
    parser.add_argument("--task", action="append", help="of a trial; default: four of them")
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--finalists", type=int, default=0)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--settings", type=json.loads, help="tried alone, as JSON")
    parser.add_argument("--training-seed", type=int, default=SEEDS[0], help="of --settings")
    parser.add_argument("--episodes", type=int, default=60, help="played after a training")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    protocol = load_protocol(arguments.protocol)
    names = arguments.task or ["trust-dilemma", "partner-hold-up", "recovery-race", "slcd"]
    some = [task for task in protocol.trained_tasks if task.id in names]
    stored = [t for t in kept(arguments.out) if t["learner"] == arguments.learner]
    known = {json.dumps([t["settings"], t["steps"], t["seeds"]]) for t in stored}
    if arguments.trials and arguments.learner not in SPACE:
        parser.error(f"{arguments.learner} has no search space; there are {', '.join(SPACE)}.")
    work = [
        (some, SEEDS, each) for each in drawn(arguments.learner, arguments.trials, arguments.seed)
    ]
    if arguments.settings is not None:
        work.append((some, (arguments.training_seed,), arguments.settings))
    trials = [t for t in stored if tuple(t["seeds"]) == SEEDS]
    best = sorted(trials, key=lambda t: -t["mean"])[: arguments.finalists]
    every = list(protocol.trained_tasks)
    work += [(every, FINAL_SEEDS, t["settings"]) for t in best]
    for tasks, seeds, settings in work:
        if json.dumps([settings, arguments.steps, list(seeds)]) in known:
            continue
        how = (arguments.learner, arguments.steps, seeds, settings, arguments.episodes)
        score = trial(protocol, tasks, *how)
        with arguments.out.open("a") as file:
            file.write(json.dumps(score) + "\n")
            file.flush()
            os.fsync(file.fileno())
        print(score["mean"], score["scores"], settings, flush=True)


if __name__ == "__main__":
    main()
