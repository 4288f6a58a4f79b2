"""Threads: from how much work on one thread a call is done faster by two.

Prints, for batches of growing size, the wall time of a step on one thread, on a pool of two that
always shares, and on an engine with ``threads=2``, which shares where there is much to do. The
least of many steps counts, taken in turns, as others may use the machine. ``threads.WORTH_SHARING``
comes from the first two columns.
"""

import time

import numpy as np

from coopbench_envs import Engine
from coopbench_envs.engine import NEXT_STEP
from coopbench_envs.threads import WORTH_SHARING, LanePool

GAMES = {"TrustDilemma-v1": (16, 256, 1024, 2048, 4096, 8192, 32768), "Routing-v0": (4, 16, 64)}
STEPS = 300


def main() -> None:
    """Print one line per game and number of lanes."""
    print(f"{'game':18} lanes  one thread  two, always   threads=2  (us per step)")
    for env_id, sizes in GAMES.items():
        for lanes in sizes:
            engines = [Engine(env_id, lanes, threads=n) for n in (1, 2, 2)]
            for engine in engines:
                engine.reset(np.arange(lanes))
            pool, least = LanePool(2, lanes, WORTH_SHARING), np.full(3, np.inf)
            for _ in range(STEPS):
                times = [seconds(e, pool if k == 1 else None) for k, e in enumerate(engines)]
                least = np.minimum(least, times)
            print(f"{env_id:18} {lanes:5d}" + "".join(f"{1e6 * s:12.1f}" for s in least))


def seconds(engine: Engine, pool: LanePool | None) -> float:
    """Wall time of one step, or of one that a pool shares in any case."""
    start = time.perf_counter()
    if pool is not None:
        pool.share(engine._launch, NEXT_STEP)
    else:
        engine.step(engine.actions)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
