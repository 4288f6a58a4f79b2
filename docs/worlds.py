"""Draw the moving picture of README.md: four environments, one episode of each.

``python docs/worlds.py`` writes ``docs/worlds.webp``.
"""

from itertools import zip_longest
from pathlib import Path

import gallery
import numpy as np

FILE = Path(__file__).resolve().parent / "worlds.webp"
ENVIRONMENTS = ("TrustDilemma-v1", "Routing-v1", "Skirmish-v1", "Rail-v1")  # row by row
STEP, PAUSE = 110, 1500  # milliseconds that a frame stands, and the last one
QUALITY = 60  # of 100; lossless would be four times as large


def joined() -> list[np.ndarray]:
    """Return the frames of all four, uint8 (height, width, 3); an episode's last frame stays."""
    parts = [gallery.frames(f"coopbench/{name}") for name in ENVIRONMENTS]
    joined = []
    for frames in zip_longest(*parts):
        shown = [
            part[-1] if frame is None else frame for frame, part in zip(frames, parts, strict=True)
        ]
        joined.append(np.vstack([np.hstack(shown[:2]), np.hstack(shown[2:])]))
    return joined


def main() -> None:
    """Write the picture."""
    from PIL import Image

    images = [Image.fromarray(frame) for frame in joined()]
    images[0].save(
        FILE,
        "WEBP",
        save_all=True,
        append_images=images[1:],
        duration=[STEP] * (len(images) - 1) + [PAUSE],
        loop=0,
        quality=QUALITY,
        method=6,
    )
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} kB, {len(images)} frames")


if __name__ == "__main__":
    main()
