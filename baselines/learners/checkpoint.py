"""The state of a learner as arrays: its parts under their names, and whose training it is.

A learner names its parts; what is said here about each kind of part saves, checks and loads it.
"""

from collections.abc import Iterable, Iterator, Mapping
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


def under(name: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
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
    for name, leaf in _leaves(parts):
        if isinstance(leaf, np.ndarray):
            arrays[name] = leaf.copy()
        elif isinstance(leaf, torch.Tensor):
            arrays[name] = array_of(leaf)
        else:
            arrays |= under(name, leaf.save())
    return arrays


def load_parts(parts: "Mapping[str, Part]", arrays: Mapping[str, np.ndarray]) -> None:
    """Continue from arrays that ``check_saved`` has let pass."""
    for name, leaf in _leaves(parts):
        if isinstance(leaf, np.ndarray):
            leaf[...] = arrays[name]
        elif isinstance(leaf, torch.Tensor):
            with torch.no_grad():
                leaf.copy_(torch.from_numpy(arrays[name]))
        else:
            leaf.load(part(arrays, name))


def _leaves(parts: "Mapping[str, Part]") -> Iterator[tuple[str, Any]]:
    """Yield all arrays and tensors, and all parts that save themselves, with their names."""
    for name, one in parts.items():
        inner: Mapping[str, Any] | None = None
        if isinstance(one, torch.nn.Module):
            inner = one.state_dict()
        elif isinstance(one, torch.optim.Optimizer):
            inner = _moments(one)
        elif isinstance(one, Parts):
            inner = one.parts()
        yield from [(name, one)] if inner is None else under(name, dict(_leaves(inner))).items()


def _moments(optimiser: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Return the moments of every parameter in Adam or RMSprop, as ``number.name``.

    Before the first step they are zeros, as the optimizer sets them itself.
    """
    adam = isinstance(optimiser, torch.optim.Adam)
    names = ("exp_avg", "exp_avg_sq") if adam else ("square_avg",)
    parameters = [one for group in optimiser.param_groups for one in group["params"]]
    moments: dict[str, torch.Tensor] = {}
    for number, parameter in enumerate(parameters):
        state = optimiser.state[parameter]
        if not state:
            state |= {name: torch.zeros_like(parameter) for name in names}
            state["step"] = torch.tensor(0.0)
        moments |= {f"{number}.{name}": state[name] for name in ("step", *names)}
    return moments


def _forms(parts: "Mapping[str, Part]", arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays of the shapes and types that ``arrays`` must have to be loaded."""
    forms: dict[str, np.ndarray] = {}
    for name, leaf in _leaves(parts):
        forms_of = getattr(leaf, "forms", None)
        if forms_of is None:
            forms |= save_parts({name: leaf})
        else:
            forms |= under(name, forms_of(part(arrays, name)))
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
