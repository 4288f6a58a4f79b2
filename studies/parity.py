"""Whether QMIX learns a battle as well with this package as with BenchMARL, on the same budget.

    make build/interop/torchrl/.ready
    build/interop/torchrl/bin/python -m studies.parity [--runs 5] [--steps 200000]

Both play `3m` of `skirmish-small`: the same steps of training, the same 320 episodes of evaluation.
BenchMARL is trained here, with the settings of `examples/benchmarl_qmix.py`, for about five minutes
a run; of `qmix_shared` the runs in `benchmarks/results/runs` are taken. What BenchMARL's runs win
goes to `studies/parity.jsonl`, a line for each, so that a call trains only what that file lacks.
Prints the shares of battles won and the 95 % interval of their mean over runs.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "baselines" / "trained" / "skirmish-small" / "qmix_shared.runs.npz"
RESULTS = ROOT / "studies" / "parity.jsonl"
PROTOCOL, TASK = "skirmish-small", "3m"


def won(policy):
    """Return the shares of the protocol's battles that each run of a policy wins."""
    import coopbench

    report = coopbench.evaluate(PROTOCOL, policy, tasks=TASK, only=True)
    return [float(block.metrics["win"].mean()) for block in report.episodes]


def trained(seed, steps):
    """Train BenchMARL's QMIX; return what is stored of the run."""
    sys.path.insert(0, str(ROOT / "examples"))
    from benchmarl_qmix import Learned, make_experiment

    with tempfile.TemporaryDirectory() as folder:  # BenchMARL writes files
        experiment = make_experiment(TASK, "qmix", steps, seed, folder)
        begin = time.process_time()
        experiment.run()
        seconds = time.process_time() - begin
        (share,) = won(Learned(experiment, "benchmarl_qmix"))
    return {"seed": seed, "steps": steps, "win": share, "cpu_seconds": round(seconds)}


def runs_of_benchmarl(number, steps):
    """Return the runs of seeds 0 to ``number - 1``; train those that are not stored yet."""
    lines = RESULTS.read_text("utf-8").splitlines() if RESULTS.exists() else []
    stored = {run["seed"]: run for run in map(json.loads, lines) if run["steps"] == steps}
    for seed in range(number):
        if seed not in stored:
            stored[seed] = trained(seed, steps)
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(stored[seed]) + "\n")
            print(f"BenchMARL, seed {seed}: {stored[seed]['win']:.3f}", flush=True)
    return [stored[seed]["win"] for seed in range(number)]


def runs_of_coopbench():
    """Return the shares that the kept runs of qmix_shared win: that budget is the protocol's."""
    return won(f"qmix_shared:{RUNS}")


def row(name, shares):
    """Return a row of the table: runs, mean over them and its interval."""
    from scipy import stats

    mean, low, high = math.fsum(shares) / len(shares), math.nan, math.nan
    if len(shares) > 1:
        spread = stats.sem(shares) * stats.t.ppf(0.975, len(shares) - 1)
        low, high = max(0.0, mean - spread), min(1.0, mean + spread)
    listed = " ".join(f"{share:.3f}" for share in shares)
    return f"| {name} | {listed} | {mean:.3f} | {low:.3f} to {high:.3f} |"


def main():
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="of BenchMARL")
    parser.add_argument("--steps", type=int, default=200_000, help="of BenchMARL's training")
    options = parser.parse_args()
    rows = [
        row("BenchMARL", runs_of_benchmarl(options.runs, options.steps)),
        row("coopbench", runs_of_coopbench()),
    ]
    print("| QMIX of | battles won, run by run | mean | 95 % interval |\n|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
