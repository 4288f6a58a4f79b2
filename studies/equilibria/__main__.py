"""Print the table of docs/games.md: equilibria, optimum and best constant of the version 0 games.

Investments are in units (``x 4``: four agents alike), W is welfare per step; then the best common
fraction of the endowments and its return over an episode.
"""

from typing import Any

from coopbench.report.sections.anarchy import units
from coopbench.theory import (
    coopetitive_equilibrium,
    price_of_anarchy,
    social_optimum,
    static_nash,
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


def main() -> None:
    """Print the equilibria, optimum, price of anarchy and best constant of every published game."""
    heads = ["game", "Nash", "W", "coopetitive", "W", "optimum", "W", "price of anarchy"]
    heads += ["best constant", "return"]
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    for env_id in ids():
        if spec(env_id).source.startswith("Coopetition-Gym"):
            print(row(env_id), flush=True)


if __name__ == "__main__":
    main()
