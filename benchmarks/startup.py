"""Measure where a user waits, in processor time: each case in a fresh process.

    python benchmarks/startup.py [--record] [CASE ...]

"cold" is the first run with empty caches of compiled code, "warm" the median of three further
runs. The main job is played into a new folder; "kept" is the same command on that folder again.
Processor time is that of the process and its children, user and system, and counts several cores
together; unlike time on the clock it hardly depends on what else the machine does.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import speed

PROTOCOL = "coopetition-standard"
STEP = (
    "import gymnasium, coopbench_envs; env = gymnasium.make('coopbench/{}');"
    "env.reset(seed=0); env.step(env.action_space.sample())"
)
COMMAND = "import sys; sys.argv[1:] = {!r}; from coopbench.__main__ import main; main()"
WARM = 3  # runs


class Case(NamedTuple):
    """What is measured, and the limit of its processor time in seconds, if there is one."""

    code: str
    cold: float | None = None
    warm: float | None = None
    kept: bool = False  # measured again on the folder that its first run has written


CASES = {
    "python alone": Case("pass"),
    "import numpy, gymnasium, pettingzoo": Case("import numpy, gymnasium, pettingzoo"),
    "import coopbench_envs": Case("import coopbench_envs"),
    "coopbench --version": Case(COMMAND.format(["--version"])),
    **{
        f"first step of {name}": Case(STEP.format(name), cold, 0.8)
        for name, cold in {
            "TrustDilemma-v1": 6.0,
            "PlatformEcosystem-v1": 6.0,
            "Skirmish-v1": 20.0,
            "Routing-v1": 25.0,
            "Rail-v1": 25.0,
        }.items()
    },
    f"evaluate {PROTOCOL}": Case(
        COMMAND.format(["evaluate", PROTOCOL, "--out", "results"]), None, 12.0, kept=True
    ),
}


def seconds(code: str, cache: str, folder: str) -> float:
    """Processor time, in seconds, of a fresh interpreter that runs ``code`` in ``folder``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=folder,
        env=os.environ | {"NUMBA_CACHE_DIR": cache},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rows(name: str, case: Case) -> Iterator[tuple[str, float, float]]:
    """Yield the rows of a case: what it is, cold and warm seconds."""
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as place:
        cold = seconds(case.code, cache, str(new(place)))
        runs = 1 if case.kept else WARM
        warm = sorted(seconds(case.code, cache, str(new(place))) for _ in range(runs))
        yield name, cold, warm[runs // 2]
        if case.kept:
            again = sorted(Path(place).iterdir())[0]
            yield f"{name}, kept", cold, seconds(case.code, cache, str(again))


def new(place: str) -> Path:
    """Return a new folder in ``place``."""
    return Path(tempfile.mkdtemp(dir=place))


def shown(value: float, limit: float | None) -> str:
    """Write a time, marked if it is beyond its limit."""
    return f"{value:7.2f}{'!' if limit is not None and value > limit else ' '}"


def main() -> None:
    """Print cold and warm times of the chosen cases, by default of all; others stay as stored."""
    parser = speed.parser(__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args()
    machine = speed.machine()
    print(f"{'':<40}{'cold':>8}{'warm':>8}  seconds of processor time; !: beyond the limit")
    measured: list[list[speed.Cell]] = []
    for name in options.cases or CASES:
        case = CASES[name]
        for what, cold, warm in rows(name, case):
            measured.append([what, cold, warm])
            print(f"{what:<40}{shown(cold, case.cold)}{shown(warm, case.warm)}", flush=True)
    cells = speed.merged("startup", measured) if options.cases else measured
    table = speed.Table(("What", "Cold, s", "Warm, s"), cells, machine)
    speed.finish("startup", table, options.record)


if __name__ == "__main__":
    main()
