"""Throughput of battles on one core: ``python benchmarks/skirmish.py [--record] [MAP ...]``.

Actions are drawn among the legal ones; observations and masks are written. Times are those of the
processor, without the drawing of actions; the best of several rounds is printed, because other
programs can only slow a round down. "With state": the global state is written, too. At last the
memory of 4096 lanes of 2s3z is printed. ``benchmarks/peers.py`` compares with other packages.
"""

import time

import numpy as np
import speed

from coopbench_envs import Engine

ROUNDS, SECONDS = 5, 0.4
LANES, TICKS = 64, 8
VERSIONS = "coopbench/Skirmish-v0", "coopbench/Skirmish-v1"
MAPS = ("3m", "2s3z", "8m", "MMM2", "corridor", "2c_vs_64zg", "27m_vs_30m")


def rates(env_id: str, name: str, *, state: bool = False) -> tuple[float, float]:
    """Return environment steps per second and unit-ticks per second of a map."""
    engine = Engine(env_id, LANES, map=name, global_state=state)
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


def megabytes(env_id: str, name: str, lanes: int) -> float:
    """Return the size of all arrays of a batch."""
    engine = Engine(env_id, lanes, map=name)
    arrays = {id(array): array.nbytes for array in (*engine.state, *engine.control, engine.actions)}
    return sum(arrays.values()) / 1e6


def main() -> None:
    """Print a row for each map."""
    parser = speed.parser(__doc__.splitlines()[0])
    parser.add_argument("maps", nargs="*", default=MAPS)
    options = parser.parse_args()
    machine = speed.machine()
    rows = []
    for name in options.maps:
        steps, ticks = zip(*(rates(env_id, name) for env_id in VERSIONS), strict=True)
        with_state, _ = rates(VERSIONS[1], name, state=True)
        rows.append([f"`{name}`", *steps, with_state, *ticks])
    head = ("Map", "Steps/s, v0", "v1", "v1 with state", "Unit-ticks/s, v0", "v1")
    speed.finish("skirmish", speed.Table(head, rows, machine), options.record)
    for env_id in VERSIONS:
        print(f"4096 lanes of 2s3z, {env_id}: {megabytes(env_id, '2s3z', 4096):.0f} MB")


if __name__ == "__main__":
    main()
