"""Networks as policies: multi-layer perceptrons that are data alone, and the same bits everywhere.

Whatever library trained them, they are played by the loop below: a seat's action depends on its own
observation and on nothing else, not on how many lanes are played beside it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.game import Game
from coopbench_envs.arrays import pack, unpack
from coopbench_envs.compiling import compiled
from coopbench_envs.core import kernel

__all__ = ["ACTIVATIONS", "HEADS", "Memory", "Network", "NetworkPolicy"]

ACTIVATIONS = ("tanh", "relu")
# What becomes of the outputs: clipped to [-1, 1]; squashed to it; the choice of the largest.
HEADS = ("clip", "tanh", "argmax")
_TANH, _CLIP, _SQUASH = ACTIVATIONS.index("tanh"), HEADS.index("clip"), HEADS.index("tanh")
_FORMAT = 1
_WIDEST, _DEEPEST, _LONGEST = 4096, 16, 64  # of what is read from files


@dataclass(frozen=True)
class Network:
    """Perceptrons of one shape for the seats of a game.

    The latest ``history`` observations x, the last one first, enter as (x - centre) * scale, with
    the one-hot number of the seat behind them if ``identity``. Layers multiply from the right:
    x @ weights + biases.
    """

    seats: np.ndarray  # (agents,) int64: the model of every seat
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
            and self.seats.size > 0
            and bool((self.seats >= 0).all() and (self.seats < models).all())
        )
        for weights, biases in zip(self.weights, self.biases, strict=False):
            outputs = weights.shape[-1]
            fits = fits and weights.shape == (models, inputs, outputs) and 0 < outputs <= _WIDEST
            fits = fits and biases.shape == (models, outputs)
            inputs = outputs
        if not fits:
            raise ValueError("The parts of a network do not fit together.")
        numbers = (*self.weights, *self.biases, self.centre, self.scale)
        if not all(each.dtype == np.float32 and np.isfinite(each).all() for each in numbers):
            raise ValueError("A network holds numbers that are no finite float32.")

    def outputs(self, observations: np.ndarray) -> np.ndarray:
        """Return what comes out for every seat: (lanes, agents, outputs) float32.

        ``observations`` is (lanes, agents, history * features). Outputs of the head "argmax" are
        those before the choice.
        """
        shape = (*observations.shape[:2], self.weights[-1].shape[-1])
        found = np.zeros(shape, np.float32)
        given = np.ascontiguousarray(observations, np.float32)
        widest = max(self.weights[0].shape[1], *(each.shape[2] for each in self.weights))
        scratch = np.zeros((2, widest), np.float32)
        kinds = ACTIVATIONS.index(self.activation), HEADS.index(self.head)
        arrays = (self.seats, self.centre, self.scale, self.identity, *kinds)
        flat = self._flat()
        _forward(given, *arrays, *flat, scratch, found)
        return found

    def _flat(self) -> tuple[np.ndarray, np.ndarray]:
        """All numbers of a model in one row, (models, size), and the sizes of the layers."""
        models = len(self.weights[0])
        parts = [
            part.reshape(models, -1)
            for layer in zip(self.weights, self.biases, strict=True)
            for part in layer
        ]
        sizes = [self.weights[0].shape[1], *(each.shape[2] for each in self.weights)]
        return np.concatenate(parts, axis=1), np.array(sizes, np.int64)


@kernel
def _tanh(x):
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
    found: np.ndarray,
) -> None:
    """Fill ``found``: one row after the other, every sum in the order of the inputs."""
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
                    w = row[at + j * outputs : at + (j + 4) * outputs].reshape(4, outputs)
                    x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
                    for k in range(outputs):
                        y[k] += x0 * w[0, k]
                        y[k] += x1 * w[1, k]
                        y[k] += x2 * w[2, k]
                        y[k] += x3 * w[3, k]
                for j in range(whole, inputs):
                    weights = row[at + j * outputs : at + (j + 1) * outputs]
                    for k in range(outputs):
                        y[k] += x[j] * weights[k]
                at += (inputs + 1) * outputs
                if layer == last:
                    continue
                if activation == _TANH:
                    for k in range(outputs):
                        y[k] = _tanh(y[k])
                else:
                    for k in range(outputs):
                        y[k] = max(y[k], np.float32(0.0))
            for k in range(sizes[last + 1]):
                out = scratch[(last + 1) % 2, k]
                if head == _SQUASH:
                    out = _tanh(out)
                elif head == _CLIP:
                    out = min(max(out, np.float32(-1.0)), np.float32(1.0))
                found[i, a, k] = out


_forward = compiled(_run)


class Memory(NamedTuple):
    """What a network at play knows of each lane besides what it sees."""

    low: np.ndarray  # (lanes, agents, dim) bounds of actions
    high: np.ndarray
    past: np.ndarray  # (lanes, agents, history - 1, features) observations, the last one first
    fresh: np.ndarray  # (lanes,) bool, nothing has been seen: the past is like the present


class NetworkPolicy:
    """A network at play: its outputs in [-1, 1] in units of each seat's action range, or a choice.

    ``facts`` say where it comes from: ``environment`` (id), ``learner`` (name), ``seed`` of the
    training, ``steps`` trained so far, and ``hyperparameters``.
    """

    uses_masks = True

    def __init__(self, network: Network, facts: Mapping[str, Any]) -> None:
        self.network, self.facts = network, dict(facts)
        self.name = str(facts["learner"])

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """What the learner was made with."""
        return dict(self.facts["hyperparameters"])

    def initial(self, game: Game, seeds: np.ndarray) -> "Memory":
        """Return each lane's memory; ``ValueError`` if the game is not what it was made for.

        Parameters of the game may differ from those of the training.
        """
        self.check(game)
        lanes, history = len(seeds), self.network.history
        bounds = (game.low, game.high)
        low, high = (np.broadcast_to(each, (lanes, *each.shape)) for each in bounds)
        shape = (lanes, len(game.agents), history - 1, len(self.network.centre) // history)
        return Memory(low, high, np.zeros(shape, np.float32), np.ones(lanes, np.bool_))

    def check(self, game: Game) -> None:
        """Raise ``ValueError`` unless this policy can play ``game``."""
        network, discrete = self.network, not len(game.high)
        features = max(part.stop for part in game.layout.values())
        outputs = network.weights[-1].shape[-1]
        choices = outputs if discrete else game.high.shape[1]
        here = (game.env_id, len(game.agents), features, choices, discrete)
        there = (
            self.facts["environment"],
            len(network.seats),
            len(network.centre) // network.history,
            outputs,
            network.head == "argmax",
        )
        if here != there:
            told = ("environment", "agents", "features", "actions", "discrete")
            wrong = [
                f"{name} {b!r} instead of {a!r}"
                for name, a, b in zip(told, here, there, strict=True)
                if a != b
            ]
            raise ValueError(
                f"Policy {self.name!r} cannot play {game.env_id}: it was trained for "
                f"{', '.join(wrong)}."
            )

    def act(
        self,
        observations: np.ndarray,
        memory: "Memory",
        masks: np.ndarray | None,
    ) -> tuple[np.ndarray, "Memory"]:
        """Return actions (lanes, agents, dim), or the best legal choices (lanes, agents)."""
        now = observations[:, :, None]
        past = np.where(memory.fresh[:, None, None, None], now, memory.past)
        frames = np.concatenate([now, past], axis=2)
        outputs = self.network.outputs(frames.reshape(*observations.shape[:2], -1))
        fresh = np.zeros_like(memory.fresh)
        memory = memory._replace(past=frames[:, :, : self.network.history - 1], fresh=fresh)
        if self.network.head == "argmax":
            legal = outputs if masks is None else np.where(masks, outputs, -np.inf)
            return legal.argmax(axis=2), memory
        share = (outputs.astype(np.float64) + 1.0) / 2.0
        return memory.low + share * (memory.high - memory.low), memory

    def pack(self) -> bytes:
        """Return the policy as the content of an npz file, which ``unpack`` reads."""
        network = self.network
        header = self.facts | {
            "format": _FORMAT,
            "identity": network.identity,
            "activation": network.activation,
            "head": network.head,
            "history": network.history,
        }
        text = json.dumps(header, sort_keys=True, allow_nan=False).encode()
        arrays = {"header": np.frombuffer(text, np.uint8), "seats": network.seats}
        arrays |= {"centre": network.centre, "scale": network.scale}
        for k, (weights, biases) in enumerate(zip(network.weights, network.biases, strict=True)):
            arrays |= {f"weights.{k}": weights, f"biases.{k}": biases}
        return pack(arrays)

    @classmethod
    def unpack(cls, content: bytes) -> "NetworkPolicy":
        """Return the policy of a file; ``ValueError`` for anything that ``pack`` does not write."""
        arrays = unpack(content)
        try:
            header = json.loads(arrays["header"].tobytes())
            if header.pop("format") != _FORMAT:
                raise ValueError("it has another format")
            layers = sum(name.startswith("weights.") for name in arrays)
            network = Network(
                seats=arrays["seats"].astype(np.int64),
                weights=tuple(arrays[f"weights.{k}"] for k in range(layers)),
                biases=tuple(arrays[f"biases.{k}"] for k in range(layers)),
                centre=arrays["centre"],
                scale=arrays["scale"],
                identity=bool(header.pop("identity")),
                activation=str(header.pop("activation")),
                head=str(header.pop("head")),
                history=int(header.pop("history")),
            )
            wanted = {"environment", "learner", "seed", "steps", "hyperparameters"}
            if set(header) != wanted or not isinstance(header["hyperparameters"], dict):
                raise ValueError(f"it states {sorted(header)}, not {sorted(wanted)}")
        except (
            LookupError,
            TypeError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            raise ValueError(f"it is no policy ({type(error).__name__}: {error})") from None
        return cls(network, header)
