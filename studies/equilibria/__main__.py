"""Print the table of docs/games.md: equilibria, optimum and best constant of the version 0 games.

    python -m studies.equilibria            print the table
    python -m studies.equilibria --store    store what reports of coopetition-published show

Investments are in units (``x 4``: four agents alike), W is welfare per step; then the best common
fraction of the endowments and its return over an episode.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import coopbench.report.sections
from coopbench.protocol.loading import load_protocol
from coopbench.report.sections.anarchy import FILE, step_parameters
from coopbench.theory import (
    coopetitive_equilibrium,
    price_of_anarchy,
    social_optimum,
    static_nash,
    worst_nash,
)
from coopbench_envs.registration import ids, spec
from studies.equilibria import best_constant

# The published weight is drawn anew each episode; the table uses the mean of its range.
_PARAMETERS: dict[str, dict[str, Any]] = {
    "coopbench/SynergySearch-v0": {"gamma_range": (0.55, 0.55)}
}


def row(env_id: str) -> str:
    """Return the line of one game."""
    parameters = _PARAMETERS.get(env_id, {})
    nash, coopetitive = (
        static_nash(env_id, **parameters),
        coopetitive_equilibrium(env_id, **parameters),
    )
    optimum, constant = social_optimum(env_id, **parameters), best_constant(env_id, **parameters)
    cells = [env_id.split("/")[1].removesuffix("-v0")]
    for stage in (nash, coopetitive, optimum):
        cells += [units(stage.actions), f"{stage.welfare:.1f}"]
    price = price_of_anarchy(env_id, **parameters)
    cells += [f"{price:.4f}", f"{constant.fraction:.4f}", f"{constant.value:.0f}"]
    return "| " + " | ".join(cells) + " |"


def units(actions: np.ndarray) -> str:
    """Write investments in order, runs of equal ones as one number with a count."""
    runs: list[list[Any]] = []
    for text in (f"{action:.2f}" for action in actions):
        if runs and runs[-1][0] == text:
            runs[-1][1] += 1
        else:
            runs.append([text, 1])
    return ", ".join(text if count == 1 else f"{text} x {count}" for text, count in runs)


def stored() -> Iterator[dict[str, Any]]:
    """Yield the price of anarchy of every game of coopetition-published, with what it follows from.

    Games that differ in their horizon alone are one game: the figures are those of one step.
    """
    games = []
    for task in load_protocol("coopetition-published").task:
        game = (spec(task.env).id, step_parameters(task.parameters))
        if game not in games:
            games.append(game)
    for env_id, parameters in games:
        nash, optimum = worst_nash(env_id, **parameters), social_optimum(env_id, **parameters)
        yield {
            "env": env_id,
            "parameters": parameters,
            "nash": units(nash.actions),
            "nash_welfare": round(nash.welfare, 4),
            "optimum": units(optimum.actions),
            "optimum_welfare": round(optimum.welfare, 4),
            "price": round(optimum.welfare / nash.welfare, 6),
        }


def main() -> None:
    """Print the equilibria, optimum, price of anarchy and best constant of every published game."""
    parser = argparse.ArgumentParser(prog="python -m studies.equilibria", description=__doc__)
    parser.add_argument("--store", action="store_true", help="write the file that reports read")
    if parser.parse_args().store:
        file = Path(coopbench.report.sections.__path__[0]) / FILE
        file.write_text(json.dumps(list(stored()), indent=1) + "\n", encoding="utf-8")
        print(f"Wrote {file}.")
        return
    heads = ["game", "Nash", "W", "coopetitive", "W", "optimum", "W", "price of anarchy"]
    heads += ["best constant", "return"]
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    for env_id in ids():
        if spec(env_id).source.startswith("Coopetition-Gym"):
            print(row(env_id), flush=True)


if __name__ == "__main__":
    main()
