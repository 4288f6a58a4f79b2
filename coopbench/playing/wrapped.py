"""Wrapped policies: objects under another name, and objects that are declared to be fixed."""

from typing import Any

from coopbench.baselines.policy import label


class Wrapped:
    """An object with a policy that plays as that policy does."""

    def __init__(self, policy: Any) -> None:
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
        return self.policy(observations)


class Named(Wrapped):
    """A policy under a name of the caller's choice; everything else is the policy's."""

    def __init__(self, name: str, policy: Any) -> None:
        super().__init__(policy)
        self.name = name


class Fixed(Wrapped):
    """A policy that is evaluated as it is, and stands for no method of training.

    A torch module, a model of Stable-Baselines3 and a file of weights count as one training run of
    a learner: another run of the same training would give another policy, of which one run says
    little. Such a policy has no interval over runs and no rank. ``Fixed(policy)`` says that the
    question is about this very policy: its intervals are then over episodes alone.

    ``policy`` is an object that plays, or a function of observations. Raises ``TypeError`` for a
    name: registered policies are fixed without it, and what a learner has trained is not.
    """

    def __init__(self, policy: Any) -> None:
        if isinstance(policy, str | type):
            given = repr(policy) if isinstance(policy, str) else f"the class {policy.__name__}"
            raise TypeError(
                f"Fixed takes an object that plays, or a function of observations; given {given}. "
                f"A registered policy is fixed without it; of a file, load the model and give that."
            )
        super().__init__(policy)

    @property
    def name(self) -> str:
        """The name of the policy."""
        return label(self.policy)
