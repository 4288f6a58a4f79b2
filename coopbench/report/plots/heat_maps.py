"""Heat maps of a cross-play."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from coopbench.analysis.meetings import Meetings
from coopbench.report.numbers import scale_of
from coopbench.report.plots.style import INK, SMALL, WIDTH, new_axes, plain, write_title


def heat_map(result: Meetings, task: str, ax: Any = None) -> Any:
    """Draw the means of a cross-play on ``task``, numbers in the cells; return the axes.

    Rows are policies in one seat, columns those in all others, or on the other side; self-play is
    framed. The colours
    (cividis) run from the lowest to the highest value and look alike to the colour-blind.
    """
    from matplotlib.patches import Rectangle

    names, values = [plain(name) for name in result.policies], result.matrix(task)
    count, longest = len(names), max(len(name) for name in names)
    ax = ax if ax is not None else new_axes(1.2 + 0.36 * count + 0.05 * longest, _map_width(names))
    mesh = ax.pcolormesh(values, cmap="cividis", edgecolors="white", linewidth=1.5)
    scale, look = scale_of(values.ravel(), ()), {"ha": "center", "va": "center", "fontsize": SMALL}
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if mesh.norm(value) < 0.5 else INK
        ax.text(column + 0.5, row + 0.5, scale(value), color=colour, **look)
        if row == column:
            frame = Rectangle((row + 0.05, row + 0.07), 0.9, 0.86, fill=False, color=colour, lw=1.2)
            ax.add_patch(frame)
    ax.set_xticks(np.arange(count) + 0.5, names, rotation=35, ha="right", rotation_mode="anchor")
    ax.set_yticks(np.arange(count) + 0.5, names)
    ax.set_ylim(count, 0)
    ax.tick_params(length=0, labelsize=SMALL, labelcolor=INK)
    ax.spines[:].set_visible(False)
    ax.set_xlabel(result.places.column, fontsize=SMALL)
    ax.set_ylabel(result.places.row, fontsize=SMALL)
    write_title(ax, f"{task}: mean {result.places.value}")
    return ax


def _map_width(names: Sequence[str]) -> float:
    """Return the width in inches: row names, and a cell of seven digits per column."""
    return max(WIDTH, 0.6 + 0.085 * max(len(name) for name in names) + 0.66 * len(names))
