"""What all learners on torch share: random numbers apart from others', and modules as arrays."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.distributions import Distribution

from coopbench_envs.core import streams

__all__ = [
    "array_of",
    "bytes_of",
    "layer_sizes",
    "module_arrays",
    "optimiser_arrays",
    "put_module",
    "put_optimiser",
    "torch_apart",
    "torch_seed",
]

# Salt: random numbers of a learner differ from those of all games.
_NUMBERS = 0x6E6F697365
_DEEPEST, _WIDEST = 4, 1024
_ADAM = ("step", "exp_avg", "exp_avg_sq")


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
    """Use torch with one thread and random numbers apart; then put its settings back.

    ``state`` is where the random numbers continue; it is written to at the end. Distributions do
    not check their arguments meanwhile: learners test themselves what is not finite.
    """
    threads, checked = torch.get_num_threads(), Distribution._validate_args
    torch.set_num_threads(1)
    Distribution.set_default_validate_args(False)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(torch.from_numpy(state.copy()))
            yield
            state[:] = torch.get_rng_state().numpy()
    finally:
        torch.set_num_threads(threads)
        Distribution.set_default_validate_args(checked)


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """Return a copy of a tensor as an array."""
    array: np.ndarray = tensor.detach().cpu().numpy().copy()
    return array


def bytes_of(make: Callable[[], Any]) -> int:
    """Return the bytes of the tensors that are attributes of an object; none is allocated."""
    with torch.device("meta"):
        return sum(tensor.nbytes for tensor in vars(make()).values())


def module_arrays(module: torch.nn.Module) -> dict[str, np.ndarray]:
    """Return parameters and buffers of a module by name."""
    return {name: array_of(tensor) for name, tensor in module.state_dict().items()}


def put_module(module: torch.nn.Module, arrays: Mapping[str, np.ndarray]) -> None:
    """Write saved arrays into a module."""
    module.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})


def optimiser_arrays(optimiser: torch.optim.Optimizer) -> dict[str, np.ndarray]:
    """Return Adam's moments of every parameter, as ``number.name``; zeros before its first step."""
    arrays = {}
    for number, parameter in enumerate(_parameters(optimiser)):
        moments = optimiser.state.get(parameter)
        for name in _ADAM:
            shape = () if name == "step" else tuple(parameter.shape)
            empty = np.zeros(shape, np.float32)
            arrays[f"{number}.{name}"] = array_of(moments[name]) if moments else empty
    return arrays


def put_optimiser(optimiser: torch.optim.Optimizer, arrays: Mapping[str, np.ndarray]) -> None:
    """Write saved moments into Adam."""
    for number, parameter in enumerate(_parameters(optimiser)):
        moments = {name: torch.tensor(arrays[f"{number}.{name}"]) for name in _ADAM}
        optimiser.state[parameter] = moments


def _parameters(optimiser: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the parameters of an optimiser in the order of its groups."""
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]
