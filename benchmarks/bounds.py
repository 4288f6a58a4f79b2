"""Bounds of a protocol's tasks: 0 is random play, 1 the best simple reactive policy known.

    python benchmarks/bounds.py coopetition-standard

plays every task in its own mode on 200 episodes seeded from 1,000,000, which no protocol uses, and
prints the mean own returns of ``random`` and of the best policy that certificates call reactive.
"""

import sys

from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell
from coopbench.playing.rollout import play
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Evaluation, Seeds, Task
from coopbench.theory.certificates import EPISODES, JUDGED, REACTIVE


def judged(name: str) -> Protocol:
    """Load a protocol with the episodes of certificates instead of its own."""
    seeds = Seeds(evaluation=Evaluation(first=JUDGED, count=EPISODES))
    return load_protocol(name).model_copy(update={"seeds": seeds})


def bounds(protocol: Protocol, task: Task) -> tuple[float, float, str]:
    """Mean own return of random play, that of the best reactive policy, and its name."""

    def mean(policy: str) -> float:
        return float(values(play(protocol, Cell(task.id, policy), policy), "own_return").mean())

    scores = {name: mean(name) for name in REACTIVE}
    best = max(scores, key=lambda name: scores[name])
    return mean("random"), scores[best], best


def main() -> None:
    """Print one line per task."""
    protocol = judged(sys.argv[1] if len(sys.argv) > 1 else "coopetition-standard")
    for task in protocol.task:
        low, high, best = bounds(protocol, task)
        print(
            f"{task.id:<40} bounds = {{ low = {low:.2f}, high = {high:.2f} }}  # {best}", flush=True
        )


if __name__ == "__main__":
    main()
