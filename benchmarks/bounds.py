"""Bounds of a protocol's tasks: 0 is random play, 1 the best simple reactive policy known.

    python benchmarks/bounds.py coopetition-standard

plays every task in its own mode on 200 episodes seeded from 1,000,000, which no protocol uses, and
prints the mean own returns of ``random`` and of the best policy that certificates call reactive.
"""

import sys

from coopbench.baselines.policy import make_policy
from coopbench.certificates import EPISODES, JUDGED, REACTIVE
from coopbench.episodes import Cell
from coopbench.metrics import values
from coopbench.plan import game_of
from coopbench.protocol import Evaluation, Protocol, Seeds, Task, load_protocol
from coopbench.rollout import play


def mean_return(protocol: Protocol, task: Task, policy: str) -> float:
    """Mean own return of a policy over the judged episodes of a task."""
    return float(values(play(protocol, Cell(task.id, policy), policy), "own_return").mean())


def main() -> None:
    """Print one line per task."""
    given = load_protocol(sys.argv[1] if len(sys.argv) > 1 else "coopetition-standard")
    seeds = Seeds(evaluation=Evaluation(first=JUDGED, count=EPISODES))
    protocol = given.model_copy(update={"seeds": seeds})
    for task in protocol.task:
        scores = {}
        for name in ("random", *REACTIVE):
            make_policy(name, game_of(task))
            scores[name] = mean_return(protocol, task, name)
        best = max(REACTIVE, key=lambda name: scores[name])
        bounds = f"bounds = {{ low = {scores['random']:.2f}, high = {scores[best]:.2f} }}"
        print(f"{task.id:<40} {bounds}  # {best}", flush=True)


if __name__ == "__main__":
    main()
