"""Pictures of a Routing state: obstacles, agents, their goals, and who is in contact."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from coopbench_envs import rendering
from coopbench_envs.pathfinding.dynamics import DIFFDRIVE
from coopbench_envs.pathfinding.maps.common import ABSENT
from coopbench_envs.rendering import GRID, INK, PALE, PALETTE, PAPER, VERMILION, mix_colours

_COLOURS = PALETTE[:5]  # vermilion is for contacts, yellow is too pale for thin lines

_SIDE = 720  # pixels of the world's longer side
_EDGE, _HEADER = 14, 34  # pixels around the world, and above it
_OBSTACLE, _FLOOR = (172, 172, 172), (248, 248, 248)
_LINES = 40  # agents at most with lines to their goals: more would hide the map
_COLUMNS = 81  # characters per line of text at most


def picture(
    constants: Any, fields: Mapping[str, np.ndarray], agents: tuple[str, ...]
) -> np.ndarray:
    """Draw one lane: discs are to scale, goals are rings in their agent's colour.

    A line leads from each agent to its goal until it stands there (of not too many), an arrow shows
    where it moves, a tick where its front is if it has one, and a red ring marks an agent that
    touched something in the last step.
    """
    view = _View(constants)
    canvas = rendering.Canvas(view.width, view.height)
    left, top = view.x(-0.5 * constants.map.width), view.y(0.5 * constants.map.height)
    canvas.rectangle(left, top, *view.size, _FLOOR)
    landmarks = fields["landmark_pos"]
    for x, y in landmarks[landmarks[:, 0] != ABSENT]:
        canvas.disc(view.x(x), view.y(y), view.length(constants.map.landmark_rad), _OBSTACLE)
    for a in range(len(agents)):
        _goal(canvas, view, fields, a)
    for a in range(len(agents)):
        _agent(canvas, view, fields, a, constants.drive.code[a] == DIFFDRIVE)
    _header(canvas, constants, fields)
    return canvas.pixels()


class _View:
    """Where lengths and points of the world lie in the picture; y points up in the world."""

    def __init__(self, constants: Any) -> None:
        margin = 2 * constants.map.landmark_rad
        across, up = constants.map.width + margin, constants.map.height + margin
        self.scale = _SIDE / max(across, up)
        self.left, self.top = 0.5 * across, 0.5 * up
        # Even numbers of pixels: video encoders ask for them.
        self.width = 2 * round(0.5 * across * self.scale) + 2 * _EDGE
        self.height = 2 * round(0.5 * up * self.scale) + 2 * _EDGE + _HEADER
        self.size = (constants.map.width * self.scale, constants.map.height * self.scale)

    def x(self, x: float) -> float:
        return _EDGE + (x + self.left) * self.scale

    def y(self, y: float) -> float:
        return _EDGE + _HEADER + (self.top - y) * self.scale

    def length(self, length: float, least: float = 1.0) -> float:
        return max(least, length * self.scale)


def _goal(canvas: Any, view: _View, fields: Mapping[str, np.ndarray], a: int) -> None:
    colour = _COLOURS[a % len(_COLOURS)]
    x, y = view.x(fields["goal_pos"][a, 0]), view.y(fields["goal_pos"][a, 1])
    if not fields["on_goal"][a] and len(fields["on_goal"]) <= _LINES:
        start = (view.x(fields["agent_pos"][a, 0]), view.y(fields["agent_pos"][a, 1]))
        canvas.line([start, (x, y)], mix_colours(PAPER, colour, 0.5), 1.2)
    canvas.disc(x, y, view.length(fields["goal_rad"][a], 2.0) + 4.0, PAPER)
    canvas.disc(x, y, view.length(fields["goal_rad"][a], 2.0), colour)
    canvas.ring(x, y, view.length(fields["goal_rad"][a], 2.0) + 4.0, colour, 1.5)


def _agent(canvas: Any, view: _View, fields: Mapping[str, np.ndarray], a: int, turns: bool) -> None:
    x, y = view.x(fields["agent_pos"][a, 0]), view.y(fields["agent_pos"][a, 1])
    radius = view.length(fields["agent_rad"][a], 3.5)
    if fields["collided"][a]:
        canvas.disc(x, y, radius + 5.0, VERMILION)
        canvas.disc(x, y, radius + 2.5, PAPER)
    canvas.disc(x, y, radius + 1.0, INK)
    canvas.disc(x, y, radius, _COLOURS[a % len(_COLOURS)])
    if radius >= 9:
        canvas.text(x, y, str(a), min(radius, 16), PAPER, "mm")
    if turns:
        _nose(canvas, x, y, radius, float(fields["agent_angle"][a]))
    vx, vy = fields["agent_vel"][a]
    speed = float(np.hypot(vx, vy))
    if speed > 0.02:
        dx, dy = vx / speed, -vy / speed
        canvas.arrow(x + radius * dx, y + radius * dy, *_ahead(view, speed, dx, dy), INK)


def _nose(canvas: Any, x: float, y: float, radius: float, angle: float) -> None:
    """Draw a short tick on the rim where the agent's front is."""
    dx, dy = np.cos(angle), -np.sin(angle)
    near, far = 0.5 * radius, radius + 3.0
    ends = [(x + near * dx, y + near * dy), (x + far * dx, y + far * dy)]
    canvas.line(ends, PAPER, 4.0)
    canvas.line(ends, INK, 2.0)


def _ahead(view: _View, speed: float, dx: float, dy: float) -> tuple[float, float]:
    length = min(0.4 * speed * view.scale, 40.0) + 4.0
    return length * dx, length * dy


def _header(canvas: Any, constants: Any, fields: Mapping[str, np.ndarray]) -> None:
    y = _EDGE + 0.4 * _HEADER
    canvas.text(_EDGE, y, _summary(constants, fields), 15)
    done = min(1.0, int(fields["time"]) / constants.horizon)
    width = canvas.width - 2 * _EDGE
    canvas.rectangle(_EDGE, y + 14, width, 3, GRID)
    canvas.rectangle(_EDGE, y + 14, width * done, 3, PALE)


def _summary(constants: Any, fields: Mapping[str, np.ndarray]) -> str:
    arrived, touching = int(fields["on_goal"].sum()), int(fields["collided"].sum())
    return (
        f"step {int(fields['time'])} / {constants.horizon}    "
        f"on goal {arrived} / {len(fields['on_goal'])}    in contact {touching}"
    )


def text(constants: Any, fields: Mapping[str, np.ndarray], agents: tuple[str, ...]) -> str:
    """Write one lane as a map of characters.

    ``#`` obstacle, ``+`` goal, ``o`` agent, ``@`` agent on its goal, ``x`` agent in contact.
    """
    cell = max(constants.map.width, constants.map.height) / (_COLUMNS - 1)
    cell = max(cell, constants.map.landmark_rad)
    columns = round(constants.map.width / cell) + 1
    rows = round(0.5 * constants.map.height / cell) + 1
    page = np.full((rows, columns), " ")

    def put(points: np.ndarray, signs: Any) -> None:
        column = np.rint((points[:, 0] + 0.5 * constants.map.width) / cell)
        row = np.rint((0.5 * constants.map.height - points[:, 1]) / (2 * cell))  # letters are tall
        inside = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
        marks = np.broadcast_to(signs, len(points))[inside]
        page[row[inside].astype(int), column[inside].astype(int)] = marks

    put(fields["landmark_pos"], "#")
    put(fields["goal_pos"], "+")
    put(
        fields["agent_pos"],
        np.where(fields["collided"], "x", np.where(fields["on_goal"], "@", "o")),
    )
    return "\n".join([_summary(constants, fields), *("".join(row).rstrip() for row in page)])
