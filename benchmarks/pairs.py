"""Cost per pair of agents as a game grows: nanoseconds of one core per ordered pair and step.

    python benchmarks/pairs.py [--record] [--plot FILE.svg]

Every game is played with random investments by the batch engine, with as many lanes as give the
same number of pairs, n (n - 1) in each lane, whatever n is. A step is the dynamics and the writing
of all observations and metrics; the latter is also timed alone, as the driver does it for a
restored state, and the dynamics are the difference. The median of several rounds is printed.
"""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import speed

from coopbench.report.plots.drawing import Line, LineChart
from coopbench.report.plots.style import styles
from coopbench_envs import Engine
from coopbench_envs.drivers import RESTORE

GAMES = ("coopbench/DynamicPartnerSelection-v0", "coopbench/DynamicPartnerSelection-v1")
SIZES = (2, 4, 6, 8, 12, 16, 24, 32, 48, 64)
PAIRS = 64 * 63 * 16  # in all lanes together: 16 lanes of the largest game
CALLS = 8  # of a round
PARTS = ("step", "dynamics", "observing")


def measure(env_id: str, agents: int, rounds: int) -> np.ndarray:
    """Nanoseconds per ordered pair of a step, of its dynamics and of observing."""
    pairs = agents * (agents - 1)
    engine = Engine(env_id, PAIRS // pairs, num_agents=agents)
    engine.reset(np.arange(engine.lanes, dtype=np.uint64))
    low, high = engine.action_bounds()
    rng = np.random.default_rng(0)
    actions = [rng.uniform(low, high, engine.actions.shape) for _ in range(CALLS)]
    engine.control.chosen[:] = True
    times = np.empty((rounds, 2))
    for k in range(rounds):
        times[k, 0] = seconds(lambda call: engine.step(actions[call]))
        times[k, 1] = seconds(lambda call: engine._launch(RESTORE, 0, engine.lanes))
    whole, observing = np.median(times, axis=0) / (CALLS * engine.lanes * pairs) * 1e9
    return np.array([whole, whole - observing, observing])


def seconds(work: Callable[[int], None]) -> float:
    """Processor time of a round of calls."""
    start = time.process_time()
    for call in range(CALLS):
        work(call)
    return time.process_time() - start


def draw(times: dict[str, np.ndarray], file: Path) -> None:
    """Write the curves of all games as SVG."""
    looks = styles([f"{env_id} {part}" for env_id in times for part in PARTS[:2]])
    lines = tuple(
        Line(f"{env_id.split('/')[1]}, {part}", looks[f"{env_id} {part}"], SIZES, table[:, k])
        for env_id, table in times.items()
        for k, part in enumerate(PARTS[:2])
    )
    chart = LineChart(lines, "", "agents", "ns per ordered pair and step", places=SIZES, log=True)
    file.write_text(chart.svg, encoding="utf-8")


def main() -> None:
    """Print one table of all versions of the game."""
    parser = speed.parser(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="where to write the curves, SVG")
    options = parser.parse_args()
    machine = speed.machine()
    measured = {
        env_id: np.array([measure(env_id, agents, options.rounds) for agents in SIZES])
        for env_id in GAMES
    }
    head = ["Agents", *(f"{env_id[-2:]} {part}" for env_id in GAMES for part in PARTS)]
    rows = [
        [str(agents), *(float(table[k, j]) for table in measured.values() for j in range(3))]
        for k, agents in enumerate(SIZES)
    ]
    speed.finish("pairs", speed.Table(head, rows, machine), options.record)
    if options.plot is not None:
        draw(measured, options.plot)


if __name__ == "__main__":
    main()
