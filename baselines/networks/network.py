"""Networks as policies: layers of a kind, in their order, and what each lane remembers.

A perceptron is a network whose layers are all linear. Whatever library trained a network, the loop
below plays it and decides about every bit: what a seat does depends on what it has observed and
done since its episode began, not on the other lanes of a batch.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.networks.policy import (
    HEADS,
    PERCEPTRON,
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

__all__ = [
    "ACTIVATIONS",
    "GRU",
    "LINEAR",
    "Layer",
    "Memory",
    "Network",
    "NetworkPolicy",
    "encoded",
    "perceptron",
    "tanh",
]

ACTIVATIONS = ("tanh", "relu")
LINEAR, GRU = "linear", "gru"
_KINDS = (LINEAR, GRU)
_GATES = 3  # of a GRU: reset, update, new
_IS_GRU, _TANH = _KINDS.index(GRU), ACTIVATIONS.index("tanh")
_CLIP, _SQUASH = HEADS.index("clip"), HEADS.index("tanh")
# Further entries of a file, by its kind; a recurrent network names its layers.
_SETTINGS = {
    PERCEPTRON: ("activation", "head", "history", "identity"),
    RECURRENT: ("layers", "activation", "head", "identity", "last_action"),
}
_PARTS = {
    LINEAR: ("weights", "biases"),
    GRU: ("weights", "biases", "memory_weights", "memory_biases"),
}
_WIDEST, _DEEPEST, _LONGEST = 4096, 16, 64  # of what is read from files


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

    def as_type(self, kind: type[np.floating[Any]]) -> "Layer":
        """Return the layer with its numbers in another precision."""
        return Layer(self.kind, *(array.astype(kind) for array in self.parts().values()))

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


def perceptron(weights: Sequence[np.ndarray], biases: Sequence[np.ndarray]) -> tuple[Layer, ...]:
    """Return linear layers: weights (models, inputs, outputs) and biases (models, outputs) each."""
    return tuple(Layer(LINEAR, w, b) for w, b in zip(weights, biases, strict=True))


def _numbers(layers: Sequence[Layer]) -> list[np.ndarray]:
    """Return the arrays of all layers, in the order in which the loop reads them."""
    return [array for layer in layers for array in layer.parts().values()]


def _in_half_precision(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Return layers with the nearest numbers of half precision as float32, beyond it infinite."""
    with np.errstate(over="ignore"):
        halves = [layer.as_type(np.float16) for layer in layers]
    return tuple(layer.as_type(np.float32) for layer in halves)


def encoded(
    frames: np.ndarray, centre: np.ndarray, scale: np.ndarray, behind: Sequence[np.ndarray]
) -> np.ndarray:
    """Return what enters a network, (lanes, agents, inputs) float32, in play and in training.

    These are the features (lanes, agents, ...) as (x - centre) * scale, and what stands ``behind``
    them, (lanes, agents, ...) each.
    """
    features = frames.reshape(*frames.shape[:2], -1).astype(np.float32, copy=False)
    scaled: np.ndarray = (features - centre) * scale
    return np.concatenate([scaled, *behind], axis=2) if behind else scaled


@dataclass(frozen=True)
class Network:
    """Networks of one shape for the seats of a game.

    The latest ``history`` observations x, the last one first, enter as (x - centre) * scale, behind
    them the one-hot number of the seat if ``identity``, and behind that the seat's last action if
    ``last_action``: one-hot for choices, and zeros at the first step. One model without a seat
    number may play any number of agents: then ``seats`` is empty.
    """

    seats: np.ndarray  # (agents,) int64: the model of every seat; or empty
    layers: tuple[Layer, ...]
    centre: np.ndarray  # (history * features,) float32
    scale: np.ndarray
    identity: bool
    activation: str  # after every linear layer but the last, one of ACTIVATIONS
    head: str  # after the last layer, one of HEADS
    history: int = 1
    last_action: bool = False

    def __post_init__(self) -> None:
        """Raise ``ValueError`` unless all parts fit together and are finite."""
        if not (self._settings_fit() and self._layers_fit()):
            raise ValueError(
                f"The parts of a network do not fit together: it has {len(self.centre)} features "
                f"with a history of {self.history}, {len(self.seats)} seats, the activation "
                f"{self.activation[:20]!r}, the head {self.head[:20]!r}, and layers of the shapes "
                f"{self._shapes()}."
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
            and 0 < self.history <= _LONGEST
            and 0 < len(self.centre) == len(self.centre) // self.history * self.history
            and self.features <= _WIDEST
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

    def rounded(self) -> "Network":
        """Return the network with weights and biases rounded to half precision, still as float32.

        Its file needs half the space. A network with a number beyond +-65504, the range of half
        precision, is returned as it is.
        """
        layers = _in_half_precision(self.layers)
        finite = all(np.isfinite(array).all() for array in _numbers(layers))
        return replace(self, layers=layers) if finite else self

    @property
    def features(self) -> int:
        """Numbers of one observation."""
        return len(self.centre) // self.history

    @property
    def actions(self) -> int:
        """Numbers of an action, or choices."""
        return self.layers[-1].outputs

    @property
    def hidden(self) -> int:
        """Numbers that a seat remembers, of all layers one after the other."""
        return sum(layer.hidden for layer in self.layers)

    @property
    def kind(self) -> str:
        """Kind of the file that holds it: PERCEPTRON or RECURRENT."""
        return RECURRENT if self.hidden or self.last_action else PERCEPTRON

    def inputs(self, frames: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Return what enters for every seat, (lanes, agents, inputs) float32.

        ``frames`` are observations (lanes, agents, history, features), the last one first, and
        ``last`` (lanes, agents, actions) the last actions, of which none are needed without
        ``last_action``.
        """
        lanes, agents = frames.shape[:2]
        numbers = np.broadcast_to(np.eye(agents, dtype=np.float32), (lanes, agents, agents))
        behind = [numbers] if self.identity else []
        behind += [last] if self.last_action else []
        return encoded(frames, self.centre, self.scale, behind)

    def step(
        self, inputs: np.ndarray, hidden: np.ndarray, seated: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return what comes out for every seat, (lanes, agents, actions) float32, and new memory.

        ``inputs`` (lanes, agents, inputs) are as the method of this name returns them, and
        ``hidden`` (lanes, agents, hidden) is what was remembered, which is not written to. Outputs
        of the head "argmax" are those before the choice. Outside of the seats ``seated`` (lanes,
        agents) bool, if they are given, outputs are 0 and the memory stays as it is.
        """
        lanes, agents = inputs.shape[:2]
        filled = np.zeros((lanes, agents, self.actions), np.float32)
        remembered = np.array(hidden, np.float32, order="C")
        widest = max(layer.weights.shape[2] for layer in self.layers)
        scratch = np.zeros((4, widest), np.float32)
        rows = np.ascontiguousarray(inputs, np.float32)
        seats = self.seats if self.seats.size else np.zeros(agents, np.int64)
        if seated is None:
            seated = np.ones((lanes, agents), np.bool_)
        seated = np.ascontiguousarray(seated)
        kinds = ACTIVATIONS.index(self.activation), HEADS.index(self.head)
        _forward(rows, seats, seated, *kinds, *self._flat(), scratch, remembered, filled)
        return filled, remembered

    def _flat(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of each model in one row, (models, size), and kinds and sizes."""
        models = len(self.layers[0].weights)
        parts = [array.reshape(models, -1) for array in _numbers(self.layers)]
        rows = [(_KINDS.index(layer.kind), layer.inputs, layer.outputs) for layer in self.layers]
        return np.concatenate(parts, axis=1), np.array(rows, np.int64)


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
    inputs: np.ndarray,
    seats: np.ndarray,
    seated: np.ndarray,
    activation: int,
    head: int,
    numbers: np.ndarray,
    layers: np.ndarray,
    scratch: np.ndarray,
    hidden: np.ndarray,
    filled: np.ndarray,
) -> None:
    """Fill ``filled`` with outputs and renew ``hidden``, row after row, sums in a fixed order."""
    final = len(layers) - 1
    for i in range(len(inputs)):
        for a in range(inputs.shape[1]):
            if not seated[i, a]:
                continue
            row, state, x = numbers[seats[a]], hidden[i, a], inputs[i, a]
            at = begin = 0
            for layer in range(final + 1):
                kind, enter, outputs = layers[layer, 0], layers[layer, 1], layers[layer, 2]
                y = scratch[layer % 2]
                if kind == _IS_GRU:
                    seen, past = scratch[2], scratch[3]
                    memory = state[begin : begin + outputs]
                    _affine(x, row, at, enter, 3 * outputs, seen)
                    at += (enter + 1) * 3 * outputs
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
                    x = y
                    continue
                _affine(x, row, at, enter, outputs, y)
                at += (enter + 1) * outputs
                x = y
                if layer == final:
                    continue
                if activation == _TANH:
                    for k in range(outputs):
                        y[k] = tanh(y[k])
                else:
                    for k in range(outputs):
                        y[k] = max(y[k], np.float32(0.0))
            for k in range(filled.shape[2]):
                out = x[k]
                if head == _SQUASH:
                    out = tanh(out)
                elif head == _CLIP:
                    out = min(max(out, np.float32(-1.0)), np.float32(1.0))
                filled[i, a, k] = out


_forward = compiled(_run)


class Memory(NamedTuple):
    """What a network at play remembers of each lane."""

    low: np.ndarray  # (lanes, agents, dim) bounds of actions
    high: np.ndarray
    past: np.ndarray  # (lanes, agents, history - 1, features) observations, the last one first
    fresh: np.ndarray  # (lanes,) bool, nothing has been seen: the past is like the present
    hidden: np.ndarray  # (lanes, agents, hidden) float32, zeros at first
    last: np.ndarray  # (lanes, agents, actions) float32, the last action as it enters the network


class NetworkPolicy:
    """A network at play: outputs in [-1, 1] in units of each seat's action range, or choices."""

    uses_masks = True
    uses_seats = True
    uses_vectors = True  # of environments of other packages, see ``Codec.vectors``

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
        network, lanes, agents = self.network, len(seeds), len(game.agents)
        low, high = (np.broadcast_to(b, (lanes, *b.shape)) for b in (game.low, game.high))
        shapes = (
            (network.history - 1, network.features),
            (network.hidden,),
            (network.actions if network.last_action else 0,),
        )
        past, hidden, last = (np.zeros((lanes, agents, *shape), np.float32) for shape in shapes)
        return Memory(low, high, past, np.ones(lanes, np.bool_), hidden, last)

    def check(self, game: Game) -> None:
        """Raise ``ValueError`` unless this policy can play ``game``."""
        network = self.network
        shape = Shape(
            environment=self.facts["environment"],
            agents=len(network.seats) or None,
            features=network.features,
            actions=network.actions,
            discrete=network.head == "argmax",
        )
        check_game(self.name, shape, game)

    def act(
        self,
        observations: np.ndarray,
        memory: Memory,
        masks: np.ndarray | None,
        seated: np.ndarray | None = None,
    ) -> tuple[np.ndarray, Memory]:
        """Return actions (lanes, agents, dim), or the best legal choices (lanes, agents).

        Those outside of the seats ``seated`` (None: all), see ``Network.step``, mean nothing.
        """
        network, now = self.network, observations[:, :, None]
        frames, past = now, memory.past
        if network.history > 1:
            past = np.where(memory.fresh[:, None, None, None], now, past)
            frames = np.concatenate([now, past], axis=2)
            past = frames[:, :, :-1]
        inputs = network.inputs(frames, memory.last)
        outputs, hidden = network.step(inputs, memory.hidden, seated)
        actions = actions_of(outputs, network.head, (memory.low, memory.high), masks)
        last = memory.last
        if network.last_action:
            chosen = np.eye(network.actions, dtype=np.float32)
            last = chosen[actions] if network.head == "argmax" else outputs
        fresh = np.zeros_like(memory.fresh)
        return actions, Memory(memory.low, memory.high, past, fresh, hidden, last)

    def pack(self) -> bytes:
        """Return the policy as the content of an npz file, which ``read_policy`` reads.

        Weights and biases are in half precision where that loses nothing.
        """
        network, kind = self.network, self.network.kind
        settings = {name: getattr(network, name) for name in _SETTINGS[kind]}
        if kind == RECURRENT:
            settings["layers"] = [layer.kind for layer in network.layers]
        arrays = {"seats": network.seats, "centre": network.centre, "scale": network.scale}
        halves = _numbers(_in_half_precision(network.layers))
        is_rounded = all(map(np.array_equal, halves, _numbers(network.layers)))
        precision = np.float16 if is_rounded else np.float32
        for k, layer in enumerate(network.layers):
            parts = layer.as_type(precision).parts()
            arrays |= {f"{name}.{k}": array for name, array in parts.items()}
        return content_of(kind, Content(self.facts, settings, arrays))

    @classmethod
    def read(cls, content: Content) -> "NetworkPolicy":
        """Return the policy that the content of a file means; ``ValueError`` if it is not one."""
        facts, settings, arrays = content
        allowed_settings = _SETTINGS[RECURRENT if "layers" in settings else PERCEPTRON]
        if sorted(settings) != sorted(allowed_settings):
            raise ValueError(f"it states {sorted(settings)}, not {sorted(allowed_settings)}")
        linear = [LINEAR for name in arrays if name.startswith("weights.")]
        kinds = settings.get("layers", linear)
        if not isinstance(kinds, list) or not all(kind in _KINDS for kind in kinds):
            raise ValueError(f"its layers are {kinds!r}; allowed: a list of {', '.join(_KINDS)}")
        parts = [[f"{name}.{k}" for name in _PARTS[kind]] for k, kind in enumerate(kinds)]
        allowed = {"seats", "centre", "scale", *itertools.chain(*parts)}
        if set(arrays) != allowed:
            raise ValueError(f"it holds the arrays {sorted(arrays)}, not {sorted(allowed)}")
        network = Network(
            seats=arrays["seats"].astype(np.int64),
            layers=tuple(
                Layer(kind, *(_single(arrays[name]) for name in names))
                for kind, names in zip(kinds, parts, strict=True)
            ),
            centre=arrays["centre"],
            scale=arrays["scale"],
            identity=bool(settings["identity"]),
            activation=str(settings["activation"]),
            head=str(settings["head"]),
            history=int(settings.get("history", 1)),
            last_action=bool(settings.get("last_action", False)),
        )
        differing = [
            f"{name} {facts['hyperparameters'][name]!r}, and its network has {text}"
            for name, text in _contradicted(network, facts["hyperparameters"]).items()
        ]
        if differing:
            raise ValueError(f"it states the hyperparameter {'; '.join(differing)}")
        return cls(network, facts)


def _single(array: np.ndarray) -> np.ndarray:
    """Return weights of a file, which may be in half precision, as the loop needs them."""
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _contradicted(network: Network, stated: Mapping[str, Any]) -> dict[str, str]:
    """Return what a network has, by hyperparameter, where the hyperparameters say otherwise.

    Learners state ``layers`` (widths with x between them; of a network with memory one is enough)
    or ``hidden`` (the width of all layers), and ``recurrent``, ``history`` and ``activation``.
    """
    widths = [layer.outputs for layer in network.layers[:-1]]
    text, same = "x".join(map(str, widths)), widths[:1] if len(set(widths)) == 1 else []
    allowed: dict[str, list[Any]] = {
        "layers": [text, *(map(str, same) if network.hidden else ())],
        "hidden": same,
        "recurrent": [network.hidden > 0],
        "history": [network.history],
        "activation": list(ACTIVATIONS) if network.hidden else [network.activation],
    }
    found = {
        "layers": f"hidden layers of {text or 'no'} numbers",
        "hidden": f"hidden layers of {text or 'no'} numbers",
        "recurrent": "a memory" if network.hidden else "no memory",
        "history": f"a history of {network.history}",
        "activation": repr(network.activation),
    }
    return {n: found[n] for n, values in allowed.items() if n in stated and stated[n] not in values}
