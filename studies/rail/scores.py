"""Scores of policies on the railway tests of Flatland: share arrived, and what is scored.

    python -m studies.rail.scores [--protocol NAME] [--tests 0-8] [--policy NAME ...]

Plays the ten levels of every test, as ``coopbench evaluate NAME`` does, and prints a table in
Markdown: share arrived with its 95 % interval over levels, and the score, which is 1 + normalized
return, or the return of the challenge of 2020 (at most 0) under its protocols. The last row has the
means over tests. Comments have the seconds of processor time that an episode takes.
"""

import argparse
import math
import time

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.task import instance_state
from coopbench_envs.engine import Engine

POLICIES = (
    *("never_depart", "random", "forward", "shortest_path", "one_by_one", "deadlock_avoidance"),
    *("prioritised", "prioritised_replan"),
)
LEVELS = 10
T_QUANTILE = 2.262  # of Student's distribution with nine degrees of freedom, 97.5 %


def play(task, policy, metric):
    """Return share arrived and score of every level, and seconds for an episode."""
    engine = Engine(task.env, LEVELS, **task.parameters | {"observation": "none"})
    fields = instance_state(task, engine.constants, LEVELS)
    match = Match(engine, [Player(policy, Game.of(engine))])
    match.begin(np.arange(LEVELS), fields)
    begun = time.process_time()
    for _ in match.steps():
        pass
    seconds = (time.process_time() - begun) / LEVELS
    names = list(engine.spec.metrics)
    measures = engine.control.measures
    arrived, score = (measures[:, names.index(n)] for n in ("arrived", metric))
    return arrived, 1 + score if metric == "normalised_return" else score, seconds


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description="Scores on the railway tests of Flatland.")
    parser.add_argument("--protocol", default="rail-published-1")
    parser.add_argument("--tests", default="0-8")
    parser.add_argument("--policy", nargs="+", default=POLICIES)
    options = parser.parse_args()
    protocol = load_protocol(options.protocol)
    first, _, last = options.tests.partition("-")
    if not (first.isdecimal() and last.isdecimal()):
        parser.error(f"--tests was {options.tests}; allowed: FIRST-LAST, for instance 0-8.")
    tasks = [t for t in protocol.task if int(first) <= t.axes["test"] <= int(last)]
    if not tasks:
        numbers = [t.axes["test"] for t in protocol.task]
        has = f"{min(numbers):g} to {max(numbers):g}"
        parser.error(f"--tests was {options.tests}; {protocol.name} has the tests {has}.")
    print(f"| test (trains) | {' | '.join(options.policy)} |")
    print(f"|---|{'---|' * len(options.policy)}", flush=True)
    means = {policy: [] for policy in options.policy}
    for task in tasks:
        cells = []
        for policy in options.policy:
            arrived, score, seconds = play(task, policy, protocol.report.score)
            means[policy].append((arrived.mean(), score.mean()))
            half = T_QUANTILE * arrived.std(ddof=1) / math.sqrt(LEVELS)
            cells.append(f"{arrived.mean():.2f} ± {half:.2f} / {score.mean():.3f}")
            print(f"<!-- {task.id} {policy} {seconds:.2f} s an episode -->", flush=True)
        trains = task.parameters["num_agents"]
        print(f"| {task.axes['test']:g} ({trains}) | {' | '.join(cells)} |", flush=True)
    mean = [np.mean(values, axis=0) for values in means.values()]
    print(f"| mean | {' | '.join(f'{a:.2f} / {s:.3f}' for a, s in mean)} |")


if __name__ == "__main__":
    main()
