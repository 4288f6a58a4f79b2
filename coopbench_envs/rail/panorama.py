"""Panorama: the whole map as every train sees it, the global observation of flatland-rl 4.3.0.

Under fair rules, headings, malfunctions and the numbers of trains that have not departed are scaled
to [-1, 1]. Only what has changed since the last step is written anew.
"""

import numpy as np

from coopbench_envs.core import routine, subroutine
from coopbench_envs.rail.trains import ARRIVED, BROKEN_OFF_MAP, is_on_map

__all__ = ["CHANNELS", "MEANINGS", "paint"]

CHANNELS = (16, 5, 2)  # of the parts rails, trains and targets
MEANINGS = {
    "rails": "for each cell the 16 bits of its rails",
    "trains": "for each cell own heading, heading of a train, its malfunction and speed, how many "
    "wait to enter",
    "targets": "for each cell 1 if it is the own target, 1 if it is that of a train on its way",
}
OWN_HEADING, HEADING, DOWN, PACE, DEPARTING = range(5)


@subroutine
def paint(c, s, i, obs):
    """Write the map for every train."""
    pixels = c.map.height * c.map.width
    trains, targets = 16 * pixels, 21 * pixels
    if not s.painted[i]:
        prime(c, s, i, obs)
    else:
        for a in range(c.num_agents):
            erase(c, s, i, a, trains, targets, obs)
    for a in range(c.num_agents):
        pixel = pixel_of(c, s.place[i, a] >> 2)
        s.shown_pixel[i, a] = pixel
        s.shown_status[i, a] = s.status[i, a]
        goal = pixel_of(c, s.target[i, a])
        for b in range(c.num_agents):
            draw_train(c, s, i, a, b, trains + 5 * pixel, obs)
            if s.status[i, a] != ARRIVED:
                obs[i, b, targets + 2 * goal + 1] = 1.0
        obs[i, a, trains + 5 * pixel + OWN_HEADING] = shown_heading(c, s.place[i, a])
        obs[i, a, targets + 2 * goal] = 1.0
    s.painted[i] = True


@routine
def pixel_of(c, cell):
    """Return the number of a cell on the grid without its ring."""
    return (cell // c.map.columns - 1) * c.map.width + cell % c.map.columns - 1


@routine
def draw_train(c, s, i, a, b, entry, obs):
    """Write train ``a`` into the picture of train ``b``; under fair rules in [-1, 1]."""
    if is_on_map(s.status[i, a]):
        if a != b:
            obs[i, b, entry + HEADING] = shown_heading(c, s.place[i, a])
        down = np.float64(s.broken[i, a])
        obs[i, b, entry + DOWN] = min(down / c.strikes.longest, 1.0) if c.rules.fair else down
        obs[i, b, entry + PACE] = s.speed[i, a] / c.drive.unit
    elif s.status[i, a] <= BROKEN_OFF_MAP:
        one = 1.0 / c.num_agents if c.rules.fair else 1.0
        number = np.float64(obs[i, b, entry + DEPARTING]) + one
        obs[i, b, entry + DEPARTING] = min(number, 1.0) if c.rules.fair else number


@routine
def shown_heading(c, place):
    """Return a heading as it is painted: 0 to 3, under fair rules 0 to 1."""
    heading = np.float64(place & 3)
    return heading / 3.0 if c.rules.fair else heading


@routine
def erase(c, s, i, a, trains, targets, obs):
    """Take train ``a`` out of all pictures, where and as it was drawn last."""
    entry = trains + 5 * s.shown_pixel[i, a]
    goal = targets + 2 * pixel_of(c, s.target[i, a]) + 1
    for b in range(c.num_agents):
        obs[i, b, entry + HEADING] = -1.0
        obs[i, b, entry + DOWN] = -1.0
        obs[i, b, entry + PACE] = -1.0
        obs[i, b, entry + DEPARTING] = 0.0
        if s.shown_status[i, a] != ARRIVED:
            obs[i, b, goal] = 0.0
    obs[i, a, entry + OWN_HEADING] = -1.0


@routine
def prime(c, s, i, obs):
    """Write the rails, and leave out all trains and targets."""
    pixels = c.map.height * c.map.width
    for a in range(c.num_agents):
        for pixel in range(pixels):
            cell = (pixel // c.map.width + 1) * c.map.columns + pixel % c.map.width + 1
            code = s.rail[i, cell]
            for bit in range(16):
                obs[i, a, 16 * pixel + bit] = (code >> (15 - bit)) & 1
            entry = 16 * pixels + 5 * pixel
            for k in range(4):
                obs[i, a, entry + k] = -1.0
            obs[i, a, entry + DEPARTING] = 0.0
            obs[i, a, 21 * pixels + 2 * pixel] = 0.0
            obs[i, a, 21 * pixels + 2 * pixel + 1] = 0.0
