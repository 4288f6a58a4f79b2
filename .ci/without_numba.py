"""Use an installed wheel from its compiled code alone.

    python .ci/without_numba.py              # plays an episode of every environment
    python .ci/without_numba.py COMMAND ...  # runs a command of coopbench

Numba cannot be imported meanwhile, and nothing that was compiled on this machine is used. Of
environments it prints the seconds of processor time of the first step, and of all together what
the code takes on the disk.
"""

import os
import sys
import tempfile
import time

LARGEST = 8 << 20  # bytes of all compiled code in a wheel
sys.modules["numba"] = None  # type: ignore[assignment]  # what an import then fails on


def play(env_id: str) -> float:
    """Play an episode with random actions; return the seconds up to the end of its first step."""
    import gymnasium

    start = time.process_time()
    env = gymnasium.make(env_id)
    env.reset(seed=0)
    env.action_space.seed(0)
    over, first = False, 0.0
    while not over:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        over = terminated or truncated
        first = first or time.process_time() - start
    return first


def play_all() -> None:
    """Play all environments; exit with an error if that is not possible, or the code too large."""
    import coopbench_envs
    from coopbench_envs import store

    for env_id in coopbench_envs.ids():
        print(f"{env_id:<40}{play(env_id):7.3f} s", flush=True)
    files = [file.stat().st_size for file in store.PACKAGED.glob("*")]
    print(f"{len(files)} functions, {sum(files) / 2**20:.2f} MiB; {time.process_time():.1f} s")
    if sum(files) > LARGEST:
        sys.exit(f"Compiled code takes more than {LARGEST >> 20} MiB.")


def main() -> None:
    """Play all environments, or run the command that is given."""
    with tempfile.TemporaryDirectory() as empty:
        os.environ["COOPBENCH_KERNELS"] = empty
        if sys.argv[1:]:
            from coopbench.__main__ import main as run

            run()
        else:
            play_all()


if __name__ == "__main__":
    main()
