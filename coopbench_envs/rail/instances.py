"""Instances: networks, trains and malfunctions from arrays, checked before the first step.

The arrays, with or without a leading axis of episodes: ``grid`` (rows, columns), codes;
``level_free`` (cells, 2), rows and columns, -1 for none;
``init_pos``, ``target`` (trains, 2); ``init_dir`` (trains,); ``target_dirs`` (trains, 4), whether a
heading arrives; ``max_speed``, ``init_speed`` (trains, 2), numerators and denominators;
``earliest_departure``, ``latest_arrival`` (trains,); ``waypoints`` (waypoints, 7): train, stop,
row, column, heading, earliest departure, latest arrival, -1 for none; ``max_episode_steps``;
``strikes`` (strikes, 3): step, train, steps.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coopbench_envs.rail.cells import STEPS, TYPES, exits
from coopbench_envs.rail.lines import FAR

__all__ = ["FORMS", "LISTS", "check_forms", "check_values", "fields_of"]

# Axes of the arrays of one instance, by name or length; those of one name have the same length.
FORMS: dict[str, tuple[str | int, ...]] = {
    "grid": ("rows", "columns"),
    "init_pos": ("trains", 2),
    "init_dir": ("trains",),
    "target": ("trains", 2),
    "target_dirs": ("trains", 4),
    "max_speed": ("trains", 2),
    "init_speed": ("trains", 2),
    "earliest_departure": ("trains",),
    "latest_arrival": ("trains",),
    "max_episode_steps": (),
    "level_free": ("cells", 2),
    "waypoints": ("waypoints", 7),
    "strikes": ("strikes", 3),
}
LISTS = ("level_free", "waypoints", "strikes")  # may be left out, and filled up with rows of -1
_OPTIONAL = ("init_speed", *LISTS)
_HEADINGS = ("north", "east", "south", "west")


def fields_of(
    c: Any,
    arrays: Mapping[str, Any],
    *,
    reachable: bool = True,
    names: Sequence[str] | None = None,
) -> dict[str, np.ndarray]:
    """Turn exported arrays into initial states with a leading axis of episodes.

    Arrays of other names are not read. Raises ``ValueError`` that names the episode, the train or
    the cell as (row, column), and the reason, for anything that is not a consistent network with
    trains that can reach their targets. With ``reachable=False`` they need not reach them.
    ``names`` of episodes are for errors.
    """
    missing = [name for name in FORMS if name not in arrays and name not in _OPTIONAL]
    if missing:
        raise ValueError(f"Instances of coopbench/Rail need the array {missing[0]!r}.")
    values = {name: np.asarray(arrays[name]) for name in FORMS if name in arrays}
    if values["grid"].ndim == 2:
        values = {name: array[None] for name, array in values.items()}
    number = _episodes(values)
    episodes = []
    for k in range(number):
        try:
            arrays = {name: array[k] for name, array in values.items()}
            episodes.append(_episode(c, arrays))
            if reachable:
                _check_ways(arrays)
        except ValueError as error:
            name = names[k] if names is not None else f"Instance {k} of coopbench/Rail"
            raise ValueError(f"{name}: {error}") from None
    return {name: np.stack([fields[name] for fields in episodes]) for name in episodes[0]}


def _episodes(values: Mapping[str, np.ndarray]) -> int:
    """Return the number of episodes, the first axis of all arrays; raise if they differ."""
    for name, array in values.items():
        if array.ndim == 0 or len(array) != values["grid"].shape[0]:
            raise ValueError(
                f"Array {name!r} of instances of coopbench/Rail has the shape {array.shape}, "
                f"'grid' {values['grid'].shape}; allowed: all with the same leading axis of "
                f"episodes, or all of one episode without it."
            )
    return len(values["grid"])


def check_forms(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise ``ValueError`` for arrays of one instance without trains, or not as in ``FORMS``."""
    trains = arrays["init_dir"]
    if trains.shape == (0,):
        raise ValueError("it has no trains; allowed: 1 and more.")
    lengths: dict[str | int, int] = {"trains": len(trains)} if trains.ndim else {}
    for name, axes in FORMS.items():
        if name not in arrays:
            continue
        array = arrays[name]
        fits = array.ndim == len(axes) and array.dtype.kind in "iub"
        for axis, length in zip(axes, array.shape, strict=False):
            known = axis if isinstance(axis, int) else lengths.setdefault(axis, length)
            fits = fits and length == known
        if not fits:
            shape = ", ".join(str(lengths.get(axis, axis)) for axis in axes)
            raise ValueError(
                f"{name!r} must be whole numbers with {len(axes)} axes, ({shape}); given "
                f"{array.dtype} of shape {array.shape}."
            )


def check_values(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise ``ValueError`` for what no train can have in any task; forms have been checked."""
    limit = int(arrays["max_episode_steps"])
    if limit < 1:
        raise ValueError(f"its limit is {limit} steps; allowed: 1 and more.")
    _check_speeds(arrays)
    for a, due in enumerate(arrays["latest_arrival"].tolist()):
        if due < 0:
            raise ValueError(f"train {a} is due at step {due}; allowed: 0 and more.")
    for step, train, length in arrays["strikes"].tolist() if "strikes" in arrays else ():
        if step < 1 and (step, train, length) != (-1, -1, -1):
            raise ValueError(
                f"train {train} has a malfunction at step {step}; the first step is 1."
            )
    for train, stop, *_ in arrays["waypoints"].tolist() if "waypoints" in arrays else ():
        if train >= 0 and stop < 0:
            raise ValueError(
                f"train {train} has a stop {stop}; allowed: 0, its start, and more, up to its "
                f"target."
            )


def _check_speeds(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise for a speed that is no fraction up to 1; only trains that begin may stand still."""
    for name, least in (("max_speed", 1), ("init_speed", 0)):
        for a, (over, under) in enumerate(arrays[name].tolist() if name in arrays else ()):
            if not least <= over <= under or under < 1:
                above = "0 to 1" if least == 0 else "above 0, up to 1"
                raise ValueError(f"train {a} has the {name} {over}/{under}; allowed: {above}.")


def _episode(c: Any, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Check one instance and return the fields of its initial state."""
    check_forms(arrays)
    check_values(arrays)
    grid = arrays["grid"].astype(np.int64)
    _check_task(c, grid, len(arrays["init_dir"]))
    _check_network(grid)
    limit = int(arrays["max_episode_steps"])
    if limit > c.horizon:
        raise ValueError(
            f"its limit is {limit} steps; allowed: 1 to {c.horizon}, the horizon of the task."
        )
    starts = _starts(grid, arrays)
    targets, headings = _targets(grid, arrays)
    top, speed = (_speeds(c, arrays, name) for name in ("max_speed", "init_speed"))
    departure = arrays["earliest_departure"].astype(np.int64)
    for a in np.flatnonzero((departure < 0) | (departure > limit)):
        raise ValueError(f"train {a} departs at step {departure[a]}; allowed: 0 to {limit}.")
    place = 4 * _cells(c, starts) + arrays["init_dir"]
    rail = np.zeros((c.map.height + 2, c.map.width + 2), np.uint16)
    rail[1:-1, 1:-1] = grid
    return {
        "rail": rail.ravel(),
        "level_free": _level_free(c, grid, arrays),
        "limit": np.asarray(limit),
        "start": place,
        "place": place,
        "target": _cells(c, targets),
        "target_headings": headings @ (1 << np.arange(4)),
        "top_speed": top,
        "speed": speed,
        "departure": departure,
        "due": arrays["latest_arrival"].astype(np.int64),
        **_stops(c, grid, arrays),
        **_strikes(c, arrays, limit),
    }


def _cells(c: Any, positions: np.ndarray) -> np.ndarray:
    cells: np.ndarray = (positions[..., 0] + 1) * c.map.columns + positions[..., 1] + 1
    return cells


def _check_task(c: Any, grid: np.ndarray, trains: int) -> None:
    """Raise for another number of cells or trains than the task has."""
    if grid.shape != (c.map.height, c.map.width):
        raise ValueError(
            f"its grid is {grid.shape}; the task has {(c.map.height, c.map.width)} cells."
        )
    if trains != c.num_agents:
        raise ValueError(f"it has {trains} trains; num_agents of the task is {c.num_agents}.")


def _check_network(grid: np.ndarray) -> None:
    """Raise for codes that are no cells, and for exits that lead to no rail."""
    for row, column in np.argwhere(~np.isin(grid, list(TYPES))):
        raise ValueError(
            f"cell ({row}, {column}) has the code {grid[row, column]}, which is none of the "
            f"{len(TYPES)} types of cells."
        )
    ring = np.pad(grid, 1)
    for turn, (down, right) in enumerate(STEPS):
        leads = np.zeros(grid.shape, bool)
        for heading in range(4):
            leads |= (exits(grid, heading) >> (3 - turn)) & 1 == 1
        rows, columns = (slice(1 + step, step - 1 or None) for step in (down, right))
        for row, column in np.argwhere(leads & (exits(ring[rows, columns], turn) == 0)):
            raise ValueError(
                f"cell ({row}, {column}) has an exit to the {_HEADINGS[turn]} without a "
                f"counterpart in the next cell."
            )


def _inside(grid: np.ndarray, positions: np.ndarray) -> np.ndarray:
    return np.asarray(((positions >= 0) & (positions < np.array(grid.shape))).all(axis=-1))


def _starts(grid: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    positions, headings = arrays["init_pos"].astype(np.int64), arrays["init_dir"]
    inside = _inside(grid, positions)
    for a, (row, column) in enumerate(positions):
        if not inside[a] or grid[row, column] == 0:
            raise ValueError(f"train {a} starts at ({row}, {column}), where there is no rail.")
        if headings[a] not in range(4) or not exits(grid[row, column], int(headings[a])):
            raise ValueError(
                f"train {a} starts at ({row}, {column}) with the heading {headings[a]}, which "
                f"that cell does not have."
            )
    return positions


def _targets(grid: np.ndarray, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    positions, headings = arrays["target"].astype(np.int64), arrays["target_dirs"] != 0
    inside = _inside(grid, positions)
    for a, (row, column) in enumerate(positions):
        if not inside[a] or grid[row, column] == 0:
            raise ValueError(f"the target of train {a}, ({row}, {column}), is off the rails.")
        valid = [bool(exits(grid[row, column], heading)) for heading in range(4)]
        if not headings[a].any() or (headings[a] & ~np.array(valid)).any():
            raise ValueError(
                f"the target of train {a}, ({row}, {column}), is reached with headings "
                f"{np.flatnonzero(headings[a]).tolist()}; that cell has "
                f"{np.flatnonzero(valid).tolist()}."
            )
    return positions, headings


def _check_ways(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise for a train that cannot reach its target."""
    grid, headings = arrays["grid"].astype(np.int64), arrays["target_dirs"] != 0
    reached: dict[tuple[int, ...], np.ndarray] = {}
    for a, target in enumerate(arrays["target"]):
        key = (int(target[0]), int(target[1]), *headings[a].tolist())
        if key not in reached:
            reached[key] = _places_before(grid, target, headings[a])
        row, column = (int(k) for k in arrays["init_pos"][a])
        if not reached[key][row, column, int(arrays["init_dir"][a])]:
            raise ValueError(
                f"train {a} starts at ({row}, {column}) and cannot reach its target "
                f"({target[0]}, {target[1]})."
            )


def _places_before(grid: np.ndarray, target: np.ndarray, headings: np.ndarray) -> np.ndarray:
    """Return from which places, bool (rows, columns, 4), a target can be reached."""
    reached = np.zeros((*grid.shape, 4), bool)
    places = [(int(target[0]), int(target[1]), int(h)) for h in np.flatnonzero(headings)]
    for place in places:
        reached[place] = True
    while places:
        row, column, heading = places.pop()
        row, column = row - STEPS[heading][0], column - STEPS[heading][1]
        if not (0 <= row < grid.shape[0] and 0 <= column < grid.shape[1]):
            continue
        code = int(grid[row, column])
        for entered in range(4):
            opens = (code >> (4 * (3 - entered) + 3 - heading)) & 1
            if opens and not reached[row, column, entered]:
                reached[row, column, entered] = True
                places.append((row, column, entered))
    return reached


def _speeds(c: Any, arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Return speeds in units, from numerators and denominators."""
    fractions = arrays.get(name, arrays["max_speed"]).astype(np.int64)
    for a, (over, under) in enumerate(fractions):
        if (over * c.drive.unit) % under:
            raise ValueError(
                f"train {a} has the {name} {over}/{under}, which is no multiple of "
                f"1/{c.drive.unit}; name it among the task's speeds."
            )
    units: np.ndarray = fractions[:, 0] * c.drive.unit // fractions[:, 1]
    return units


def _level_free(c: Any, grid: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    cells = np.zeros(c.map.cells, np.int8)
    for row, column in arrays.get("level_free", np.zeros((0, 2), np.int64)):
        if row < 0:
            continue
        if row >= c.map.height or not 0 <= column < c.map.width or grid[row, column] == 0:
            raise ValueError(f"the level-free cell ({row}, {column}) is no rail.")
        cells[_cells(c, np.array([row, column], np.int64))] = 1
    return cells


def _stops(c: Any, grid: np.ndarray, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the intermediate stops: places, and the steps at which they are left and reached."""
    shape = (c.num_agents, c.rules.num_stops, 4)
    place, leave, reach = np.full(shape, -1), np.full(shape, -FAR), np.full(shape, FAR)
    rows = arrays.get("waypoints", np.zeros((0, 7), np.int64)).astype(np.int64)
    rows = rows[rows[:, 0] >= 0]
    for a, stop, row, column, heading, departure, arrival in rows:
        if a >= c.num_agents:
            raise ValueError(f"there is a stop of train {a}; there are {c.num_agents} trains.")
        if stop in (0, rows[rows[:, 0] == a, 1].max()):
            continue
        if stop > c.rules.num_stops:
            raise ValueError(
                f"train {a} has a stop {stop}; line_length of the task is {c.rules.num_stops + 2}."
            )
        inside = bool(_inside(grid, np.array([row, column])))
        if not inside or heading not in range(4) or not exits(grid[row, column], heading):
            raise ValueError(f"stop {stop} of train {a}, ({row}, {column}), is off the rails.")
        used = int((place[a, stop - 1] >= 0).sum())
        if used == shape[2]:
            raise ValueError(f"stop {stop} of train {a} has more than {used} alternatives.")
        place[a, stop - 1, used] = 4 * _cells(c, np.array([row, column])) + heading
        if departure >= 0:
            leave[a, stop - 1, used] = departure
        if arrival >= 0:
            reach[a, stop - 1, used] = arrival
    return {"stop_place": place, "stop_departure": leave, "stop_due": reach}


def _strikes(c: Any, arrays: Mapping[str, np.ndarray], limit: int) -> dict[str, np.ndarray]:
    """Return the schedule of malfunctions, without those that meet a broken train for certain.

    Under fair rules that depends on play, since trains at home do not break down.
    """
    times = np.full((c.num_agents, c.strikes.most), FAR)
    lengths = np.zeros((c.num_agents, c.strikes.most), np.int64)
    counts, next_one = np.zeros(c.num_agents, np.int64), np.zeros(c.num_agents, np.int64)
    rows = arrays.get("strikes", np.zeros((0, 3), np.int64)).astype(np.int64)
    rows = rows[rows[:, 0] > 0]
    for step, a, length in rows[np.argsort(rows[:, 0], kind="stable")]:
        if not 0 <= a < c.num_agents:
            raise ValueError(
                f"a malfunction strikes train {a} at step {step}; there are {c.num_agents} trains."
            )
        if length < 1 or length > limit + FAR // 2:
            raise ValueError(f"a malfunction of train {a} at step {step} lasts {length} steps.")
        if step > limit or step < next_one[a]:
            continue
        if counts[a] == c.strikes.most:
            raise ValueError(
                f"train {a} has more than {c.strikes.most} malfunctions, for which the task's "
                f"malfunction_rate and malfunction_duration leave room; set them as they were."
            )
        times[a, counts[a]], lengths[a, counts[a]] = step, length
        counts[a] += 1
        next_one[a] = step + (1 if c.rules.fair else length)
    return {"strike_time": times, "strike_length": lengths}
