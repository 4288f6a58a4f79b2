"""Reference results: plays the shipped planners on routing protocols and keeps what came of it.

Run ``python benchmarks/reference.py [PROTOCOL ...]``. Episodes go to ``results/reference``, so that
an interrupted run goes on where it stopped; tables and charts to ``baselines/results``. With
``--check`` nothing is played: the tables are made anew from the episodes that are there, and
compared with those that are kept.

Policies that are not trained play the same episodes in routing-medium as in routing-easy.
"""

import sys
import tempfile
from pathlib import Path

import coopbench
from coopbench.evaluation import load_report
from coopbench.report.plots import pictures
from coopbench.report.tables import as_markdown

PROTOCOLS = ("routing-easy", "routing-hard", "routing-standard")
POLICIES = ["random", "greedy", "potential_field", "orca", "astar_pibt", "prioritised_rrt_star"]
KEPT = ("estimates.csv", "aggregates.csv", "comparisons.csv", "charts.csv", "published.csv")

ROOT = Path(__file__).resolve().parent.parent
EPISODES, TABLES = ROOT / "results" / "reference", ROOT / "baselines" / "results"


def play(name):
    """Play what has not been played yet on all usable cores."""
    coopbench.evaluate(
        name,
        POLICIES,
        out=EPISODES / name,
        backend="processes",
        progress=lambda cell, done, what: what == "done" and print(f"{cell.task} {cell.policy}"),
    )


def tables(name):
    """Return the tables and charts of a protocol as {path: content}."""
    report = load_report(EPISODES / name)
    charts = [picture for picture in pictures(report) if picture.kind == "chart"]
    found = {f"plots/{chart.name}.svg": chart.svg for chart in charts}
    found["report.md"] = as_markdown(report, charts)
    with tempfile.TemporaryDirectory() as place:
        files = report.save(place)
        for file in files.values():
            if file.name in KEPT:
                found[file.name] = file.read_text(encoding="utf-8")
    return found


def main():
    names = [name for name in sys.argv[1:] if name != "--check"] or PROTOCOLS
    for name in names:
        if "--check" in sys.argv:
            other = [
                file
                for file, content in tables(name).items()
                if file in KEPT and (TABLES / name / file).read_text("utf-8") != content
            ]
            print(f"{name}: {', '.join(other) or 'as kept'}")
            continue
        play(name)
        for file, content in tables(name).items():
            path = TABLES / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
