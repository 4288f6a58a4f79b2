"""Networks that learn: perceptrons, networks with memory, and their layers as data."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from coopbench.baselines.learners.checkpoint import array_of
from coopbench.baselines.learners.gated import remember
from coopbench.baselines.learners.torch_tools import layer_sizes
from coopbench.baselines.networks.network import GRU, LINEAR, Layer

__all__ = [
    "Backward",
    "Body",
    "Perceptron",
    "Recurrent",
    "body_of",
    "layers_of",
    "memory_width",
    "outputs_of",
]

Backward = Callable[[torch.Tensor], None]  # from gradients of outputs to those of parameters

# Parameters of torch's layers in the order of those of ``Layer``.
_NAMES = {
    LINEAR: ("weight", "bias"),
    GRU: ("weight_ih_l0", "bias_ih_l0", "weight_hh_l0", "bias_hh_l0"),
}


class Perceptron(torch.nn.Sequential):
    """Linear layers of ``widths`` with an activation between them: a network without memory."""

    hidden = 0

    def __init__(self, widths: Sequence[int], activation: str = "relu") -> None:
        between = torch.nn.Tanh if activation == "tanh" else torch.nn.ReLU
        layers: list[torch.nn.Module] = []
        for inputs, outputs in itertools.pairwise(widths):
            layers += [torch.nn.Linear(inputs, outputs), between()]
        super().__init__(*layers[:-1])
        self._tanh = activation == "tanh"

    @property
    def layers(self) -> list[Any]:
        """Return the linear layers in their order."""
        return list(self)[::2]

    def run(self, inputs: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return outputs of inputs (steps, rows, inputs), and the memory (rows, 0) as it was."""
        outputs = self._entering(inputs.flatten(0, 1))[-1]
        return outputs.view(*inputs.shape[:2], -1), memory

    def fit(self, inputs: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, Backward]:
        """Return outputs of inputs (steps, rows, inputs), and what writes gradients from theirs.

        The derivatives are written out: with minibatches of some dozens of rows, automatic
        differentiation takes longer than the products do. They can be written once, because they
        are computed in place.
        """
        *entering, outputs = self._entering(inputs.flatten(0, 1))
        layers = self.layers

        @torch.no_grad()
        def backward(gradient: torch.Tensor) -> None:
            gradient = gradient.flatten(0, 1)
            for layer, values in zip(reversed(layers), reversed(entering), strict=True):
                torch.mm(gradient.T, values, out=layer.weight.grad)
                torch.sum(gradient, 0, out=layer.bias.grad)
                if layer is not layers[0]:
                    slopes = values.square_().neg_().add_(1.0) if self._tanh else values.sign_()
                    gradient = (gradient @ layer.weight).mul_(slopes)

        return outputs.view(*inputs.shape[:2], -1), backward

    @torch.no_grad()
    def _entering(self, rows: torch.Tensor) -> list[torch.Tensor]:
        """Return what enters each layer for rows (rows, inputs), and the outputs."""
        *hidden, last = self.layers
        entering = [rows]
        for layer in hidden:
            values = torch.addmm(layer.bias, entering[-1], layer.weight.T)
            if self._tanh:
                np.tanh(values.numpy(), out=values.numpy())  # a fifth of torch's time
            else:
                values.relu_()
            entering.append(values)
        return [*entering, torch.addmm(last.bias, entering[-1], last.weight.T)]

    def of_rows(
        self, inputs: torch.Tensor, counts: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return outputs of rows, and in place of memories what enters the last layer."""
        entering = inputs
        for layer in list(self)[:-1]:
            entering = layer(entering)
        return self[-1](entering), entering


class Recurrent(torch.nn.Module):
    """A network with memory: a linear layer with ReLU, a GRU, and a linear layer."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.enter = torch.nn.Linear(inputs, hidden)
        self.memory = torch.nn.GRU(hidden, hidden)
        self.leave = torch.nn.Linear(hidden, outputs)

    @property
    def layers(self) -> list[Any]:
        """Return the layers in their order."""
        return [self.enter, self.memory, self.leave]

    def run(self, inputs: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return outputs of inputs (steps, rows, inputs) and the memory (rows, hidden) after them.

        ``memory`` is that before the first step.
        """
        remembered, after = self.memory(torch.relu(self.enter(inputs)), memory[None])
        return self.leave(remembered), after[0]

    def fit(self, inputs: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, Backward]:
        """Return outputs of inputs (steps, rows, inputs), and what adds gradients from theirs."""
        outputs, _ = self.run(inputs, memory)
        return outputs.detach(), outputs.backward

    def of_rows(
        self, inputs: torch.Tensor, counts: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return outputs (rows, outputs) of whole sequences and memories (rows, hidden) after them.

        Rows and ``counts`` are as in ``gated.remember``.
        """
        memories = remember(self.memory, torch.relu(self.enter(inputs)), counts)
        return self.leave(memories), memories


Body = Perceptron | Recurrent


def memory_width(layers: str) -> int:
    """Return the width of a recurrent network; ``ValueError`` unless all widths are the same."""
    widths = layer_sizes(layers)
    if len(set(widths)) > 1 or len(widths) > 2:
        raise ValueError(
            f"layers was {layers!r} with recurrent=True; allowed: one width, or twice the same, of "
            f"the linear layer and of the GRU behind it, for instance '64x64'."
        )
    return widths[0]


def body_of(inputs: int, outputs: int, params: Any, gain: float) -> Body:
    """Return a new network as the hyperparameters say, the last layer scaled by ``gain``.

    All matrices are orthogonal and all biases zero at the beginning.
    """
    if params.recurrent:
        body: Body = Recurrent(inputs, memory_width(params.layers), outputs)
    else:
        body = Perceptron([inputs, *layer_sizes(params.layers), outputs], params.activation)
    for parameter in body.parameters():
        if parameter.ndim > 1:
            torch.nn.init.orthogonal_(parameter, float(np.sqrt(2.0)))
        else:
            torch.nn.init.zeros_(parameter)
    torch.nn.init.orthogonal_(body.layers[-1].weight, gain)
    return body


def outputs_of(
    models: Sequence[Body],
    groups: Sequence[np.ndarray],
    inputs: torch.Tensor,
    counts: Sequence[int],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return outputs (places, agents, outputs) and memories (places, agents, hidden) of all seats.

    ``inputs`` (places, agents, inputs) are in the order of ``sequences.Batch``, with its
    ``counts``; ``groups`` are the seats of each model.
    """
    results: list[list[torch.Tensor]] = []
    for model, seats in zip(models, groups, strict=True):
        rows = inputs[:, seats] if len(models) > 1 else inputs
        parts = model.of_rows(rows.flatten(0, 1), [count * len(seats) for count in counts])
        results.append([part.reshape(*rows.shape[:2], -1) for part in parts])
    if len(models) == 1:
        outputs, memories = results[0]
        return outputs, memories
    order = torch.from_numpy(np.argsort(np.concatenate(groups), kind="stable"))
    outputs, memories = (torch.cat(parts, dim=1)[:, order] for parts in zip(*results, strict=True))
    return outputs, memories


def layers_of(models: Sequence[Sequence[torch.nn.Module]]) -> tuple[Layer, ...]:
    """Return the layers of all models, linear ones and GRUs in their order, as data."""
    return tuple(_layer(modules) for modules in zip(*models, strict=True))


def _layer(modules: Sequence[torch.nn.Module]) -> Layer:
    """Return one layer of all models as data."""
    kind = GRU if isinstance(modules[0], torch.nn.GRU) else LINEAR
    parts = []
    for name in _NAMES[kind]:
        arrays = [array_of(module.get_parameter(name)) for module in modules]
        parts.append(np.stack([array.T if array.ndim > 1 else array for array in arrays]))
    return Layer(kind, *parts)
