"""Search for the hyperparameters of a learner on a protocol; every trial is stored as data.

    python benchmarks/tuning.py ippo --trials 40 --steps 150000 --out tuning.jsonl
    python benchmarks/tuning.py ippo --finalists 5 --steps 500000 --out tuning.jsonl
    python benchmarks/tuning.py qmix_shared --protocol skirmish-small --task 3m-drawn \
        --steps 300000 --episodes 400 --settings '{"learning_rate": 0.001}' --out tuning.jsonl

The first command draws settings at random from ``SPACE`` and trains each of them once on some
tasks; the second trains the best of these on all trained tasks, with other seeds; the third tries
settings that are named. Neither training seeds nor episodes are those of the protocol. A task with
partners is trained beside them, and the last policy plays the task as it was trained on. The score
of a trial is the mean of the normalised scores over its tasks. Trials already in the file are kept
and not repeated. Finalists are the best of the stored trials of the same protocol and tasks.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.registry import make_learner
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell
from coopbench.errors import Diverged
from coopbench.playing.rollout import play
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task

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
) -> float | None:
    """Return the normalised score after training on a task, as played; None if it diverges."""
    beside = {"partners": list(task.partner_names)} if task.partners else {}
    made = make_learner(learner, task.env, task.parameters, seed, **settings, **beside)
    try:
        made.learn(steps)
    except Diverged:
        return None
    seeds = np.arange(FIRST_EPISODE, FIRST_EPISODE + episodes, dtype=np.uint64)
    block = play(protocol, Cell(task.id, learner, seed), made.policy(), seeds=seeds)
    return float(task.bounds.normalise(values(block, protocol.report.score)).mean())


class Trial(NamedTuple):
    """What is trained and played; two trials that agree in all of it are the same."""

    protocol: Protocol
    tasks: tuple[Task, ...]
    learner: str
    steps: int
    seeds: tuple[int, ...]
    settings: dict[str, Any]
    episodes: int

    @property
    def played(self) -> list[str]:
        """The tasks that are trained on, and played after their trainings."""
        return sorted(task.id for task in self.tasks)

    @property
    def described(self) -> dict[str, Any]:
        """The trial as it is stored, without its results."""
        return {
            "learner": self.learner,
            "protocol": self.protocol.name,
            "steps": self.steps,
            "seeds": list(self.seeds),
            "episodes": self.episodes,
            "settings": self.settings,
        }

    @property
    def key(self) -> str:
        """The text that two trials share if they are the same."""
        return json.dumps([self.described, self.played], sort_keys=True)

    def __call__(self) -> dict[str, Any]:
        """Train and evaluate, and return the trial with its results."""
        begun = time.process_time()
        scores: dict[str, list[float | None]] = {name: [] for name in self.played}
        how = (self.settings, self.episodes)
        for task, seed in product(self.tasks, self.seeds):
            score = scored(self.protocol, task, self.learner, self.steps, seed, *how)
            scores[task.id].append(score if score is None else round(score, 4))
        every = [-1.0 if score is None else score for row in scores.values() for score in row]
        return self.described | {
            "scores": scores,
            "mean": round(float(np.mean(every)), 4),
            "processor_seconds": round(time.process_time() - begun, 1),
        }


def stored_trials(file: Path) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    return [json.loads(line) for line in file.read_text().splitlines()]


def key_of(stored: dict[str, Any]) -> str:
    """Return the key of a stored trial."""
    results = ("scores", "mean", "processor_seconds")
    described = {name: value for name, value in stored.items() if name not in results}
    return json.dumps([described, sorted(stored["scores"])], sort_keys=True)


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    result.add_argument("learner", help=f"has a search space: {', '.join(SPACE)}")
    result.add_argument("--protocol", default="coopetition-standard")
    result.add_argument("--task", action="append", help="of a trial; default: four of them")
    result.add_argument("--trials", type=int, default=0)
    result.add_argument("--finalists", type=int, default=0)
    result.add_argument("--steps", type=int, required=True)
    result.add_argument("--settings", type=json.loads, help="tried alone, as JSON")
    result.add_argument("--training-seed", type=int, default=SEEDS[0], help="of --settings")
    result.add_argument("--episodes", type=int, default=60, help="played after a training")
    result.add_argument("--seed", type=int, default=0, help="of the draws")
    result.add_argument("--out", type=Path, required=True)
    return result


def finalists(stored: list[dict[str, Any]], like: Trial, count: int) -> Iterator[dict[str, Any]]:
    """Yield the settings of the best stored trials with the protocol, tasks and seeds of one."""
    alike = [
        each
        for each in stored
        if (each["learner"], each["protocol"]) == (like.learner, like.protocol.name)
        and tuple(each["seeds"]) == like.seeds
        and sorted(each["scores"]) == like.played
    ]
    if len({(each["steps"], each["episodes"]) for each in alike}) > 1:
        raise ValueError("The stored trials differ in steps or episodes and cannot be ranked.")
    for each in sorted(alike, key=lambda one: -one["mean"])[:count]:
        yield each["settings"]


def main() -> None:
    options = parser()
    arguments = options.parse_args()
    protocol, learner = load_protocol(arguments.protocol), arguments.learner
    names = arguments.task or ["trust-dilemma", "partner-hold-up", "recovery-race", "slcd"]
    every = protocol.trained_tasks
    some = tuple(task for task in every if task.id in names)
    if len(some) != len(set(names)):
        allowed = ", ".join(task.id for task in every)
        options.error(f"--task was {', '.join(names)}; {protocol.name} trains {allowed}.")
    if arguments.episodes < 1:
        options.error(f"--episodes was {arguments.episodes}; allowed: 1 and more.")
    if arguments.trials and learner not in SPACE:
        options.error(f"{learner} has no search space; there are {', '.join(SPACE)}.")
    if arguments.training_seed in protocol.seeds.training:
        options.error(f"--training-seed {arguments.training_seed} is one of {protocol.name}.")

    trial = Trial(protocol, some, learner, arguments.steps, SEEDS, {}, arguments.episodes)
    work = [
        trial._replace(settings=settings)
        for settings in drawn(learner, arguments.trials, arguments.seed)
    ]
    if arguments.settings is not None:
        seeds = (arguments.training_seed,)
        work.append(trial._replace(seeds=seeds, settings=arguments.settings))
    stored = stored_trials(arguments.out)
    final = trial._replace(tasks=every, seeds=FINAL_SEEDS)
    try:
        best = list(finalists(stored, trial, arguments.finalists))
    except ValueError as error:
        options.error(f"--finalists: {error}")
    work += [final._replace(settings=settings) for settings in best]
    done = {key_of(each) for each in stored}
    for one in work:
        if one.key in done:
            print(f"already in {arguments.out}: {one.settings}")
            continue
        result = one()
        with arguments.out.open("a") as file:
            file.write(json.dumps(result) + "\n")
            file.flush()
            os.fsync(file.fileno())
        print(result["mean"], result["scores"], result["settings"], flush=True)


if __name__ == "__main__":
    main()
