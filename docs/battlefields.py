"""Contact sheet of Skirmish-v1: a drawn start of every map, and one of drawn teams of each race.

``python docs/battlefields.py`` writes ``docs/environments/battlefields.png``; it is run when maps,
starts or pictures change.
"""

import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from coopbench_envs import pictures
from coopbench_envs.engine import Engine
from coopbench_envs.skirmish.picture import HEADER
from coopbench_envs.skirmish.scenario import bundled_maps
from coopbench_envs.skirmish.teams import RACES

FILE = Path(__file__).resolve().parent / "environments" / "battlefields.png"
COLUMNS = 4


def tasks() -> dict[str, dict[str, Any]]:
    """Return the parameters of all battles by what stands above them."""
    battles: dict[str, dict[str, Any]] = {name: {"map": name} for name in bundled_maps()}
    for race in RACES:
        teams = {"teams": "drawn", "race": race, "num_agents": 10, "num_enemies": 11}
        battles[f"{race}, 10 against 11"] = teams
    return battles


def sheet() -> bytes:
    """Draw all battles beside each other; return the PNG."""
    from matplotlib.figure import Figure

    battles = tasks()
    rows = math.ceil(len(battles) / COLUMNS)
    figure = Figure(figsize=(9.6, 2.1 * rows), layout="constrained")
    places = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    for ax in places:
        ax.axis("off")
    for k, (title, parameters) in enumerate(battles.items()):
        ax, engine = places[k], Engine("coopbench/Skirmish-v1", **parameters)
        engine.reset(np.array([k], np.uint64))
        ax.imshow(pictures.picture(engine)[HEADER:], interpolation="antialiased")
        ax.set_title(title, fontsize=9)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=140, metadata={"Software": None})
    return buffer.getvalue()


if __name__ == "__main__":
    FILE.write_bytes(sheet())
