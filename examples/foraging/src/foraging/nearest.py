"""A script for comparison: walk to the nearest food and lift it, whatever the others do."""

import numpy as np

from foraging.environment import EAST, LIFT, NORTH, SOUTH, STAY, WEST


class Nearest:
    """Walks to the nearest food, first along the longer way of rows and columns."""

    name = "nearest"

    def initial(self, game, seeds):
        """Remember nothing but the size of the grid."""
        return np.full(len(seeds), game.parameters.size)

    def act(self, observations, memory):
        """Return the choices of all agents, (lanes, agents)."""
        agents = observations.shape[1]
        foods = observations[:, :, 3 * agents :].reshape(*observations.shape[:2], -1, 3)
        ways = np.rint(foods[..., :2] * memory[:, None, None, None])
        lengths = np.where(foods[..., 2] > 0, np.abs(ways).sum(3), np.inf)
        nearest = lengths.argmin(2)[..., None]
        length = np.take_along_axis(lengths, nearest, 2)[..., 0]
        rows, columns = np.moveaxis(np.take_along_axis(ways, nearest[..., None], 2)[:, :, 0], 2, 0)
        along = np.where(rows > 0, SOUTH, NORTH)
        across = np.where(columns > 0, EAST, WEST)
        walk = np.where(np.abs(rows) >= np.abs(columns), along, across)
        return np.select([length == np.inf, length == 1], [STAY, LIFT], walk), memory


nearest = Nearest()
