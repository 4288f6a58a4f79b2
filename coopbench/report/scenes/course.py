"""What is noted of an episode while it is played: returns and metrics, and what is seen of it."""

import base64
import math
from collections.abc import Iterable
from importlib import resources
from typing import Any

import numpy as np

from coopbench_envs.engine import Engine

MOST_BYTES = 6_000_000  # of scenes or pictures; a third more as text
_TICKS = 65_535  # places are stored as whole parts of their extent


class Course:
    """What is noted of every kind of game: returns and metrics. A kind of scene adds what is seen.

    A scene has a script of the same name in this folder, which draws what ``stage`` returns, unless
    its environment brings one.
    """

    kind: str  # of the scene, the name of its script
    duration: float | None = None  # of a step, in units of time of the model

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._returns: list[float] = []
        self._measures: list[np.ndarray] = []

    def stride(self, steps: int, share: float) -> int:
        """Return k such that every k-th of so many steps fits into a share of the size."""
        rows = int(share * MOST_BYTES) // self.row_bytes()
        return math.ceil(steps / max(1, rows - 1))  # the first and the last step are always kept

    def row_bytes(self) -> int:
        """Return the bytes of a kept step."""
        raise NotImplementedError

    def note(self, shown: bool) -> None:
        """Note the present step; one that is not ``shown`` only for what must not be missed."""
        if shown:
            returns = self.engine.control.returns[0]
            common = self.engine.spec.common_reward
            self._returns.append(float(returns[0] if common else returns.sum()))
            self._measures.append(self.engine.control.measures[0].copy())

    def drawn(self) -> Any:
        """Return the scene of the present step."""
        draw = self.engine.spec.scene
        assert draw is not None
        return draw(self.engine.constants, self.engine.state, 0)

    def fitting(self, steps: list[int], share: float) -> list[int]:
        """Drop steps until the rest fits; return those that remain."""
        return steps

    def stage(self) -> dict[str, Any]:
        """Return what is seen, for the script."""
        raise NotImplementedError

    def script(self) -> str:
        """Return the script that draws the scene."""
        folder = resources.files("coopbench.report.scenes")
        return folder.joinpath(f"{self.kind}.js").read_text(encoding="utf-8")

    def legend(self) -> str:
        """Return what the page says of colours and forms besides what its template says."""
        return ""

    def courses(self) -> dict[str, Any]:
        """Return courses over the kept steps, and the duration of a step if the scene has one."""
        spec = self.engine.spec
        values = {"return": np.array(self._returns)}
        values |= dict(zip(spec.metrics, np.array(self._measures).T, strict=True))
        whose = "agents and steps of the rewards"
        if spec.common_reward:
            whose = "steps of the team's reward"
        meanings = {"return": f"sum over {whose} so far", **spec.metrics}
        return {
            "series": {name: packed(course, "<f4") for name, course in values.items()},
            "meanings": meanings,
            "duration": self.duration,
        }


class Places:
    """How places are stored: as whole parts of the extent of all of them."""

    def __init__(self, *places: np.ndarray) -> None:
        points = np.concatenate([array.reshape(-1, 2) for array in places])
        self.low = points.min(axis=0)
        self.span = np.maximum(np.ptp(points, axis=0), 1e-9)

    def packed(self, places: np.ndarray) -> str:
        """Return places (..., 2), two unsigned numbers of 16 bits each."""
        return packed(np.rint((places - self.low) / self.span * _TICKS), "<u2")

    def extent(self) -> dict[str, list[float]]:
        """Return what the script needs to unpack places."""
        return {"low": self.low.tolist(), "span": self.span.tolist()}


def turns(angles: np.ndarray) -> np.ndarray:
    """Return angles as whole parts of a turn, for 16 bits."""
    whole: np.ndarray = np.rint(angles / (2 * np.pi) * (_TICKS + 1)) % (_TICKS + 1)
    return whole


def packed(array: np.ndarray, kind: str) -> str:
    """Return an array as text, of the numbers that ``kind`` names."""
    return base64.b64encode(np.ascontiguousarray(array).astype(kind).tobytes()).decode()


def css(colour: Iterable[int]) -> str:
    """Return a colour as a page writes it."""
    return "#" + "".join(f"{part:02x}" for part in colour)
