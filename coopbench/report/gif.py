"""An episode as an animated GIF: the pictures of its game in one palette, few enough to be sent."""

import io
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from coopbench.playing.recording import Recording
from coopbench.report.player import chosen_options, kept_steps
from coopbench_envs.engine import Engine
from coopbench_envs.pictures import picture

FPS, SIDE = 12, 800
_PICTURES = 150  # at most, unless a stride is given
_MOST_PICTURES = 1500
_MOST_BYTES = 4_000_000  # unless a stride is given
_COLOURS = 128  # of the palette: more are not seen, and cost a quarter of the size
_SAMPLES = 8  # pictures that the palette is made from
_REST = 1500  # milliseconds for which the last picture stays


class Gif(NamedTuple):
    """An animation, and of which steps it consists."""

    content: bytes
    stride: int  # steps from picture to picture; the last step is always there
    pictures: int


def as_gif(
    recording: Recording,
    *,
    stride: int | None = None,
    fps: float = FPS,
    side: int = SIDE,
    sight: bool = False,
) -> Gif:
    """Draw the episode as an animation that repeats.

    Every ``stride``-th step is shown, ``fps`` of them per second; by default as many as give no
    more than 150 pictures and 4 MB. Pictures whose longer side exceeds ``side`` pixels are reduced.
    With ``sight`` they show what agents see, in games that can.

    Raises ``ValueError`` for values out of range, for more than 1500 pictures, and for ``sight`` in
    another game.
    """
    check_options(len(recording), stride, fps, side)
    options = chosen_options(recording, sight)
    palette = _palette(recording, side, options)
    every = stride or math.ceil(len(recording) / _PICTURES)
    shown = set(kept_steps(len(recording), every))
    pictures = [
        _picture(engine, side, options).quantize(palette=palette, dither=0)
        for step, engine in enumerate(recording.play())
        if step in shown
    ]
    content = _encoded(pictures, fps)
    while stride is None and len(content) > _MOST_BYTES and len(pictures) > 2:
        pictures = [*pictures[:-1:2], pictures[-1]]
        every *= 2
        content = _encoded(pictures, fps)
    return Gif(content, every, len(pictures))


def check_options(steps: int, stride: int | None, fps: float = 12, side: int = 800) -> None:
    """Raise ``ValueError`` if an option cannot be used for an episode of so many steps."""
    for name, value, low, high in (
        ("stride", 1 if stride is None else stride, 1, math.inf),
        ("fps", fps, 1, 50),
        ("size", side, 64, 2000),
    ):
        if not low <= value <= high:
            allowed = f">= {low}" if high == math.inf else f"{low} to {high}"
            raise ValueError(f"The {name} of a GIF was {value}; allowed: {allowed}.")
    if stride is not None and steps > stride * _MOST_PICTURES:
        least = math.ceil(steps / _MOST_PICTURES)
        raise ValueError(f"The stride of a GIF of {steps} steps was {stride}; allowed: >= {least}.")


def _picture(engine: Engine, side: int, options: dict[str, bool]) -> Any:
    from PIL import Image

    image = Image.fromarray(picture(engine, **options))
    share = side / max(image.size)
    if share >= 1:
        return image
    wide, high = (max(1, round(share * length)) for length in image.size)
    return image.resize((wide, high), Image.Resampling.LANCZOS)


def _palette(recording: Recording, side: int, options: dict[str, bool]) -> Any:
    """Return an image whose palette is the most frequent colours of the episode.

    Pictures have few colours, and blends of these at edges, which are less frequent.
    """
    from PIL import Image

    sampled = set(np.linspace(0, len(recording), _SAMPLES).round().astype(int).tolist())
    colours: list[np.ndarray] = []
    for step, engine in enumerate(recording.play()):
        if step in sampled:
            red, green, blue = np.moveaxis(
                np.asarray(_picture(engine, side, options), np.uint32), -1, 0
            )
            colours.append((red << 16 | green << 8 | blue).ravel())
    values, counts = np.unique(np.concatenate(colours), return_counts=True)
    best = values[np.argsort(-counts, kind="stable")[:_COLOURS]]
    palette = Image.new("P", (1, 1))
    parts = [best >> 16, best >> 8 & 255, best & 255]
    palette.putpalette(np.stack(parts, -1).astype(np.uint8).tobytes())
    return palette


def _encoded(pictures: Sequence[Any], fps: float) -> bytes:
    """Encode; what does not change from picture to picture is not stored again."""
    delay = round(1000 / fps)
    times = [delay] * (len(pictures) - 1) + [max(delay, _REST)]
    buffer = io.BytesIO()
    rest = list(pictures[1:])
    pictures[0].save(
        buffer, "GIF", save_all=True, append_images=rest, duration=times, loop=0, optimize=False
    )
    return buffer.getvalue()
