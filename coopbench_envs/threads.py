"""Threads: a pool that shares the lanes of a call, where that is faster."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

from coopbench_envs.objects import RAISED

__all__ = ["LanePool", "checked", "gains"]

# Microseconds of a call on one thread below which sharing it is not even tried: to wake the pool
# and to wait for it costs 20 to 50 of them (`python benchmarks/threads.py`).
WORTH_SHARING = 100.0
TRIALS = 10  # calls that are timed, of each kind, on one thread and then on all


class LanePool:
    """``threads`` that share the lanes of a compiled function without an effect on its result.

    The pool is made by the first call that is shared, and kept. Copies, pickles and forked
    processes make their own.
    """

    def __init__(self, threads: int, lanes: int) -> None:
        self.threads = min(threads, lanes)
        cuts = [lanes * k // self.threads for k in range(self.threads + 1)]
        self._shares = list(pairwise(cuts))
        self._lanes = lanes
        self._times: dict[int, tuple[list[float], list[float]]] = {}  # op -> alone, shared
        self._alone: set[int] = set()  # ops that are not shared
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def works_alone(self, op: int) -> bool:
        """Tell whether calls of this kind are certain to run on the calling thread."""
        return self.threads == 1 or op in self._alone

    def run(self, launch: Callable[[int, int, int], Any], op: int) -> None:
        """Call ``launch(op, start, stop)`` for all lanes, on one thread or on all of them."""
        if self.works_alone(op):
            checked(launch(op, 0, self._lanes))
            return
        alone, shared = self._times.setdefault(op, ([], []))
        if len(shared) == TRIALS:
            self.share(launch, op)
            return
        start, trials = time.perf_counter(), alone if len(alone) < TRIALS else shared
        if trials is alone:
            checked(launch(op, 0, self._lanes))
        else:
            self.share(launch, op)
        trials.append(time.perf_counter() - start)
        if len(trials) == TRIALS and not gains(alone, shared):
            self._alone.add(op)

    def share(self, launch: Callable[[int, int, int], Any], op: int) -> None:
        """Give all shares of the lanes but the first to the pool, and work on that one."""
        if self._pool is None or self._process != os.getpid():
            self._pool = ThreadPoolExecutor(self.threads - 1)
            self._process = os.getpid()
        others = [self._pool.submit(launch, op, *lanes) for lanes in self._shares[1:]]
        checked(launch(op, *self._shares[0]))
        for other in others:
            checked(other.result())

    def close(self) -> None:
        """End the threads; the next call that is shared makes new ones."""
        if self._pool is not None and self._process == os.getpid():
            self._pool.shutdown()
        self._pool = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_pool": None}


def checked(result: int) -> int:
    """Return what a driver returns; raise ``RuntimeError`` where one of its kernels has raised."""
    if result == RAISED:
        raise RuntimeError("A kernel has raised an error, which compiled code must not do.")
    return result


def gains(alone: Sequence[float], shared: Sequence[float]) -> bool:
    """Tell whether sharing pays, by the seconds of calls on one thread and, once tried, on all.

    The least of each count: others may use the machine.
    """
    if 1e6 * min(alone) < WORTH_SHARING:
        return False
    return not shared or min(shared) < min(alone)
