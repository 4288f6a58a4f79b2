"""Steps and resets of Routing-v1 in two checkouts of this repository, in turns.

Run ``python benchmarks/revisions.py OLDER NEWER [rounds]`` with two folders. Each has a process of
its own; they measure one after the other, in alternating order, in processor time, so that what
else the machine does concerns both alike. Printed are the best rates and the median of the ratios
of the rounds. Steps are 64 at a time with uniform actions, observations included; ``on_goal`` is
"stop" for both.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

LANES, STEPS, SECONDS = 64, 64, 0.25
CAVES = {"num_rows": 96, "num_cols": 96, "agent_rad_range": (0.03, 0.03)}
SETTINGS = {
    "8 agents, no obstacles": (8, "random_grid", {"obstacle_density": 0.0}),
    "8 agents, 60 obstacles": (8, "random_grid", {"obstacle_density": 0.15}),
    "32 agents, 60 obstacles": (32, "random_grid", {"obstacle_density": 0.15}),
    "32 agents, caves": (32, "caves_cont", CAVES),
}


def work():
    """Measure what is asked for on standard input, with the packages of the working folder."""
    import numpy as np

    from coopbench_envs import Engine

    engines = {}
    for line in sys.stdin:
        name, what = line.rstrip("\n").split(";")
        if name not in engines:
            agents, kind, map_params = SETTINGS[name]
            values = {"num_agents": agents, "map": kind, "map_params": map_params}
            engines[name] = Engine("coopbench/Routing-v1", LANES, on_goal="stop", **values)
        engine = engines[name]
        engine.reset(np.arange(LANES))
        actions = np.random.default_rng(0).uniform(-1, 1, (STEPS, *engine.actions.shape))
        amount, begin = 0, time.process_time()
        while time.process_time() - begin < SECONDS or amount == 0:
            if what == "steps":
                for action in actions:
                    engine.step(action)
            else:
                engine.reset()
            amount += LANES * (STEPS if what == "steps" else 1)
        print(amount / (time.process_time() - begin), flush=True)


def start(folder):
    """Start a process that imports the packages of a checkout."""
    command = [sys.executable, str(Path(__file__).resolve()), "--work"]
    environment = {**os.environ, "PYTHONPATH": str(Path(folder).resolve())}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, cwd=folder, env=environment, text=True, **pipes)


def rate(process, name, what):
    """Return what one process measures."""
    process.stdin.write(f"{name};{what}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main():
    older, newer = start(sys.argv[1]), start(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    print("| setting | steps/s | ratio | resets/s | ratio |\n|---|---|---|---|---|")
    for name in SETTINGS:
        cells = []
        for what in ("steps", "resets"):
            for process in (older, newer):  # compile and warm up
                rate(process, name, what)
            pairs = []
            for k in range(rounds):
                if k % 2 == 0:
                    pair = rate(older, name, what), rate(newer, name, what)
                else:
                    pair = (rate(newer, name, what), rate(older, name, what))[::-1]
                pairs.append(pair)
            before, after = (max(column) for column in zip(*pairs, strict=True))
            ratio = statistics.median(later / earlier for earlier, later in pairs)
            cells += [f"{before:,.0f}, {after:,.0f}", f"{ratio:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    for process in (older, newer):
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    work() if "--work" in sys.argv else main()
