"""Measure where a user waits, in processor time: each case in a fresh process.

    python benchmarks/startup.py [--record] [--wheel PYTHON] [CASE ...]

"wheel" is the first process of an installation from a wheel with compiled code, that of the
interpreter PYTHON; "cold" is a first process here, with empty caches of compiled code, "warm" a
further one. Wheel and warm are medians of three runs in turns. The main job is played into a new
folder; "kept" is the same command on that folder again. Processor time is that of the process and
its children, user and system, and counts several cores together; unlike time on the clock it
hardly depends on what else the machine does.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import speed

JOB = ("evaluate", "coopetition-standard", "--task", "trust-dilemma")
STEP = (
    "import gymnasium, coopbench_envs; env = gymnasium.make('coopbench/{}');"
    "env.reset(seed=0); env.step(env.action_space.sample())"
)
COMMAND = "import sys; sys.argv[1:] = {!r}; from coopbench.__main__ import main; main()"
ROUNDS = 3


class Case(NamedTuple):
    """What is measured, and the limits of its processor time in seconds, where there are any."""

    code: str
    wheel: float | None = None
    cold: float | None = None
    warm: float | None = None
    kept: bool = False  # measured again on the folder that its first run has written


CASES = {
    "python alone": Case("pass"),
    "import numpy, gymnasium, pettingzoo": Case("import numpy, gymnasium, pettingzoo"),
    "import coopbench_envs": Case("import coopbench_envs"),
    "coopbench --version": Case(COMMAND.format(["--version"])),
    **{
        f"first step of {name}": Case(STEP.format(name), 0.6, cold, 0.6)
        for name, cold in {
            "TrustDilemma-v1": 6.0,
            "PlatformEcosystem-v1": 6.0,
            "Skirmish-v1": 20.0,
            "Routing-v1": 25.0,
            "Rail-v1": 25.0,
        }.items()
    },
    " ".join(JOB): Case(COMMAND.format([*JOB, "--out", "results"]), kept=True),
}


def seconds(code: str, cache: str, folder: str, python: str = sys.executable) -> float:
    """Processor time, in seconds, of a fresh interpreter that runs ``code`` in ``folder``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [python, "-c", code],
        check=True,
        cwd=folder,
        env=os.environ | {"NUMBA_CACHE_DIR": cache},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rows(name: str, case: Case, python: str | None) -> Iterator[list[speed.Cell]]:
    """Yield the rows of a case: what it is; the seconds of a wheel's ``python``, cold and warm."""
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as place:
        cold = seconds(case.code, cache, str(new(place)))
        wheel, warm = [], []
        for _ in range(ROUNDS):
            warm.append(seconds(case.code, cache, str(new(place))))
            if python is not None:
                empty = str(new(place))
                wheel.append(seconds(case.code, empty, str(new(place)), python))
        first = statistics.median(wheel) if wheel else None
        yield [name, first, cold, statistics.median(warm)]
        if case.kept:
            kept = str(new(place))
            seconds(case.code, cache, kept)
            yield [f"{name}, kept", None, None, seconds(case.code, cache, kept)]


def new(place: str) -> Path:
    """Return a new folder in ``place``."""
    return Path(tempfile.mkdtemp(dir=place))


def shown(value: speed.Cell, limit: float | None) -> str:
    """Write a time, marked if it is beyond its limit."""
    if not isinstance(value, float):
        return f"{'-':>7} "
    return f"{value:7.2f}{'!' if limit is not None and value > limit else ' '}"


def main() -> None:
    """Print the times of the chosen cases, by default of all; others stay as stored."""
    parser = speed.parser(__doc__.splitlines()[0])
    parser.add_argument("--wheel", metavar="PYTHON", help="interpreter that has a wheel installed")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args()
    machine = speed.machine()
    titles = f"{'wheel':>8}{'cold':>8}{'warm':>8}"
    print(f"{'':<60}{titles}  seconds of processor time; !: beyond the limit")
    measured: list[list[speed.Cell]] = []
    for name in options.cases or CASES:
        case = CASES[name]
        for what, *times in rows(name, case, options.wheel):
            measured.append([what, *times])
            limits = (case.wheel, case.cold, case.warm)
            cells = "".join(map(shown, times, limits))
            print(f"{what:<60}{cells}", flush=True)
    cells = speed.merged("startup", measured) if options.cases else measured
    table = speed.Table(("What", "Wheel, s", "Cold, s", "Warm, s"), cells, machine)
    speed.finish("startup", table, options.record)


if __name__ == "__main__":
    main()
