"""Whole episodes as sequences: how they are stored and drawn, and their targets.

A sequence of n steps has n + 1 places. The last one holds what followed its last step: of an
episode that only time has ended, its value is part of what is learned.
"""

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from coopbench.baselines.learners.checkpoint import LARGEST, under
from coopbench.baselines.learners.experience import Rows

__all__ = ["Batch", "Episodes", "Moment", "targets"]

_BLOCKS = 64  # that hold all episodes, were each as long as possible


class Moment(NamedTuple):
    """One place of the sequences of all lanes."""

    inputs: np.ndarray  # (lanes, agents, inputs) float32, of the networks; zeros of dead agents
    legal: np.ndarray  # (lanes, agents, choices) bool; of a dead agent the first choice alone
    state: np.ndarray  # (lanes, size) float32, global; empty for learners that do not use it


class Batch(NamedTuple):
    """Sequences as tensors without padding: all first places, all second ones, and so on.

    The longest sequence comes first among the places of every step. Since only the last place of a
    sequence has no step, what follows the steps are the places from ``counts[0]`` on, in the order
    of the steps.
    """

    inputs: torch.Tensor  # (places, agents, inputs) float32
    legal: torch.Tensor  # (places, agents, choices) bool
    state: torch.Tensor  # (places, size) float32
    actions: torch.Tensor  # (steps, agents) int64
    rewards: torch.Tensor  # (steps, agents) float32
    terminated: torch.Tensor  # (steps,) float32: 1 where nothing follows
    counts: tuple[int, ...]  # sequences that have a first place, a second one, and so on

    @property
    def before(self) -> torch.Tensor:
        """Return the place of every step, (steps,) int64."""
        begins = np.cumsum((0, *self.counts[:-2]))
        pairs = zip(begins, self.counts[1:], strict=True)
        return torch.cat([torch.arange(begin, begin + count) for begin, count in pairs])

    @property
    def after(self) -> slice:
        """Return the places that follow the steps, in their order."""
        return slice(self.counts[0], None)

    def with_last_actions(self) -> torch.Tensor:
        """Return the inputs with the one-hot last action of every seat behind them."""
        last = torch.zeros(self.legal.shape)
        last[self.after].scatter_(2, self.actions.unsqueeze(2), 1.0)
        return torch.cat([self.inputs, last], dim=2)


class _Block(NamedTuple):
    """Finished episodes one after the other, without padding; none changes once it is stored."""

    arrays: dict[str, np.ndarray]  # (places, ...) by what a place holds
    ends: list[int]  # the place behind every episode, in order

    @property
    def filled(self) -> int:
        """Places that hold episodes."""
        return self.ends[-1] if self.ends else 0


class _Stored(NamedTuple):
    """Where an episode lies."""

    block: _Block
    places: slice


class Episodes:
    """The latest ``size`` episodes in a ring, and those that the lanes are playing.

    If they would take more memory than a saved state may have, were each as long as possible, fewer
    episodes are stored where ``fit`` allows it; else this raises ``ValueError``. Episodes that are
    over take memory for the steps that they have, in blocks, each of which is let go when all its
    episodes have been replaced.
    """

    def __init__(self, size: int, rows: Rows, stored: str, *, fit: bool = False) -> None:
        self._longest = int(rows.engine.constants.horizon)
        agents, choices = rows.agents, rows.outputs
        self._forms: dict[str, tuple[tuple[int, ...], Any]] = {
            "inputs": ((agents, rows.inputs), np.dtype(stored)),
            "legal": ((agents, choices), np.dtype(bool)),
            "state": (rows.state().shape[1:], np.dtype(stored)),
            "actions": ((agents,), np.dtype(np.int16)),
            "rewards": ((agents,), np.dtype(np.float32)),
            "terminated": ((), np.dtype(bool)),
        }
        self.size = self._fitting(size, rows, fit=fit)
        places = self._longest + 1
        self._room = max(places, self.size * places // _BLOCKS)  # places of a block
        self._ring: list[_Stored] = []
        self._last = _Block(self._arrays(self._room), [])  # the block that is being filled
        self._open = self._arrays(rows.lanes, places)
        self._lengths, self._times = np.zeros(self.size, np.int64), np.zeros(rows.lanes, np.int64)
        self.added = 0  # episodes, including those that were replaced

    def __len__(self) -> int:
        return len(self._ring)

    @property
    def bytes_each(self) -> int:
        """Bytes that an episode takes if it is as long as possible."""
        forms = self._forms.values()
        place: int = sum(int(np.prod(shape)) * kind.itemsize for shape, kind in forms)
        return (self._longest + 1) * place

    def _fitting(self, size: int, rows: Rows, *, fit: bool) -> int:
        """Return how many episodes are stored; ``ValueError`` if they would take too much."""
        taken = (size + rows.lanes) * self.bytes_each
        largest = LARGEST // self.bytes_each - rows.lanes
        if taken <= LARGEST or (fit and largest >= 1):
            return min(size, largest)
        remedy = "a game with shorter episodes"
        if largest >= 1:
            remedy = f"where the learner has them, a replay of up to {largest} or fit_replay=True"
        raise ValueError(
            f"replay was {size} episodes of up to {self._longest} steps and lanes {rows.lanes}: "
            f"they take {taken:,} bytes in {rows.engine.spec.id}; allowed: up to {LARGEST:,}. Take "
            f"fewer lanes, stored='float16', or {remedy}."
        )

    def _arrays(self, *places: int) -> dict[str, np.ndarray]:
        """Return empty places, (*places, ...)."""
        return {n: np.zeros((*places, *shape), kind) for n, (shape, kind) in self._forms.items()}

    def add(self, before: Moment, actions: np.ndarray, rewards: np.ndarray) -> None:
        """Store what the lanes have seen and done: actions and rewards are (lanes, agents)."""
        lanes = np.arange(len(actions))
        self._place(lanes, before)
        self._open["actions"][lanes, self._times] = actions
        self._open["rewards"][lanes, self._times] = rewards
        self._times += 1

    def _place(self, lanes: np.ndarray, moment: Moment) -> None:
        """Write a moment of some lanes where their sequences are."""
        for name, values in moment._asdict().items():
            self._open[name][lanes, self._times[lanes]] = values[lanes]

    def close(self, over: np.ndarray, terminated: np.ndarray, after: Moment) -> int:
        """Move the sequences of the lanes that are ``over`` to the ring; return how many.

        ``terminated`` (lanes,) says where nothing follows, ``after`` what followed elsewhere.
        """
        lanes = np.flatnonzero(over)
        self._place(lanes, after)
        self._open["terminated"][lanes, self._times[lanes] - 1] = terminated[lanes]
        for lane in lanes:
            count = int(self._times[lane]) + 1
            if self._last.filled + count > self._room:
                self._last = _Block(self._arrays(self._room), [])
            places = self._keep(count)
            for name, values in self._open.items():
                self._last.arrays[name][places] = values[lane, :count]
                values[lane, :count] = 0
        self._times[lanes] = 0
        return len(lanes)

    def _keep(self, count: int) -> slice:
        """Enter the next ``count`` places of the last block as the next episode; return them."""
        begin, slot = self._last.filled, self.added % self.size
        places = slice(begin, begin + count)
        self._last.ends.append(places.stop)
        self._ring[slot : slot + 1] = [_Stored(self._last, places)]
        self._lengths[slot] = count - 1
        self.added += 1
        return places

    def sample(self, count: int) -> Batch:
        """Draw ``count`` different episodes."""
        return self.batch(torch.randperm(len(self))[:count].numpy())

    def latest(self, count: int) -> Batch:
        """Return the ``count`` episodes that were finished last."""
        return self.batch(np.arange(self.added - count, self.added) % self.size)

    def batch(self, slots: np.ndarray) -> Batch:
        """Return the episodes of these slots of the ring."""
        slots = slots[np.argsort(-self._lengths[slots], kind="stable")]
        episodes, lengths = [self._ring[slot] for slot in slots], self._lengths[slots]
        times, begins = np.arange(lengths.max() + 1)[:, None], np.cumsum(lengths + 1) - lengths - 1
        # Places of one episode after the other, in the order of a batch.
        places, steps = ((begins + times)[times < ends] for ends in (lengths + 1, lengths))

        def together(name: str, where: np.ndarray, kind: Any) -> torch.Tensor:
            values = np.concatenate([block.arrays[name][part] for block, part in episodes])
            return torch.from_numpy(values[where].astype(kind, copy=False))

        return Batch(
            inputs=together("inputs", places, np.float32),
            legal=together("legal", places, np.bool_),
            state=together("state", places, np.float32),
            actions=together("actions", steps, np.int64),
            rewards=together("rewards", steps, np.float32),
            terminated=together("terminated", steps, np.float32),
            counts=tuple((times <= lengths).sum(1).tolist()),
        )

    def save(self) -> dict[str, np.ndarray]:
        """Return all episodes; arrays of those that are over are not copied, and never change."""
        arrays = {f"open_{name}": values.copy() for name, values in self._open.items()}
        arrays |= {"times": self._times.copy(), "added": np.array(self.added)}
        oldest = self.added % len(self) if self._ring else 0
        in_order = (*self._ring[oldest:], *self._ring[:oldest])
        blocks = {id(stored.block): stored.block for stored in in_order}
        for k, block in enumerate(blocks.values()):
            filled = {name: values[: block.filled] for name, values in block.arrays.items()}
            arrays |= under(f"block.{k}", {"ends": np.array(block.ends), **filled})
        return arrays

    def forms(self, saved: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return arrays of the shapes that episodes with the saved ends have.

        Raises ``ValueError`` for impossible lengths, and where an episode is missing.
        """
        self._check(saved)
        arrays = {f"open_{name}": values for name, values in self._open.items()}
        arrays |= {"times": self._times, "added": np.array(self.added)}
        for k, ends in enumerate(_ends(saved)):
            places = int(np.max(ends, initial=0))
            arrays[f"block.{k}.ends"] = np.zeros(ends.size, np.int64)
            for name, (shape, kind) in self._forms.items():
                arrays[f"block.{k}.{name}"] = np.broadcast_to(np.zeros((), kind), (places, *shape))
        return arrays

    def _check(self, saved: Mapping[str, np.ndarray]) -> None:
        """Raise ``ValueError`` unless saved episodes have possible lengths, and none is missing."""
        blocks, added = (
            [np.diff(ends, prepend=0) for ends in _ends(saved)],
            int(np.max(saved.get("added", 0), initial=0)),
        )
        counts = np.concatenate([np.zeros(0, np.int64), *blocks])
        if not ((counts >= 2) & (counts <= self._longest + 1)).all() or not all(map(len, blocks)):
            raise ValueError(
                f"The saved state does not fit: episodes have other lengths than 1 to "
                f"{self._longest} steps."
            )
        replaced = len(counts) - min(added, self.size)
        if not 0 <= replaced <= sum(map(len, blocks[:1])) or len(counts) > added:
            raise ValueError(
                f"The saved state does not fit: it holds {len(counts)} of {added} episodes; "
                f"allowed: the latest {self.size}, and others in the block of the oldest of these."
            )

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from saved episodes; of all blocks but the last one, the arrays are kept."""
        for name, values in self._open.items():
            values[:] = arrays[f"open_{name}"]
        self._times[:] = arrays["times"]
        added, blocks = int(arrays["added"]), _ends(arrays)
        last = self._arrays(self._room)  # of the last block, which has room for more
        self._last = _Block(last, [])
        self._ring = [_Stored(self._last, slice(0))] * min(added, self.size)
        self.added = added - sum(map(len, blocks))
        for k, ends in enumerate(blocks):
            saved = {name: arrays[f"block.{k}.{name}"] for name in self._forms}
            if k == len(blocks) - 1:
                for name, values in saved.items():
                    last[name][: len(values)] = values
                saved = last
            self._last = _Block(saved, [])
            for count in np.diff(ends, prepend=0).tolist():
                self._keep(count)


def _ends(saved: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the ends of the episodes of every saved block."""
    names = (f"block.{k}.ends" for k in itertools.count())
    return [saved[name] for name in itertools.takewhile(saved.__contains__, names)]


def targets(batch: Batch, following: torch.Tensor, gamma: float, trace: float) -> torch.Tensor:
    """Return TD(``trace``) targets of every step, (steps, n), from the values of what follows it.

    With l = ``trace``, y[t] = r[t] + gamma ((1 - l) v[t + 1] + l y[t + 1]), and in the last step
    r + gamma v, where v is ``following`` (steps, n), and 0 after the end of the game. With n = 1
    rewards are those of the first agent, which a common reward gives to all.
    """
    values = following.numpy()
    rewards = batch.rewards[:, : values.shape[1]].numpy()
    goes_on = gamma * (1.0 - batch.terminated.numpy()[:, None])
    aims, end, later = np.empty_like(values), len(values), values[:0]
    for count in reversed(batch.counts[1:]):
        steps = slice(end - count, end)
        mixture = values[steps].copy()
        mixture[: len(later)] += trace * (later - mixture[: len(later)])
        later = aims[steps] = rewards[steps] + goes_on[steps] * mixture
        end -= count
    return torch.from_numpy(aims)
