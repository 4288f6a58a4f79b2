"""What a learner is, how it is found by name, and what it leaves: a policy as data.

A learner trains the seats of one game. The training loop knows nothing but this: it asks for some
steps, evaluates the policy, saves, and goes on.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import numpy as np

from coopbench.baselines.networks.perceptron import NetworkPolicy
from coopbench.baselines.policy import Entry, Game, modules
from coopbench_envs.parameters import Allowed, named, resolve

__all__ = [
    "POLICY_FILE",
    "Learner",
    "LearnerEntry",
    "Params",
    "learners",
    "make_learner",
    "preset",
    "trained_entry",
    "trained_policy",
]

POLICY_FILE = "policy.npz"  # in the folder of every cell that a trained policy has played
_LARGEST = 1 << 28  # bytes of it


class Learner(Protocol):
    """Trains policies for all seats of one game."""

    steps: int  # of the environment, those of all lanes added; one step moves all agents

    def learn(self, steps: int) -> dict[str, float]:
        """Train until ``self.steps`` would exceed ``steps`` with one more step of all lanes.

        ``steps`` counts from the beginning of the training: ``learn(100)`` and ``learn(200)`` are
        the same as ``learn(200)``, bit for bit. Returns named numbers for logs: means of what
        happened since the last call. Raises ``Diverged``.
        """

    def policy(self) -> NetworkPolicy:
        """Return what has been learned so far, without exploration; a copy."""

    def save(self) -> dict[str, np.ndarray]:
        """Return everything that training needs to go on bit for bit, as arrays of numbers."""

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from what a learner of the same game, seed and hyperparameters has saved."""


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
    shortened: Callable[[Any, int], Any] = lambda given, steps: given
    first_update: Callable[[Any], int] = lambda given: 0  # steps without which nothing is learned


def learners() -> dict[str, LearnerEntry]:
    """Return all learners by name: those in ``LEARNERS`` of the files here, and of other packages.

    These name a ``LearnerEntry`` in the entry-point group ``coopbench.learners``.
    """
    return dict(_learners())


@cache
def _learners() -> dict[str, LearnerEntry]:
    own = [entry for module in modules() for entry in getattr(module, "LEARNERS", ())]
    others = [point.load() for point in entry_points(group="coopbench.learners")]
    # Of two with one name that of this package counts.
    found = {entry.name: entry for entry in (*others, *own)}
    return dict(sorted(found.items()))


def make_learner(
    name: str, env_id: str, parameters: Mapping[str, Any], seed: int, **hyperparameters: Any
) -> Learner:
    """Make the learner ``name`` for a game.

    Raises ``ValueError`` for an unknown name, a value that is not allowed and a game that it cannot
    learn, and ``TypeError`` for an unknown hyperparameter.
    """
    entry: LearnerEntry = named("learner", name, learners())
    values = resolve(entry.params, hyperparameters, f"learner {name!r}")
    return entry.create(env_id, parameters, seed, values)


class Params(NamedTuple):
    """What stands after the colon of a trained policy's name."""

    folder: Annotated[str, Allowed("the folder of a training run, which holds policy.npz")]


def trained_entry(learner: LearnerEntry) -> Entry:
    """Return the entry of policies that a learner has trained: ``ippo:FOLDER``."""
    summary = f"trained, from a run's folder: {learner.summary}"
    return Entry(learner.name, partial(_trained, learner.name), summary, "local", Params, True)


def trained_policy(name: str) -> NetworkPolicy | None:
    """Return what a name like ``ippo:FOLDER`` means; None for the name of any other policy.

    Raises ``ValueError`` if it cannot be read.
    """
    learner, _, folder = name.partition(":")
    return _read(learner, Path(folder)) if learner in learners() else None


def _trained(name: str, game: Game, parameters: Params) -> NetworkPolicy:
    """Read a policy and see that it can play a game."""
    policy = _read(name, Path(parameters.folder))
    policy.check(game)
    return policy


def _read(name: str, folder: Path) -> NetworkPolicy:
    file = folder / POLICY_FILE
    if not file.is_file():
        runs = sorted(place.parent for place in folder.glob(f"*/{name}/run-*/{POLICY_FILE}"))
        found = f"; it holds runs: name one, for instance {name}:{runs[0]}" if runs else ""
        raise ValueError(
            f"Policy '{name}:{folder}' cannot be read: there is no {file}{found}. Allowed: the "
            f"folder of a run of 'coopbench train'."
        )
    if file.stat().st_size > _LARGEST:
        raise ValueError(f"Policy '{name}:{folder}': {file} is larger than {_LARGEST:,} bytes.")
    try:
        policy = NetworkPolicy.unpack(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"Policy '{name}:{folder}': {file} cannot be read ({error}).") from None
    if policy.name != name:
        raise ValueError(
            f"Policy '{name}:{folder}': {file} was trained by {policy.name!r}; name it "
            f"'{policy.name}:{folder}'."
        )
    return policy


def preset(protocol: str, learner: str) -> dict[str, Any]:
    """Return the hyperparameters that a protocol of this package has for a learner.

    ``protocol`` is a name without a version. They stand in ``baselines/presets``, with where they
    come from. Empty if there are none: the learner's own defaults count.
    """
    return dict(_presets().get((protocol, learner), {}))


@cache
def _presets() -> dict[tuple[str, str], dict[str, Any]]:
    """Hyperparameters by protocol and learner, from all files."""
    found = {}
    for file in (resources.files("coopbench.baselines") / "presets").iterdir():
        if file.name.endswith(".json"):
            content = json.loads(file.read_text(encoding="utf-8"))
            for protocol in content["protocols"]:
                for learner, values in content["learners"].items():
                    found[protocol, learner] = values
    return found
