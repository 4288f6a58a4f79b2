"""Environments in plain NumPy: kernels over arrays of lanes, behind the control of all others.

Nothing is compiled. A step costs as much as its array operations, so that such an environment is
fast in hundreds of lanes and slow in one; every interface is the same.
"""

import functools
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from coopbench_envs.core import Kernels, draw, mix, streams
from coopbench_envs.drivers import DISABLED, LOOK, NEXT_STEP, RENEW, RESET, RESTORE, Control
from coopbench_envs.marks import plain
from coopbench_envs.states import declared, stored

__all__ = ["BatchDriver", "BatchKernels", "integers", "uniforms"]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_S32 = np.uint64(32)


class BatchKernels(Kernels):
    """Kernels that are Python functions over many lanes: ``i`` is an array of lane numbers.

    Names, arguments and duties are those of ``Kernels``: ``step(c, s, i, rng, actions, rewards,
    terminated)`` writes ``rewards[i]`` and ``terminated[i]``, ``observe(c, s, i, obs)`` writes
    ``obs[i]``, ``late(c, s, i)`` returns one number per lane. ``step`` is one function. ``measure``
    is None where there are no metrics. A lane must not depend on the other ones: random numbers
    come from ``uniforms(rng, i)`` and ``integers(rng, i, n)``.
    """

    __slots__ = ()

    @property
    def compiled(self) -> bool:
        """Whether these are functions of one lane, which have to be marked."""
        return False


def uniforms(rng: np.ndarray, i: np.ndarray, count: int = 1) -> np.ndarray:
    """Return the next numbers in [0, 1) of the lanes ``i``, float64 (len(i), count).

    They are those that ``uniform`` gives a kernel in each lane.
    """
    states, numbers = rng[i], np.zeros((len(i), count))
    for k in range(count):
        numbers[:, k] = draw(states)
    rng[i] = states
    return numbers


def integers(rng: np.ndarray, i: np.ndarray, n: int, count: int = 1) -> np.ndarray:
    """Return the next integers in [0, n) of the lanes ``i``, int64 (len(i), count), n < 2**32.

    They are those that ``integer`` gives a kernel in each lane.
    """
    states, numbers = rng[i], np.zeros((len(i), count), np.int64)
    for k in range(count):
        states += _GAMMA
        numbers[:, k] = ((plain(mix)(states) >> _S32) * np.uint64(n)) >> _S32
    rng[i] = states
    return numbers


class BatchDriver:
    """What ``drivers.drive`` does, with ``BatchKernels``: in all lanes of a call at once."""

    def __init__(self, kernels: Kernels, discrete: bool, common: bool) -> None:
        self._kernels, self._discrete, self._common = kernels, discrete, common

    def with_arrays(self, arrays: tuple[Any, ...], numbers: int, what: str) -> Callable[..., bool]:
        """Return the driver with its arrays: (op, start, stop) -> whether actions were finite."""
        return functools.partial(self.drive, *arrays)

    def origin(self, arguments: tuple[Any, ...], numbers: int) -> None:
        """Return None: there is no compiled code."""

    def drive(
        self, c: Any, s: Any, control: Control, actions: np.ndarray, op: int, start: int, stop: int
    ) -> bool:
        """Do ``op`` in the lanes from ``start`` to ``stop``.

        Returns False, and has done nothing, if an action that a step takes is not finite.
        """
        lanes = np.arange(start, stop)
        steps = op in (NEXT_STEP, DISABLED)
        if steps and not np.isfinite(actions[lanes]).all():
            return False
        over = control.done[lanes]
        plays = lanes[~over & steps]
        begins = lanes[(over & (op == NEXT_STEP)) if steps else control.chosen[lanes]]
        if len(plays):
            self._play(c, s, control, actions, plays)
        if steps:
            waits = np.setdiff1d(lanes[over], begins)
            control.rewards[waits], control.team[waits] = 0.0, 0.0
        if len(begins):
            self._begin(c, s, control, begins, op)
        moved = np.union1d(plays, begins)
        control.moved[lanes] = np.isin(lanes, moved)
        if len(moved):
            self._look(c, s, control, moved, op)
        if control.state.shape[1]:
            self._survey(c, s, control, lanes if op == LOOK else moved)
        return True

    def _play(self, c: Any, s: Any, control: Control, actions: np.ndarray, i: np.ndarray) -> None:
        """Play a step, and book it: dead agents stay dead, and earn nothing."""
        kernels, falling = self._kernels, self._kernels.present is not None
        if self._discrete:
            self._legalise(control, actions, i)
        kernels.step(c, s, i, control.rng, actions, control.rewards, control.terminated)
        alive, rewards = control.alive[i], control.rewards[i]
        if self._common:
            team = rewards[:, 0].copy()
            rewards[:] = team[:, None]
        else:
            rewards = np.where(alive, rewards, 0.0)
            team = rewards.cumsum(axis=1)[:, -1]  # in the order of the agents
        fallen = control.terminated[i]
        if not falling:
            fallen = fallen | ~alive
        control.rewards[i], control.team[i] = rewards, team
        control.returns[i] += rewards
        control.terminated[i], control.alive[i] = fallen, ~fallen
        control.ended[i] = fallen.all(axis=1)
        s.time[i] += 1
        late = c.horizon if kernels.late is None else np.minimum(kernels.late(c, s, i), c.horizon)
        control.truncated[i] = s.time[i] >= late
        control.done[i] = control.ended[i] | control.truncated[i]
        if falling:
            kernels.present(c, s, i, control.alive)
            self._retire(control, i[~control.ended[i]])

    def _legalise(self, control: Control, actions: np.ndarray, i: np.ndarray) -> None:
        """Replace what is illegal, or the action of a dead agent, by -1: do nothing."""
        chosen, alive, masks = actions[i], control.alive[i], control.masks[i]
        inside = (chosen >= 0) & (chosen < masks.shape[2])
        safe = np.where(inside, chosen, 0)
        legal = inside & (np.take_along_axis(masks, safe[..., None], axis=2)[..., 0] != 0)
        control.invalid[i] += alive & ~legal
        actions[i] = np.where(alive & legal, chosen, -1)

    def _begin(self, c: Any, s: Any, control: Control, i: np.ndarray, op: int) -> None:
        """Begin episodes, or recompute what follows from a restored state."""
        kernels = self._kernels
        if op != RESTORE:
            if op != RESET:
                control.episode[i] += 1
            control.rng[i] = streams(control.seed[i], control.episode[i])
            control.done[i], control.alive[i] = False, True
            control.returns[i], control.invalid[i] = 0.0, 0
            if op != RENEW:  # which still has to report the step that ended the last episode
                control.truncated[i], control.ended[i], control.team[i] = False, False, 0.0
                control.rewards[i], control.terminated[i] = 0.0, False
            _clear(kernels.state, c, s, i)
            if kernels.reset is not None:
                kernels.reset(c, s, i, control.rng)
        if kernels.prepare is not None:
            kernels.prepare(c, s, i)
        if kernels.present is not None:
            kernels.present(c, s, i, control.alive)

    def _look(self, c: Any, s: Any, control: Control, i: np.ndarray, op: int) -> None:
        """Write legal choices, observations and metrics."""
        kernels = self._kernels
        if kernels.mask is None:
            control.masks[i] = 1
        else:
            kernels.mask(c, s, i, control.masks)
        kernels.observe(c, s, i, control.obs)
        if kernels.present is not None:
            absent = ~control.alive[i]
            control.obs[i] = np.where(absent[..., None], 0.0, control.obs[i])
            first = np.arange(control.masks.shape[2]) == 0
            control.masks[i] = np.where(absent[..., None], first, control.masks[i])
            if op in (NEXT_STEP, DISABLED):
                self._retire(control, i[control.ended[i]])
        if kernels.measure is not None:
            kernels.measure(c, s, i, control.measures)

    def _retire(self, control: Control, i: np.ndarray) -> None:
        """Drop the agents that the step just played has terminated."""
        control.alive[i] &= ~control.terminated[i]

    def _survey(self, c: Any, s: Any, control: Control, i: np.ndarray) -> None:
        """Write the global state."""
        if self._kernels.global_state is None:
            control.state[i] = control.obs[i].reshape(len(i), control.state.shape[1])
        else:
            self._kernels.global_state(c, s, i, control.state)


def _clear(kind: Any, c: Any, s: Any, i: np.ndarray) -> None:
    """Give every stored array with a ``start`` this value."""
    for name in stored(kind):
        start = declared(kind)[name].start
        if start is not None:
            getattr(s, name)[i] = attrgetter(start)(c) if isinstance(start, str) else start
