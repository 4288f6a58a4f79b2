"""Pictures and texts of one lane: those of its environment, or what the agents observe."""

import inspect
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from coopbench_envs.core import EnvSpec
from coopbench_envs.lanes import Lanes
from coopbench_envs.layouts import Part
from coopbench_envs.rendering import BLUE, GRID, INK, PALE, Canvas

__all__ = ["check_picture_options", "picture", "text"]

_AGENTS, _ENTRIES = 24, 32  # rows of agents, and entries of a part, that are shown at most
_WIDTH, _LEAST = 1400, 320  # pixels across at most, parts beyond are left out; and at least
_CELL, _ROW, _GAP, _EDGE = 14, 30, 16, 14  # pixels
_SMALL = 11  # size of letters
_NUMBERS = 8  # entries of a part in the text


def check_picture_options(spec: EnvSpec, names: Iterable[str]) -> None:
    """Raise ``ValueError`` for an option that pictures of a game do not have.

    Its options are the arguments of ``EnvSpec.picture`` that are given by keyword alone.
    """
    arguments = {} if spec.picture is None else inspect.signature(spec.picture).parameters
    allowed = [name for name, a in arguments.items() if a.kind is a.KEYWORD_ONLY]
    for name in names:
        if name not in allowed:
            raise ValueError(
                f"Pictures of {spec.id} have no option {name!r}; allowed: "
                f"{', '.join(allowed) or 'none'}. Leave it out."
            )


def picture(engine: Lanes, lane: int = 0, **options: Any) -> np.ndarray:
    """Draw one lane, uint8 (height, width, 3): as its environment does, or what agents observe.

    Without a picture of its own a game is drawn as one row per agent with one bar per entry of the
    agent's observation, under the names of the parts, from the lowest to the highest value of the
    observation space. Entries that have no bounds are drawn as x / (1 + |x|) between -1 and 1.
    ``options`` are those of the game's pictures, such as ``sight=True`` for battles; another one
    raises ``ValueError``.
    """
    check_picture_options(engine.spec, options)
    draw = engine.spec.picture
    if draw is not None:
        fields = _fields(engine, lane)
        image: np.ndarray = draw(engine.constants, fields, engine.agents, **options)
        return image
    return _bars(engine, lane)


def text(engine: Lanes, lane: int = 0) -> str:
    """Describe one lane in text: as its environment does, or what agents observe, as numbers."""
    write = engine.spec.text
    if write is not None:
        return write(engine.constants, _fields(engine, lane), engine.agents)
    seen = engine.fetched()[0].obs[lane]
    lines = [_title(engine, lane)]
    for index, agent in enumerate(engine.agents):
        parts = [
            f"{name} {_numbers(part.view(seen[index]).ravel())}"
            for name, part in engine.layout.items()
            if part.size
        ]
        lines.append(f"{agent}: {'; '.join(parts)}")
    return "\n".join(lines)


def _fields(engine: Lanes, lane: int) -> dict[str, np.ndarray]:
    """Return what a lane resumes from, and all arrays of its state, also those that follow."""
    views = engine.view()._asdict().items()
    return engine.lane_state(lane) | {name: array[lane] for name, array in views}


def _title(engine: Lanes, lane: int) -> str:
    time, total = int(engine.view().time[lane]), float(engine.fetched()[0].returns[lane].sum())
    return f"{engine.spec.name}  step {time} of {engine.horizon}  return {total:.4g}"


def _numbers(values: np.ndarray) -> str:
    shown = " ".join(f"{value:.4g}" for value in values[:_NUMBERS].tolist())
    return f"{shown} ... ({len(values)})" if len(values) > _NUMBERS else shown


def _bars(engine: Lanes, lane: int) -> np.ndarray:
    names = engine.agents[:_AGENTS]
    left = 2 * _EDGE + max(len(name) for name in names) * 7
    columns = list(_columns(engine.layout, left))
    width = max([_LEAST, *(x + size for _, _, x, size in columns)]) + _EDGE
    hidden = len(engine.agents) - len(names)
    canvas = Canvas(width, _EDGE + (2 + len(names) + (hidden > 0)) * _ROW + _EDGE)
    canvas.text(_EDGE, _EDGE + 0.5 * _ROW, _title(engine, lane))
    for name, _, x, _ in columns:
        canvas.text(x, _EDGE + 1.5 * _ROW, name, _SMALL, PALE)
    for index, agent in enumerate(names):
        top = _EDGE + (2 + index) * _ROW
        canvas.text(_EDGE, top + 0.5 * _ROW, agent, _SMALL, INK)
        heights = _heights(engine, lane, index)
        for _, part, x, _ in columns:
            for entry, height in enumerate(heights[part.index][:_ENTRIES].tolist()):
                _bar(canvas, x + entry * _CELL, top + 4, height)
    if hidden:
        canvas.text(_EDGE, canvas.height - _EDGE - 0.5 * _ROW, f"and {hidden} more", _SMALL, PALE)
    return canvas.pixels()


def _columns(layout: dict[str, Part], left: int) -> Iterator[tuple[str, Part, int, int]]:
    """Name, part, place and width of the parts that fit side by side."""
    for name, part in layout.items():
        size = max(min(part.size, _ENTRIES) * _CELL, math.ceil(len(name) * 6.5))
        if part.size and left + size <= _WIDTH:
            yield name, part, left, size
            left += size + _GAP


def _heights(engine: Lanes, lane: int, agent: int) -> np.ndarray:
    """What an agent observes as shares of its bounds, in [0, 1]."""
    space = engine.observation_spaces[agent]
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    seen = engine.fetched()[0].obs[lane, agent].astype(np.float64)
    bounded = np.isfinite(low) & np.isfinite(high) & (high > low)
    low, span = np.where(bounded, low, 0.0), np.where(bounded, high - low, 1.0)
    squashed = 0.5 + 0.5 * seen / (1.0 + np.abs(seen))
    heights: np.ndarray = np.clip(np.where(bounded, (seen - low) / span, squashed), 0.0, 1.0)
    return heights


def _bar(canvas: Canvas, x: float, y: float, height: float) -> None:
    wide, high = _CELL - 3, _ROW - 8
    canvas.rectangle(x, y, wide, high, GRID)
    canvas.rectangle(x, y + (1.0 - height) * high, wide, height * high, BLUE)
