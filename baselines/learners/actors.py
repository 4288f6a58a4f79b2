"""Networks of actors and critics, with and without memory, and what actors draw from."""

import itertools
from typing import Any

import numpy as np
import torch

from coopbench.baselines.errors import Diverged
from coopbench.baselines.learners.experience import Rows
from coopbench.baselines.learners.sequences import Recurrent
from coopbench.baselines.learners.torch_tools import layer_sizes

__all__ = [
    "Actor",
    "Perceptron",
    "body_of",
    "memory_width",
]

_HALF_LOG_TAU = 0.5 * float(np.log(2.0 * np.pi))


class Perceptron:
    """A network without memory, with the interface of ``Recurrent``."""

    hidden = 0

    def __init__(self, widths: list[int], activation: str) -> None:
        between = torch.nn.Tanh if activation == "tanh" else torch.nn.ReLU
        layers: list[torch.nn.Module] = []
        for inputs, outputs in itertools.pairwise(widths):
            layers += [torch.nn.Linear(inputs, outputs), between()]
        self.module = torch.nn.Sequential(*layers[:-1])

    @property
    def layers(self) -> list[Any]:
        """Return the linear layers in their order."""
        return list(self.module)[::2]

    def run(self, inputs: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return outputs of inputs (steps, rows, inputs), and the memory (rows, 0) as it was."""
        return self.module(inputs), memory


def memory_width(layers: str) -> int:
    """Return the width of a recurrent network; ``ValueError`` unless all widths are the same."""
    widths = layer_sizes(layers)
    if len(set(widths)) > 1 or len(widths) > 2:
        raise ValueError(
            f"layers was {layers!r} with recurrent=True; allowed: one width, or twice the same, of "
            f"the linear layer and of the GRU behind it, for instance '64x64'."
        )
    return widths[0]


def body_of(inputs: int, outputs: int, params: Any, gain: float) -> Perceptron | Recurrent:
    """Return a new network as the hyperparameters say, the last layer scaled by ``gain``.

    All matrices are orthogonal and all biases zero at the beginning.
    """
    body: Perceptron | Recurrent
    if params.recurrent:
        body = Recurrent(inputs, memory_width(params.layers), outputs)
        last = body.module["leave"]
    else:
        body = Perceptron([inputs, *layer_sizes(params.layers), outputs], params.activation)
        last = body.layers[-1]
    for parameter in body.module.parameters():
        if parameter.ndim > 1:
            torch.nn.init.orthogonal_(parameter, float(np.sqrt(2.0)))
        else:
            torch.nn.init.zeros_(parameter)
    torch.nn.init.orthogonal_(last.get_parameter("weight"), gain)
    return body


class Actor:
    """Chooses actions: a normal distribution of their numbers, or one of the legal choices."""

    def __init__(self, rows: Rows, params: Any) -> None:
        self.discrete, self._squash = rows.discrete, params.squash and not rows.discrete
        self.body = body_of(rows.inputs, rows.outputs, params, 0.01)
        self.module = torch.nn.ModuleDict({"body": self.body.module})
        self._log_std = torch.nn.Parameter(torch.full((rows.outputs,), params.log_std))
        if not self.discrete:
            self.module.register_parameter("log_std", self._log_std)

    def _outputs(
        self, inputs: torch.Tensor, legal: torch.Tensor, memory: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return means, or logarithms of probabilities, and new memory."""
        outputs, memory = self.body.run(inputs, memory)
        if not torch.isfinite(outputs).all():
            raise Diverged("An output of a policy is not finite.")
        if self.discrete:
            outputs = outputs.masked_fill(~legal, torch.finfo(outputs.dtype).min)
            return torch.log_softmax(outputs, dim=-1), memory
        return torch.tanh(outputs) if self._squash else outputs, memory

    def act(
        self, inputs: torch.Tensor, legal: torch.Tensor, memory: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Draw actions of one step of all rows; return them, their log-probabilities and memory."""
        outputs, memory = self._outputs(inputs[None], legal[None], memory)
        if self.discrete:
            actions = torch.multinomial(outputs[0].exp(), 1)[:, 0]
        else:
            noise = torch.randn_like(outputs[0])
            actions = outputs[0] + self._log_std.exp() * noise
        return actions, self._log_probs(outputs, actions[None])[0], memory

    def judge(
        self,
        inputs: torch.Tensor,
        legal: torch.Tensor,
        memory: torch.Tensor,
        actions: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log-probabilities of actions (steps, rows) and entropies, in nats."""
        outputs, _ = self._outputs(inputs, legal, memory)
        log_probs = self._log_probs(outputs, actions)
        if self.discrete:
            return log_probs, -(outputs.exp() * outputs).sum(dim=-1)
        entropy = (0.5 + _HALF_LOG_TAU + self._log_std).sum()
        return log_probs, entropy.expand_as(log_probs)

    def _log_probs(self, outputs: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the logarithms of probabilities or densities of actions."""
        if self.discrete:
            return outputs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        apart = (actions - outputs) / self._log_std.exp()
        densities: torch.Tensor = -0.5 * apart**2 - self._log_std - _HALF_LOG_TAU
        return densities.sum(dim=-1)
