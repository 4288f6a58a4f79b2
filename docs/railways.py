"""Contact sheet of the railway tests: the first level of each, before the first step.

``python docs/railways.py`` writes ``docs/environments/railways.png`` from the instances of
rail-published-1; it takes half a minute, and is run when these change.
"""

import io
import math
from pathlib import Path

import numpy as np

from coopbench.protocol.loading import load_protocol
from coopbench.protocol.task import instance_state
from coopbench_envs import pictures
from coopbench_envs.engine import Engine

FILE = Path(__file__).resolve().parent / "environments" / "railways.png"
COLUMNS = 5
HEADER = 34  # rows of pixels with the state of the game


def sheet() -> bytes:
    """Draw all tests beside each other; return the PNG."""
    from matplotlib.figure import Figure

    tasks = load_protocol("rail-published-1").task
    rows = math.ceil(len(tasks) / COLUMNS)
    figure = Figure(figsize=(12.0, 2.7 * rows), layout="constrained")
    places = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    for ax in places:
        ax.axis("off")
    for ax, task in zip(places, tasks, strict=False):
        engine = Engine(task.env, 1, **task.parameters | {"observation": "none"})
        fields = instance_state(task, engine.constants, 1) or {}
        engine.reset(np.zeros(1, np.uint64), state={k: v[0] for k, v in fields.items()})
        ax.imshow(pictures.picture(engine)[HEADER:], interpolation="antialiased")
        trains = task.parameters["num_agents"]
        ax.set_title(f"{task.id.replace('_', ' ')}: {trains} trains", fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
    return buffer.getvalue()


if __name__ == "__main__":
    FILE.write_bytes(sheet())
