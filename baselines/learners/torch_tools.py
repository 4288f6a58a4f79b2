"""What learners on torch share: random numbers apart from others, gradient steps, and sizes."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.distributions import Distribution

from coopbench.baselines.errors import Diverged
from coopbench.baselines.learners.hyperparameters import ADAM, RMSPROP
from coopbench_envs.core import streams

__all__ = [
    "Descent",
    "bytes_of",
    "descend",
    "layer_sizes",
    "optimizer_of",
    "torch_apart",
    "torch_seed",
]

# Salt: random numbers of a learner differ from those of all games.
_NUMBERS = 0x6E6F697365
_DEEPEST, _WIDEST = 4, 1024


def layer_sizes(text: str) -> list[int]:
    """Return the widths of layers, written as in "128x128"; ``ValueError`` for other text."""
    parts = text.split("x")
    widths = [int(part) if part.isascii() and part.isdigit() else 0 for part in parts]
    if len(widths) > _DEEPEST or not all(1 <= width <= _WIDEST for width in widths):
        raise ValueError(
            f"Parameter 'layers' was {text!r}; allowed: 1 to {_DEEPEST} widths of 1 to {_WIDEST} "
            f"with x between them, for instance '64x64'."
        )
    return widths


def torch_seed(seed: int) -> np.ndarray:
    """Return the state of torch's random numbers that a training begins with."""
    mixed = int(streams(np.array([seed], np.uint64), 0, _NUMBERS)[0])
    state: np.ndarray = torch.Generator().manual_seed(mixed).get_state().numpy()
    return state


@contextmanager
def torch_apart(state: np.ndarray) -> Iterator[None]:
    """Use torch with one thread, float32 and random numbers apart; then put its settings back.

    ``state`` is where the random numbers continue; it is written to at the end. Distributions do
    not check their arguments meanwhile: learners test themselves what is not finite.
    """
    threads, checked = torch.get_num_threads(), Distribution._validate_args
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(1)
    Distribution.set_default_validate_args(False)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(torch.from_numpy(state.copy()))
            yield
            state[:] = torch.get_rng_state().numpy()
    finally:
        torch.set_default_dtype(usual)
        torch.set_num_threads(threads)
        Distribution.set_default_validate_args(checked)


def bytes_of(make: Callable[[], Any]) -> int:
    """Return the bytes of the tensors that are attributes of an object; none is allocated."""
    with torch.device("meta"):
        return sum(tensor.nbytes for tensor in vars(make()).values())


def optimizer_of(
    modules: Iterable[torch.nn.Module], learning_rate: float, name: str = ADAM
) -> torch.optim.Optimizer:
    """Return the optimizer of this name, of all parameters of these modules.

    RMSprop has the constants of PyMARL, which SMAC's results are made with (Samvelyan et al. 2019).
    """
    parameters = [parameter for module in modules for parameter in module.parameters()]
    if name == RMSPROP:
        return torch.optim.RMSprop(parameters, lr=learning_rate, alpha=0.99, eps=1e-5)
    return torch.optim.Adam(parameters, lr=learning_rate, fused=True)


def descend(
    optimiser: torch.optim.Optimizer, loss: torch.Tensor, largest: float, of: str = "a model"
) -> None:
    """Make a gradient step of norm up to ``largest``; ``Diverged`` unless it is finite.

    No other parameters that the loss depends on get a gradient.
    """
    parameters = [one for group in optimiser.param_groups for one in group["params"]]
    gradients = torch.autograd.grad(loss, parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    norm = torch.nn.utils.clip_grad_norm_(parameters, largest)
    if not torch.isfinite(norm + loss.detach()):
        raise Diverged(f"The loss of {of} or its gradient is not finite.")
    optimiser.step()


class Descent:
    """Gradient steps of modules whose parameters lie in one array, and their gradients in another.

    So a step is a few operations, however many parameters there are. The gradients of each of the
    ``groups`` of modules have a norm of at most ``largest``.
    """

    def __init__(self, groups: Sequence[torch.nn.Module], learning_rate: float, largest: float):
        parameters = [list(group.parameters()) for group in groups]
        whole = list(itertools.chain(*parameters))
        values = torch.nn.Parameter(torch.cat([one.detach().flatten() for one in whole]))
        self._all = values.grad = torch.zeros_like(values)
        self._largest = largest
        sizes = [one.numel() for one in whole]
        places = torch.split(values.data, sizes), torch.split(self._all, sizes)
        for one, value, gradient in zip(whole, *places, strict=True):
            one.data, one.grad = value.view_as(one), gradient.view_as(one)
        lengths = [sum(map(torch.numel, some)) for some in parameters]
        self._gradients = torch.split(self._all, lengths)
        self.optimiser = torch.optim.Adam([values], lr=learning_rate, eps=1e-5, fused=True)

    def begin(self) -> None:
        """Set all gradients to zero: automatic differentiation adds to them."""
        self._all.zero_()

    @torch.no_grad()
    def step(self, loss: float) -> None:
        """Make a step by the gradients of a loss; ``Diverged`` unless both are finite."""
        for gradient in self._gradients:
            norm = float(torch.linalg.vector_norm(gradient))
            if not np.isfinite(norm + loss):
                raise Diverged("The loss of a model or its gradient is not finite.")
            if norm > self._largest:
                gradient *= self._largest / (norm + 1e-6)
        self.optimiser.step()
