"""Arrays: what a scene with a script of its own shows, and worlds of cells."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coopbench_envs.engine import Engine
from coopbench_envs.rendering import PALETTE, VERMILION
from coopbench_envs.scenes import Course, css, packed

_NUMBERS = {"b": "u1", "i": "<i4", "u": "<u4", "f": "<f4"}  # by kind of dtype: how it is stored
_COLOURS = PALETTE[:5]  # as in the other scenes: vermilion marks
_ENDS_SCRIPT = re.compile(r"</script|<!--", re.IGNORECASE)


class ArraysCourse(Course):
    """All arrays of a scene, of every kept step; one that never changes is stored once."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._rows: list[dict[str, np.ndarray]] = []

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return the arrays of the present step by name."""
        raise NotImplementedError

    def row_bytes(self) -> int:
        """Return the bytes of all arrays, in four bytes for each number."""
        return sum(4 * np.size(values) for values in self.arrays().values())

    def note(self, shown: bool) -> None:
        """Note all arrays of a step that is ``shown``."""
        super().note(shown)
        if shown:
            self._rows.append({n: np.array(values) for n, values in self.arrays().items()})

    def stage(self) -> dict[str, Any]:
        """Return the arrays by name: their numbers, how they are stored, and how many a step has.

        Raises ``ValueError`` for arrays whose names, shapes or types differ between steps, and for
        one that holds no numbers.
        """
        forms = [{n: (a.shape, a.dtype) for n, a in row.items()} for row in self._rows]
        for form in forms:
            if form != forms[0]:
                raise ValueError(
                    f"Scenes of {self.engine.spec.id} have arrays of other names, shapes or types "
                    f"after some steps: {form}; allowed: those after the reset, {forms[0]}."
                )
        return {"fields": {name: self._field(name) for name in forms[0]}}

    def _field(self, name: str) -> dict[str, Any]:
        values = np.array([row[name] for row in self._rows])
        if values.dtype.kind not in _NUMBERS:
            raise ValueError(
                f"Array {name!r} of the scenes of {self.engine.spec.id} holds {values.dtype}; "
                f"allowed: bool, whole numbers and floats."
            )
        changes = bool((values != values[:1]).any())
        kind = _NUMBERS[values.dtype.kind]
        text = packed(values if changes else values[:1], kind)
        return {"kind": kind[-2:], "size": values[0].size, "changes": changes, "values": text}


class GridCourse(ArraysCourse):
    """A world of cells: its ground, agents and things."""

    file = Path(__file__).with_name("grid")
    followed = "an agent"

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return what changes in a grid."""
        scene = self.drawn()
        none = np.zeros(len(scene.places), np.int64)
        return {
            "places": np.asarray(scene.places, np.float64),
            "things": np.asarray(scene.things, np.float64).reshape(-1, 2),
            "numbers": np.asarray(scene.numbers, np.int64),
            "headings": none - 1 if scene.headings is None else np.asarray(scene.headings),
            "marked": none > 0 if scene.marked is None else np.asarray(scene.marked, np.bool_),
        }

    def stage(self) -> dict[str, Any]:
        """Return the arrays, the ground, and the words and colours of everything."""
        scene = self.drawn()
        return {
            **super().stage(),
            "ground": np.asarray(scene.ground).ravel().tolist(),
            "size": list(scene.ground.shape[::-1]),
            "grounds": list(scene.grounds),
            "kinds": list(scene.kinds),
            "colours": [css(colour) for colour in _COLOURS],
            "mark": css(VERMILION),
        }


class ScriptedCourse(ArraysCourse):
    """A scene whose environment brings the script that draws it."""

    followed = "an agent"

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return the arrays that the environment gives."""
        arrays: Mapping[str, np.ndarray] = self.drawn().arrays
        return arrays

    def script(self) -> str:
        """Return the script; ``ValueError`` for one that would end the element that holds it."""
        path = self.drawn().script
        text: str = path.read_text(encoding="utf-8")
        if found := _ENDS_SCRIPT.search(text):
            raise ValueError(
                f"The script {path} contains {found[0]!r}, which a page reads as the end of a "
                f"script; write it in two parts, for instance '<' + '/script'."
            )
        return text

    def beside(self) -> str:
        """Return a template of the legend, if there is one."""
        return '<p class="hint">{{ legend }}</p>' if self.legend() else ""

    def legend(self) -> str:
        """Return what the colours and forms mean."""
        return str(self.drawn().legend)
