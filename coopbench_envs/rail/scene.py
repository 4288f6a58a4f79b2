"""What is seen of a railway: for the player of recordings."""

from typing import Any

import numpy as np

from coopbench_envs.rail.trains import ARRIVED, BROKEN, BROKEN_OFF_MAP
from coopbench_envs.scenes import Railway

__all__ = ["scene"]

_ALONG = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])  # rows and columns of a step in each heading
_SPAN = 0.4  # of a cell in which trains are drawn, about its middle, as they run through it


def scene(constants: Any, state: Any, lane: int) -> Railway:
    """Return what the player of recordings draws of one lane."""
    c, status = constants, state.status[lane]
    places, headings = state.place[lane] >> 2, state.place[lane] & 3
    share = _SPAN * (state.distance[lane] / c.drive.unit - 0.5)
    return Railway(
        rails=state.rail[lane].reshape(c.map.height + 2, c.map.columns)[1:-1, 1:-1],
        places=_middles(c, places) + share[:, None] * _ALONG[headings],
        headings=headings,
        targets=_middles(c, state.target[lane]),
        departures=state.departure[lane],
        due=state.due[lane],
        arrivals=state.arrival[lane],
        on_map=(status > BROKEN_OFF_MAP) & (status < ARRIVED),
        broken=(status == BROKEN) | (status == BROKEN_OFF_MAP),
        stuck=state.stuck[lane] & (status < ARRIVED),
    )


def _middles(c: Any, cells: np.ndarray) -> np.ndarray:
    """Return (row, column) of the middles of cells, without the ring."""
    return np.stack([cells // c.map.columns - 0.5, cells % c.map.columns - 0.5], axis=-1)
