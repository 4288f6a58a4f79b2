"""Memory: the one place that lays out the arrays of an engine."""

from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.drivers import Control

__all__ = ["ORDERS", "Finals", "Host", "arranged", "control_of", "laid_out", "shortened"]

# Which axis lies innermost in memory: the last one, or the lane. Shapes and indices are the same.
ORDERS = ("C", "F")

# Fields of ``Control`` that are read agent by agent.
ROWS = ("obs", "masks", "state")


class Finals(NamedTuple):
    """What SAME_STEP keeps of the last step of a finished episode; as the fields of ``Control``."""

    obs: np.ndarray  # (lanes, agents, features) float32
    measures: np.ndarray  # (lanes, metrics) float64
    returns: np.ndarray  # (lanes, agents) float64
    masks: np.ndarray  # (lanes, agents, actions) int8
    alive: np.ndarray  # (lanes, agents) bool
    invalid: np.ndarray  # (lanes, agents) int64
    state: np.ndarray  # (lanes, size) float32


class Host(NamedTuple):
    """The arrays of an engine in the memory of the host."""

    constants: Any
    state: Any
    control: Control
    actions: np.ndarray  # (lanes, agents) int64, or (lanes, agents, dim) float64
    finals: Finals
    # With ``action_levels``: what agents choose, (lanes, agents) int64, and what it stands for.
    chosen: np.ndarray | None = None
    values: Any = None


def laid_out(array: np.ndarray, order: str) -> np.ndarray:
    """Return ``array`` in ``order``, itself if it is already."""
    return np.asfortranarray(array) if order == "F" else np.ascontiguousarray(array)


def arranged(arrays: Any, order: str, row_order: str) -> Any:
    """Return the NamedTuple ``arrays`` with all arrays in ``order``, but ``ROWS`` in ``row_order``.

    Fields that are one array stay one array.
    """
    rows = {id(getattr(arrays, name)) for name in ROWS if hasattr(arrays, name)}
    copies = {
        id(array): laid_out(array, row_order if id(array) in rows else order) for array in arrays
    }
    return type(arrays)(*(copies[id(array)] for array in arrays))


def shortened(arrays: Any, lanes: int) -> Any:
    """Return the NamedTuple ``arrays`` with views of the first ``lanes`` of every array."""
    return type(arrays)(*(array[:lanes] for array in arrays))


def control_of(
    lanes: int, agents: int, *, features: int, choices: int, metrics: int, state: int
) -> Control:
    """Allocate what a driver keeps; nothing has begun, every lane waits for its first reset."""
    return Control(
        seed=np.zeros(lanes, np.uint64),
        episode=np.full(lanes, -1, np.int64),
        rng=np.zeros(lanes, np.uint64),
        done=np.ones(lanes, np.bool_),
        alive=np.zeros((lanes, agents), np.bool_),
        returns=np.zeros((lanes, agents)),
        invalid=np.zeros((lanes, agents), np.int64),
        chosen=np.ones(lanes, np.bool_),
        moved=np.zeros(lanes, np.bool_),
        rewards=np.zeros((lanes, agents)),
        terminated=np.zeros((lanes, agents), np.bool_),
        truncated=np.zeros(lanes, np.bool_),
        ended=np.zeros(lanes, np.bool_),
        team=np.zeros(lanes),
        obs=np.zeros((lanes, agents, features), np.float32),
        measures=np.zeros((lanes, metrics)),
        masks=np.ones((lanes, agents, choices), np.int8),
        state=np.zeros((lanes, state), np.float32),
    )
