"""The player of an episode: one HTML file that needs nothing else, for screen and phone.

A game whose ``EnvSpec`` has a ``scene`` is drawn from the positions of its discs, smoothly and at
any size; any other game is shown by its pictures.
"""

import base64
import io
import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from coopbench.playing.recording import Recording
from coopbench.report.templates import embedded, render
from coopbench_envs import spec as spec_of
from coopbench_envs.core import Discs
from coopbench_envs.engine import Engine
from coopbench_envs.pictures import picture
from coopbench_envs.rendering import PALETTE, VERMILION

__all__ = ["as_html", "kept_steps"]

_MOST_BYTES = 6_000_000  # of positions or pictures; a third more as text
_PLACE_BYTES = 11  # of an agent in a kept step: position, goal where goals move, heading, flags
_MOST_PICTURES = 250
_SECONDS = 30  # that an episode takes at speed 1, unless steps would pass too fast or slowly
_SLOWEST, _FASTEST = 4, 30  # steps per second
_TICKS = 65_535  # positions are stored as whole parts of the world's extent
_BEYOND = 1.25  # of the world's extent is shown if agents get out of it
_ON_GOAL, _IN_CONTACT = 1, 2  # bits of an agent's flags
_COLOURS = PALETTE[:5]  # as in the pictures: vermilion is for contacts


def as_html(recording: Recording, share: float = 1.0) -> str:
    """Return the page that plays ``recording``; inside another page it leaves out its heading.

    It loads nothing from anywhere. Where all steps would make it too large, every k-th is kept and
    the page says so; contacts in between are kept. ``share`` is the part of that size that it may
    have.
    """
    steps, shown = _shown(recording, share)
    stage = shown.stage()
    return render(
        "player.html",
        title=recording.title,
        facts=_facts(recording, steps),
        drawn=stage["kind"] == "discs",
        data=embedded(
            {
                "steps": steps,
                "rate": min(_FASTEST, max(_SLOWEST, len(recording) / _SECONDS)),
                "agents": recording.agents,
                "players": recording.players,
                "stage": stage,
                **shown.courses(),
            }
        ),
    )


def kept_steps(total: int, stride: int) -> list[int]:
    """Return the steps 0, stride, 2 stride, ... and the last one."""
    return [*range(0, total, stride), total]


def _shown(recording: Recording, share: float) -> tuple[list[int], "_Discs | _Pictures"]:
    """Play the episode; return the steps that the page shows, and what it shows of them."""
    engines = recording.play()
    engine = next(engines)
    kind: type[_Discs | _Pictures] = _Pictures if engine.spec.scene is None else _Discs
    stride = kind.stride(len(recording), len(recording.agents), share)
    course = kind(engine)
    shown = set(kept_steps(len(recording), stride))
    course.note(True)
    for step, _ in enumerate(engines, 1):
        course.note(step in shown)
    steps = kept_steps(len(recording), stride)
    return course.fitting(steps, share), course


class _Course:
    """What is noted in every kind of game: returns and metrics."""

    duration: float | None = None  # of a step, in units of time of the model

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._returns: list[float] = []
        self._measures: list[np.ndarray] = []

    def note(self, shown: bool) -> None:
        if shown:
            returns = self.engine.control.returns[0]
            common = self.engine.spec.common_reward
            self._returns.append(float(returns[0] if common else returns.sum()))
            self._measures.append(self.engine.control.measures[0].copy())

    def courses(self) -> dict[str, Any]:
        """Courses over the kept steps, and the duration of a step if the scene has one."""
        spec = self.engine.spec
        values = {"return": np.array(self._returns)}
        values |= dict(zip(spec.metrics, np.array(self._measures).T, strict=True))
        whose = "agents and steps of the rewards"
        if spec.common_reward:
            whose = "steps of the team's reward"
        meanings = {"return": f"sum over {whose} so far", **spec.metrics}
        return {
            "series": {name: _packed(course, "<f4") for name, course in values.items()},
            "meanings": meanings,
            "duration": self.duration,
        }


class _Discs(_Course):
    """Positions, headings, goals and contacts of discs."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._positions: list[np.ndarray] = []
        self._goals: list[np.ndarray] = []
        self._headings: list[np.ndarray] = []
        self._flags: list[np.ndarray] = []
        self._touched = np.zeros(len(engine.agents), np.bool_)

    @staticmethod
    def stride(steps: int, agents: int, share: float) -> int:
        rows = int(share * _MOST_BYTES) // (_PLACE_BYTES * agents)
        return math.ceil(steps / max(1, rows - 1))  # the first and the last step are always kept

    def note(self, shown: bool) -> None:
        super().note(shown)
        self._scene = scene = self._draw()
        self.duration = scene.duration
        self._touched |= scene.touching
        if not shown:
            return
        self._positions.append(scene.positions.copy())
        self._goals.append(scene.goals.copy())
        if scene.headings is not None:
            self._headings.append(scene.headings.copy())
        self._flags.append(_ON_GOAL * scene.arrived + _IN_CONTACT * self._touched)
        self._touched[:] = False

    def _draw(self) -> Discs:
        scene = self.engine.spec.scene
        assert scene is not None
        return scene(self.engine.constants, self.engine.state, 0)

    def fitting(self, steps: list[int], share: float) -> list[int]:
        return steps

    def stage(self) -> dict[str, Any]:
        """Everything as packed arrays; positions in ``_TICKS`` parts of their extent."""
        scene, agents, goals = self._scene, np.array(self._positions), np.array(self._goals)
        points = np.concatenate([array.reshape(-1, 2) for array in (agents, goals, scene.walls)])
        low, span = points.min(axis=0), np.maximum(np.ptp(points, axis=0), 1e-9)
        world = np.array(scene.world)
        edge = world + scene.wall_radius  # where walls around the world end

        def ticks(points: np.ndarray) -> str:
            return _packed(np.rint((points - low) / span * _TICKS), "<u2")

        moved = [k for k, (a, b) in enumerate(pairwise(goals), 1) if (a != b).any()]
        headings = np.array(self._headings)
        return {
            "kind": "discs",
            "world": world.tolist(),
            "from": np.clip(low, -_BEYOND * edge, -edge).tolist(),
            "to": np.clip(low + span, edge, _BEYOND * edge).tolist(),
            "low": low.tolist(),
            "span": span.tolist(),
            "walls": ticks(scene.walls),
            "wallRadius": scene.wall_radius,
            "positions": ticks(agents),
            "radii": _packed(scene.radii, "<f4"),
            "goals": ticks(goals[[0, *moved]]),
            "goalsFrom": [0, *moved],  # kept steps from which each row of goals holds
            "goalRadii": _packed(scene.goal_radii, "<f4"),
            "flags": _packed(np.array(self._flags), "u1"),
            "headings": _packed(_turns(headings), "<u2") if headings.any() else None,
            "colours": [_css(colour) for colour in _COLOURS],
            "contact": _css(VERMILION),
        }


class _Pictures(_Course):
    """Pictures of the game, as PNG."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._pictures: list[bytes] = []
        self._size = (0, 0)

    @staticmethod
    def stride(steps: int, agents: int, share: float) -> int:
        return math.ceil(steps / (share * _MOST_PICTURES))

    def note(self, shown: bool) -> None:
        super().note(shown)
        if shown:
            pixels = picture(self.engine)
            self._size = pixels.shape[1], pixels.shape[0]
            self._pictures.append(_png(pixels))

    def fitting(self, steps: list[int], share: float) -> list[int]:
        """Drop every second picture until they fit; return the remaining steps."""
        while sum(map(len, self._pictures)) > share * _MOST_BYTES and len(steps) > 2:
            retained = sorted({*range(0, len(steps), 2), len(steps) - 1})
            steps = [steps[k] for k in retained]
            self._pictures = [self._pictures[k] for k in retained]
            self._returns = [self._returns[k] for k in retained]
            self._measures = [self._measures[k] for k in retained]
        return steps

    def stage(self) -> dict[str, Any]:
        texts = [base64.b64encode(picture).decode() for picture in self._pictures]
        return {
            "kind": "pictures",
            "width": self._size[0],
            "height": self._size[1],
            "pictures": [f"data:image/png;base64,{text}" for text in texts],
        }


def _png(pixels: np.ndarray) -> bytes:
    from PIL import Image

    # A tenth of the time of the default method, and of the colours at most a shade is lost.
    octree, plain = Image.Quantize.FASTOCTREE, Image.Dither.NONE
    buffer = io.BytesIO()
    Image.fromarray(pixels).quantize(256, octree, dither=plain).save(buffer, "PNG")
    return buffer.getvalue()


def _turns(angles: np.ndarray) -> np.ndarray:
    """Angles as whole parts of a turn."""
    return np.rint(angles / (2 * np.pi) * (_TICKS + 1)) % (_TICKS + 1)


def _packed(array: np.ndarray, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(array).astype(kind).tobytes()).decode()


def _css(colour: Iterable[int]) -> str:
    return "#" + "".join(f"{part:02x}" for part in colour)


def _facts(recording: Recording, steps: list[int]) -> dict[str, str]:
    """What is played, in words; parameters that are empty stay out."""
    parameters = [f"{n} = {v}" for n, v in recording.parameters.items() if v not in ({}, (), None)]
    largest = max(b - a for a, b in pairwise(steps))
    returns, common = recording.rewards.sum(axis=0), spec_of(recording.env).common_reward
    ends = f"mean {returns.mean():.4g}, {returns.min():.4g} to {returns.max():.4g}"
    earned = {"Return": f"{returns[0]:.4g}"} if common else {"Return by agent": ends}
    return {
        "Environment": recording.env,
        **{name.capitalize(): text for name, text in recording.about.items()},
        "Policies": _policies(recording),
        "Seed": str(recording.seed),
        "Steps": f"{len(recording)}"
        + (f", of which one in {largest} is shown" if largest > 1 else ""),
        **earned,
        "Parameters": ", ".join(parameters),
        "Versions": ", ".join(f"{name} {number}" for name, number in recording.versions.items()),
    }


def _policies(recording: Recording) -> str:
    """Who plays, and where if there are several."""
    seats: dict[str, list[str]] = {}
    for agent, player in zip(recording.agents, recording.players, strict=True):
        seats.setdefault(player, []).append(agent)
    if len(seats) == 1:
        return f"{recording.players[0]} in all seats"
    return ", ".join(f"{player} ({' '.join(agents)})" for player, agents in seats.items())
