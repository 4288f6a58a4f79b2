"""Measure the waiting time of a user: import, first step, main job; each in a fresh process."""

import os
import subprocess
import sys
import tempfile
import time

STEP = (
    "import gymnasium, coopbench_envs; env = gymnasium.make('coopbench/TrustDilemma-v0');"
    "env.reset(seed=0); env.step(env.action_space.sample())"
)
MAIN = "from coopbench.cli.main import main; import sys; sys.argv[1:] = {}; main()"
CASES = {
    "python alone": "pass",
    "import numpy, gymnasium, pettingzoo": "import numpy, gymnasium, pettingzoo",
    "import coopbench_envs": "import coopbench_envs",
    "first step": STEP,
    "main job (coopetition-standard)": MAIN,
}


def seconds(code: str, cache: str) -> float:
    """Wall-clock seconds of a fresh interpreter that runs ``code``."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["evaluate", "coopetition-standard", "--out", folder]
        command = [sys.executable, "-c", code.format(arguments)]
        start = time.perf_counter()
        subprocess.run(
            command,
            check=True,
            env=os.environ | {"NUMBA_CACHE_DIR": cache},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return time.perf_counter() - start


def main() -> None:
    """Print the first (cold) and the median of five further (warm) times of every case."""
    print(f"{'':<40}{'cold':>8}{'warm':>8}  seconds, wall clock")
    for name, code in CASES.items():
        with tempfile.TemporaryDirectory() as cache:
            cold = seconds(code, cache)
            warm = sorted(seconds(code, cache) for _ in range(5))[2]
        print(f"{name:<40}{cold:>8.2f}{warm:>8.2f}")


if __name__ == "__main__":
    main()
