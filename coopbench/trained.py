"""Trained policies: what a training run leaves, found again in the results folders that hold it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coopbench.baselines.network import NetworkPolicy
from coopbench.episodes import Progress

__all__ = ["POLICY_FILE", "Trained"]

POLICY_FILE = "policy.npz"  # in the folder of every cell that a trained policy has played


@dataclass(frozen=True)
class Trained:
    """A training run: the policy of its best checkpoint, how it came along, and its circumstances.

    ``facts`` go into the metadata of what it plays: ``steps`` trained, ``budget``, ``interval``,
    ``chosen_step``, ``seconds`` and ``evaluation_seconds`` of the training, ``resumed`` (the steps
    from which it went on after it had been stopped), and the versions of what trained it.
    """

    policy: NetworkPolicy
    progress: Progress | None  # of its checkpoints on the task that it was trained on
    facts: Mapping[str, Any]

    def progress_on(self, task: str) -> Progress | None:
        """How it came along on a task: known of the one that it was trained on alone."""
        known = self.progress is not None and self.progress.cell.task == task
        return self.progress if known else None
