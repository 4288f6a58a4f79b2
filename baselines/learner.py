"""What a learner is: it trains the seats of one game and returns a policy as data.

The training loop knows nothing but this: it asks for some steps, evaluates the policy, saves, and
goes on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, get_args, get_type_hints

import numpy as np

from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench_envs.core import EnvSpec

__all__ = [
    "LATER",
    "Learner",
    "LearnerEntry",
    "Training",
    "settings_of",
]

# Mark of a hyperparameter that was added after results of its learner had been published.
LATER = "later"


class Training(NamedTuple):
    """Which training a learner is made for."""

    learner: str  # its name in the registry
    env_id: str | EnvSpec
    parameters: Mapping[str, Any]  # of the environment
    seed: int
    params: Any  # hyperparameters


class Learner(Protocol):
    """Trains policies for all seats of one game.

    One that uses other values than its hyperparameters say, since they do not fit into memory, has
    them by name in the attribute ``reduced``; results state them.
    """

    steps: int  # of the environment, those of all lanes added; one step moves all agents

    def learn(self, steps: int) -> dict[str, float]:
        """Train until ``self.steps`` would exceed ``steps`` with one more step of all lanes.

        ``steps`` counts from the beginning of the training: ``learn(100)`` and ``learn(200)`` are
        the same as ``learn(200)``, bit for bit. Returns named numbers for logs: means of what
        happened since the last call. Raises ``Diverged``.
        """

    def policy(self) -> TrainedPolicy:
        """Return what has been learned so far, without exploration; a copy."""

    def save(self) -> dict[str, np.ndarray]:
        """Return everything that training needs to go on bit for bit, as arrays of numbers.

        A large memory need not be copied: arrays are valid until this learner learns or loads.
        """

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from what a learner of the same game, seed and hyperparameters has saved.

        The arrays may become part of the learner, which does not change them.
        """


@dataclass(frozen=True)
class LearnerEntry:
    """A learner in the registry.

    ``create`` makes one, for a training whose hyperparameters are an instance of ``params``. It
    raises ``ValueError`` for a game that it cannot learn.
    """

    name: str
    create: Callable[[Training], Learner]
    summary: str  # one line: what it does
    kind: Literal["on_policy", "off_policy"]  # which budget of a protocol it has
    params: type  # NamedTuple of Annotated fields with defaults: its hyperparameters
    # (hyperparameters, steps) -> the same, changed so that something is learned within so few.
    shortened: Callable[[Any, int], Any] = lambda params, steps: params
    first_update: Callable[[Any], int] = lambda params: 0  # steps without which nothing is learned
    cores: int = 1  # that a training run occupies
    gpus: float = 0.0


def settings_of(params: Any) -> dict[str, Any]:
    """Return hyperparameters by name, as results and saved states record them.

    Those that are marked as ``LATER`` are left out where they have their default, so that older
    results compare as equal.
    """
    hints = get_type_hints(type(params), include_extras=True)
    later = {k: params._field_defaults[k] for k, hint in hints.items() if LATER in get_args(hint)}
    values = {k: v for k, v in params._asdict().items() if k not in later or v != later[k]}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}  # as JSON has it
