"""Entrants: the forms in which a caller may name policies, made into one list."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from coopbench.baselines.registry import entry_of
from coopbench.episodes.trained import Trained
from coopbench.playing.models import Checkpoints, Entrant, Failed, Models, PolicyLike

__all__ = ["Entrants", "Named", "entrants"]

# One policy, several, or {name in the results: policy}.
Entrants: TypeAlias = Entrant | Iterable[Entrant] | Mapping[str, Entrant]


class Named:
    """A policy under a name of the caller's choice; everything else is the policy's."""

    def __init__(self, name: str, policy: PolicyLike) -> None:
        self.name = name
        self.policy = policy

    def __getattr__(self, attribute: str) -> Any:
        """Return an attribute of the policy; of no use while a pickle is being read."""
        if attribute.startswith("__") or "policy" not in vars(self):
            raise AttributeError(attribute)
        return getattr(self.policy, attribute)

    def __call__(self, observations: Any) -> Any:
        """Return the actions of a policy that is a function."""
        if not callable(self.policy):
            raise TypeError(f"{type(self.policy).__name__} is not a function of observations.")
        function: Callable[[Any], Any] = self.policy
        return function(observations)


def entrants(policies: Entrants) -> list[Entrant]:
    """Return policies as a list: of one policy, of several, or of a mapping from names.

    Raises ``ValueError`` for a name in a mapping that means another policy, and ``TypeError`` for
    what is no policy and holds none.
    """
    if isinstance(policies, Mapping):
        return [_named(name, policy) for name, policy in policies.items()]
    if _is_one(policies):
        return [policies]  # type: ignore[list-item]
    if isinstance(policies, Iterable):
        return list(policies)
    raise TypeError(
        f"Policies are a name, a function, an object with act or predict, several of them in a "
        f"list, or a dictionary {{name: policy}}; given {type(policies).__name__}."
    )


def _is_one(policies: Any) -> bool:
    if isinstance(policies, str | Models | Trained | Checkpoints | Failed):
        return True
    return callable(policies) or hasattr(policies, "act") or hasattr(policies, "predict")


def _named(name: Any, policy: Any) -> Entrant:
    """Return the policy that a mapping holds under ``name``."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"Policies are named by texts; given {name!r}.")
    if isinstance(policy, str | Models):
        other = policy if isinstance(policy, str) else policy.name
        if other != name:
            raise ValueError(
                f"{other!r} is called {name!r} here, and results name it {other!r}: use that name, "
                f"or list policies without names."
            )
        return policy
    if entry_of(name) is not None:
        raise ValueError(
            f"{name!r} is a policy of this package, and another one was given under that name; "
            f"choose another name for it, or list {name!r} without an object to play the policy "
            f"of this package."
        )
    if isinstance(policy, Trained | Checkpoints | Failed):
        raise ValueError(
            f"{name!r} is {type(policy).__name__}, one training run; give "
            f"Models({name!r}, {{training seed: ...}}) instead."
        )
    if isinstance(policy, type) or not _is_one(policy):
        unusable: Entrant = policy
        return unusable  # the plan says what is wrong with it
    return Named(name, policy)
