"""batched_string_grid: several text maps of one shape; an episode draws one of them.

Source: CAMAR, map ``batched_string_grid``.
"""

from functools import partial
from typing import Annotated, Any, NamedTuple

from coopbench_envs.parameters import Allowed, joined
from coopbench_envs.pathfinding.maps.common import Generator, Map
from coopbench_envs.pathfinding.maps.mazes import Framed, Placed, make_mazes, maze_instances, place
from coopbench_envs.pathfinding.maps.string_grid import parse

NAME = "map 'batched_string_grid'"

Texts = tuple[str, ...] | None


class Own(NamedTuple):
    """Parameters that other mazes do not have."""

    map_str_batch: Annotated[Texts, Allowed("one map_str of string_grid per map")] = None
    free_pos_str_batch: Annotated[Texts, Allowed("one free_pos_str of string_grid per map")] = None


Params = joined(__name__, Own, Placed, Framed)


def make_map(p: Any, num_agents: int) -> Map:
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
