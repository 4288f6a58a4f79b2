"""Compare where users wait with an earlier revision: each row in turns with it, in fresh processes.

    python benchmarks/waits.py [--against REVISION] [--rounds N] [--record] [ROW ...]

REVISION is one of this repository, or a folder with a checkout. Figures are processor time, user
and system, of one process and its children, or memory, and the least of all rounds: other work on
the machine makes a measurement longer, never shorter. Only first steps compile.
"""

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import speed

ROOT = Path(__file__).resolve().parent.parent
HEAD = ("What", "Unit", "Earlier", "Now", "Ratio")
GAME, LANES = "coopbench/TrustDilemma-v1", 8
JOB = ("evaluate", "coopetition-standard", "--task", "trust-dilemma")
FIRST = (
    "import gymnasium, coopbench_envs; env = gymnasium.make('coopbench/{}');"
    "env.reset(seed=0); env.step(env.action_space.sample())"
)
CROWD = {"num_rows": 160, "num_cols": 160, "obstacle_density": 0.05}  # 50 cells to an agent
TRAINS = {"num_agents": 400, "height": 242, "width": 242, "cities": 50}
ROUND = 0.05  # seconds of a repetition inside of a process, of which there are REPETITIONS
REPETITIONS = 15


# -- what a process measures of itself -------------------------------------------------------------


def each(work: Callable[[], Any], shares: int = 1) -> float:
    """Return the microseconds of one of the ``shares`` of a piece of work."""
    work()
    times = 1
    begun = time.process_time()
    while time.process_time() - begun < ROUND:
        work()
        times += 1
    least = float("inf")
    for _ in range(REPETITIONS):
        begun = time.process_time()
        for _ in range(times):
            work()
        least = min(least, time.process_time() - begun)
    return 1e6 * least / (times * shares)


def single() -> float:
    """Step the game through ``gymnasium.make``, resets included."""
    import gymnasium

    import coopbench_envs  # registers the environments

    env = gymnasium.make(GAME)
    env.reset(seed=0)
    action = env.action_space.sample()

    def step() -> None:
        if env.step(action)[3]:
            env.reset()

    return each(step)


def by_name(interface: str) -> float:
    """Play a round of the game in an interface of PettingZoo: one action of every agent."""
    import pettingzoo

    import coopbench_envs

    env = pettingzoo.make(interface, GAME)
    env.reset(seed=0)
    actions = {agent: env.action_space(agent).sample() for agent in env.agents}

    def parallel() -> None:
        env.step(actions)
        if not env.agents:
            env.reset()

    def in_turn() -> None:
        for _ in range(len(actions)):
            over = any(env.last()[2:4])
            env.step(None if over else actions[env.agent_selection])
        if not env.agents:
            env.reset()

    return each(parallel if interface == "parallel" else in_turn)


def vector(lanes: int) -> float:
    """Step the game in the vector interface."""
    import gymnasium

    import coopbench_envs

    env = gymnasium.make_vec(GAME, num_envs=lanes)
    env.reset(seed=0)
    actions = env.action_space.sample()
    return each(lambda: env.step(actions))


def foreign() -> float:
    """Step CartPole in a vector of this package, under random actions; of one lane."""
    import gymnasium

    import coopbench_envs

    make = functools.partial(gymnasium.make, "CartPole-v1")
    env = coopbench_envs.make_vec(make, LANES, autoreset_mode="SameStep")
    env.reset(seed=0)
    env.action_space.seed(0)
    planned = [env.action_space.sample() for _ in range(64)]
    return each(lambda: [env.step(actions) for actions in planned], LANES * len(planned))


def engine(env_id: str, lanes: int, **parameters: Any) -> Any:
    """Return an engine at the start of its episodes."""
    import numpy as np

    from coopbench_envs import Engine

    made = Engine(f"coopbench/{env_id}", lanes, **parameters)
    made.reset(np.arange(lanes, dtype=np.uint64))
    return made


def batch(env_id: str, lanes: int, **parameters: Any) -> float:
    """Step a batch under the first legal choices, or no investments; of one lane."""
    made = engine(env_id, lanes, **parameters)
    masks = made.control.masks

    def step() -> None:
        made.step(masks.argmax(axis=2) if made.discrete else made.actions)

    return 1e3 * each(step, lanes)


def reset_of_crowd() -> float:
    """Begin episodes with 512 agents; of one lane."""
    made = engine("Routing-v1", 1, num_agents=512, map_params=CROWD)
    return each(made.reset) / 1e3


def memory(env_id: str, **parameters: Any) -> float:
    """Return the megabytes of the state of one lane."""
    return sum(array.nbytes for array in engine(env_id, 1, **parameters).state) / 1e6


# -- what is measured of a process -----------------------------------------------------------------


class Spent(NamedTuple):
    """What a process and its children took."""

    seconds: float  # of processor time, user and system
    megabytes: float  # of memory, at most
    printed: str


def spent(command: list[str], packages: Path, folder: str, **settings: str) -> Spent:
    """Run a command with ``importable`` packages in a folder; raise an error if it fails."""
    usual = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env=usual | {"PYTHONPATH": str(packages), "PYTHONWARNINGS": "ignore"} | settings,
            stdout=printed,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        printed.seek(0)
        return Spent(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3, printed.read())


def inside(name: str, packages: Path) -> float:
    """Return what a process measures of itself for a row."""
    with tempfile.TemporaryDirectory() as folder:
        return float(json.loads(spent([__file__, "--inside", name], packages, folder).printed))


def job(*command: str, of: str = "seconds") -> Callable[[Path], float]:
    """Return the measurement of a command of coopbench, in a folder with the main job's results."""

    def measure(packages: Path) -> float:
        with tempfile.TemporaryDirectory() as folder:
            played = spent(["-m", "coopbench", *JOB, "--out", "results"], packages, folder)
            if not command:
                return float(getattr(played, of))
            then = spent(["-m", "coopbench", *command], packages, folder)
            return then.seconds / played.seconds if of == "ratio" else then.seconds

    return measure


def first_step(env_id: str) -> Callable[[Path], float]:
    """Return the measurement of a first step with an empty cache of compiled code."""

    def measure(packages: Path) -> float:
        with tempfile.TemporaryDirectory() as folder:
            settings = {"COOPBENCH_KERNELS": f"{folder}/kernels", "NUMBA_CACHE_DIR": folder}
            return spent(["-c", FIRST.format(env_id)], packages, folder, **settings).seconds

    return measure


class Row(NamedTuple):
    """What is measured: in a process by itself, or else of processes, with a checkout's code."""

    unit: str
    within: Callable[[], float] | None = None
    of: Callable[[Path], float] | None = None


ROWS = {
    "gymnasium.make": Row("µs", single),
    "Parallel": Row("µs", functools.partial(by_name, "parallel")),
    "AEC": Row("µs", functools.partial(by_name, "aec")),
    **{f"make_vec {n}": Row("µs", functools.partial(vector, n)) for n in (8, 1, 1024)},
    "CartPole": Row("µs", foreign),
    "evaluate": Row("s", of=job()),
    "report": Row("s", of=job("report", "results")),
    "verify": Row("of playing", of=job("verify", "results", of="ratio")),
    "again": Row("s", of=job(*JOB, "--out", "results")),
    "batch of games": Row("ns", functools.partial(batch, "TrustDilemma-v1", 1024)),
    "batch of battles": Row("ns", functools.partial(batch, "Skirmish-v1", 64, map="2s3z")),
    "reset of 512 agents": Row("ms", reset_of_crowd),
    "memory of 512 agents": Row(
        "MB", functools.partial(memory, "Routing-v1", num_agents=512, map_params=CROWD)
    ),
    "memory of 400 trains": Row("MB", functools.partial(memory, "Rail-v1", **TRAINS)),
    **{
        f"first step of {name}": Row("s", of=first_step(name))
        for name in ("Routing-v1", "Rail-v1", "Skirmish-v1")
    },
    "peak memory of evaluate": Row("MB", of=job(of="megabytes")),
}


def figure(name: str, packages: Path) -> float:
    """Measure a row once, with the code of a checkout."""
    of = ROWS[name].of
    return inside(name, packages) if of is None else of(packages)


def checkout_of(revision: str, place: str) -> Path:
    """Return the folder of a checkout: the one named, or a new one in ``place``."""
    if Path(revision, "coopbench_envs").is_dir():
        return Path(revision).resolve()
    Path(place).mkdir()
    files = subprocess.run(
        ["git", "archive", revision], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    subprocess.run(["tar", "-x", "-C", place], input=files.stdout, check=True)
    return Path(place)


def importable(checkout: Path, place: Path) -> Path:
    """Return a folder of links from which the packages of a checkout are imported, and no others.

    An installation for development finds ``coopbench.protocols`` and ``coopbench.baselines`` in its
    own checkout, also for the code of another one.
    """
    package = place / "coopbench"
    package.mkdir(parents=True)
    modules = [file for file in (checkout / "coopbench").iterdir() if file.name != "__pycache__"]
    for source in (*modules, checkout / "baselines", checkout / "protocols"):
        (package / source.name).symlink_to(source)
    (place / "coopbench_envs").symlink_to(checkout / "coopbench_envs")
    return place


def main() -> None:
    """Print the table of the chosen rows, by default of all."""
    parser = speed.parser(__doc__.splitlines()[0])
    parser.add_argument("--against", metavar="REVISION", help="of git, or a folder with a checkout")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--inside", choices=ROWS, help=argparse.SUPPRESS)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}")
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(ROWS[options.inside].within()))
        return
    if unknown := sorted({*options.rows} - {*ROWS}):
        parser.error(f"{', '.join(unknown)} is no row; rows are {', '.join(ROWS)}.")
    machine, measured = speed.machine(), []
    with tempfile.TemporaryDirectory() as place:
        earlier = [checkout_of(options.against, f"{place}/checkout")] if options.against else []
        sides = [
            importable(checkout, Path(place, f"packages-{k}"))
            for k, checkout in enumerate((*earlier, ROOT))
        ]
        for name in options.rows or ROWS:
            rounds = [[figure(name, packages) for packages in sides] for _ in range(options.rounds)]
            *before, now = (min(column) for column in zip(*rounds, strict=True))
            old = before[0] if before else None
            row = [name, ROWS[name].unit, old, now, None if old is None else old / now]
            measured.append(row)
            print(" | ".join(speed.written(cell) for cell in row), flush=True)
    cells = speed.merged("waits", measured) if options.rows else measured
    speed.finish("waits", speed.Table(HEAD, cells, machine), options.record)


if __name__ == "__main__":
    main()
