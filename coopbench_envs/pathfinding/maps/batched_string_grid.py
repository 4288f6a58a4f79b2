"""batched_string_grid: several text maps of one shape; an episode draws one of them.

Source: CAMAR, map ``batched_string_grid``.
"""

from functools import partial
from typing import Annotated, NamedTuple

from coopbench_envs.parameters import Allowed
from coopbench_envs.pathfinding.maps.common import Generator, Map, Range
from coopbench_envs.pathfinding.maps.mazes import (
    ADD_BORDER,
    AGENT_RAD,
    FREE_POS,
    GOAL_RAD,
    LANDMARK_RAD,
    RANDOM_AGENTS,
    RANDOM_GOALS,
    REMOVE_BORDER,
    make_mazes,
    maze_instances,
    place,
)
from coopbench_envs.pathfinding.maps.string_grid import parse

NAME = "map 'batched_string_grid'"

Texts = tuple[str, ...] | None


class Params(NamedTuple):
    """Parameters of the map; every field can be given in ``map_params``."""

    map_str_batch: Annotated[Texts, Allowed("one map_str of string_grid per map")] = None
    free_pos_str_batch: Annotated[Texts, Allowed("one free_pos_str of string_grid per map")] = None
    random_agents: Annotated[bool, RANDOM_AGENTS] = True
    random_goals: Annotated[bool, RANDOM_GOALS] = True
    remove_border: Annotated[bool, REMOVE_BORDER] = False
    add_border: Annotated[bool, ADD_BORDER] = True
    landmark_rad: Annotated[float, LANDMARK_RAD] = 0.05
    agent_rad_range: Annotated[Range, AGENT_RAD] = (0.03, 0.03)
    goal_rad_range: Annotated[Range, GOAL_RAD] = None
    max_free_pos: Annotated[int | None, FREE_POS] = None


def make_map(p: Params, num_agents: int) -> Map:
    """Return the map, from the texts of the parameters.

    Raises:
        ValueError: a map is missing or ragged, differs in shape, or has too few free cells.
    """
    if not p.map_str_batch:
        raise ValueError(f"Parameter 'map_str_batch' of {NAME} holds no map; allowed: at least 1.")
    texts = p.map_str_batch
    free_texts = p.free_pos_str_batch or (None,) * len(texts)
    if len(free_texts) != len(texts):
        raise ValueError(
            f"Parameter 'free_pos_str_batch' of {NAME} has {len(free_texts)} entries; allowed: "
            f"{len(texts)}, one per map."
        )
    where = [f"{NAME}, entry {k}" for k in range(len(texts))]
    parsed = [parse(t, f, p, w) for t, f, w in zip(texts, free_texts, where, strict=True)]
    shape = parsed[0][0].shape
    for (walls, _), name in zip(parsed, where, strict=True):
        if walls.shape != shape:
            raise ValueError(
                f"{name} has {walls.shape[0]} x {walls.shape[1]} cells; allowed: {shape[0]} x "
                f"{shape[1]}, like the first."
            )
    return make_mazes([w for w, _ in parsed], [f for _, f in parsed], p, num_agents, where)


MAP = Generator(Params, make_map, place, partial(maze_instances, where=NAME))
