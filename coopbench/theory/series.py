"""Series: how closely a policy reproduces a sequence of investments that a user supplies.

A file holds one line of agents' names, then one line for each step with the fraction of its
endowment that each agent invested, separated by commas. coopbench contains no such series.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.baselines.registry import from_code
from coopbench_envs.engine import Engine
from coopbench_envs.parameters import resolve, unknown
from coopbench_envs.reading import read_regular
from coopbench_envs.registration import spec

__all__ = ["match", "read_series", "series_matching"]

_LARGEST = 1 << 26  # bytes of a file


def read_series(path: str | Path, agents: Sequence[str] | None = None) -> np.ndarray:
    """Read the fractions (steps, agents) of a series from a CSV file.

    With ``agents`` the file must name exactly these, in any order; the columns of the result are in
    the order of ``agents``. Raises
    ``FileNotFoundError``, and ``ValueError`` with the line and column of what is not allowed.
    """
    rows = _rows(Path(path))
    if not rows:
        raise ValueError(f"{path} is empty; its first line names the agents, separated by commas.")
    (first, header), *body = rows
    names = [cell.strip() for cell in header]
    order = _order(names, agents, f"{path}, line {first}")
    if not body:
        raise ValueError(f"{path} holds no step: after line {first} one line for each is needed.")
    values = [_numbers(cells, names, f"{path}, line {line}") for line, cells in body]
    return np.array(values)[:, order]


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """Return the lines of the file that are not blank, with their numbers."""
    try:
        # utf-8-sig: spreadsheets write a byte order mark, which is no part of the first name.
        text = read_regular(path, _LARGEST).decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text, newline=""))
        return [(reader.line_num, row) for row in reader if any(map(str.strip, row))]
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {path} to read a series from.") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read as a file: {error.strerror}.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as CSV in UTF-8: {error}.") from None


def _order(names: list[str], agents: Sequence[str] | None, where: str) -> list[int]:
    """Return the columns in the order of ``agents``; the file must name every agent once."""
    expected = names if agents is None else list(agents)
    for column, name in enumerate(names, start=1):
        if not name or name not in expected:
            raise ValueError(f"{where}, column {column}: {unknown('agent', name, expected)}")
        if names.index(name) + 1 < column:
            raise ValueError(f"{where}, column {column}: agent {name!r} is named twice.")
    missing = [name for name in expected if name not in names]
    if missing:
        raise ValueError(f"{where}: no column for {', '.join(missing)}; given {', '.join(names)}.")
    return [names.index(name) for name in expected]


def _numbers(cells: list[str], names: list[str], where: str) -> list[float]:
    """Parse the fractions of one line; errors name the column of the agent."""
    if len(cells) != len(names):
        raise ValueError(
            f"{where} has {len(cells)} values; allowed: {len(names)}, one for each agent "
            f"({', '.join(names)})."
        )
    return [
        _number(text, f"{where}, column {name!r}") for text, name in zip(cells, names, strict=True)
    ]


def _number(text: str, where: str) -> float:
    """Parse one fraction in [0, 1]."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{where} was {text.strip()!r}; allowed: a number in [0, 1].")
    return value


def series_matching(fractions: Any, series: Any) -> float:
    """Closeness of ``fractions`` to a ``series``, both (steps, agents), in [0, 1].

    1 - the mean over steps and agents of |a - x| / max(x, 1 - x), with the fraction a played and
    the fraction x of the series: 1 if both are equal, 0 if every fraction is as far from the series
    as it can be.
    Raises ``ValueError`` if the two differ in steps or agents.
    """
    played, target = np.asarray(fractions, np.float64), np.asarray(series, np.float64)
    if played.ndim != 2 or played.shape != target.shape or played.size == 0:
        raise ValueError(
            f"Fractions and series must have one shape (steps, agents); given {played.shape} "
            f"and {target.shape}."
        )
    return float(1.0 - np.mean(np.abs(played - target) / np.maximum(target, 1.0 - target)))


def match(
    env_id: str,
    path: str | Path,
    policies: Sequence[Any],
    *,
    episodes: int = 100,
    seed: int = 0,
    **parameters: Any,
) -> dict[str, np.ndarray]:
    """Play every policy in all seats and return its matching of the series in each episode.

    Episodes are seeded ``seed``, ``seed + 1``, ...; without a ``horizon`` they are as long as the
    series. Raises ``ValueError`` for games without investments, and for a series that has other
    agents or another number of steps than what is played.
    """
    if episodes < 1 or seed < 0:
        raise ValueError(f"episodes must be >= 1 and seed >= 0; given {episodes} and {seed}.")
    policies = [from_code(policy) for policy in policies]
    game = spec(env_id)
    if game.trace is None:
        raise ValueError(f"{game.id} has no investments that could match a series.")
    agents = game.agents(game.constants(resolve(game.params, parameters, game.id)))
    series = read_series(path, agents)
    engine = Engine(env_id, episodes, **({"horizon": len(series)} | parameters))
    if engine.horizon != len(series):
        raise ValueError(
            f"{path} has {len(series)} steps; given a horizon of {engine.horizon}: they must agree."
        )
    scores = {}
    for policy in policies:
        player = Player(policy, Game.of(engine))
        scores[player.label] = _matchings(engine, player, seed, series)
    return scores


def _matchings(engine: Engine, player: Player, seed: int, series: np.ndarray) -> np.ndarray:
    """Return the matching of the series in every lane, (lanes,)."""
    trace, course, game = engine.spec.trace, [], Match(engine, [player])
    assert trace is not None  # checked by ``match``
    game.begin(np.arange(engine.lanes, dtype=np.uint64) + np.uint64(seed))
    for _ in game.steps():
        course.append(np.array(trace(engine.constants, engine.state)["fraction"]))
    fractions, lengths = np.stack(course, axis=1), engine.state.time
    if (lengths < len(series)).any():
        lane = int(np.argmin(lengths))
        raise ValueError(
            f"The episode seeded {seed + lane} of {player.label!r} ended after {lengths[lane]} "
            f"steps; the series has {len(series)}."
        )
    return np.array([series_matching(lane, series) for lane in fractions])
