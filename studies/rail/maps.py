"""Networks of Rail beside those of flatland-rl: rails, switches, shortest ways, targets.

    python -m studies.rail.maps             # print the table
    python -m studies.rail.maps --record    # and store it for the page of the environment

Maps of flatland-rl are represented by the means that ``studies/rail/flatland_maps.py`` has written
to ``studies/rail/flatland_maps.csv``; of every kind in that file 2000 networks are drawn.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

from coopbench.report.markdown import rows_table
from coopbench_envs.engine import Engine
from coopbench_envs.rail.distances import distances_at

FOLDER = Path(__file__).resolve().parent
THEIRS, OURS = FOLDER / "flatland_maps.csv", FOLDER / "rail_maps.csv"
NETWORKS = 2000  # enough to leave the errors of the other side only
FIGURES = ("rails", "switches", "way", "targets")
COUNTS = ("height", "width", "num_agents", "cities", "rails_between_cities", "rail_pairs_in_city")


def rows_of(file):
    """Return the rows of a table as dictionaries of texts."""
    with file.open(encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def parameters(row):
    """Return the parameters of the environment that a row is about."""
    return {name: int(row[name]) for name in COUNTS} | {"grid_mode": row["grid_mode"] == "1"}


def measured(row):
    """Return the mean figures of networks drawn like the maps of a row."""
    engine = Engine("coopbench/Rail-v0", **parameters(row), observation="none")
    s, rows = engine.state, []
    for seed in range(NETWORKS):
        engine.reset(np.array([seed], np.uint64))
        rails = s.rail[0].astype(int)
        transitions = sum((rails >> bit) & 1 for bit in range(16))
        ways = distances_at(s, s.start)[0]
        cells = (rails > 0).sum()
        switches = (transitions > 2).sum() / cells
        rows.append((cells, switches, ways.mean(), len(set(s.target[0].tolist()))))
    return dict(zip(FIGURES, np.mean(rows, axis=0), strict=True))


def table(ours):
    """Return the comparison in Markdown: ours / theirs, and their ratio."""
    heads = ["size, trains, cities", *(f"{name}: ours / theirs (ratio)" for name in FIGURES)]
    body = []
    for mine, row in zip(ours, rows_of(THEIRS), strict=True):
        title = f"{row['height']} x {row['width']}, {row['num_agents']}, {row['cities']}"
        title += ", grid" if row["grid_mode"] == "1" else ""
        lines = row["rails_between_cities"], row["rail_pairs_in_city"]
        title += "" if lines == ("2", "2") else f", {lines[0]} lines, {lines[1]} pairs"
        cells = [
            f"{float(mine[name]):.3g} / {float(row[name]):.3g} "
            f"({float(mine[name]) / float(row[name]):.2f})"
            for name in FIGURES
        ]
        body.append([title, *cells])
    return rows_table(heads, body)


def main():
    parser = argparse.ArgumentParser(description="Networks of Rail beside those of flatland-rl.")
    parser.add_argument("--record", action="store_true", help=f"store the figures in {OURS.name}")
    arguments = parser.parse_args()
    ours = [measured(row) for row in rows_of(THEIRS)]
    print(table(ours))
    if arguments.record:
        with OURS.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(FIGURES), lineterminator="\n")
            writer.writeheader()
            writer.writerows({name: f"{value:.5g}" for name, value in row.items()} for row in ours)


if __name__ == "__main__":
    main()
