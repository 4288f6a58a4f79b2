"""Saved environments: the dictionaries that flatland-rl pickles, as arrays of an instance."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from coopbench_envs.rail.pickles import Record, read

__all__ = ["arrays_of"]

# Fields of an agent, by their places; those after the last one differ between releases.
_POSITION, _HEADING, _TARGETS, _DEPARTURE, _DUE, _NOW, _SPEED = 0, 1, 3, 5, 6, 8, 12
_STOPS, _STOP_DEPARTURES, _STOP_DUES = 16, 17, 18
_DRAWS = 1_000_000  # numbers that flatland-rl draws ahead for malfunctions
_WORDS = 624  # of the state of a Mersenne Twister
_LARGEST_GRID = 500


def arrays_of(content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of an instance from a pickle that flatland-rl wrote before the first step.

    Malfunctions are worked out from the state of its random numbers, as flatland-rl 4.3.0 draws
    them. Raises ``ValueError`` for anything else.
    """
    try:
        return _converted(read(content))
    except (KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"it is not an environment of flatland-rl: {error!r}") from None
    except RecursionError:
        raise ValueError("it is not an environment of flatland-rl: it is nested deeply") from None


def _converted(saved: Mapping[str, Any]) -> dict[str, np.ndarray]:
    grid, agents, limit = _grid(saved["grid"]), saved["agents"], _whole(saved["max_episode_steps"])
    if _whole(saved.get("elapsed_steps", 0)) or any(a.args[_NOW] is not None for a in agents):
        raise ValueError("its episode has begun; save it before the first step.")
    targets = [_target(grid, a.args[_TARGETS]) for a in agents]
    speeds = [a.args[_SPEED].state for a in agents]
    waypoints = [row for a, agent in enumerate(agents) for row in _waypoints(a, agent.args)]
    return {
        "grid": grid.astype(np.uint16),
        "level_free": _rows(saved.get("level_free_positions", ()), 2),
        "init_pos": _rows([a.args[_POSITION] for a in agents], 2),
        "init_dir": np.array([_whole(a.args[_HEADING]) for a in agents], np.int64),
        "target": _rows([cell for cell, _ in targets], 2),
        "target_dirs": np.array([headings for _, headings in targets], np.int64),
        "max_speed": np.array([_speed(s, "max_speed", "speed", "_speed") for s in speeds]),
        "init_speed": np.array([_speed(s, "speed", "_speed") for s in speeds]),
        "earliest_departure": np.array([_whole(a.args[_DEPARTURE]) for a in agents], np.int64),
        "latest_arrival": np.array([_whole(a.args[_DUE]) for a in agents], np.int64),
        "max_episode_steps": np.array(limit),
        "waypoints": _rows(waypoints, 7),
        "strikes": _rows(_strikes(saved, limit, len(agents)), 3),
    }


def _whole(value: Any) -> int:
    """Return a whole number: as it is, of an enumeration, or one of numpy's."""
    if isinstance(value, Record) and value.name.startswith("flatland.") and len(value.args) == 1:
        value = value.args[0]
    if isinstance(value, Record) and value.name.endswith("multiarray.scalar"):
        kind, content = value.args
        if kind.args[0] not in ("i1", "i2", "i4", "i8", "u1", "u2", "u4"):
            raise ValueError(f"a number of the type {kind.args[0]!r} should be whole.")
        value = int.from_bytes(content, "little", signed=kind.args[0][0] == "i")
    if type(value) is not int or abs(value) > 1 << 40:
        # What holds others may be nested, and its text be exponentially long.
        shown = str(value)[:60] if type(value) in (int, float, bool, str) else type(value).__name__
        raise ValueError(f"{shown} should be a whole number.")
    return value


def _rows(rows: Sequence[Any], width: int) -> np.ndarray:
    """Return an array (rows, width) of whole numbers."""
    numbers = [[_whole(value) for value in row] for row in rows]
    if any(len(row) != width for row in numbers):
        raise ValueError(f"a row of {width} numbers has another length.")
    return np.array(numbers, np.int64).reshape(len(numbers), width)


def _grid(rows: Any) -> np.ndarray:
    if not 0 < len(rows) <= _LARGEST_GRID or not 0 < len(rows[0]) <= _LARGEST_GRID:
        raise ValueError(f"its map must have 1 to {_LARGEST_GRID} rows and columns.")
    grid = _rows(rows, len(rows[0]))
    if grid.min() < 0 or grid.max() > 0xFFFF:
        raise ValueError("a cell of its map has more than 16 bits.")
    return grid


def _target(grid: np.ndarray, targets: Any) -> tuple[Any, list[int]]:
    """Return the cell of a target, and whether a train arrives with each of the four headings."""
    # Either a cell, with all the headings that it has, or pairs of a cell and a heading.
    cell_alone = isinstance(targets, tuple) and not isinstance(targets[0], tuple)
    pairs = [(targets, heading) for heading in range(4)] if cell_alone else targets
    cells = {tuple(_whole(value) for value in cell) for cell, _ in pairs}
    if len(cells) != 1:
        raise ValueError(f"a train has {len(cells)} cells as targets; allowed: one.")
    row, column = cells.pop()
    if not (0 <= row < grid.shape[0] and 0 <= column < grid.shape[1]):
        raise ValueError(f"a target, ({row}, {column}), is off the map.")
    code, arriving = int(grid[row, column]), {_whole(heading) for _, heading in pairs}
    return (row, column), [
        int(heading in arriving and (code >> (4 * (3 - heading))) & 15 > 0) for heading in range(4)
    ]


def _speed(state: Mapping[str, Any], *names: str) -> tuple[int, int]:
    """Return a speed as numerator and denominator, rounded as flatland-rl rounds numbers."""
    value = next(state[name] for name in names if name in state)
    if isinstance(value, Record) and value.name == "fractions.Fraction":
        parts = value.args if len(value.args) == 2 else value.args[0][:40].split("/")
        over, under = (int(part) for part in (*parts, 1)[:2])
    elif type(value) is float and math.isfinite(value) and 0 < value <= 1:
        inverse = Fraction(1, round(1 / value))
        near = abs(float(inverse) - value) <= 1e-2
        over, under = (inverse if near else Fraction(str(value))).as_integer_ratio()
    else:
        over, under = _whole(value), 1
    if not 0 <= over <= under <= 1 << 20:
        raise ValueError(f"the speed {over}/{under} is not one from 0 to 1.")
    return over, under


def _waypoints(a: int, fields: Sequence[Any]) -> list[tuple[int, ...]]:
    """Return a row for every place that serves a stop of train ``a``."""
    stops = fields[_STOPS] if len(fields) > _STOP_DUES else None
    if not stops:
        return []
    rows = []
    for k, places in enumerate(stops):
        times = [fields[which][k] for which in (_STOP_DEPARTURES, _STOP_DUES)]
        for place in [places] if isinstance(places, Record) else places:
            state = place.state
            values = state.values() if isinstance(state, dict) else state
            position, heading = list(values)[:2]
            rest = [-1 if value is None else _whole(value) for value in (heading, *times)]
            rows.append((a, k, *(_whole(value) for value in position), *rest))
    return rows


def _strikes(saved: Mapping[str, Any], limit: int, trains: int) -> list[tuple[int, int, int]]:
    """Return the malfunctions of the whole episode: step, train, steps that it lasts."""
    malfunction = saved.get("malfunction")
    if malfunction is None:
        return []
    values = malfunction.args if isinstance(malfunction, Record) else malfunction
    rate, shortest, longest = float(values[0]), _whole(values[1]), _whole(values[2])
    if not rate > 0:
        return []
    if not 0 <= shortest <= longest <= 10_000 or limit * trains > 1 << 25:
        raise ValueError("its malfunctions are of no length from 0 to 10000 steps.")
    later = _random(saved["np_random_state"])
    ahead, used = saved.get("malfunction_cached_random_state"), 0
    if ahead is None:
        uniforms = later.rand(_DRAWS)
    else:
        uniforms = _random(ahead).rand(_DRAWS)
        used = _whole(saved.get("malfunction_rand_idx") or 0)
    broken = uniforms < 1 - np.exp(-rate)
    hits = np.flatnonzero(broken[(used + 1 + np.arange(limit * trains)) % _DRAWS])
    if len(hits) > _DRAWS:
        raise ValueError(f"it has {len(hits):,} malfunctions; allowed: up to {_DRAWS:,}.")
    return [
        (hit // trains + 1, hit % trains, int(later.randint(shortest, longest + 1)) + 1)
        for hit in hits.tolist()
    ]


def _random(state: Any) -> np.random.RandomState:
    """Return random numbers that go on from a state of flatland-rl's."""
    name, words, place, *_ = state
    numbers = [_whole(word) for word in words]
    if name != "MT19937" or len(numbers) != _WORDS or not 0 <= _whole(place) <= _WORDS:
        raise ValueError("the state of its random numbers is damaged.")
    if min(numbers) < 0 or max(numbers) >= 1 << 32:
        raise ValueError("the state of its random numbers is damaged.")
    random = np.random.RandomState(0)
    random.set_state(("MT19937", np.array(numbers, np.uint32), _whole(place), 0, 0.0))
    return random
