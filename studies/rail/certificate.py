"""What kinds of play reach on the small tasks of rail-standard: the certificate of Rail-v1.

    python -m studies.rail.certificate [--trials N] [TASK ...]

Plays the frozen instances and writes ``tests/golden/rail-certificate.json``: the score of always
the same action (the best of five), of a sequence of actions that is fixed before the episode (the
best one of a search on these very instances, so more than a policy can know), of random legal
actions, of the shortest way, and of the planners. A sequence has one action per train and block of
``BLOCK`` steps. The search begins with trains that depart one after the other and go forward, for
several distances in time, and then changes blocks at random, keeping what is no worse.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match, Script
from coopbench.baselines.player import Player
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.task import instance_state
from coopbench_envs.engine import Engine

FILE = Path(__file__).resolve().parents[2] / "tests" / "golden" / "rail-certificate.json"
TASKS = ("trains_7", "trains_7_malfunctions", "trains_20", "trains_20_malfunctions")
POLICIES = (
    *("never_depart", "forward", "random", "shortest_path", "deadlock_avoidance"),
    *("prioritised:effort=20000", "prioritised_replan:effort=20000,effort_at_strikes=5000"),
)
INSTANCES, SHOWN = 100, 10  # instances played, and how many scores are kept one by one
BLOCK = 20  # steps of a sequence with the same action
FORWARD, ACTIONS = 2, 5


class Stage:
    """The frozen instances of a task, on which actors are scored."""

    def __init__(self, task, instances=INSTANCES):
        self.engine = Engine(task.env, instances, **task.parameters | {"observation": "none"})
        self.state = instance_state(task, self.engine.constants, instances)
        self.seeds = np.array(load_protocol("rail-standard").seeds_of(task)[:instances], np.uint64)
        self.column = list(self.engine.spec.metrics).index("normalised_return")

    def score(self, actor):
        """Return the score of every instance."""
        Match(self.engine, [actor]).play(self.seeds, self.state)
        return self.engine.control.measures[:, self.column].copy()

    def score_policy(self, name):
        """Return the scores of a policy in all seats."""
        return self.score(Player(name, Game.of(self.engine)))

    def score_sequence(self, sequence):
        """Return the scores of a sequence, (blocks, trains); the last block lasts."""
        lanes = self.engine.lanes
        last = len(sequence) - 1
        rows = [np.tile(row, (lanes, 1)) for row in sequence]
        return self.score(Script(lambda step: rows[min(step // BLOCK, last)]))


def staggered(stage, gap):
    """Return the sequence of trains that go forward, each ``gap`` blocks after the one before."""
    blocks = -(-int(stage.state["limit"].max()) // BLOCK)
    trains = stage.engine.constants.num_agents
    begun = np.arange(blocks)[:, None] >= gap * np.arange(trains)[None]
    return np.where(begun, FORWARD, 0)


def search(stage, trials):
    """Return the best sequence, its scores, and how many were tried."""
    rng, best = np.random.default_rng(0), None
    for gap in (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0):
        sequence = staggered(stage, gap)
        scores = stage.score_sequence(sequence)
        if best is None or scores.mean() > best[1].mean():
            best = sequence, scores
    for _ in range(trials):
        sequence = best[0].copy()
        train, first = rng.integers(sequence.shape[1]), rng.integers(len(sequence))
        length = int(rng.geometric(0.3))
        sequence[first : first + length, train] = rng.integers(ACTIONS)
        scores = stage.score_sequence(sequence)
        if scores.mean() >= best[1].mean():
            best = sequence, scores
    return *best, trials + 8


def entry(scores):
    """Return mean, standard error, and the first scores."""
    error = scores.std(ddof=1) / np.sqrt(len(scores))
    return {
        "mean": round(float(scores.mean()), 4),
        "error": round(float(error), 4),
        "first": scores[:SHOWN].round(12).tolist(),
    }


def certify(task, trials):
    """Return the figures of a task."""
    stage = Stage(task)
    constants = {
        action: stage.score_sequence(np.full((1, stage.engine.constants.num_agents), action))
        for action in range(ACTIONS)
    }
    best = max(constants, key=lambda action: constants[action].mean())
    sequence, scores, tried = search(stage, trials)
    figures = {
        "constant": entry(constants[best]) | {"action": best},
        "sequence": entry(scores)
        | {"tried": tried, "actions": ["".join(map(str, column)) for column in sequence.T]},
    }
    return figures | {name: entry(stage.score_policy(name)) for name in POLICIES}


def main():
    """Write the certificate, and print its table."""
    parser = argparse.ArgumentParser(description="The certificate of Rail-v1.")
    parser.add_argument("task", nargs="*")
    parser.add_argument("--trials", type=int, default=60)
    options = parser.parse_args()
    stored = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    for task in load_protocol("rail-standard").task:
        if task.id in (options.task or TASKS):
            stored[task.id] = certify(task, options.trials)
            FILE.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
            cells = (f"{name} {figure['mean']:.2f}" for name, figure in stored[task.id].items())
            print(f"{task.id}: {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
