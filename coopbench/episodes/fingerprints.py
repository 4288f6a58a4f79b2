"""Fingerprints: checksums that prove how episodes were played, and actions to play them again.

A step of an episode is a row of little-endian float64: actions of all agents, their rewards, the
metrics that the game measures, and 1.0 if it ended there. The fingerprint of an episode is the
SHA-256 of its rows in order, so it does not depend on the other episodes of the batch.
"""

import hashlib
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from coopbench.episodes.actions import Actions
from coopbench.episodes.table import DIGEST, Trace

if TYPE_CHECKING:
    from coopbench_envs.lanes import Readable


_BLOCK = 1 << 21  # bytes of rows that are collected before they are hashed
_COURSE = 1 << 28  # bytes of actions and rewards that are stored until the episodes are over


class Fingerprints:
    """Records the episodes of an engine; call ``note`` after every step.

    With ``seats`` (lanes, agents), those of a policy, ``actions`` returns what it did in any lane.
    Actions that do not fit into memory are then written to a temporary file, which has no name.
    """

    def __init__(self, engine: "Readable", seats: np.ndarray | None = None) -> None:
        control = engine.control
        self._control, self._actions = control, engine.actions
        width = np.prod(engine.actions.shape[1:], dtype=int)
        row = int(width + control.rewards.shape[1] + control.measures.shape[1] + 1)
        size = max(1, _BLOCK // (8 * row * engine.lanes))
        self._rows = np.zeros((engine.lanes, size, row), "<f8")
        self._step = np.zeros((engine.lanes, row), "<f8")
        self._counts = np.zeros(engine.lanes, np.int64)  # rows per lane that are not hashed yet
        self._filled = 0
        self._hashes = [hashlib.sha256() for _ in range(engine.lanes)]
        self._steps: list[int] = []
        self.recordable = recordable(engine, engine.lanes)
        self._course: list[tuple[np.ndarray, np.ndarray]] = []
        self._seats = seats
        spooled = seats is not None and self.recordable < engine.lanes
        self._spool = tempfile.TemporaryFile() if spooled else None  # noqa: SIM115

    def note(self) -> None:
        """Record the step that the engine has just made."""
        control, actions, moved = self._control, self._actions, self._control.moved
        parts = (
            actions.reshape(len(moved), -1),
            control.rewards,
            control.measures,
            control.ended[:, None],
        )
        rows = np.concatenate(parts, axis=1, out=self._step)
        if not moved.all():
            rows = rows[moved]
        checksum = hashlib.blake2b(rows.data, digest_size=8)
        self._steps.append(int.from_bytes(checksum.digest(), "little"))
        self._rows[:, self._filled] = self._step
        self._counts += moved
        self._filled += 1
        if self._filled == self._rows.shape[1]:
            self._flush()
        if self._spool is not None:
            self._spool.write(actions.tobytes())
        first = slice(self.recordable)
        self._course.append((actions[first].copy(), control.rewards[first].copy()))

    def trace(self, recorded: Sequence[int], lengths: np.ndarray) -> Trace:
        """Return the fingerprints, and actions and rewards in the ``recorded`` lanes.

        These are among the first ``recordable`` ones, whose actions and rewards fit into memory.
        """
        self._flush()
        digests = b"".join(sha.digest() for sha in self._hashes)
        return Trace(
            np.frombuffer(digests, np.uint8).reshape(-1, DIGEST),
            np.array(self._steps, np.uint64),
            {k: self._recorded(k, int(lengths[k])) for k in recorded},
        )

    def actions(self, lanes: np.ndarray, lengths: np.ndarray) -> Actions:
        """Return the actions in some lanes; zeros in other seats and after the end of an episode.

        Raises ``ValueError`` if no seats were named.
        """
        if self._seats is None:
            raise ValueError("The actions of these episodes were not asked for.")
        ends = lengths[lanes]
        joint = self._joint(lanes, int(ends.max()))
        played = np.arange(joint.shape[1]) < ends[:, None]
        idle = ~(played[:, :, None] & self._seats[lanes][:, None, :])
        joint[idle] = 0
        return Actions(np.asarray(lanes, np.int64), joint)

    def _joint(self, lanes: np.ndarray, steps: int) -> np.ndarray:
        """Return the first actions of all seats in some lanes, (lanes, steps, agents, ...)."""
        if self._spool is None:
            course = [step[0][lanes] for step in self._course[:steps]]
        else:
            self._spool.flush()
            shape, kind = self._actions.shape, self._actions.dtype
            whole = np.memmap(self._spool, kind, "r", shape=(len(self._course), *shape))
            course = [step[lanes] for step in whole[:steps]]
        return np.stack(course, axis=1)

    def _flush(self) -> None:
        # A lane moves until its episode is over: the rows that count come first.
        for lane in np.flatnonzero(self._counts):
            self._hashes[lane].update(self._rows[lane, : self._counts[lane]].data)
        self._counts[:], self._filled = 0, 0

    def _recorded(self, k: int, length: int) -> tuple[np.ndarray, np.ndarray]:
        course = self._course[:length]
        actions, rewards = ([step[part][k] for step in course] for part in (0, 1))
        return np.array(actions), np.array(rewards)


def recordable(engine: "Readable", episodes: int) -> int:
    """Return the number of first episodes whose actions fit into memory until they are over."""
    numbers = int(np.prod(engine.actions.shape[1:], dtype=int) + engine.control.rewards.shape[1])
    return fitting(numbers, engine.horizon, episodes)


def fitting(numbers: int, steps: int, episodes: int) -> int:
    """Return how many of some episodes fit into memory, of ``steps`` with so many ``numbers``."""
    return int(np.clip(_COURSE // (8 * numbers * steps), 1, episodes))


def extremes(scores: np.ndarray) -> tuple[int, ...]:
    """Return the indices of the highest and the lowest score; of equal ones the first."""
    if np.isnan(scores).all():
        return (0,)
    return tuple(dict.fromkeys((int(np.nanargmax(scores)), int(np.nanargmin(scores)))))
