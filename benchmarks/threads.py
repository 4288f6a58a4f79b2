"""Threads: from how much work on one thread a call is done faster by two.

Prints, for batches of growing size, the wall time of a step on one thread, on a pool of two that
always shares, and on an engine with ``threads=2``, which shares where that is faster. The least of
many steps counts, taken in turns, as others may use the machine. ``threads.WORTH_SHARING`` comes
from the first two columns.
"""

import time

import numpy as np

from coopbench_envs import Engine
from coopbench_envs.engine import NEXT_STEP

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
            least = np.full(3, np.inf)
            for step in range(STEPS):
                times = [seconds(engine, always=k == 1) for k, engine in enumerate(engines)]
                if step > STEPS // 10:  # past the trials
                    least = np.minimum(least, times)
            print(f"{env_id:18} {lanes:5d}" + "".join(f"{1e6 * s:12.1f}" for s in least))


def seconds(engine: Engine, always: bool) -> float:
    """Wall time of one step, or with ``always`` of one that the pool shares in any case."""
    start = time.perf_counter()
    if always:
        engine._lane_pool.share(engine._launch, NEXT_STEP)
    else:
        engine.step(engine.actions)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
