"""Actions: everything that a policy did in the episodes of a cell, packed without loss.

Results store them of a policy that a verifier does not have, who then plays its episodes again from
them. Actions of other seats, and those after the end of an episode, are zeros: they follow from the
protocol. Numbers are packed as float32 where that is exact. Along an episode each number is
combined with the one before by XOR, so that a repeated action becomes zeros, and bytes of the same
weight stand together; both make them compressible.
"""

import hashlib
import json
from typing import NamedTuple

import numpy as np

from coopbench.episodes.table import Episodes
from coopbench_envs.arrays import pack, unpack

_EPISODES = "episodes"
_KINDS = ("u1", "u2", "u4", "i8", "f4", "f8")  # names of the arrays of packed numbers
_STORED = 1 << 25  # bytes of a cell's actions, up to which those of all its episodes are stored
_HEADERS = 1 << 16  # bytes that a file may have besides its numbers


class Actions(NamedTuple):
    """The actions of a policy in some episodes of a cell."""

    episodes: np.ndarray  # (count,) int64, increasing
    joint: np.ndarray  # (count, steps, agents) int64, or (count, steps, agents, dim) float64


def stored_episodes(block: Episodes, width: int, horizon: int) -> np.ndarray:
    """Return the numbers of the episodes whose actions are stored, increasing.

    An action of one agent has ``width`` numbers. These are all episodes; where their actions would
    take more than 32 MiB as float64, they are the recorded ones and a sample that the SHA-256 of
    the results of all episodes chooses, so that it is not known before these are.
    """
    episode = 8 * width * horizon * int(block.seats.sum(axis=1).max())
    count = max(2, _STORED // max(1, episode))  # a single lane would be added up in another order
    if count >= len(block):
        return np.arange(len(block))
    digest = _digest(block)
    order = sorted(range(len(block)), key=lambda k: hashlib.sha256(b"%b:%d" % (digest, k)).digest())
    recorded = () if block.trace is None else block.trace.recorded
    return np.array(sorted({*order[:count], *recorded}), np.int64)


def _digest(block: Episodes) -> bytes:
    """Return the SHA-256 of the results of all episodes, as text: no bits are lost in JSON."""
    columns = [block.lengths, block.terminated, block.returns]
    columns += [*block.metrics.values(), *block.agent_metrics.values()]
    trajectories = () if block.trace is None else block.trace.episodes
    text = json.dumps([trajectories, *(column.tolist() for column in columns)])
    return hashlib.sha256(text.encode()).hexdigest().encode()


def packed(actions: Actions) -> bytes:
    """Return the content of an npz file with actions."""
    course = np.ascontiguousarray(np.moveaxis(actions.joint, (0, 1), (-2, -1)))
    kind, numbers = _narrowed(course)
    bits = numbers.view(f"<u{numbers.itemsize}")
    differences = bits.copy()
    differences[..., 1:] ^= bits[..., :-1]
    planes = differences.view(np.uint8).reshape(*bits.shape, bits.itemsize)
    return pack({_EPISODES: actions.episodes, kind: np.moveaxis(planes, -1, 0)})


def unpacked(content: bytes, limit: int) -> Actions:
    """Return the actions in an npz file that unpacks to up to ``limit`` bytes.

    Raises ``ValueError`` for anything that ``packed`` does not write.
    """
    arrays = unpack(content, limit)
    episodes = arrays.pop(_EPISODES, np.zeros(0))
    if len(arrays) != 1 or not set(arrays) <= set(_KINDS) or episodes.dtype != np.int64:
        raise ValueError(f"there are {[_EPISODES, *arrays]}; it should be {_EPISODES} and a number")
    ((kind, planes),) = arrays.items()
    size = int(kind[1])
    if planes.dtype != np.uint8 or planes.ndim not in (4, 5) or planes.shape[0] != size:
        raise ValueError(f"{kind} is {planes.shape} of {planes.dtype}")
    differences = np.ascontiguousarray(np.moveaxis(planes, 0, -1)).view(f"<u{size}")[..., 0]
    bits = np.bitwise_xor.accumulate(differences, axis=-1)
    numbers = bits.view(f"<{kind}").astype(np.float64 if kind[0] == "f" else np.int64)
    joint = np.ascontiguousarray(np.moveaxis(numbers, (-2, -1), (0, 1)))
    if episodes.shape != joint.shape[:1]:
        raise ValueError(f"there are {len(joint)} episodes, numbered by {episodes.shape}")
    return Actions(episodes, joint)


def largest(episodes: int, steps: int, width: int) -> int:
    """Return the bytes to which actions may unpack; a step has ``width`` numbers of all agents."""
    return _HEADERS + 8 * episodes * (1 + steps * width)


def _narrowed(numbers: np.ndarray) -> tuple[str, np.ndarray]:
    """Return numbers in the smallest kind that holds them without loss, and its name."""
    kinds = ("f4", "f8") if numbers.dtype.kind == "f" else ("u1", "u2", "u4", "i8")
    for kind in kinds:
        with np.errstate(over="ignore"):
            narrow = numbers.astype(f"<{kind}")
        if np.array_equal(narrow.astype(numbers.dtype), numbers):
            return kind, narrow
    raise ValueError(f"Actions of {numbers.dtype} cannot be stored.")
