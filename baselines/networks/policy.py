"""Trained policies with any kind of network, and how they are written to a file.

A file is an npz of arrays of numbers. Its array "header" is a JSON object with the format, the kind
of network, the facts of the training and the settings of that kind. A file without a kind holds a
perceptron: the first files were written when there was no other.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from coopbench.baselines.game import Game
from coopbench_envs.arrays import of_weights, pack

__all__ = [
    "FACTS",
    "FORMATS",
    "HEADS",
    "LARGEST",
    "PERCEPTRON",
    "POLICY_FILE",
    "RECURRENT",
    "Content",
    "Shape",
    "TrainedPolicy",
    "actions_of",
    "check_game",
    "check_numbers",
    "content_of",
]

POLICY_FILE = "policy.npz"  # in the folder of every cell that a trained policy has played
LARGEST = 1 << 28  # bytes of it
# What every policy says of its training, and the types in which it says so.
FACTS = {"environment": str, "learner": str, "seed": int, "steps": int, "hyperparameters": dict}
PERCEPTRON, RECURRENT = "perceptron", "recurrent"
# The format of a file by its kind, 1 of all others. Format 2 names layers in their order.
FORMATS = {PERCEPTRON: 1, RECURRENT: 2}
# What becomes of the outputs: clipped to [-1, 1]; squashed to it; the choice of the largest.
HEADS = ("clip", "tanh", "argmax")


class TrainedPolicy(Protocol):
    """A policy that a learner has trained: data that can be played, stored and compared.

    ``facts`` say where it comes from: ``environment`` (id), ``learner`` (name), ``seed`` of the
    training, ``steps`` trained so far, and ``hyperparameters``.
    """

    name: str  # of the learner
    facts: dict[str, Any]
    uses_masks: bool  # always True: ``act`` takes the legal choices

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Hyperparameters of the learner."""

    def check(self, game: Game) -> None:
        """Raise ``ValueError`` unless this policy can play ``game``."""

    def initial(self, game: Game, seeds: np.ndarray) -> Any:
        """Return the memory for ``len(seeds)`` new episodes: an array, a tuple of arrays, or None.

        Raises ``ValueError`` as ``check`` does.
        """

    def act(
        self, observations: np.ndarray, memory: Any, masks: np.ndarray | None
    ) -> tuple[np.ndarray, Any]:
        """Return actions and the new memory; shapes are those of ``policy.Policy.act``."""

    def pack(self) -> bytes:
        """Return the policy as the content of an npz file, the same bytes every time."""


class Content(NamedTuple):
    """What the file of a policy holds in addition to its format and kind."""

    facts: dict[str, Any]  # named as in FACTS
    settings: dict[str, Any]  # of the kind of network, by name
    arrays: dict[str, np.ndarray]


def content_of(kind: str, content: Content) -> bytes:
    """Return the bytes of a policy's file, which ``kinds.read_policy`` reads."""
    header = content.facts | content.settings | {"format": FORMATS.get(kind, 1)}
    if kind != PERCEPTRON:
        header["kind"] = kind
    text = json.dumps(header, sort_keys=True, allow_nan=False).encode()
    arrays = {"header": np.frombuffer(text, np.uint8), **content.arrays}
    return pack(arrays, limit=of_weights)


class Shape(NamedTuple):
    """What a policy was trained for, as far as a game has to have the same."""

    environment: str
    agents: int | None  # None: any number of them
    features: int  # of one agent's observation
    actions: int  # numbers of an action, or choices
    discrete: bool


def check_numbers(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise ``ValueError`` that names an array of a network that is not of finite float32."""
    for name, array in arrays.items():
        if array.dtype != np.float32:
            raise ValueError(f"The {name} of a network must be float32; given {array.dtype}.")
        if not np.isfinite(array).all():
            raise ValueError(f"The {name} of a network must be finite.")


def check_game(policy: str, shape: Shape, game: Game) -> None:
    """Raise ``ValueError`` unless ``game`` has the shape that ``policy`` was trained for.

    Parameters of the game may differ from those of the training.
    """
    discrete = game.choices > 0 and (game.levels is None or shape.discrete)
    if game.codec is not None:  # whose observations become vectors
        features = game.codec.width
    else:
        features = max(part.stop for part in game.layout.values())
    actual = Shape(
        environment=game.env_id,
        agents=None if shape.agents is None else len(game.agents),
        features=features,
        actions=game.choices if discrete else game.high.shape[1],
        discrete=discrete,
    )
    if actual != shape:
        differing = [
            f"{name} {trained!r} instead of {here!r}"
            for name, trained, here in zip(Shape._fields, shape, actual, strict=True)
            if trained != here
        ]
        why = ""
        if shape.agents is None and shape.features != actual.features:
            why = (
                f" It plays any number of agents, but only where they observe {shape.features} "
                f"features, and here their number depends on the parameters of the game."
            )
        raise ValueError(
            f"Policy {policy!r} cannot play {game.env_id}: it was trained for "
            f"{', '.join(differing)}.{why}"
        )


def actions_of(
    outputs: np.ndarray,
    head: str,
    bounds: tuple[np.ndarray, np.ndarray],
    masks: np.ndarray | None,
) -> np.ndarray:
    """Return the actions that the outputs of a network mean.

    ``outputs`` is (lanes, agents, outputs) float32. With the head "argmax" the best choice is
    returned that ``masks`` allow, (lanes, agents); else outputs in [-1, 1] become numbers between
    the ``bounds``, lowest and highest, (lanes, agents, dim) each.
    """
    if head == "argmax":
        legal = outputs if masks is None else np.where(masks, outputs, -np.inf)
        choices: np.ndarray = legal.argmax(axis=2)
        return choices
    low, high = bounds
    share = (outputs.astype(np.float64) + 1.0) / 2.0
    actions: np.ndarray = low + share * (high - low)
    return actions
