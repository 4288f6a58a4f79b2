"""Programs: the loops of an engine as functions of a GPU, of which every thread plays one lane.

A program is a template whose globals are bound anew, as in ``drivers``, with the types of its
arguments. Nothing here needs a GPU or numba-cuda.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Program", "keep", "play", "select", "take_boxes", "take_choices"]

# What the templates below call, bound where they are compiled.
grid: Any = None  # numba.cuda.grid
drive: Any = None  # the driver of an environment
choose: Any = None  # what translates choices


@dataclass(frozen=True)
class Program:
    """A template, the names that are bound in it, and its arguments, whose types it is made for."""

    template: Callable[..., None]
    names: Mapping[str, Any]
    arguments: tuple[Any, ...]  # numbers, arrays and NamedTuples of them
    unique: str  # a name with a hash of all sources that the program is made of


def play(p, s, c, actions, refused, op, lanes):  # type: ignore[no-untyped-def]
    """Do ``op`` in the lane of this thread; count where it was refused.

    A step is refused in a lane whose actions are not finite: nothing in that lane changes.
    """
    i = grid(1)
    if i < lanes and not drive(p, s, c, actions, op, i, i + 1):
        refused[i] += 1


def select(values, turn, chosen, actions, lanes):  # type: ignore[no-untyped-def]
    """Translate the choices in the lane of this thread; see ``choices.choose``."""
    i = grid(1)
    if i < lanes:
        choose(values, turn, chosen, actions, i)


def keep(c, f, lanes):  # type: ignore[no-untyped-def]
    """Choose the lanes that are done, and keep what their last step has shown in ``f``."""
    i = grid(1)
    if i < lanes:
        c.chosen[i] = c.done[i]
        if c.done[i]:
            for a in range(c.alive.shape[1]):
                f.returns[i, a] = c.returns[i, a]
                f.alive[i, a] = c.alive[i, a]
                f.invalid[i, a] = c.invalid[i, a]
                for k in range(c.obs.shape[2]):
                    f.obs[i, a, k] = c.obs[i, a, k]
                for k in range(c.masks.shape[2]):
                    f.masks[i, a, k] = c.masks[i, a, k]
            for k in range(c.measures.shape[1]):
                f.measures[i, k] = c.measures[i, k]
            for k in range(c.state.shape[1]):
                f.state[i, k] = c.state[i, k]


def take_choices(actions, source, lanes):  # type: ignore[no-untyped-def]
    """Copy discrete actions from an array of any type of integers and any strides."""
    i = grid(1)
    if i < lanes:
        for a in range(actions.shape[1]):
            actions[i, a] = source[i, a]


def take_boxes(actions, source, lanes):  # type: ignore[no-untyped-def]
    """Copy Box actions from an array of any type of numbers and any strides."""
    i = grid(1)
    if i < lanes:
        for a in range(actions.shape[1]):
            for k in range(actions.shape[2]):
                actions[i, a, k] = source[i, a, k]
