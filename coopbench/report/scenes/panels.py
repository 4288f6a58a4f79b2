"""Panels: numbers of all agents as bars and tables, in games without places."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from coopbench_envs.engine import Engine
from coopbench_envs.rendering import BLUE, VERMILION
from coopbench_envs.scenes import Bars, Course, Panels, Table, css, packed

_MANY = 12  # from more agents on, numbers have no room
_WORD, _FACTS = 24, 400  # bytes of the number of a bar, and of all facts


class PanelsCourse(Course):
    """The facts and the panels of every kept step."""

    file = Path(__file__)
    followed = "an agent"

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._steps: list[Panels] = []

    def row_bytes(self) -> int:
        """Return the bytes of all numbers and texts."""
        agents = len(self.engine.agents)
        numbers = [agents if isinstance(p, Bars) else agents**2 for p in self.drawn().panels]
        words = _WORD * agents if agents <= _MANY else 0
        return _FACTS + sum(8 * count + words for count in numbers)

    def note(self, shown: bool) -> None:
        """Note a step that is ``shown``."""
        super().note(shown)
        if shown:
            self._steps.append(deepcopy(self.drawn()))  # its arrays may be views of the state

    def stage(self) -> dict[str, Any]:
        """Return the facts of every step, and every panel with its course."""
        panels = list(zip(*(step.panels for step in self._steps), strict=True))
        return {
            "facts": [step.facts for step in self._steps],
            "panels": [_stage(panel) for panel in panels],
            "enough": css(BLUE),
            "short": css(VERMILION),
        }


def _stage(course: tuple[Bars | Table, ...]) -> dict[str, Any]:
    """Return one panel at all kept steps."""
    first = course[0]
    if isinstance(first, Table):
        values = np.array([step.values for step in course if isinstance(step, Table)])
        return {"title": first.title, "colour": css(first.colour), "values": packed(values, "<f4")}
    bars = [step for step in course if isinstance(step, Bars)]
    return {
        "title": first.title,
        "end": first.end,
        "shares": packed(np.array([step.shares for step in bars]), "<f4"),
        "ticks": packed(np.array([step.ticks for step in bars]), "<f4"),
        "words": [step.words for step in bars] if len(first.words) <= _MANY else None,
    }
