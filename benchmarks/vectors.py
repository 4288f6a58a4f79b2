"""Processor time of a step of one environment of Gymnasium, in this package's and its own vectors.

    python benchmarks/vectors.py [--record] [--rounds N]

Eight CartPoles are stepped side by side, alone and with a calculation in every step. Figures are
microseconds of the process and its children, user and system, per step of one environment; each
is the smallest of all rounds, because other work on the machine makes a measurement longer, never
shorter.
"""

import functools
import resource
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import speed
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import coopbench_envs

LANES = 8
STEPS = 1000  # of a round, about as many for a longer calculation as its time allows
CALCULATIONS = {"none": 0.0, "0.2 ms": 2e-4, "1 ms": 1e-3}  # seconds of processor time
HEAD = ("Calculation in a step", "here, µs", "`SyncVectorEnv`, µs", "`AsyncVectorEnv`, µs")


class Calculating(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that calculates for some time in every step."""

    def __init__(self, seconds: float) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.seconds = seconds

    def step(self, action: Any) -> Any:
        """Calculate, and make the step."""
        end = time.thread_time() + self.seconds
        while time.thread_time() < end:
            pass
        return self.env.step(action)


def here(make: Callable[[], gymnasium.Env[Any, Any]]) -> Any:
    """Return the vector of this package."""
    return coopbench_envs.make_vec(make, LANES, autoreset_mode="SameStep")


def synchronous(make: Callable[[], gymnasium.Env[Any, Any]]) -> Any:
    """Return the vector of Gymnasium in one process."""
    return SyncVectorEnv([make] * LANES, autoreset_mode=AutoresetMode.SAME_STEP)


def asynchronous(make: Callable[[], gymnasium.Env[Any, Any]]) -> Any:
    """Return the vector of Gymnasium with one process for each environment."""
    return AsyncVectorEnv([make] * LANES, autoreset_mode=AutoresetMode.SAME_STEP)


def measured(kind: Callable[[Any], Any], seconds: float) -> float:
    """Return the microseconds of a step of one environment, in one round."""
    used, steps = [], round(STEPS / (1.0 + 5e3 * seconds))
    for count in (1, 1 + steps):  # starting and closing are in both
        begun = processor_time()
        vector = kind(functools.partial(Calculating, seconds))
        vector.reset(seed=0)
        for _ in range(count):
            vector.step(vector.action_space.sample())
        vector.close()
        used.append(processor_time() - begun)
    return float(1e6 * (used[1] - used[0]) / (steps * LANES))


def processor_time() -> float:
    """Return the seconds of this process and of its children that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    """Print the table."""
    parser = speed.parser(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    options, machine = parser.parse_args(), speed.machine()
    kinds = (here, synchronous, asynchronous)
    rounds = [
        [[measured(kind, seconds) for kind in kinds] for seconds in CALCULATIONS.values()]
        for _ in range(options.rounds)
    ]
    least = np.min(rounds, axis=0).tolist()
    rows = [[name, *row] for name, row in zip(CALCULATIONS, least, strict=True)]
    speed.finish("vectors", speed.Table(HEAD, rows, machine), options.record)


if __name__ == "__main__":
    main()
