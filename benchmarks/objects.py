"""Compare steps of stored object files with numba's own machine code of the same drivers, in turns.

    python benchmarks/objects.py [--record] [--rounds N] [ENVIRONMENT ...]

Both play the same actions on the same arrays, observations and masks included. Figures are
nanoseconds of processor time per step of one lane, the smallest of all rounds: other work on the
machine makes a measurement longer, never shorter. Numba's function is called without its
dispatcher, which would look at the types of all arrays at every call.
"""

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import speed
from numba import njit, typeof

from coopbench_envs import Engine
from coopbench_envs.engine import NEXT_STEP
from coopbench_envs.merging import Merging

ENVIRONMENTS = ("TrustDilemma-v1", "Skirmish-v1", "Routing-v1", "Rail-v1")
LANES = (64, 1)
HEAD = ("What", "Object file, ns", "Numba, ns", "Ratio")
SECONDS = 0.1  # of a measurement, about
POOL = 8  # arrays of random actions

Launch = Callable[[int, int, int], Any]


@functools.cache
def compiled(function: Any, signature: tuple[Any, ...]) -> Any:
    """Return what numba calls for a driver and arguments of these types."""
    dispatcher = njit(pipeline_class=Merging, error_model="numpy", _nrt=False)(function)
    dispatcher.compile(signature)
    return dispatcher.overloads[signature].entry_point


def numba_launch(engine: Engine) -> Launch:
    """Return numba's machine code of an engine's driver with the engine's arrays."""
    whole = engine._whole
    arguments = (engine.constants, whole.state, whole.control, whole.actions)
    signature = tuple(map(typeof, (*arguments, 0, 0, 0)))
    return functools.partial(compiled(engine._drive.py_func, signature), *arguments)


def pool(engine: Engine) -> list[np.ndarray]:
    """Return arrays of random actions."""
    rng = np.random.default_rng(0)
    if engine.discrete:
        choices = engine.action_spaces[0].n
        return [rng.integers(0, choices, engine.actions.shape) for _ in range(POOL)]
    low, high = engine.action_bounds()
    return [rng.uniform(low, high, engine.actions.shape) for _ in range(POOL)]


def measure(engine: Engine, launch: Launch, actions: list[np.ndarray], calls: int) -> float:
    """Return seconds of processor time of a call, from the first steps of the same episodes."""
    engine.reset(np.arange(engine.lanes))
    start = time.process_time()
    for k in range(calls):
        engine.actions[...] = actions[k % POOL]
        launch(NEXT_STEP, 0, engine.lanes)
    return (time.process_time() - start) / calls


def row(name: str, lanes: int, rounds: int) -> list[speed.Cell]:
    """Return the row of an environment in so many lanes; both must end in the same bits."""
    engine = Engine(f"coopbench/{name}", lanes)
    engine.compile()
    actions, launches = pool(engine), (engine._launch, numba_launch(engine))
    calls = max(10, int(SECONDS / measure(engine, launches[0], actions, 10)))
    best, ends = [np.inf, np.inf], [b"", b""]
    for _ in range(rounds):
        for k, launch in enumerate(launches):
            best[k] = min(best[k], measure(engine, launch, actions, calls))
            ends[k] = engine.control.obs.tobytes() + engine.control.returns.tobytes()
    assert ends[0] == ends[1], f"{name} plays differently"
    ours, theirs = (1e9 * seconds / lanes for seconds in best)
    batch = "a single game" if lanes == 1 else f"batch of {lanes}"
    return [f"{name}, {batch}", ours, theirs, theirs / ours]


def main() -> None:
    """Print the step times of both, and their ratio."""
    parser = speed.parser(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("environments", nargs="*", metavar="ENVIRONMENT", default=ENVIRONMENTS)
    options = parser.parse_args()
    machine, rows = speed.machine(), []
    for name in options.environments:
        for lanes in LANES:
            rows.append(row(name, lanes, options.rounds))
            print(" ".join(map(speed.written, rows[-1])), flush=True)
    speed.finish("objects", speed.Table(HEAD, rows, machine), options.record)


if __name__ == "__main__":
    main()
