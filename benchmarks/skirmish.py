"""Throughput of battles on one core: ``python benchmarks/skirmish.py [--record] [MAP ...]``.

Actions are drawn among the legal ones; observations and masks are written. Times are those of the
processor, without the drawing of actions; the best of several rounds is printed, because other
programs can only slow a round down. ``benchmarks/peers.py`` compares with other packages.
"""

import time

import numpy as np
import speed

from coopbench_envs import Engine

ROUNDS, SECONDS = 5, 0.4
LANES, TICKS = 64, 8
MAPS = ("3m", "2s3z", "8m", "MMM2", "corridor", "2c_vs_64zg", "27m_vs_30m")


def rates(name: str) -> tuple[float, float]:
    """Return environment steps per second and unit-ticks per second of Skirmish-v0."""
    engine = Engine("coopbench/Skirmish-v0", LANES, map=name)
    engine.reset(np.arange(LANES))
    draws, best = np.random.default_rng(0), 0.0
    for _ in range(ROUNDS + 1):
        spent, steps = 0.0, 0
        while spent < SECONDS:
            masks = engine.control.masks
            actions = (draws.random(masks.shape) * masks).argmax(axis=2)
            begin = time.process_time()
            engine.step(actions)
            spent += time.process_time() - begin
            steps += LANES
        best = max(best, steps / spent)
    return best, best * TICKS * engine.state.x.shape[1]


def main() -> None:
    """Print a row for each map."""
    parser = speed.parser(__doc__.splitlines()[0])
    parser.add_argument("maps", nargs="*", default=MAPS)
    options = parser.parse_args()
    machine = speed.machine()
    rows = [[f"`{name}`", *rates(name)] for name in options.maps]
    table = speed.Table(("Map", "Steps/s", "Unit-ticks/s"), rows, machine)
    speed.finish("skirmish", table, options.record)


if __name__ == "__main__":
    main()
