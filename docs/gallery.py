"""Draw one moving picture of every environment, for the start page and the environments' pages.

``python docs/gallery.py`` writes ``docs/gallery/STEM.webp`` for every environment whose source has
changed since its picture was drawn; ``make docs`` runs it. The pictures have no letters, so that
they can be read at any size: captions are text of the pages.
"""

import io
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import drawn
import numpy as np

import coopbench_envs
from coopbench.baselines.game import Game
from coopbench.baselines.player import Player, seated
from coopbench.baselines.registry import make_policy
from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.pathfinding.scene import Discs
from coopbench_envs.pictures import picture
from coopbench_envs.rail.scene import Railway
from coopbench_envs.rendering import (
    BLUE,
    GRID,
    INK,
    PALE,
    PALETTE,
    VERMILION,
    YELLOW,
    Canvas,
    mix_colours,
)
from coopbench_envs.scenes import Scene
from coopbench_envs.skirmish.scene import Battle

FOLDER = Path(__file__).resolve().parent / "gallery"
WIDTH, HEIGHT = 480, 300  # pixels
SEED = 3
FRAMES = 48  # at most; of a longer episode every second, third, ... step is drawn
PAUSE = 1500  # milliseconds that the last frame stands
STEP = 110  # milliseconds that every other frame stands
# Of pictures that would otherwise show the same.
PARAMETERS: dict[str, dict[str, Any]] = {
    "routing_v1": {"map": "labmaze_grid", "map_params": {"width": 21, "height": 21}},
    "skirmish": {"map": "3s5z"},
    "skirmish_v1": {"map": "MMM2"},
    "rail": {"num_agents": 10, "height": 24, "width": 40, "horizon": 96},
    "rail_v1": {"num_agents": 10, "height": 24, "width": 40, "horizon": 96},
}
# In order of preference; the first one that can play the game plays all seats.
POLICIES = (
    "reciprocator",
    "tit_for_tat",
    "prioritised_rrt_star",
    "orca",
    "kite",
    "prioritised",
    "random",
)

# What the pictures of a kind of scene show.
_LEGENDS: dict[type, str] = {
    Battle: (
        " Agents are blue and enemies orange, each with the letter of its kind. The green arc is "
        "health; the light blue arc outside it is shield or energy. A line leads from a unit to "
        "its target."
    ),
    Railway: (
        " Trains are arrows; the ring of the same color is the target of a train. A black frame "
        "marks a train that can never move again, a red ring a broken train."
    ),
}

_PANEL = (318, 30, 142, 236)  # left, top, width and height of the plot beside the agents
_MANY = 12  # of more agents no lines are drawn
_CENTRE, _CIRCLE = (156.0, 148.0), 100.0
_SUN, _GOOD = (26.0, 26.0, 13.0), YELLOW  # a disc that shows the regime


def environments() -> list[str]:
    """Return the environments of this package, without those that other packages register."""
    return [env_id for env_id in coopbench_envs.ids() if env_id.startswith("coopbench/")]


def stem(env_id: str) -> str:
    """Name of an environment's page and picture: that of its module."""
    return coopbench_envs.spec(env_id).module.rsplit(".", 1)[1]


def policy_of(env_id: str) -> str:
    """Name of the policy that plays all seats of an environment's picture."""
    for name in POLICIES:
        try:
            make_policy(name, Game.at(env_id))
        except ValueError:
            continue
        return name
    raise ValueError(f"None of {', '.join(POLICIES)} can play {env_id}; add one that can.")


def caption(env_id: str) -> str:
    """Describe what an environment's picture shows, in Markdown."""
    policy, drawing = policy_of(env_id), _drawing(_begun(env_id))
    if drawing is _plane:
        return (
            f"Eight agents play `{policy}`. Discs are agents; rings of the same color are their "
            "goals. The plot on the right shows the share of agents on their goals over time."
        )
    if drawing is _firms:
        return (
            f"Agents play `{policy}`; one of them invests nothing in the middle third of the "
            "episode. Each disc is an agent, filled by the share that it invests, in red if the "
            f"others expect more{_lines(env_id)}. The plot on the right shows mean investment "
            "(blue) and mean trust (gray) over time."
            + (" The small disc is yellow in the good regime." if _has_regime(env_id) else "")
        )
    return f"All agents play `{policy}`.{_LEGENDS.get(type(_scene(_begun(env_id))), '')}"


def _lines(env_id: str) -> str:
    return "; lines show trust" if len(Engine(env_id).agents) <= _MANY else ""


def _has_regime(env_id: str) -> bool:
    return "good" in Engine(env_id).lane_state()


def frames(env_id: str) -> list[np.ndarray]:
    """Play one episode and draw it; uint8 (height, width, 3) each."""
    engine = _begun(env_id)
    draw = _drawing(engine)
    if draw is _plane:
        engine = _begun(env_id, horizon=240)  # as many steps as it takes to reach the goals
    player = seated(policy_of(env_id), engine)
    player.begin(engine.control.seed, engine.control.episode, np.ones(1, np.bool_))
    stride = math.ceil(engine.horizon / FRAMES)
    courses: list[tuple[float, ...]] = []
    pictures = [draw(engine, courses)]
    for step in range(engine.horizon):
        engine.step(_actions(engine, player, draw is _firms, step), DISABLED)
        over = bool(engine.control.done[0])
        if over or (step + 1) % stride == 0:
            pictures.append(draw(engine, courses))
        if over:
            break
    return pictures


def _begun(env_id: str, **more: Any) -> Engine:
    """Return the game of an environment's picture at the start of its episode."""
    engine = Engine(env_id, **(more | PARAMETERS.get(stem(env_id), {})))
    engine.reset(np.array([SEED], np.uint64))
    return engine


def _actions(engine: Engine, player: Player, firms: bool, step: int) -> np.ndarray:
    """Return the actions of all agents: of the first firm nothing in the middle third of a game."""
    control = engine.control
    actions = player.act(control.obs, engine.view(), control.masks)
    third = engine.horizon // 3
    if firms and third <= step < 2 * third:
        actions[0, 0] = 0.0
    return actions


def _drawing(engine: Engine) -> Callable[[Engine, list[tuple[float, ...]]], np.ndarray]:
    """Return the function that draws a game; battles and railways are scenes, but not of discs."""
    if isinstance(_scene(engine), Discs):
        return _plane
    return _firms if "final_trust" in engine.spec.metrics else _rendered


def _scene(engine: Engine) -> Scene | None:
    draw = engine.spec.scene
    return None if draw is None else draw(engine.constants, engine.state, 0)


def _rendered(engine: Engine, courses: list[tuple[float, ...]]) -> np.ndarray:
    """Draw what ``render`` returns, as large as it fits."""
    from PIL import Image

    image = Image.fromarray(picture(engine))
    image.thumbnail((WIDTH, HEIGHT))
    canvas = Image.new("RGB", (WIDTH, HEIGHT), "white")
    canvas.paste(image, ((WIDTH - image.width) // 2, (HEIGHT - image.height) // 2))
    return np.asarray(canvas)


def _firms(engine: Engine, courses: list[tuple[float, ...]]) -> np.ndarray:
    """Draw agents on a circle with their investments, trust between them, and both over time."""
    fields = engine.lane_state()
    shares, expected = _investments(engine, fields)
    trust = _trust(fields)
    others = ~np.eye(len(trust), dtype=bool)
    courses.append((float(shares.mean()), float(trust[others].mean()) if others.any() else 0.0))
    canvas = Canvas(WIDTH, HEIGHT)
    if "good" in fields:
        canvas.disc(*_SUN, _GOOD if fields["good"] else GRID)
    _agents(canvas, shares, expected, trust)
    _course(canvas, courses, _points(engine))
    return canvas.pixels()


def _investments(engine: Engine, fields: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the share that every agent invested, and what the others expect."""
    if "last_action" in fields:
        endowment = engine.constants.endowment
        return fields["last_action"] / endowment, engine.constants.baseline / endowment
    shares = fields["fraction"]
    return shares, np.broadcast_to(fields["expected"], shares.shape)


def _trust(fields: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the trust of every agent in every other one: where they are public, their records."""
    if "trust" in fields:
        matrix: np.ndarray = fields["trust"]
        return matrix
    record = fields["record"]
    return np.broadcast_to(record, (len(record), len(record)))


def _agents(canvas: Canvas, shares: np.ndarray, expected: np.ndarray, trust: np.ndarray) -> None:
    """Draw a disc for every agent, and lines as dark as the trust of two agents in each other."""
    count = len(shares)
    angles = math.pi + 2 * math.pi * np.arange(count) / count
    x, y = _CENTRE[0] + _CIRCLE * np.cos(angles), _CENTRE[1] + _CIRCLE * np.sin(angles)
    radius = min(40.0, 0.8 * math.pi * _CIRCLE / count)
    for a in range(count if count <= _MANY else 0):
        for b in range(a):
            mutual = 0.5 * float(trust[a, b] + trust[b, a])
            colour = mix_colours((240, 240, 240), INK, mutual)
            thick = (0.5 + 7.5 * mutual) * min(1.0, 8 / count**1.3)
            canvas.line([(x[a], y[a]), (x[b], y[b])], colour, thick)
    for a in range(count):
        canvas.disc(x[a], y[a], radius, GRID)
        filled = radius * math.sqrt(min(1.0, max(0.0, float(shares[a]))))
        # Rounding of the state must not turn an agent red.
        colour = BLUE if shares[a] >= expected[a] - 1e-6 else VERMILION
        if filled > 1.0:
            canvas.disc(x[a], y[a], filled, colour)
        canvas.ring(x[a], y[a], radius, PALE, 1.5)


def _points(engine: Engine) -> int:
    return 1 + math.ceil(engine.horizon / math.ceil(engine.horizon / FRAMES))


def _course(canvas: Canvas, courses: list[tuple[float, ...]], points: int) -> None:
    """Draw the courses so far, of one value or of two: the first one blue, the second one grey."""
    left, top, width, height = _PANEL
    canvas.line([(left, top), (left, top + height), (left + width, top + height)], PALE, 1.5)
    for column, colour in reversed([*enumerate((BLUE, PALE))][: len(courses[0])]):
        line = [
            (left + width * k / (points - 1), top + height * (1 - min(1.0, max(0.0, pair[column]))))
            for k, pair in enumerate(courses)
        ]
        if len(line) > 1:
            canvas.line(line, colour, 3.0)
        canvas.disc(*line[-1], 4.5, colour)


def _plane(engine: Engine, courses: list[tuple[float, ...]]) -> np.ndarray:
    """Draw walls, agents and goals of a game in the plane, and the share of agents on goals."""
    discs = _scene(engine)
    assert isinstance(discs, Discs)
    canvas = Canvas(WIDTH, HEIGHT)
    scale = 0.5 * 280 / max(discs.world)
    middle = (150.0, 150.0)

    def at(place: np.ndarray) -> tuple[float, float]:
        return middle[0] + scale * float(place[0]), middle[1] - scale * float(place[1])

    for wall in discs.walls:
        canvas.disc(*at(wall), scale * discs.wall_radius, (172, 172, 172))
    for a, goal in enumerate(discs.goals):
        canvas.ring(*at(goal), max(5.0, scale * discs.goal_radii[a]), PALETTE[a % len(PALETTE)], 2)
    for a, place in enumerate(discs.positions):
        canvas.disc(*at(place), max(5.0, scale * discs.radii[a]), PALETTE[a % len(PALETTE)])
    share = float(discs.arrived.mean())
    courses.append((share,))
    _course(canvas, courses, _points(engine))
    return canvas.pixels()


def encoded(pictures: list[np.ndarray]) -> bytes:
    """Return pictures as one animated WebP that repeats."""
    from PIL import Image

    images = [Image.fromarray(image) for image in pictures]
    durations = [STEP] * (len(images) - 1) + [PAUSE]
    buffer = io.BytesIO()
    images[0].save(
        buffer,
        "WEBP",
        save_all=True,
        append_images=images[1:],
        duration=durations,
        loop=0,
        lossless=True,
        method=3,
    )
    return buffer.getvalue()


def names() -> list[str]:
    """Return the names of all pictures."""
    return [f"{stem(env_id)}.webp" for env_id in environments()]


def drawings() -> dict[Path, tuple[str, Callable[[], bytes]]]:
    """Return every picture with the digest of its sources and the function that draws it."""
    return {
        FOLDER / f"{stem(env_id)}.webp": (
            drawn.digest(__file__, coopbench_envs.spec(env_id).module),
            partial(_moving, env_id),
        )
        for env_id in environments()
    }


def _moving(env_id: str) -> bytes:
    return encoded(frames(env_id))


if __name__ == "__main__":
    drawn.redraw(FOLDER, drawings())
