"""Draw the figures of the pages.

Trust and reward over an episode under three policies, for every game with trust; and all maps of
pathfinding and of battles. ``make docs`` runs it before the pages are built; the output is
reproducible. A figure is drawn again only when its environment or this file has changed.
"""

import io
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import drawn
import figures
import numpy as np

import coopbench_envs
from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_policy
from coopbench.report.plots.marks import INK, SMALL, Style
from coopbench.report.plots.style import COLOURS, styles
from coopbench_envs.engine import Engine
from coopbench_envs.pathfinding.routing import MAPS
from coopbench_envs.skirmish.scenario import bundled_maps
from coopbench_envs.skirmish.scene import Battle, battle_of
from coopbench_envs.skirmish.teams import RACES

FOLDER = Path(__file__).resolve().parent / "environments" / "plots"
EPISODES = 256
INNER = (10, 90)  # percentiles: the ends of a band
MOST = 100  # points of a line, which keeps the files small
WIDTH, HEIGHT = 6.4, 5.0  # inches
LABELS = ("mean trust (0 to 1)", "mean reward per agent (units)")
# In order of preference; the first one that can play the game is shown.
RECIPROCAL = ("reciprocator", "tit_for_tat")
LOOKS = styles(["random", "always_defect", *RECIPROCAL])

SHEET, BATTLES, FIGHTS = "maps.png", "battles.png", "battles_v1.png"
AROUND = 1.5  # cells around the units of a battle
_ROOMS = """
.....#.....
.....#.....
.....#.....
...........
.....#.....
##.#####.##
.....#.....
.....#.....
...........
.....#.....
.....#.....
"""
_PILLARS = "\n".join("#.#.#.#.#.#" if row % 2 else "..........." for row in range(11))
# Parameters with which a map is shown, where its defaults need them or are too large to be seen.
SHOWN: dict[str, dict[str, Any]] = {
    "string_grid": {"map_str": _ROOMS},
    "batched_string_grid": {"map_str_batch": [_PILLARS, _ROOMS]},
    "labmaze_grid": {"width": 21, "height": 21},
    "caves_cont": {"num_rows": 64, "num_cols": 64, "scale": 10.0},
}


class Course(NamedTuple):
    """Course of the episodes; axis 0 is the step, from 0, axis 1 the episode."""

    trust: np.ndarray  # mean trust, or record; after the end of an episode its last value
    reward: np.ndarray  # mean over agents; 0 after the end, nan at the start


def stem(env_id: str) -> str:
    """Name of an environment's page and plot: its module's name."""
    return coopbench_envs.spec(env_id).module.rsplit(".", 1)[1]


def is_drawn(env_id: str) -> bool:
    """Whether an environment has a plot: all that measure trust have one."""
    return "final_trust" in coopbench_envs.spec(env_id).metrics


def policies(env_id: str) -> list[str]:
    """Names of the policies that are shown."""
    return ["random", "always_defect", *[p for p in RECIPROCAL if _plays(p, env_id)][:1]]


def _plays(policy: str, env_id: str) -> bool:
    try:
        make_policy(policy, Game.at(env_id))
    except ValueError:
        return False
    return True


def section(env_id: str) -> str:
    """Markdown that shows the plot and describes it."""
    names = ", ".join(f"`{name}`" for name in policies(env_id))
    alt = (
        f"Two line plots over the steps of an episode of {coopbench_envs.spec(env_id).name}, "
        f"mean trust above and mean reward below, with a line for each policy: {names}."
    ).replace("`", "")
    return (
        f"![{alt}](plots/{stem(env_id)}.svg)\n\n"
        f"All agents play the same policy, at default parameters. Lines: mean of {EPISODES} "
        f"episodes; bands: {INNER[0]}th to {INNER[1]}th percentile. After its end an episode "
        "counts with its last trust and zero reward; a cross marks when all episodes have ended."
    )


def course(env_id: str, policy: str) -> Course:
    """Play the episodes of seeds 0, 1, ... with one policy in every seat."""
    engine = Engine(env_id, EPISODES)
    control, match = engine.control, Match(engine, [Player(policy, Game.of(engine))])
    match.begin(np.arange(EPISODES, dtype=np.uint64))
    place = list(engine.spec.metrics).index("final_trust")
    trust, reward = [control.measures[:, place].copy()], [np.full(EPISODES, np.nan)]
    running = ~control.done
    for _ in match.steps():
        trust.append(control.measures[:, place].copy())
        reward.append(np.where(running, control.rewards.mean(axis=1), 0.0))
        running = ~control.done
    return Course(np.array(trust), np.array(reward))


def figure(env_id: str) -> Any:
    """Draw trust above reward; return the figure."""
    from matplotlib.figure import Figure

    page = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = page.subplots(2, 1, sharex=True)
    horizon = Engine(env_id).horizon
    for name in policies(env_id):
        played = course(env_id, name)
        for ax, values in zip(axes, (played.trust, played.reward), strict=True):
            _line(ax, values, LOOKS[name], name, horizon)
    for ax, label in zip(axes, LABELS, strict=True):
        figures.frame(ax)
        ax.set_ylabel(label, fontsize=SMALL)
    axes[0].set_ylim(-0.03, 1.03)
    axes[1].set_xlim(-0.01 * horizon, 1.01 * horizon)
    axes[1].set_xlabel("step", fontsize=SMALL)
    page.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper left",
        ncols=3,
        frameon=False,
        fontsize=SMALL,
        handlelength=3.2,
    )
    return page


def _line(ax: Any, values: np.ndarray, look: Style, name: str, horizon: int) -> None:
    stride = math.ceil((len(values) - 1) / MOST)
    steps = np.unique([0, *range(1, len(values), stride), len(values) - 1])
    part = values[steps]
    low, high = np.percentile(part, INNER, axis=1)
    if not np.allclose(low, high, equal_nan=True):
        ax.fill_between(steps, low, high, color=look.colour, alpha=0.16, linewidth=0)
    ax.plot(
        steps,
        part.mean(axis=1),
        color=look.colour,
        linestyle=figures.dashes(look),
        linewidth=1.8,
        label=name,
    )
    if len(values) <= horizon:
        ax.plot(steps[-1:], part[-1:].mean(axis=1), "X", color=look.colour, markersize=7)


def written(env_id: str) -> str:
    """Draw an environment's plot as SVG, with coordinates to a hundredth of a point."""
    text = figures.svg(figure(env_id), stem(env_id))
    return re.sub(r'(?<= d=")[^"]+', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), text)


def sheet() -> bytes:
    """Draw all maps of pathfinding beside each other, with eight agents each; return the PNG."""
    from matplotlib.figure import Figure

    maps = list(MAPS)
    columns = 3
    rows = math.ceil(len(maps) / columns)
    page = Figure(figsize=(9.6, 3.4 * rows), layout="constrained")
    places = page.subplots(rows, columns, squeeze=False).ravel()
    for ax in places:
        ax.axis("off")
    for ax, name in zip(places, maps, strict=False):
        _map(ax, name)
    buffer = io.BytesIO()
    page.savefig(buffer, format="png", dpi=140, metadata={"Software": None})
    return buffer.getvalue()


def _map(ax: Any, name: str) -> None:
    """Draw the first episode of a map on ``ax``: obstacles, agents, rings for their goals."""
    engine = Engine("Routing-v0", map=name, map_params=SHOWN.get(name, {}))
    engine.reset(np.zeros(1, np.uint64))
    fields, c = engine.lane_state(), engine.constants

    colours = [COLOURS[a % 6] for a in range(len(engine.agents))]
    # Enlarged where they would be too small to see.
    least = 0.008 * max(c.map.width, c.map.height)
    agents = np.maximum(fields["agent_rad"], least)
    _discs(ax, fields["landmark_pos"], c.map.landmark_rad, facecolors="#acacac", linewidths=0)
    lines = np.stack([fields["agent_pos"], fields["goal_pos"]], axis=1)
    for line, colour in zip(lines, colours, strict=True):
        ax.plot(*line.T, color=colour, alpha=0.45, linewidth=0.9)
    _discs(ax, fields["goal_pos"], agents, facecolors="white", edgecolors=colours, linewidths=1.2)
    _discs(ax, fields["agent_pos"], agents, facecolors=colours, edgecolors=INK, linewidths=0.6)
    edge = c.map.landmark_rad
    ax.set_xlim(-0.5 * c.map.width - edge, 0.5 * c.map.width + edge)
    ax.set_ylim(-0.5 * c.map.height - edge, 0.5 * c.map.height + edge)
    ax.set_aspect("equal")
    ax.set_title(name, fontsize=SMALL + 1, color=INK)


def _discs(ax: Any, at: np.ndarray, radius: Any, **look: Any) -> None:
    """Draw discs (count, 2) of one radius or one each, in the units of the axes."""
    from matplotlib.collections import EllipseCollection

    wide = np.broadcast_to(2 * np.asarray(radius, np.float64), len(at))
    angles, moved = np.zeros(len(at)), ax.transData
    ax.add_collection(
        EllipseCollection(wide, wide, angles, units="xy", offsets=at, transOffset=moved, **look)
    )


def battles(env_id: str, fights: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Draw the first state of battles below each other, parameters by title; return the PNG.

    Each is cut to its units, which are discs to scale with a letter for their kind.
    """
    from matplotlib.figure import Figure

    columns = 3
    rows = math.ceil(len(fights) / columns)
    page = Figure(figsize=(7.2, 2.6 * rows + 1.2), layout="constrained")
    places = page.subplots(rows, columns, squeeze=False).ravel()
    for ax in places:
        ax.axis("off")
    kinds: dict[str, str] = {}  # by their letter
    for k, (ax, (title, parameters)) in enumerate(zip(places, fights.items(), strict=False)):
        engine = Engine(env_id, **parameters)
        engine.reset(np.array([k], np.uint64))
        battle = battle_of(engine.constants, engine.lane_state())
        kinds |= zip(battle.letters, battle.kinds, strict=True)
        _battle(ax, battle)
        ax.set_title(title, fontsize=SMALL + 3, color=INK)
    words = [f"{letter} {kind.replace('_', ' ')}" for letter, kind in sorted(kinds.items())]
    legend = ["discs: agents blue, enemies orange; gray: walls", *_lines(words, 4)]
    page.suptitle("\n".join(legend), fontsize=SMALL + 3, color=INK)
    buffer = io.BytesIO()
    page.savefig(buffer, format="png", dpi=180, metadata={"Software": None})
    return buffer.getvalue()


def _lines(words: list[str], most: int) -> list[str]:
    """Return lines of at most so many words."""
    return ["    ".join(words[k : k + most]) for k in range(0, len(words), most)]


def _battle(ax: Any, battle: Battle) -> None:
    """Draw the ground around the units, and the units."""
    height, width = battle.ground.shape
    ax.imshow(
        np.where(battle.ground, 248, 172),
        cmap="gray",
        vmin=0,
        vmax=255,
        origin="lower",
        extent=(0, width, 0, height),
        interpolation="nearest",
    )
    low = np.maximum(battle.places.min(axis=0) - AROUND, 0)
    high = np.minimum(battle.places.max(axis=0) + AROUND, (width, height))
    middle, half = 0.5 * (low + high), 0.5 * (high - low).max()
    ax.set_xlim(middle[0] - half, middle[0] + half)
    ax.set_ylim(middle[1] - half, middle[1] + half)
    ours = np.arange(len(battle.places)) < battle.num_agents
    colours = np.where(ours, "#56b4e9", "#e69f00")
    look = {"facecolors": colours, "edgecolors": INK, "linewidths": 0.3}
    _discs(ax, battle.places, battle.radii, **look)
    for place, radius, letter in zip(battle.places, battle.radii, battle.letters, strict=True):
        size = 112.0 * radius / half  # points: about the height of the disc
        ax.text(*place, letter, fontsize=size, ha="center", va="center_baseline", color="black")


def fights() -> dict[str, dict[str, Any]]:
    """Return the parameters of the battles of version 1 by what stands above them."""
    drawn = {"teams": "drawn", "num_agents": 10, "num_enemies": 11}
    shown: dict[str, dict[str, Any]] = {name: {"map": name} for name in bundled_maps()}
    return shown | {f"{race}, 10 against 11": {**drawn, "race": race} for race in RACES}


def names() -> list[str]:
    """Return the names of all figures."""
    return [SHEET, BATTLES, FIGHTS, *(f"{stem(env_id)}.svg" for env_id in _drawn())]


def _drawn() -> list[str]:
    return [env_id for env_id in coopbench_envs.ids() if is_drawn(env_id)]


def drawings() -> dict[Path, tuple[str, Callable[[], bytes]]]:
    """Return every figure with the digest of its sources and the function that draws it."""
    maps = "coopbench_envs.pathfinding.routing"
    first, second = (f"coopbench_envs.skirmish.skirmish{v}" for v in ("", "_v1"))
    published = {name: {"map": name} for name in bundled_maps()}
    figures = {
        FOLDER / SHEET: (drawn.digest(__file__, maps), sheet),
        FOLDER / BATTLES: (
            drawn.digest(__file__, first),
            partial(battles, "Skirmish-v0", published),
        ),
        FOLDER / FIGHTS: (
            drawn.digest(__file__, second),
            partial(battles, "Skirmish-v1", fights()),
        ),
    }
    for env_id in _drawn():
        sources = drawn.digest(__file__, coopbench_envs.spec(env_id).module)
        figures[FOLDER / f"{stem(env_id)}.svg"] = (sources, partial(_encoded, env_id))
    return figures


def _encoded(env_id: str) -> bytes:
    return written(env_id).encode()


def main() -> None:
    """Write the figures whose sources have changed."""
    drawn.redraw(FOLDER, drawings())


if __name__ == "__main__":
    main()
