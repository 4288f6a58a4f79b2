"""Direct: the short ways into a step and out of it, through functions that are looked up once.

A step of a small game takes less time than the checks and the look-ups around it. What is usual, an
array of the right shape, needs few of them; everything else takes the way of ``Engine.step``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.drivers import Control
from coopbench_envs.threads import checked

__all__ = ["SAMPLED", "Single", "never", "player", "single_of"]

Play = Callable[[Any, int], bool]

# Types of the actions that spaces sample: of vectors, of choices.
SAMPLED = (np.dtype(np.float32), np.dtype(np.int64))


class Single(NamedTuple):
    """A game: its step, and what it shows afterwards, as functions that return copies."""

    play: Play
    done: Callable[[], bool]
    ended: Callable[[], bool]
    truncated: Callable[[], bool]
    alive: Callable[[], list[bool]]  # by agent
    team: Callable[[], float]
    rewards: Callable[[], np.ndarray]  # float64 (agents,)
    paid: Callable[[], list[float]]  # the same as numbers
    obs: Callable[[], np.ndarray]  # float32 (agents, features)
    views: tuple[Callable[[], np.ndarray], ...]  # the observation of each agent


def player(
    launch: Callable[[int, int, int], int], into: np.ndarray, lanes: int, discrete: bool
) -> Play:
    """Return a function (actions, op) that plays a step of all lanes, if the actions are usual.

    These are arrays of the shape of ``into``, to which they are copied, and of numbers that
    ``checked_actions`` allows, without a mask. It returns False, and nothing has happened, for
    others, and where an action is not finite.
    """
    kinds, shape, array = "iub" if discrete else "fiub", into.shape, np.ndarray
    sampled, own = SAMPLED[discrete], into.dtype  # a third of the time that a kind takes

    def play(actions: Any, op: int) -> bool:
        if type(actions) is not array or actions.shape != shape:
            return False
        dtype = actions.dtype
        if dtype is not sampled and dtype is not own and dtype.kind not in kinds:
            return False
        into[...] = actions
        result = launch(op, 0, lanes)
        if result == 1:
            return True
        checked(result)
        return False

    return play


def never(actions: Any, op: int) -> bool:
    """Play nothing: in games in which more has to be done before a step."""
    return False


def single_of(first: Control, play: Play) -> Single:
    """Return the functions of a game whose arrays without the lane axis are ``first``."""
    return Single(
        play=play,
        done=first.done.item,
        ended=first.ended.item,
        truncated=first.truncated.item,
        alive=first.alive.tolist,
        team=first.team.item,
        rewards=first.rewards.copy,
        paid=first.rewards.tolist,
        obs=first.obs.copy,
        views=tuple(row.copy for row in first.obs),
    )
