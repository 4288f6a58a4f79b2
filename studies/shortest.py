"""How the lower bound of an agent's way and the way of its reward compare with the shortest path.

Run ``python -m studies.shortest [instances]``. The shortest path that touches no obstacle is
measured on a fine grid: the eikonal equation is solved to first order (fast sweeping), which comes
out up to about 1 % too long. The instances are of no protocol. All lengths are up to the rim of the
goal; ratios are means over agents.
"""

import math
import sys
import time

import numba
import numpy as np

from coopbench import load_protocol
from coopbench_envs import Engine
from coopbench_envs.pathfinding.maps.common import ABSENT

TASKS = {  # points of the fine grid along a cell's side, so that they are close for small agents
    "random_grid_a8_o20": 25,
    "random_grid_a8_o60": 25,
    "random_grid_a8_o100": 25,
    "labmaze_a8_c0.2": 16,
    "labmaze_a8_c0.8": 16,
    "caves_a8": 8,
    "cities_a8": 8,
}
SEED, UNREACHED = 900_000, 1e9


@numba.njit
def relax(away, free, j, i, h):
    """Shorten the distance of one point by those of its four neighbours; return by how much."""
    rows, columns = away.shape
    across = min(away[j, max(i - 1, 0)], away[j, min(i + 1, columns - 1)])
    along = min(away[max(j - 1, 0), i], away[min(j + 1, rows - 1), i])
    if not free[j, i] or min(across, along) >= UNREACHED:
        return 0.0
    length = min(across, along) + h
    if abs(across - along) < h:
        length = 0.5 * (across + along + math.sqrt(2 * h * h - (across - along) ** 2))
    gain = max(away[j, i] - length, 0.0)
    away[j, i] -= gain
    return gain


@numba.njit
def sweep(away, free, h):
    """Measure the distances of all free points from those that have one, in place."""
    rows, columns = away.shape
    most = h
    while most > 1e-6 * h:
        most = 0.0
        for order in range(4):
            for n in range(rows):
                j = n if order < 2 else rows - 1 - n
                for m in range(columns):
                    i = m if order % 2 == 0 else columns - 1 - m
                    most = max(most, relax(away, free, j, i, h))


def free_points(x, y, walls, reach):
    """Return which points of the grid (y, x) are farther than ``reach`` from all walls."""
    free = np.ones((len(y), len(x)), bool)
    for wall_x, wall_y in walls[walls[:, 0] != ABSENT]:
        columns = slice(*np.searchsorted(x, (wall_x - reach, wall_x + reach)))
        rows = slice(*np.searchsorted(y, (wall_y - reach, wall_y + reach)))
        square = (x[None, columns] - wall_x) ** 2 + (y[rows, None] - wall_y) ** 2
        free[rows, columns] &= square >= reach**2
    return free


def ratios(engine, points):
    """Bound, straight line and way of the reward over the shortest path, (3, agents)."""
    c, s = engine.constants, engine.state
    side, rows = 2 * c.own.half_cell, []
    h = side / points
    x, y = (
        np.arange(c.map.centres[0, k] - 0.5 * (side - h), c.map.centres[-1, k] + 0.5 * side, h)
        for k in range(2)
    )
    for lane in range(engine.lanes):
        reach = c.map.landmark_rad + s.agent_rad[lane].max()
        free = free_points(x, y, s.landmark_pos[lane], reach)
        for a, goal in enumerate(s.goal_pos[lane]):
            straight = np.hypot(x[None] - goal[0], y[:, None] - goal[1])
            near = straight < max(min(0.3 * side, side - reach), 0.2 * side)
            away = np.where(near & free, straight, UNREACHED)
            sweep(away, free, h)
            start = s.agent_pos[lane, a]
            length = away[np.abs(y - start[1]).argmin(), np.abs(x - start[0]).argmin()]
            line = np.hypot(*(goal - start))
            rad = s.goal_rad[lane, a]
            rows.append([s.shortest[lane, a], line - rad, s.way_left[lane, a]] / (length - rad))
    return np.transpose(rows)


def main():
    instances = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    tasks = {task.id: task for task in load_protocol("routing-standard").task}
    print("| Task | Bound | smallest | largest | Straight line | Way of the reward | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, points in TASKS.items():
        begin = time.process_time()
        engine = Engine(tasks[name].env, instances, **tasks[name].parameters)
        engine.reset(np.arange(instances) + SEED)
        bound, line, way = ratios(engine, points)
        figures = (bound.mean(), bound.min(), bound.max(), line.mean(), way.mean())
        print(
            f"| `{name}` | {' | '.join(f'{x:.3f}' for x in figures)} "
            f"| {time.process_time() - begin:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
