"""Seeds of episodes of environments of other packages."""

from functools import lru_cache
from typing import Any

import numpy as np

from coopbench_envs.core import streams

__all__ = ["reset_seed"]

_SEEDS = 1 << 31  # what every environment accepts as a seed
_AHEAD = 64  # episodes whose seeds are mixed at once


def reset_seed(seed: Any, episode: Any) -> int:
    """Return what ``reset(seed=...)`` gets for an episode of a seed.

    For episode 0 it is the seed itself if it is below 2**31, which every environment accepts; all
    others are mixed from the two numbers.
    """
    start, number = int(seed), int(episode)
    if number == 0 and start < _SEEDS:
        return start
    return _mixed(start, number // _AHEAD)[number % _AHEAD]


@lru_cache(maxsize=4096)
def _mixed(seed: int, block: int) -> list[int]:
    """Return mixed seeds of the next episodes: many take no longer than one."""
    episodes = block * _AHEAD + np.arange(_AHEAD)
    mixed: list[int] = (streams(np.array([seed], np.uint64), episodes) >> np.uint64(33)).tolist()
    return mixed
