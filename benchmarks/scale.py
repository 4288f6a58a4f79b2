"""Measure how long a large report takes, and how much memory.

    python benchmarks/scale.py [--record] [--episodes N]

writes results of 10 policies x 30 tasks x 10 runs x 200 checkpoints x 32 invented episodes
(19 million values), with 32 and with 320 evaluation episodes per run or with so many, and makes
their report in a fresh process: seconds of processor time and peak memory of reading, analysis and
all files. ``--folder`` keeps the results; the kernels of the statistics are compiled before.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import speed

from coopbench.episodes.table import Cell, Episodes, Played, Progress, Trace
from coopbench.protocol.schema import Protocol
from coopbench.report.loading import load_report
from coopbench.results import store
from coopbench.results.folder import write_protocol

HEAD = ["Evaluation episodes", "reading, analysis, s", "files, s", "GiB"]
POLICIES, TASKS, RUNS, CHECKPOINTS, SELECTION = 10, 30, 10, 200, 32
INTERVAL, HORIZON = 10_000, 20
AGENTS = ("agent_0", "agent_1")


def invented(episodes: int) -> Protocol:
    """Make the protocol: one game with thirty horizons, in three groups."""
    steps = INTERVAL * CHECKPOINTS
    return Protocol.model_validate(
        {
            "protocol": {"name": "scale", "version": 1, "description": "A large report."},
            "seeds": {
                "training": list(range(5000, 5000 + RUNS)),
                "evaluation": {"first": 0, "count": episodes},
                "selection": {"first": 1000, "count": SELECTION},
            },
            "report": {
                "score": "return",
                "metrics": ["return", "final_trust"],
                "curve": "mean_trust",
            },
            "training": {
                "on": "each",
                "plays": "own",
                "runs": RUNS,
                "episodes": SELECTION,
                "budgets": {"all": {"steps": steps, "interval": INTERVAL}},
            },
            "task": [
                {
                    "id": f"task-{k:02d}",
                    "group": f"group-{k % 3}",
                    "env": "coopbench/TrustDilemma-v0",
                    "parameters": {"horizon": HORIZON + k},
                    "bounds": {"low": 0.0, "high": 100.0},
                }
                for k in range(TASKS)
            ],
        }
    )


def played(protocol: Protocol, cell: Cell, level: float, rng: np.random.Generator) -> Played:
    """Invent the results of a run: it learns up to ``level``, with noise."""
    count = protocol.seeds.evaluation.count
    ends = {"final_trust": rng.random(count), "mean_trust": rng.random(count)}
    rewards = rng.normal(level / 2, 8.0, (count, 2))
    actions = np.ones((HORIZON, 2)), np.ones((HORIZON, 2))
    prints = np.frombuffer(rng.bytes(32 * count), np.uint8).reshape(count, 32)
    trace = Trace(
        prints, rng.integers(0, 2**62, HORIZON).astype(np.uint64), {0: actions, 1: actions}
    )
    episodes = Episodes(
        cell=cell,
        agents=AGENTS,
        seeds=np.array(protocol.seeds.evaluation.seeds, np.uint64),
        lengths=np.full(count, HORIZON),
        terminated=np.zeros(count, np.bool_),
        seats=np.ones((count, 2), np.bool_),
        returns=rewards,
        metrics=ends,
        curves={"mean_trust": rng.random(HORIZON + 1)},
        agent_metrics={"mean_trust": rng.random((count, 2))},
        trace=trace,
    )
    steps = INTERVAL * np.arange(1, CHECKPOINTS + 1)
    rising = level * (1.0 - np.exp(-steps / rng.uniform(2e5, 8e5)))
    scores = rising[:, None] + rng.normal(0.0, 12.0, (CHECKPOINTS, SELECTION))
    return Played(episodes, Progress(cell, steps, {"return": scores}), 1.0)


def write(root: Path, episodes: int) -> None:
    """Write all cells."""
    protocol, rng = invented(episodes), np.random.default_rng(7)
    write_protocol(root, protocol)
    for task in protocol.task:
        for policy in range(POLICIES):
            level = rng.uniform(30.0, 60.0) + 3.0 * policy
            for run in protocol.seeds.training:
                cell = Cell(task.id, f"method-{policy}", run)
                block = played(protocol, cell, level + rng.normal(0.0, 5.0), rng)
                store.write(root, block, store.describe(protocol, block, None))


def measure(root: Path) -> list[float]:
    """Make the report of a folder; return seconds to load and to save, and GiB of memory at most.

    Seconds are of processor time, and begin after the package is imported.
    """
    begun = time.process_time()
    report = load_report(root)
    loaded = time.process_time()
    report.save(root / "report")
    saved = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [loaded - begun, saved - loaded, peak]


def main() -> None:
    """Write the results, measure their report in a fresh process, and print the table."""
    parser = speed.parser(__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, action="append", help="of evaluation, per run")
    parser.add_argument("--folder", type=Path, help="where to keep the results")
    parser.add_argument("--measure", type=Path, help="only make the report of this folder")
    options, machine, rows = parser.parse_args(), speed.machine(), []
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    for episodes in options.episodes or (SELECTION, 10 * SELECTION):
        with tempfile.TemporaryDirectory() as folder:
            root = (options.folder or Path(folder)) / f"{episodes}-episodes"
            if not (root / "protocol.json").is_file():
                write(root, episodes)
            command = [sys.executable, __file__, "--measure", str(root)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rows.append([str(episodes), *json.loads(done.stdout)])
    speed.finish("scale", speed.Table(HEAD, rows, machine), options.record)


if __name__ == "__main__":
    main()
