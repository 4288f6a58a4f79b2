"""Recurrent networks as policies: layers of a kind, in their order, with a memory of each lane.

As with perceptrons, the loop below decides about every bit: what a seat does depends on what it has
observed and done since its episode began, not on the lanes that are played beside it.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.networks.perceptron import ACTIVATIONS, tanh
from coopbench.baselines.networks.policy import (
    HEADS,
    RECURRENT,
    Content,
    Shape,
    actions_of,
    check_game,
    check_numbers,
    content_of,
)
from coopbench_envs.compiling import compiled
from coopbench_envs.core import kernel

__all__ = ["GRU", "LINEAR", "Layer", "RecurrentMemory", "RecurrentNetwork", "RecurrentPolicy"]

LINEAR, GRU = "linear", "gru"
_KINDS = (LINEAR, GRU)
_GATES = 3  # of a GRU: reset, update, new
_IS_GRU, _TANH = _KINDS.index(GRU), ACTIVATIONS.index("tanh")
_CLIP, _SQUASH = HEADS.index("clip"), HEADS.index("tanh")
_SETTINGS = ("layers", "activation", "head", "identity", "last_action")
_PARTS = {
    LINEAR: ("weights", "biases"),
    GRU: ("weights", "biases", "memory_weights", "memory_biases"),
}
_WIDEST, _DEEPEST = 4096, 16  # of what is read from files


class Layer(NamedTuple):
    """One layer of all models, multiplied from the right: x @ weights + biases.

    A GRU has three gates, in the order of torch: the columns of reset, update and new one after
    the other. Its memory is multiplied by ``memory_weights``.
    """

    kind: str  # LINEAR or GRU
    weights: np.ndarray  # (models, inputs, outputs) float32; (models, inputs, 3 * hidden) of a GRU
    biases: np.ndarray  # (models, outputs); (models, 3 * hidden)
    memory_weights: np.ndarray | None = None  # (models, hidden, 3 * hidden), of a GRU alone
    memory_biases: np.ndarray | None = None  # (models, 3 * hidden)

    @property
    def inputs(self) -> int:
        """Numbers that enter."""
        return int(self.weights.shape[1])

    @property
    def outputs(self) -> int:
        """Numbers that come out."""
        return int(self.weights.shape[2]) // (_GATES if self.kind == GRU else 1)

    @property
    def hidden(self) -> int:
        """Numbers that it remembers."""
        return self.outputs if self.kind == GRU else 0

    def parts(self) -> dict[str, np.ndarray]:
        """Return the arrays by name, in the order in which the loop reads them."""
        arrays = {name: getattr(self, name) for name in _PARTS[self.kind]}
        return {name: array for name, array in arrays.items() if array is not None}

    def fits(self, models: int, inputs: int) -> bool:
        """Whether its arrays fit together, for so many models and inputs."""
        if self.kind not in _KINDS or self.weights.ndim != _GATES:
            return False
        columns = self.weights.shape[2]
        shapes = {"weights": (models, inputs, columns), "biases": (models, columns)}
        if self.kind == GRU:
            shapes["memory_weights"] = (models, columns // _GATES, columns)
            shapes["memory_biases"] = (models, columns)
        whole = self.kind == LINEAR or columns % _GATES == 0
        return (
            whole
            and 0 < self.outputs <= _WIDEST
            and {name: array.shape for name, array in self.parts().items()} == shapes
        )


@dataclass(frozen=True)
class RecurrentNetwork:
    """Networks of one shape, with memory, for the seats of a game.

    An observation x enters as (x - centre) * scale, behind it the one-hot number of the seat if
    ``identity``, and behind that the seat's last action if ``last_action``: one-hot for choices,
    and zeros at the first step.
    """

    seats: np.ndarray  # (agents,) int64: the model of every seat; empty: model 0 for any number
    layers: tuple[Layer, ...]
    centre: np.ndarray  # (features,) float32
    scale: np.ndarray
    identity: bool
    last_action: bool
    activation: str  # after every linear layer but the last, one of ACTIVATIONS
    head: str  # after the last layer, one of HEADS

    def __post_init__(self) -> None:
        """Raise ``ValueError`` unless all parts fit together and are finite."""
        if not (self._settings_fit() and self._layers_fit()):
            raise ValueError(
                f"The parts of a network do not fit together: it has {len(self.centre)} features, "
                f"{len(self.seats)} seats, the activation {self.activation[:20]!r}, the head "
                f"{self.head[:20]!r}, and layers of the shapes {self._shapes()}."
            )
        numbers = {"centre": self.centre, "scale": self.scale}
        for k, layer in enumerate(self.layers):
            numbers |= {f"{name} of layer {k}": array for name, array in layer.parts().items()}
        check_numbers(numbers)

    def _shapes(self) -> str:
        """Return the arrays of all layers with their shapes, as text."""
        texts = [
            f"{name} {array.shape}"
            for layer in self.layers
            for name, array in layer.parts().items()
        ]
        return ", ".join(texts)[:400]

    def _settings_fit(self) -> bool:
        """Whether everything but the layers is as allowed."""
        return (
            self.activation in ACTIVATIONS
            and self.head in HEADS
            and self.centre.ndim == 1
            and 0 < len(self.centre) <= _WIDEST
            and self.scale.shape == self.centre.shape
            and self.seats.ndim == 1
            and len(self.seats) <= _WIDEST
            and (self.seats.size > 0 or not self.identity)
        )

    def _layers_fit(self) -> bool:
        """Whether every layer takes what the one before it returns, and the last one is linear."""
        if not 0 < len(self.layers) <= _DEEPEST or self.layers[-1].kind != LINEAR:
            return False
        if self.layers[-1].weights.ndim != _GATES:
            return False
        models = len(self.layers[0].weights)
        if not ((self.seats >= 0) & (self.seats < models)).all():
            return False
        inputs = len(self.centre) + (len(self.seats) if self.identity else 0)
        inputs += self.actions if self.last_action else 0
        for layer in self.layers:
            if not layer.fits(models, inputs):
                return False
            inputs = layer.outputs
        return models > 0 and (self.seats.size > 0 or models == 1)

    @property
    def actions(self) -> int:
        """Numbers of an action, or choices."""
        return self.layers[-1].outputs

    @property
    def hidden(self) -> int:
        """Numbers that a seat remembers, of all layers one after the other."""
        return sum(layer.hidden for layer in self.layers)

    def step(
        self, observations: np.ndarray, last: np.ndarray, hidden: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return what comes out for every seat, (lanes, agents, actions) float32, and new memory.

        ``observations`` is (lanes, agents, features), ``last`` (lanes, agents, actions) the last
        actions, and ``hidden`` (lanes, agents, hidden) what was remembered, which is not written
        to. Outputs of the head "argmax" are those before the choice.
        """
        lanes, agents = observations.shape[:2]
        filled = np.zeros((lanes, agents, self.actions), np.float32)
        remembered = np.array(hidden, np.float32, order="C")
        widths = [len(self.centre) + agents + self.actions]
        widths += [layer.weights.shape[2] for layer in self.layers]
        scratch = np.zeros((4, max(widths)), np.float32)
        rows = np.ascontiguousarray(observations, np.float32)
        before = np.ascontiguousarray(last, np.float32)
        seats = self.seats if self.seats.size else np.zeros(agents, np.int64)
        kinds = ACTIVATIONS.index(self.activation), HEADS.index(self.head)
        settings = (self.identity, self.last_action, *kinds)
        inputs = (rows, before, seats, self.centre, self.scale)
        _forward(*inputs, *settings, *self._flat(), scratch, remembered, filled)
        return filled, remembered

    def _flat(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of each model in one row, (models, size), and kinds and sizes."""
        models = len(self.layers[0].weights)
        parts = [
            array.reshape(models, -1) for layer in self.layers for array in layer.parts().values()
        ]
        rows = [(_KINDS.index(layer.kind), layer.inputs, layer.outputs) for layer in self.layers]
        return np.concatenate(parts, axis=1), np.array(rows, np.int64)


@kernel
def _sigmoid(x):
    """Logistic function of a float32, from the same hyperbolic tangent as everywhere."""
    return np.float32(0.5) * (np.float32(1.0) + tanh(np.float32(0.5) * x))


@kernel
def _affine(x, row, at, inputs, outputs, y):
    """Write x @ weights + biases into y; both lie in ``row``, the weights from ``at`` on."""
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


def _run(
    obs: np.ndarray,
    last: np.ndarray,
    seats: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    identity: bool,
    last_action: bool,
    activation: int,
    head: int,
    numbers: np.ndarray,
    layers: np.ndarray,
    scratch: np.ndarray,
    hidden: np.ndarray,
    filled: np.ndarray,
) -> None:
    """Fill ``filled`` with outputs and renew ``hidden``, row after row, sums in a fixed order."""
    lanes, agents, features = obs.shape
    final = len(layers) - 1
    for i in range(lanes):
        for a in range(agents):
            row, state = numbers[seats[a]], hidden[i, a]
            for f in range(features):
                scratch[0, f] = (obs[i, a, f] - centre[f]) * scale[f]
            end = features
            if identity:
                for b in range(agents):
                    scratch[0, end + b] = np.float32(1.0) if a == b else np.float32(0.0)
                end += agents
            if last_action:
                for k in range(last.shape[2]):
                    scratch[0, end + k] = last[i, a, k]
            at = begin = 0
            for layer in range(final + 1):
                kind, inputs, outputs = layers[layer, 0], layers[layer, 1], layers[layer, 2]
                x, y = scratch[layer % 2], scratch[(layer + 1) % 2]
                if kind == _IS_GRU:
                    seen, past = scratch[2], scratch[3]
                    memory = state[begin : begin + outputs]
                    _affine(x, row, at, inputs, 3 * outputs, seen)
                    at += (inputs + 1) * 3 * outputs
                    _affine(memory, row, at, outputs, 3 * outputs, past)
                    at += (outputs + 1) * 3 * outputs
                    for k in range(outputs):
                        reset = _sigmoid(seen[k] + past[k])
                        update = _sigmoid(seen[outputs + k] + past[outputs + k])
                        new = tanh(seen[2 * outputs + k] + reset * past[2 * outputs + k])
                        y[k] = (np.float32(1.0) - update) * new + update * memory[k]
                    for k in range(outputs):
                        memory[k] = y[k]
                    begin += outputs
                    continue
                _affine(x, row, at, inputs, outputs, y)
                at += (inputs + 1) * outputs
                if layer == final:
                    continue
                if activation == _TANH:
                    for k in range(outputs):
                        y[k] = tanh(y[k])
                else:
                    for k in range(outputs):
                        y[k] = max(y[k], np.float32(0.0))
            for k in range(filled.shape[2]):
                out = scratch[(final + 1) % 2, k]
                if head == _SQUASH:
                    out = tanh(out)
                elif head == _CLIP:
                    out = min(max(out, np.float32(-1.0)), np.float32(1.0))
                filled[i, a, k] = out


_forward = compiled(_run)


class RecurrentMemory(NamedTuple):
    """What a recurrent network at play remembers of each lane; all zeros at the first step."""

    low: np.ndarray  # (lanes, agents, dim) bounds of actions
    high: np.ndarray
    hidden: np.ndarray  # (lanes, agents, hidden) float32
    last: np.ndarray  # (lanes, agents, actions) float32, the last action as it enters the network


class RecurrentPolicy:
    """A recurrent network at play: outputs in units of each seat's action range, or choices."""

    uses_masks = True

    def __init__(self, network: RecurrentNetwork, facts: Mapping[str, Any]) -> None:
        self.network, self.facts = network, dict(facts)
        self.name = str(facts["learner"])

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Hyperparameters of the learner."""
        return dict(self.facts["hyperparameters"])

    def initial(self, game: Game, seeds: np.ndarray) -> RecurrentMemory:
        """Return the memory of ``len(seeds)`` lanes; ``ValueError`` as ``check`` raises it."""
        self.check(game)
        shape = len(seeds), len(game.agents)
        low, high = (np.broadcast_to(b, (len(seeds), *b.shape)) for b in (game.low, game.high))
        hidden = np.zeros((*shape, self.network.hidden), np.float32)
        return RecurrentMemory(low, high, hidden, np.zeros((*shape, self._remembered), np.float32))

    @property
    def _remembered(self) -> int:
        """Numbers of the last action that are needed."""
        return self.network.actions if self.network.last_action else 0

    def check(self, game: Game) -> None:
        """Raise ``ValueError`` unless this policy can play ``game``."""
        network = self.network
        shape = Shape(
            environment=self.facts["environment"],
            agents=len(network.seats) or None,
            features=len(network.centre),
            actions=network.actions,
            discrete=network.head == "argmax",
        )
        check_game(self.name, shape, game)

    def act(
        self, observations: np.ndarray, memory: RecurrentMemory, masks: np.ndarray | None
    ) -> tuple[np.ndarray, RecurrentMemory]:
        """Return actions (lanes, agents, dim), or the best legal choices (lanes, agents)."""
        network = self.network
        outputs, hidden = network.step(observations, memory.last, memory.hidden)
        actions = actions_of(outputs, network.head, (memory.low, memory.high), masks)
        last = memory.last
        if network.last_action:
            chosen = np.eye(network.actions, dtype=np.float32)
            last = chosen[actions] if network.head == "argmax" else outputs
        return actions, memory._replace(hidden=hidden, last=last)

    def pack(self) -> bytes:
        """Return the policy as the content of an npz file, which ``read_policy`` reads."""
        network = self.network
        settings = {name: getattr(network, name) for name in _SETTINGS}
        settings["layers"] = [layer.kind for layer in network.layers]
        arrays = {"seats": network.seats, "centre": network.centre, "scale": network.scale}
        for k, layer in enumerate(network.layers):
            arrays |= {f"{name}.{k}": array for name, array in layer.parts().items()}
        return content_of(RECURRENT, Content(self.facts, settings, arrays))

    @classmethod
    def read(cls, content: Content) -> "RecurrentPolicy":
        """Return the policy that the content of a file means; ``ValueError`` if it is not one."""
        facts, settings, arrays = content
        if sorted(settings) != sorted(_SETTINGS):
            raise ValueError(f"it states {sorted(settings)}, not {sorted(_SETTINGS)}")
        kinds = settings["layers"]
        if not isinstance(kinds, list) or not all(kind in _KINDS for kind in kinds):
            raise ValueError(f"its layers are {kinds!r}; allowed: a list of {', '.join(_KINDS)}")
        parts = [[f"{name}.{k}" for name in _PARTS[kind]] for k, kind in enumerate(kinds)]
        allowed = {"seats", "centre", "scale", *itertools.chain(*parts)}
        if set(arrays) != allowed:
            raise ValueError(f"it holds the arrays {sorted(arrays)}, not {sorted(allowed)}")
        network = RecurrentNetwork(
            seats=arrays["seats"].astype(np.int64),
            layers=tuple(
                Layer(kind, *(arrays[name] for name in names))
                for kind, names in zip(kinds, parts, strict=True)
            ),
            centre=arrays["centre"],
            scale=arrays["scale"],
            identity=bool(settings["identity"]),
            last_action=bool(settings["last_action"]),
            activation=str(settings["activation"]),
            head=str(settings["head"]),
        )
        return cls(network, facts)
