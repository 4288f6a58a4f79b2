"""The state of a learner as arrays: its parts under their names, and whose training it is.

A learner names its parts; what is said here about each kind of part saves, checks and loads it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from coopbench_envs.arrays import LIMIT

__all__ = [
    "LARGEST",
    "Part",
    "Parts",
    "Saved",
    "array_of",
    "check_saved",
    "load_parts",
    "numbered",
    "part",
    "save_parts",
    "under",
]

LARGEST = int(0.75 * LIMIT)  # bytes of a saved state that steps and episodes in it may take
_ADAM = ("step", "exp_avg", "exp_avg_sq")


@runtime_checkable
class Saved(Protocol):
    """A part that saves and loads itself; its arrays have any size.

    Where sizes follow from what is saved, ``forms(saved)`` returns arrays of the shapes and types
    that ``saved`` must have; it raises ``ValueError`` for what cannot be. Else they are those of
    ``save``.
    """

    def save(self) -> dict[str, np.ndarray]:
        """Return everything as arrays by name, which may change when the learner goes on."""

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what ``save`` has returned."""


@runtime_checkable
class Parts(Protocol):
    """Something that consists of parts."""

    def parts(self) -> "dict[str, Part]":
        """Return the parts by name; arrays and tensors among them are written to in place."""


Part = torch.nn.Module | torch.optim.Optimizer | torch.Tensor | np.ndarray | Parts | Saved


def numbered(things: Iterable[Parts]) -> "dict[str, Part]":
    """Return the parts of several things by name and number: ``name.0`` and so on."""
    return {
        f"{name}.{k}": one for k, thing in enumerate(things) for name, one in thing.parts().items()
    }


def under(name: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays with ``name.`` before their names, as parts of a larger whole."""
    return {f"{name}.{key}": array for key, array in arrays.items()}


def part(arrays: Mapping[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """Return the arrays that ``under`` has put under a name, without it."""
    start = f"{name}."
    return {k.removeprefix(start): array for k, array in arrays.items() if k.startswith(start)}


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """Return a copy of a tensor as an array."""
    array: np.ndarray = tensor.detach().cpu().numpy().copy()
    return array


def save_parts(parts: "Mapping[str, Part]") -> dict[str, np.ndarray]:
    """Return all parts as arrays; those of parts that save themselves need not be copies."""
    arrays: dict[str, np.ndarray] = {}
    for name, one in parts.items():
        if isinstance(one, np.ndarray):
            arrays[name] = one.copy()
        elif isinstance(one, torch.Tensor):
            arrays[name] = array_of(one)
        else:
            arrays |= under(name, _saved(one))
    return arrays


def _saved(one: Any) -> dict[str, np.ndarray]:
    """Return a part that has several arrays as these."""
    if isinstance(one, torch.nn.Module):
        return {name: array_of(tensor) for name, tensor in one.state_dict().items()}
    if isinstance(one, torch.optim.Optimizer):
        return _moments(one)
    saved: dict[str, np.ndarray] = save_parts(one.parts()) if isinstance(one, Parts) else one.save()
    return saved


def load_parts(parts: "Mapping[str, Part]", arrays: Mapping[str, np.ndarray]) -> None:
    """Continue from arrays that ``check_saved`` has let pass."""
    for name, one in parts.items():
        saved = part(arrays, name)
        if isinstance(one, np.ndarray):
            one[...] = arrays[name]
        elif isinstance(one, torch.Tensor):
            with torch.no_grad():
                one.copy_(torch.from_numpy(arrays[name]))
        elif isinstance(one, torch.nn.Module):
            one.load_state_dict({key: torch.tensor(array) for key, array in saved.items()})
        elif isinstance(one, torch.optim.Optimizer):
            _put_moments(one, saved)
        elif isinstance(one, Parts):
            load_parts(one.parts(), saved)
        else:
            one.load(saved)


def _forms(parts: "Mapping[str, Part]", arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays of the shapes and types that ``arrays`` must have to be loaded."""
    forms: dict[str, np.ndarray] = {}
    for name, one in parts.items():
        forms_of = getattr(one, "forms", None)
        if isinstance(one, Parts):
            forms |= under(name, _forms(one.parts(), part(arrays, name)))
        elif forms_of is not None:
            forms |= under(name, forms_of(part(arrays, name)))
        else:
            forms |= save_parts({name: one})
    return forms


def check_saved(
    parts: "Mapping[str, Part]", saved: Mapping[str, np.ndarray], origin: str, learner: str
) -> None:
    """Raise ``ValueError`` unless ``saved`` may replace the ``parts`` of a learner.

    Beside these it holds "origin", which must say ``origin``. Arrays must have the same names,
    shapes and types.
    """
    before = bytes(saved.get("origin", b"")).decode()
    if before != origin:
        raise ValueError(
            f"The saved state does not fit {learner}: it is of {before or 'unknown origin'}; "
            f"allowed: {origin}."
        )
    current = _forms(parts, saved)
    for name in sorted({*saved, *current} - {"origin"}):
        found, expected = (_form(arrays, name) for arrays in (saved, current))
        if found != expected:
            raise ValueError(
                f"The saved state does not fit {learner}: {name!r} is {found}; allowed: {expected}."
            )


def _form(arrays: Mapping[str, np.ndarray], name: str) -> str:
    """Return type and shape of an array as text; "absent" if there is none of that name."""
    return f"{arrays[name].dtype} {arrays[name].shape}" if name in arrays else "absent"


def _moments(optimiser: torch.optim.Optimizer) -> dict[str, np.ndarray]:
    """Return Adam's moments of every parameter, as ``number.name``; zeros before its first step."""
    arrays = {}
    for number, parameter in enumerate(_parameters(optimiser)):
        moments = optimiser.state.get(parameter)
        for name in _ADAM:
            shape = () if name == "step" else tuple(parameter.shape)
            empty = np.zeros(shape, np.float32)
            arrays[f"{number}.{name}"] = array_of(moments[name]) if moments else empty
    return arrays


def _put_moments(optimiser: torch.optim.Optimizer, arrays: Mapping[str, np.ndarray]) -> None:
    """Write saved moments into Adam."""
    for number, parameter in enumerate(_parameters(optimiser)):
        moments = {name: torch.tensor(arrays[f"{number}.{name}"]) for name in _ADAM}
        optimiser.state[parameter] = moments


def _parameters(optimiser: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the parameters of an optimiser in the order of its groups."""
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]
