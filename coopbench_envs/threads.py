"""Threads: a pool that shares the lanes of a call, where there is much to do."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

from coopbench_envs.objects import RAISED

__all__ = ["LanePool", "checked"]

# Numbers in ``control`` from which on a call is shared. They take 2 to 20 ns each, and to wake the
# pool and to wait for it costs 20 to 50 us (`python benchmarks/threads.py`).
WORTH_SHARING = 40_000


class LanePool:
    """``threads`` that share the lanes of a compiled function without an effect on its result.

    The pool is made by the first call that is shared, and kept. Copies, pickles and forked
    processes make their own.
    """

    def __init__(self, threads: int, lanes: int, numbers: int) -> None:
        """``numbers`` is how many numbers a call writes: of few, the calling thread writes all."""
        self.threads = min(threads, lanes) if numbers >= WORTH_SHARING else 1
        cuts = [lanes * k // self.threads for k in range(self.threads + 1)]
        self._shares = list(pairwise(cuts))
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def run(self, launch: Callable[[int, int, int], Any], op: int) -> None:
        """Call ``launch(op, start, stop)`` for all lanes, on one thread or on all of them."""
        if self.threads == 1:
            checked(launch(op, *self._shares[0]))
        else:
            self.share(launch, op)

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
