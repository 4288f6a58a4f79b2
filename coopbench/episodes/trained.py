"""Trained policies: what a training run leaves, as results folders store it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.episodes.table import Progress


@dataclass(frozen=True)
class Trained:
    """A training run: the policy of its best checkpoint, its progress, and its circumstances.

    ``facts`` go into the metadata of what it plays: the ``task`` and the ``steps`` that it was
    trained, ``interval``, ``chosen_step``, ``seconds`` and ``evaluation_seconds`` of the training,
    ``steps_per_second``, ``resumed`` (the steps from which it was resumed after an interruption),
    the ``versions`` of the libraries that trained it, and the ``machine`` that finished it.
    """

    policy: TrainedPolicy
    progress: Progress | None  # of its checkpoints on the task that it was trained on
    facts: Mapping[str, Any]

    def progress_on(self, task: str) -> Progress | None:
        """Return its progress on a task; None for all but the one that it was trained on."""
        trained = self.progress is not None and self.progress.cell.task == task
        return self.progress if trained else None
