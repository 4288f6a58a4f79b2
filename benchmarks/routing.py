"""Throughput of Routing: environment steps per second of one core, observations included.

Run ``python benchmarks/routing.py [lanes]``. Actions are uniform in [-1, 1]; the best of several
rounds is printed, because other programs can only slow a round down.
"""

import sys
import time

import numpy as np

from coopbench_envs import Engine

SETTINGS = ((8, 0.0), (8, 0.05), (8, 0.15), (32, 0.0), (32, 0.05), (32, 0.15), (128, 0.15))
ROUNDS, SECONDS = 7, 0.4


def measure(agents, density, lanes):
    """Return environment steps per second of wall clock."""
    engine = Engine(
        "coopbench/Routing-v0",
        lanes,
        num_agents=agents,
        map_params={"obstacle_density": density},
    )
    engine.reset(np.arange(lanes))
    actions = np.random.default_rng(0).uniform(-1, 1, (16, *engine.actions.shape))
    for action in actions:
        engine.step(action)
    best = 0.0
    for _ in range(ROUNDS):
        steps, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < SECONDS:
            for action in actions:
                engine.step(action)
            steps += len(actions)
        best = max(best, lanes * steps / (time.perf_counter() - begin))
    return best


def main():
    lanes = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    for agents, density in SETTINGS:
        rate = measure(agents, density, lanes)
        obstacles = int(density * 400)
        print(
            f"random_grid 20x20  {agents:4d} agents {obstacles:3d} obstacles  {lanes} lanes  "
            f"{rate:10,.0f} env steps/s  {rate * agents:12,.0f} agent steps/s"
        )


if __name__ == "__main__":
    main()
