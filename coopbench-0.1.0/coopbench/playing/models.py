"""Models: what can be evaluated, from the name of a policy to all training runs of a method."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from coopbench.baselines.policy import label
from coopbench.episodes.trained import Trained

__all__ = [
    "Checkpoints",
    "Entrant",
    "Failed",
    "Model",
    "Models",
    "PolicyLike",
    "PolicyObject",
    "name_of",
]


class PolicyObject(Protocol):
    """An object that plays: ``coopbench.baselines.policy.Policy``, or one with ``act`` alone."""

    @property
    def act(self) -> Callable[..., Any]:
        """``act(observations, memory)``, or ``act(observations)`` without ``initial``."""


# A registered policy by name, an object, or a function f(observations) -> actions.
PolicyLike: TypeAlias = str | PolicyObject | Callable[..., Any]


@dataclass(frozen=True)
class Checkpoints:
    """Policies of one training run, ``{steps trained so far: policy}``.

    All play the protocol's selection seeds; the one with the highest mean score there (ties go to
    the earliest) plays the evaluation seeds.
    """

    policies: Mapping[int, PolicyLike]


@dataclass(frozen=True)
class Failed:
    """A training run without a policy; the report lists it with the reason."""

    reason: str


# What plays one cell.
Model: TypeAlias = PolicyLike | Trained | Checkpoints | Failed


@dataclass(frozen=True)
class Models:
    """All models of a method under a protocol: by task, by training run, or by both.

    ``trained`` is ``{task: model}``, ``{training seed: model}`` or ``{task: {training seed:
    model}}``. A model is a policy, ``Trained``, ``Checkpoints`` or ``Failed``. Where models play
    all tasks, the one trained on task t is the policy ``name:t``.
    """

    name: str
    trained: Mapping[Any, Any]


# What callers of ``evaluate`` name: one model for all tasks, or all models of a method.
Entrant: TypeAlias = Model | Models


def name_of(policy: Entrant) -> str:
    """Return the name under which a policy stands in the results."""
    return policy if isinstance(policy, str) else label(policy)
