"""Rendering: a small canvas for pictures of a state, shared by all environments.

Everything is drawn several times larger and averaged down, which smooths edges and letters. Colours
are those of Okabe & Ito (2008), which people with colour-blindness can tell apart. Pillow is
imported when the first picture is drawn.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["BLUE", "GRID", "INK", "PALE", "PALETTE", "PAPER", "VERMILION", "Canvas", "mix_colours"]

Colour = tuple[int, int, int]
Point = tuple[float, float]

PAPER: Colour = (255, 255, 255)
INK: Colour = (38, 38, 38)
PALE: Colour = (120, 120, 120)  # secondary text
GRID: Colour = (222, 222, 222)
ORANGE: Colour = (230, 159, 0)
SKY: Colour = (86, 180, 233)
GREEN: Colour = (0, 158, 115)
BLUE: Colour = (0, 114, 178)
VERMILION: Colour = (213, 94, 0)
PURPLE: Colour = (204, 121, 167)
YELLOW: Colour = (240, 228, 66)
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, YELLOW)

_FINER = 3  # drawn pixels per pixel of the picture, along each axis


def mix_colours(low: Colour, high: Colour, share: float) -> Colour:
    """Return the colour that lies ``share`` (clipped to [0, 1]) of the way from low to high."""
    share = min(1.0, max(0.0, share)) if math.isfinite(share) else 0.0
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(low, high, strict=True))
    return red, green, blue


class Canvas:
    """A picture of ``width`` x ``height`` pixels; positions are pixels from the upper left."""

    def __init__(self, width: int, height: int, background: Colour = PAPER) -> None:
        from PIL import Image, ImageDraw

        self.width, self.height = width, height
        self._image = Image.new("RGB", (width * _FINER, height * _FINER), background)
        self._draw = ImageDraw.Draw(self._image)

    def disc(self, x: float, y: float, radius: float, fill: Colour) -> None:
        """Fill a disc."""
        self._draw.ellipse(self._box(x - radius, y - radius, x + radius, y + radius), fill=fill)

    def ring(self, x: float, y: float, radius: float, colour: Colour, width: float = 1.0) -> None:
        """Draw a circle whose line lies inside ``radius``."""
        box = self._box(x - radius, y - radius, x + radius, y + radius)
        self._draw.ellipse(box, outline=colour, width=self._thick(width))

    def rectangle(self, x: float, y: float, width: float, height: float, fill: Colour) -> None:
        """Fill the rectangle whose upper left corner is (x, y); nothing if too thin to see."""
        if min(width, height) * _FINER >= 1:  # of a drawn pixel; the library refuses less
            self._draw.rectangle(self._box(x, y, x + width, y + height), fill=fill)

    def frame(self, x: float, y: float, width: float, height: float, colour: Colour) -> None:
        """Draw the edge of a rectangle, one pixel wide."""
        self._draw.rectangle(self._box(x, y, x + width, y + height), outline=colour, width=_FINER)

    def line(self, points: Sequence[Point], colour: Colour, width: float = 1.0) -> None:
        """Draw a line through ``points``."""
        fine = [(x * _FINER, y * _FINER) for x, y in points]
        self._draw.line(fine, fill=colour, width=self._thick(width), joint="curve")

    def arrow(self, x: float, y: float, dx: float, dy: float, colour: Colour) -> None:
        """Draw an arrow from (x, y) to (x + dx, y + dy); nothing if it has no length."""
        length = math.hypot(dx, dy)
        if not 0 < length < math.inf:
            return
        head = min(5.0, length)
        ux, uy = dx / length, dy / length
        neck = (x + dx - head * ux, y + dy - head * uy)
        self.line([(x, y), neck], colour, 1.5)
        corners = [(x + dx, y + dy)]
        corners += [(neck[0] - k * 0.5 * head * uy, neck[1] + k * 0.5 * head * ux) for k in (1, -1)]
        self._draw.polygon([(a * _FINER, b * _FINER) for a, b in corners], fill=colour)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 13,
        colour: Colour = INK,
        anchor: str = "lm",
    ) -> None:
        """Write one line; ``anchor`` is Pillow's: l, m, r along x and t, m, b along y."""
        where = (x * _FINER, y * _FINER)
        self._draw.text(where, text, fill=colour, font=_font(size), anchor=anchor)

    def text_width(self, text: str, size: float = 13) -> float:
        """Width of one line in pixels."""
        return self._draw.textlength(text, font=_font(size)) / _FINER

    def fitting(self, text: str, size: float, width: float) -> float:
        """Return the largest size up to ``size`` at which a line is no wider than ``width``."""
        return size * min(1.0, 0.98 * width / max(1.0, self.text_width(text, size)))

    def pixels(self) -> np.ndarray:
        """Return the finished picture, uint8 (height, width, 3)."""
        return np.array(self._image.reduce(_FINER), np.uint8)

    @staticmethod
    def _box(left: float, top: float, right: float, bottom: float) -> tuple[float, ...]:
        return left * _FINER, top * _FINER, right * _FINER - 1, bottom * _FINER - 1

    @staticmethod
    def _thick(width: float) -> int:
        return max(1, round(width * _FINER))


@functools.cache
def _font(size: float) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size * _FINER)
