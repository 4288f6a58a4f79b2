"""Pictures of the game, as PNG, where it has no scene."""

import base64
import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from coopbench_envs.engine import Engine
from coopbench_envs.pictures import picture
from coopbench_envs.scenes import MOST_BYTES, Course

_MOST_PICTURES = 250


class PicturesCourse(Course):
    """Pictures of the game."""

    file = Path(__file__)

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._pictures: list[bytes] = []
        self._size = (0, 0)

    def stride(self, steps: int, share: float) -> int:
        """Return k such that no more pictures than allowed are drawn."""
        return math.ceil(steps / (share * _MOST_PICTURES))

    def note(self, shown: bool) -> None:
        """Draw a step that is ``shown``."""
        super().note(shown)
        if shown:
            pixels = picture(self.engine)
            self._size = pixels.shape[1], pixels.shape[0]
            self._pictures.append(_png(pixels))

    def fitting(self, steps: list[int], share: float) -> list[int]:
        """Drop every second picture until they fit; return the remaining steps."""
        while sum(map(len, self._pictures)) > share * MOST_BYTES and len(steps) > 2:
            retained = sorted({*range(0, len(steps), 2), len(steps) - 1})
            steps = [steps[k] for k in retained]
            self._pictures = [self._pictures[k] for k in retained]
            self._returns = [self._returns[k] for k in retained]
            self._measures = [self._measures[k] for k in retained]
        return steps

    def beside(self) -> str:
        """Return nothing: a picture has its own legend."""
        return ""

    def stage(self) -> dict[str, Any]:
        """Return the pictures as addresses that hold them."""
        texts = [base64.b64encode(picture).decode() for picture in self._pictures]
        return {
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
