"""Fit ``reaction`` of Skirmish-v1 to the win rates of SMAC's heuristic, and compare mirrored teams.

    python -m studies.battles.reaction fit --episodes 256
    python -m studies.battles.reaction mirror --episodes 20000

``fit`` plays the heuristic with free orders and SMAC's ranges from fixed starts, for 0 to 4 ticks,
and prints win rates beside those of Table 2 of the paper. ``mirror`` lets the script of the enemies
play both sides of symmetric maps and of drawn teams, and prints how often each side wins.
"""

import argparse
import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from coopbench.baselines.match import Match
from coopbench.baselines.player import seated
from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED
from coopbench_envs.skirmish.teams import RACES

ID, LANES = "coopbench/Skirmish-v1", 256
PUBLISHED = {
    **{"2s3z": 0.90, "3s5z": 0.42, "1c3s5z": 0.81, "10m_vs_11m": 0.12, "bane_vs_bane": 0.43},
    **dict.fromkeys(("2s_vs_1sc", "2c_vs_64zg", "5m_vs_6m", "3s_vs_5z", "3s5z_vs_3s6z"), 0.0),
    **dict.fromkeys(("6h_vs_8z", "27m_vs_30m", "MMM2", "corridor"), 0.0),
}
SYMMETRIC = ("3m", "8m", "25m", "2s3z", "3s5z", "1c3s5z", "MMM")


def heuristic_wins(episodes: int, **parameters: Any) -> float:
    """Return the share of episodes, with seeds from 0 on, that SMAC's heuristic wins."""
    engine = Engine(ID, episodes, start="fixed", ranges="smac", free_orders=True, **parameters)
    Match(engine, [seated("smac_heuristic_free", engine)]).play(np.arange(episodes))
    return float(engine.control.measures[:, 0].mean())


def mirrored(episodes: int, **parameters: Any) -> tuple[float, float]:
    """Return the shares of episodes that the agents and the enemies win under one script."""
    engine = Engine(ID, LANES, **parameters)
    rules = engine.constants.rules._replace(scripted=True)
    engine.constants = engine.constants._replace(rules=rules)
    wins = losses = 0
    for first in range(0, episodes, LANES):
        engine.reset(np.arange(first, first + LANES))
        count = min(LANES, episodes - first)
        while not engine.control.done.all():
            engine.step(np.ones((LANES, len(engine.agents)), np.int64), DISABLED)
        won = engine.control.measures[:count, 0] == 1
        wins += int(won.sum())
        losses += int((engine.control.ended[:count] & ~won)[_stands(engine)[:count]].sum())
    return wins / episodes, losses / episodes


def mirror_matches() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the parameters of each battle whose sides are equal."""
    for name, start in product(SYMMETRIC, ("fixed", "drawn", "shifted")):
        yield f"`{name}` | {start}", {"map": name, "start": start}
    for race, size, start in product(RACES, (5, 10), ("drawn", "shifted")):
        drawn = {"teams": "drawn", "race": race, "num_agents": size, "start": start}
        yield f"{race}, {size} against {size} | {start}", drawn


def standard_errors(wins: float, losses: float, episodes: int) -> float:
    """Return how many standard errors the difference of two shares of the same episodes is."""
    variance = (wins + losses - (wins - losses) ** 2) / episodes
    return (wins - losses) / math.sqrt(variance) if variance > 0.0 else 0.0


def _stands(engine: Engine) -> np.ndarray:
    """Return in which lanes enemies are left."""
    stands: np.ndarray = engine.state.living[:, len(engine.agents) :].any(axis=1)
    return stands


def main() -> None:
    """Print one of both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", choices=("fit", "mirror"))
    parser.add_argument("--episodes", type=int, default=256)
    options = parser.parse_args()
    if options.table == "fit":
        print("| Map | Paper | 0 | 1 | 2 | 3 | 4 |\n|---|---|---|---|---|---|---|")
        rates = []
        for name, rate in PUBLISHED.items():
            row = [heuristic_wins(options.episodes, map=name, reaction=k) for k in range(5)]
            rates.append(row)
            cells = " | ".join(f"{value:.2f}" for value in row)
            print(f"| `{name}` | {rate:.2f} | {cells} |", flush=True)
        gaps = np.abs(np.array(rates) - np.array(list(PUBLISHED.values()))[:, None]).mean(axis=0)
        print("| mean distance | |", " | ".join(f"{gap:.3f}" for gap in gaps), "|")
    else:
        print("| Battle | Start | Agents win | Enemies win | Difference, in standard errors |")
        print("|---|---|---|---|---|")
        for label, parameters in mirror_matches():
            wins, losses = mirrored(options.episodes, **parameters)
            distance = standard_errors(wins, losses, options.episodes)
            print(f"| {label} | {wins:.4f} | {losses:.4f} | {distance:+.1f} |", flush=True)


if __name__ == "__main__":
    main()
