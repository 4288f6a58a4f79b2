"""Perceptrons as policies: data alone, and the same bits everywhere.

Whatever library trained them, they are played by the loop below: a seat's action depends on its own
observation and on nothing else, not on how many lanes are played beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.networks.policy import (
    HEADS,
    PERCEPTRON,
    Content,
    Shape,
    actions_of,
    check_game,
    check_numbers,
    content_of,
)
from coopbench_envs.compiling import compiled
from coopbench_envs.core import kernel

__all__ = ["ACTIVATIONS", "Memory", "Network", "NetworkPolicy", "tanh"]

ACTIVATIONS = ("tanh", "relu")
_TANH, _CLIP, _SQUASH = ACTIVATIONS.index("tanh"), HEADS.index("clip"), HEADS.index("tanh")
_SETTINGS = ("activation", "head", "history", "identity")
_WIDEST, _DEEPEST, _LONGEST = 4096, 16, 64  # of what is read from files


@dataclass(frozen=True)
class Network:
    """Perceptrons of one shape for the seats of a game.

    The latest ``history`` observations x, the last one first, enter as (x - centre) * scale, with
    with the one-hot number of the seat behind them if ``identity``. Layers multiply from the right:
    x @ weights + biases. One model without a seat number may play any number of agents: then
    ``seats`` is empty.
    """

    seats: np.ndarray  # (agents,) int64: the model of every seat; or empty
    weights: tuple[np.ndarray, ...]  # of each layer, (models, inputs, outputs) float32
    biases: tuple[np.ndarray, ...]  # (models, outputs) float32
    centre: np.ndarray  # (history * features,) float32
    scale: np.ndarray
    identity: bool
    activation: str  # between layers, one of ACTIVATIONS
    head: str  # after the last, one of HEADS
    history: int = 1

    def __post_init__(self) -> None:
        """Raise ``ValueError`` unless all parts fit together and are finite."""
        models, inputs = len(self.weights[0]) if self.weights else 0, len(self.centre)
        inputs += len(self.seats) if self.identity else 0
        fits = (
            self.activation in ACTIVATIONS
            and self.head in HEADS
            and 0 < len(self.weights) == len(self.biases) <= _DEEPEST
            and self.centre.shape == self.scale.shape == (len(self.centre),)
            and 0 < self.history <= _LONGEST
            and 0 < len(self.centre) == len(self.centre) // self.history * self.history
            and self.seats.ndim == 1
            and (self.seats.size > 0 or (models == 1 and not self.identity))
            and bool((self.seats >= 0).all() and (self.seats < models).all())
        )
        for weights, biases in zip(self.weights, self.biases, strict=False):
            outputs = weights.shape[-1]
            fits = fits and weights.shape == (models, inputs, outputs) and 0 < outputs <= _WIDEST
            fits = fits and biases.shape == (models, outputs)
            inputs = outputs
        if not fits:
            shapes = ", ".join(str(array.shape) for array in self.weights)[:200]
            raise ValueError(
                f"The parts of a network do not fit together: it has {len(self.centre)} features "
                f"with a history of {self.history}, {len(self.seats)} seats, the activation "
                f"{self.activation[:20]!r}, the head {self.head[:20]!r}, and weights of the shapes "
                f"{shapes}."
            )
        numbers = {"centre": self.centre, "scale": self.scale}
        numbers |= {f"weights of layer {k}": array for k, array in enumerate(self.weights)}
        numbers |= {f"biases of layer {k}": array for k, array in enumerate(self.biases)}
        check_numbers(numbers)

    def outputs(self, observations: np.ndarray) -> np.ndarray:
        """Return what comes out for every seat: (lanes, agents, outputs) float32.

        ``observations`` is (lanes, agents, history * features). Outputs of the head "argmax" are
        those before the choice.
        """
        shape = (*observations.shape[:2], self.weights[-1].shape[-1])
        outputs = np.zeros(shape, np.float32)
        rows = np.ascontiguousarray(observations, np.float32)
        widest = max(self.weights[0].shape[1], *(layer.shape[2] for layer in self.weights))
        scratch = np.zeros((2, widest), np.float32)
        kinds = ACTIVATIONS.index(self.activation), HEADS.index(self.head)
        seats = self.seats if self.seats.size else np.zeros(shape[1], np.int64)
        arrays = (seats, self.centre, self.scale, self.identity, *kinds)
        flat = self._flat()
        _forward(rows, *arrays, *flat, scratch, outputs)
        return outputs

    def _flat(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of each model in one row, (models, size), and the layers' sizes."""
        models = len(self.weights[0])
        parts = [
            part.reshape(models, -1)
            for layer in zip(self.weights, self.biases, strict=True)
            for part in layer
        ]
        sizes = [self.weights[0].shape[1], *(layer.shape[2] for layer in self.weights)]
        return np.concatenate(parts, axis=1), np.array(sizes, np.int64)


@kernel
def tanh(x):
    """Hyperbolic tangent of a float32, to 4e-7, from sums, products and quotients alone.

    Lambert's continued fraction to its fifth level at a quarter of x, then doubled twice; so no
    library decides about bits, and a loop of it fits into vector registers.
    """
    y = min(max(np.float32(0.25) * x, np.float32(-2.5)), np.float32(2.5))
    s = y * y
    top = y * (np.float32(945.0) + s * (np.float32(105.0) + s))
    t = top / (np.float32(945.0) + s * (np.float32(420.0) + s * np.float32(15.0)))
    t = (t + t) / (np.float32(1.0) + t * t)
    return (t + t) / (np.float32(1.0) + t * t)


def _run(
    obs: np.ndarray,
    seats: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    identity: bool,
    activation: int,
    head: int,
    numbers: np.ndarray,
    sizes: np.ndarray,
    scratch: np.ndarray,
    filled: np.ndarray,
) -> None:
    """Fill ``filled`` with outputs, row after row, every sum in the order of the inputs."""
    lanes, agents, features = obs.shape
    last = len(sizes) - 2
    for i in range(lanes):
        for a in range(agents):
            row = numbers[seats[a]]
            for f in range(features):
                scratch[0, f] = (obs[i, a, f] - centre[f]) * scale[f]
            if identity:
                for b in range(agents):
                    scratch[0, features + b] = np.float32(1.0) if a == b else np.float32(0.0)
            at = 0
            for layer in range(last + 1):
                inputs, outputs = sizes[layer], sizes[layer + 1]
                x, y = scratch[layer % 2], scratch[(layer + 1) % 2]
                biases = row[at + inputs * outputs : at + (inputs + 1) * outputs]
                for k in range(outputs):
                    y[k] = biases[k]
                whole = inputs - inputs % 4
                for j in range(0, whole, 4):  # four at a time: y is read and written less often
                    w0 = row[at + j * outputs : at + (j + 1) * outputs]
                    w1 = row[at + (j + 1) * outputs : at + (j + 2) * outputs]
                    w2 = row[at + (j + 2) * outputs : at + (j + 3) * outputs]
                    w3 = row[at + (j + 3) * outputs : at + (j + 4) * outputs]
                    x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
                    for k in range(outputs):
                        y[k] += x0 * w0[k]
                        y[k] += x1 * w1[k]
                        y[k] += x2 * w2[k]
                        y[k] += x3 * w3[k]
                for j in range(whole, inputs):
                    weights = row[at + j * outputs : at + (j + 1) * outputs]
                    for k in range(outputs):
                        y[k] += x[j] * weights[k]
                at += (inputs + 1) * outputs
                if layer == last:
                    continue
                if activation == _TANH:
                    for k in range(outputs):
                        y[k] = tanh(y[k])
                else:
                    for k in range(outputs):
                        y[k] = max(y[k], np.float32(0.0))
            for k in range(sizes[last + 1]):
                out = scratch[(last + 1) % 2, k]
                if head == _SQUASH:
                    out = tanh(out)
                elif head == _CLIP:
                    out = min(max(out, np.float32(-1.0)), np.float32(1.0))
                filled[i, a, k] = out


_forward = compiled(_run)


class Memory(NamedTuple):
    """What a perceptron at play remembers of each lane."""

    low: np.ndarray  # (lanes, agents, dim) bounds of actions
    high: np.ndarray
    past: np.ndarray  # (lanes, agents, history - 1, features) observations, the last one first
    fresh: np.ndarray  # (lanes,) bool, nothing has been seen: the past is like the present


class NetworkPolicy:
    """A perceptron at play: outputs in [-1, 1] in units of each seat's action range, or choices."""

    uses_masks = True

    def __init__(self, network: Network, facts: Mapping[str, Any]) -> None:
        self.network, self.facts = network, dict(facts)
        self.name = str(facts["learner"])

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Hyperparameters of the learner."""
        return dict(self.facts["hyperparameters"])

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memory of ``len(seeds)`` lanes; ``ValueError`` as ``check`` raises it."""
        self.check(game)
        lanes, history = len(seeds), self.network.history
        low, high = (
            np.broadcast_to(bound, (lanes, *bound.shape)) for bound in (game.low, game.high)
        )
        shape = (lanes, len(game.agents), history - 1, len(self.network.centre) // history)
        return Memory(low, high, np.zeros(shape, np.float32), np.ones(lanes, np.bool_))

    def check(self, game: Game) -> None:
        """Raise ``ValueError`` unless this policy can play ``game``."""
        network = self.network
        shape = Shape(
            environment=self.facts["environment"],
            agents=len(network.seats) or None,
            features=len(network.centre) // network.history,
            actions=network.weights[-1].shape[-1],
            discrete=network.head == "argmax",
        )
        check_game(self.name, shape, game)

    def act(
        self, observations: np.ndarray, memory: Memory, masks: np.ndarray | None
    ) -> tuple[np.ndarray, Memory]:
        """Return actions (lanes, agents, dim), or the best legal choices (lanes, agents)."""
        now = observations[:, :, None]
        past = np.where(memory.fresh[:, None, None, None], now, memory.past)
        frames = np.concatenate([now, past], axis=2)
        outputs = self.network.outputs(frames.reshape(*observations.shape[:2], -1))
        fresh = np.zeros_like(memory.fresh)
        memory = memory._replace(past=frames[:, :, : self.network.history - 1], fresh=fresh)
        bounds = (memory.low, memory.high)
        return actions_of(outputs, self.network.head, bounds, masks), memory

    def pack(self) -> bytes:
        """Return the policy as the content of an npz file, which ``read_policy`` reads."""
        network = self.network
        settings = {name: getattr(network, name) for name in _SETTINGS}
        arrays = {"seats": network.seats, "centre": network.centre, "scale": network.scale}
        for k, (weights, biases) in enumerate(zip(network.weights, network.biases, strict=True)):
            arrays |= {f"weights.{k}": weights, f"biases.{k}": biases}
        return content_of(PERCEPTRON, Content(self.facts, settings, arrays))

    @classmethod
    def read(cls, content: Content) -> "NetworkPolicy":
        """Return the policy that the content of a file means; ``ValueError`` if it is not one."""
        facts, settings, arrays = content
        if sorted(settings) != sorted(_SETTINGS):
            raise ValueError(f"it states {sorted(settings)}, not {sorted(_SETTINGS)}")
        layers = sum(name.startswith("weights.") for name in arrays)
        network = Network(
            seats=arrays["seats"].astype(np.int64),
            weights=tuple(arrays[f"weights.{k}"] for k in range(layers)),
            biases=tuple(arrays[f"biases.{k}"] for k in range(layers)),
            centre=arrays["centre"],
            scale=arrays["scale"],
            identity=bool(settings["identity"]),
            activation=str(settings["activation"]),
            head=str(settings["head"]),
            history=int(settings["history"]),
        )
        return cls(network, facts)
