"""What a learner is: it trains the seats of one game and returns a policy as data.

The training loop knows nothing but this: it asks for some steps, evaluates the policy, saves, and
goes on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, get_args, get_type_hints

import numpy as np

from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench_envs.parameters import Allowed, between, listing, one_of

__all__ = [
    "LATER",
    "TERMINAL",
    "Learner",
    "LearnerEntry",
    "Partners",
    "Reward",
    "SeatNumber",
    "Share",
    "TimeLimit",
    "settings_of",
]

# Mark of a hyperparameter that was added after results of its learner had been published.
LATER = "later"
TERMINAL = "terminal"
TimeLimit = Annotated[
    str, one_of(("bootstrap", TERMINAL), "an end by time alone: values go on, or are 0")
]
SeatNumber = Annotated[bool, Allowed("tell a shared model which seat it acts for"), LATER]
# Whose reward is learned from; a protocol can fix it for all learners ([training] reward).
Reward = Annotated[
    str,
    one_of(("own", "team"), "what agents maximise: their own rewards, or the mean of all"),
    LATER,
]
# Beside whom is learned; a protocol can fix it for all learners ([training] partners and share).
Partners = Annotated[
    tuple[str, ...], listing("policies beside whom it learns in some lanes"), LATER
]
Share = Annotated[
    float, between(0, 1, "share of these lanes; there it has one seat, in turn"), LATER
]


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

    ``create(env_id, parameters, seed, hyperparameters)`` makes one: the environment's parameters as
    a mapping, the training seed, and an instance of ``params``. It raises ``ValueError`` for a game
    that it cannot learn.
    """

    name: str
    create: Callable[[str, Mapping[str, Any], int, Any], Learner]
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
