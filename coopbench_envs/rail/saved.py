"""Saved environments: the dictionaries that flatland-rl writes, as arrays of an instance.

Pickles and, of releases before 3.0, MessagePack are told apart by their first byte. What stands for
parts that a file does not hold, is listed in ``Saved.assumed``.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.rail import messages, pickles
from coopbench_envs.rail.pickles import Record

__all__ = ["Saved", "read_saved"]

# Fields of an agent, by their places; those after the last one differ between releases.
_POSITION, _HEADING, _TARGETS, _DEPARTURE, _DUE, _NOW, _SPEED = 0, 1, 3, 5, 6, 8, 12
_STOPS, _STOP_DEPARTURES, _STOP_DUES = 16, 17, 18
_DRAWS = 1_000_000  # numbers that flatland-rl draws ahead for malfunctions
_WORDS = 624  # of the state of a Mersenne Twister
_LARGEST_GRID = 500
_LIMIT = 100  # steps of an episode, which flatland-rl sets for a file without
_TYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "f4", "f8")  # of numbers of numpy


class Saved(NamedTuple):
    """An environment of flatland-rl."""

    arrays: dict[str, np.ndarray]  # of an instance
    malfunction_rate: float  # malfunctions per train and step
    malfunction_duration: tuple[int, int]  # steps; the actual ones are one longer
    assumed: tuple[str, ...]  # what the file does not hold, and what stands for it


class _Train(NamedTuple):
    """A train as the arrays hold it."""

    position: Sequence[Any]
    heading: int  # 0 to 3
    target: Sequence[Any]
    target_headings: list[int]  # (4,) whether the heading arrives
    top: tuple[int, int]  # numerator and denominator
    speed: tuple[int, int]  # numerator and denominator
    departure: int  # earliest step
    due: int  # latest step of arrival
    waypoints: list[tuple[int, ...]]


def read_saved(content: bytes) -> Saved:
    """Return the environment in a file that flatland-rl wrote before the first step.

    Malfunctions are worked out from the state of its random numbers, as flatland-rl 4.3.0 draws
    them. Raises ``ValueError`` for anything else.
    """
    try:
        parsed = pickles.read(content) if content[:1] == b"\x80" else messages.read(content)
        return _converted(parsed, zlib.crc32(content))
    except (KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"it is not an environment of flatland-rl: {error!r}") from None
    except RecursionError:
        raise ValueError("it is not an environment of flatland-rl: it is nested deeply") from None


def _converted(saved: Mapping[str, Any], seed: int) -> Saved:
    """Return an environment; ``seed`` draws malfunctions if the file has no random numbers."""
    grid, assumed = _grid(saved["grid"]), []
    limit = _whole(saved.get("max_episode_steps") or 0)
    if not limit:
        limit = _LIMIT
        assumed.append(f"no limit of steps: {_LIMIT}, as flatland-rl sets it")
    if "agents_static" in saved:
        trains = [_early_train(grid, fields, limit) for fields in saved["agents_static"]]
        assumed.append("no timetable: trains depart from step 0 on and are due at the limit")
    else:
        agents = [agent.args for agent in saved["agents"]]
        _check_start(saved, agents)
        trains = [_train(grid, a, fields) for a, fields in enumerate(agents)]
    rate, shortest, longest = _malfunction_parameters(saved.get("malfunction"))
    strikes: list[tuple[int, int, int]] = []
    if rate > 0:
        if limit * len(trains) > 1 << 25:
            raise ValueError("its malfunctions are too many: it has too many trains or steps.")
        if saved.get("np_random_state") is None:
            assumed.append(
                f"no random numbers: malfunctions are drawn with the seed {seed}, the checksum of "
                f"the file; flatland-rl draws others in every reading"
            )
        later, uniforms = _draws(saved, seed)
        broken = uniforms[np.arange(limit * len(trains)) % _DRAWS] < 1 - np.exp(-rate)
        strikes = _strikes(broken, len(trains), (shortest, longest), later)
    arrays = {
        "grid": grid.astype(np.uint16),
        "level_free": _rows(saved.get("level_free_positions", ()), 2),
        "init_pos": _rows([train.position for train in trains], 2),
        "init_dir": np.array([train.heading for train in trains], np.int64),
        "target": _rows([train.target for train in trains], 2),
        "target_dirs": np.array([train.target_headings for train in trains], np.int64),
        "max_speed": np.array([train.top for train in trains]),
        "init_speed": np.array([train.speed for train in trains]),
        "earliest_departure": np.array([train.departure for train in trains], np.int64),
        "latest_arrival": np.array([train.due for train in trains], np.int64),
        "max_episode_steps": np.array(limit),
        "waypoints": _rows([row for train in trains for row in train.waypoints], 7),
        "strikes": _rows(strikes, 3),
    }
    return Saved(arrays, rate, (shortest, longest), tuple(assumed))


def _check_start(saved: Mapping[str, Any], agents: Sequence[Sequence[Any]]) -> None:
    """Raise ``ValueError`` for trains of an unknown form, and for an episode that has begun."""
    for fields in agents:
        if len(fields) <= _SPEED:
            raise ValueError(
                f"its trains have {len(fields)} fields and no timetable, as flatland-rl 2 pickled "
                f"them; flatland-rl 4.3.0 does not read them either."
            )
    if _whole(saved.get("elapsed_steps") or 0) or any(f[_NOW] is not None for f in agents):
        raise ValueError("its episode has begun; save it before the first step.")


def _train(grid: np.ndarray, a: int, fields: Sequence[Any]) -> _Train:
    """Return train ``a`` from the fields of an agent of flatland-rl 3 and later."""
    speeds = fields[_SPEED].state
    return _Train(
        fields[_POSITION],
        _whole(fields[_HEADING]),
        *_target(grid, fields[_TARGETS]),
        _speed(speeds, "max_speed", "speed", "_speed"),
        _speed(speeds, "speed", "_speed"),
        _whole(fields[_DEPARTURE]),
        _whole(fields[_DUE]),
        _waypoints(a, fields),
    )


def _early_train(grid: np.ndarray, fields: Sequence[Any], limit: int) -> _Train:
    """Return a train from what flatland-rl 2 wrote: start, heading, target, and maybe a speed.

    flatland-rl reads the speed only where malfunctions follow it.
    """
    position, heading, target = fields[:3]
    speed = _speed(fields[4], "speed") if len(fields) >= 6 else (1, 1)
    goal = _target(grid, target)
    return _Train(position, _whole(heading), *goal, speed, speed, 0, limit, [])


def _plain(value: Any) -> Any:
    """Return a number of numpy, as pickles and MessagePack hold it, as one of Python's."""
    if isinstance(value, Record) and value.name.endswith("multiarray.scalar"):
        kind, content = value.args
        code = _type_of(kind)
    elif isinstance(value, Mapping) and value.get(b"nd") is False:
        code, content = value[b"type"].lstrip("<|"), value[b"data"]
    else:
        return value
    if code not in _TYPES or len(content) != int(code[1]):
        raise ValueError(f"a number has the type {code!r}; allowed: {', '.join(_TYPES)}.")
    return np.frombuffer(content, f"<{code}")[0].item()


def _type_of(kind: Any) -> str:
    """Return the name of a type of numpy without its byte order, which has to be little-endian."""
    order = kind.state[1] if kind.state else "<"
    return kind.args[0] if order in "<|" else f"{order}{kind.args[0]}"


def _whole(value: Any) -> int:
    """Return a whole number: as it is, of an enumeration, or one of numpy's."""
    if isinstance(value, Record) and value.name.startswith("flatland.") and len(value.args) == 1:
        value = value.args[0]
    value = _plain(value)
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
    value = _plain(next(state[name] for name in names if name in state))
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


def _malfunction_parameters(malfunction: Any) -> tuple[float, int, int]:
    """Return the rate of malfunctions and their shortest and longest duration."""
    if malfunction is None:
        return 0.0, 20, 50
    values = malfunction.args if isinstance(malfunction, Record) else malfunction
    rate, shortest, longest = float(_plain(values[0])), _whole(values[1]), _whole(values[2])
    if not rate > 0:
        return 0.0, 20, 50
    if not 0 <= shortest <= longest <= 10_000:
        raise ValueError("its malfunctions are of no length from 0 to 10000 steps.")
    return rate, shortest, longest


def _draws(saved: Mapping[str, Any], seed: int) -> tuple[np.random.RandomState, np.ndarray]:
    """Return the random numbers from which durations are drawn, and those drawn ahead.

    One of the latter decides for each train in each step; they repeat. ``seed`` is used if the file
    has no state of random numbers.
    """
    now, ahead = saved.get("np_random_state"), saved.get("malfunction_cached_random_state")
    later = np.random.RandomState(seed) if now is None else _random(now)
    if ahead is None:
        return later, np.roll(later.rand(_DRAWS), -1)
    used = _whole(saved.get("malfunction_rand_idx") or 0)
    return later, np.roll(_random(ahead).rand(_DRAWS), -1 - used)


def _strikes(
    broken: np.ndarray, trains: int, duration: tuple[int, int], random: np.random.RandomState
) -> list[tuple[int, int, int]]:
    """Return the malfunctions of an episode: step, train, steps that it lasts."""
    hits = np.flatnonzero(broken)
    if len(hits) > _DRAWS:
        raise ValueError(f"it has {len(hits):,} malfunctions; allowed: up to {_DRAWS:,}.")
    shortest, longest = duration
    return [
        (hit // trains + 1, hit % trains, int(random.randint(shortest, longest + 1)) + 1)
        for hit in hits.tolist()
    ]


def _random(state: Any) -> np.random.RandomState:
    """Return random numbers that go on from a state of flatland-rl's."""
    name, words, place, *_ = state
    numbers = _words(words)
    damaged = name != "MT19937" or len(numbers) != _WORDS or not 0 <= _whole(place) <= _WORDS
    if damaged or min(numbers) < 0 or max(numbers) >= 1 << 32:
        raise ValueError("the state of its random numbers is damaged.")
    random = np.random.RandomState(0)
    random.set_state(("MT19937", np.array(numbers, np.uint32), _whole(place), 0, 0.0))
    return random


def _words(words: Any) -> list[int]:
    """Return the words of a state: a tuple, or the array that numpy's own state has."""
    if isinstance(words, Record) and words.name.endswith("multiarray._reconstruct"):
        _, shape, kind, _, content = words.state
        if shape != (_WORDS,) or _type_of(kind) != "u4" or len(content) != 4 * _WORDS:
            raise ValueError("the state of its random numbers is damaged.")
        numbers: list[int] = np.frombuffer(content, "<u4").tolist()
        return numbers
    return [_whole(word) for word in words]
