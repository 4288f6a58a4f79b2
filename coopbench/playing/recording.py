"""Recordings: one episode as data, from which it can be played again bit for bit.

A recording holds how the episode began, all actions and all rewards; everything else follows when
the actions are played again. Its file is an npz of plain arrays, never pickled.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import coopbench_envs
from coopbench.baselines.game import Game
from coopbench.baselines.match import OWN, Match
from coopbench.baselines.player import Player
from coopbench.episodes.table import Cell
from coopbench.errors import ReplayError
from coopbench.files import write_bytes
from coopbench.playing.contestants import PolicyLike
from coopbench.playing.plan import game_of
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import instance_state
from coopbench.provenance import versions
from coopbench_envs.arrays import pack, unpack
from coopbench_envs.drivers import MANY_LANES
from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.parameters import unknown
from coopbench_envs.shells.common import seed_of

SCHEMA = 1
_LONGEST = 200  # characters of the name of a file without its ending
# What evaluations write into a results folder, below which each cell has a folder with a meta.json.
_RESULTS = {"protocol.json", "manifest.json", "registration.json", "report.json", "report.html"}
_START = "start."  # begins the names of the arrays of the start


@dataclass(frozen=True)
class Recording:
    """One episode; ``play`` goes through it, ``save`` writes it to a file."""

    title: str
    env: str
    parameters: Mapping[str, Any]
    seed: int
    agents: tuple[str, ...]
    players: tuple[str, ...]  # policy of each agent
    start: Mapping[str, np.ndarray]  # state fields that were set after the seeded reset
    actions: np.ndarray  # (steps, agents) or (steps, agents, dim)
    rewards: np.ndarray  # (steps, agents) float64
    about: Mapping[str, str] = field(default_factory=dict)  # where it comes from, in words
    versions: Mapping[str, str] = field(default_factory=versions)  # that it was played with

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def name(self) -> str:
        """Stem of the files that are named after the episode, whose number ends a long one."""
        return re.sub(r"[^\w.=@-]+", "-", self.title)[-_LONGEST:].strip("-.") or "episode"

    @property
    def team_return(self) -> float:
        """Return of all agents together, of a common reward once."""
        returns = self.rewards.sum(axis=0)
        common = coopbench_envs.spec(self.env).common_reward
        return float(returns[0] if common else self.rewards.sum())

    def play(self) -> Iterator[Engine]:
        """Yield one engine after the reset and after every step; lane 0 plays the episode.

        Raises ``ReplayError`` at the first step that is refused or whose rewards are not the
        recorded ones.
        """
        # An evaluation has compiled the code for many lanes; all of them play the episode.
        lanes = MANY_LANES if coopbench_envs.spec(self.env).vectorized else 1
        engine = Engine(self.env, lanes, **self.parameters)
        engine.reset(np.full(lanes, self.seed, np.uint64), state=self.start)
        yield engine
        for step, (actions, rewards) in enumerate(zip(self.actions, self.rewards, strict=True), 1):
            if engine.control.done[0]:
                raise ReplayError(self._departed(f"it is over before step {step}"))
            try:
                engine.step(np.broadcast_to(actions, (lanes, *actions.shape)), DISABLED)
            except ValueError as error:
                raise ReplayError(self._departed(f"step {step} is refused ({error})")) from None
            if not np.array_equal(engine.control.rewards[0], rewards, equal_nan=True):
                raise ReplayError(self._departed(f"the rewards of step {step} differ"))
            yield engine

    def _departed(self, reason: str) -> str:
        now = versions()
        other = [f"{n} {v} (now {now.get(n)})" for n, v in self.versions.items() if now.get(n) != v]
        return (
            f"{self.title} cannot be played again: {reason}. Recorded with "
            f"{', '.join(other) or 'the same versions'}; record it anew."
        )

    def save(self, path: str | Path) -> Path:
        """Write the recording to an npz file, in one atomic step; return its path."""
        words = {
            "schema": SCHEMA,
            "title": self.title,
            "env": self.env,
            "parameters": self.parameters,
            "seed": self.seed,
            "agents": self.agents,
            "players": self.players,
            "about": self.about,
            "versions": self.versions,
        }
        arrays = {_START + name: values for name, values in self.start.items()}
        arrays["description"] = np.frombuffer(json.dumps(words).encode(), np.uint8)
        write_bytes(Path(path), pack(arrays | {"actions": self.actions, "rewards": self.rewards}))
        return Path(path)


def play(
    engine: Engine,
    policies: Sequence[PolicyLike],
    seats: np.ndarray,
    seed: int,
    start: Mapping[str, np.ndarray],
    title: str,
    about: Mapping[str, str],
) -> Recording:
    """Play the episode of ``seed`` in an engine of one lane and return it.

    ``policies`` are the evaluated one and its partners, ``seats`` one row of ``seating``, and
    ``start`` the state fields to begin with.
    """
    players = [Player(policy, Game.of(engine)) for policy in policies]
    match = Match(engine, players, seats)
    actions, rewards = list[np.ndarray](), list[np.ndarray]()
    match.begin(np.array([seed], np.uint64), start)
    for joint in match.steps():
        actions.append(joint[0])
        rewards.append(engine.control.rewards[0].copy())
    return Recording(
        title=title,
        env=engine.spec.id,
        parameters=engine.parameters._asdict(),
        seed=seed,
        agents=engine.agents,
        players=tuple(players[seat + 1].label for seat in seats[0]),
        start=dict(start),
        actions=np.array(actions),
        rewards=np.array(rewards),
        about=about,
    )


def episode_of(
    protocol: Protocol, cell: Cell, k: int, actions: np.ndarray, rewards: np.ndarray
) -> Recording:
    """Return episode k of a cell from the actions and rewards of all agents, (steps, agents)."""
    task = protocol.played_in(cell)
    game = game_of(task)
    states = instance_state(task, game.constants, k + 1) or {}
    seats = task.seating(k + 1, game.agents)[k]
    return Recording(
        title=episode_title(cell, k),
        env=game.env_id,
        parameters=game.parameters._asdict(),
        seed=int(protocol.seeds_of(task)[k]),
        agents=game.agents,
        players=tuple(cell.policy if s == OWN else task.partner_names[s] for s in seats),
        start={name: np.asarray(values)[k] for name, values in states.items()},
        actions=actions,
        rewards=rewards,
        about={"protocol": protocol.name, "task": task.id, "episode": str(k)},
    )


def episode_title(cell: Cell, k: int) -> str:
    """Return the title of episode k of a cell."""
    run = "" if cell.run is None else f" run {cell.run},"
    return f"{cell.task}, {cell.policy},{run} episode {k}"


def check_place(path: Path) -> None:
    """Raise ``ReplayError`` if no file can be written at ``path``; call it before long work.

    What results consist of is not replaced, nor the page of their report.
    """
    if path.is_dir():
        raise ReplayError(f"{path} is a folder; name a file to write.")
    above = (path.parent.resolve() / path.name).parents
    kept = path.name in _RESULTS and (above[0] / "protocol.json").is_file()
    in_cell = (above[0] / "meta.json").is_file()
    if kept or (in_cell and any((folder / "protocol.json").is_file() for folder in above[1:])):
        raise ReplayError(f"{path} is a place of results; choose another name or folder.")
    if not path.parent.is_dir():
        raise ReplayError(f"There is no folder {path.parent} to write {path.name} into; create it.")
    if not os.access(path.parent, os.W_OK):
        raise ReplayError(f"The folder {path.parent} cannot be written; choose another place.")


def load(path: str | Path) -> Recording:
    """Read a recording; what it holds is checked before anything is played.

    Raises:
        FileNotFoundError: there is no such file.
        ReplayError: it is not a recording, or is damaged, or its environment is not known.
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"There is no recording {source}.")
    try:
        return _checked(unpack(source))
    except (KeyError, TypeError, ValueError, OSError, RecursionError, MemoryError) as error:
        reason = f"there is no {error} in it" if isinstance(error, KeyError) else str(error)
        raise ReplayError(f"{source} cannot be used as a recording: {reason}") from None


def _checked(arrays: dict[str, np.ndarray]) -> Recording:
    words = json.loads(arrays["description"].tobytes().decode())
    if not isinstance(words, dict) or words.pop("schema", None) != SCHEMA:
        raise ValueError(f"its description does not have schema {SCHEMA}")
    if words["env"] not in coopbench_envs.ids():  # a prefix "module:" would import that module
        raise ValueError(unknown("environment", str(words["env"]), coopbench_envs.ids()))
    engine = Engine(words["env"], **words["parameters"])
    words["seed"] = int(seed_of(words["seed"])[0])
    for name in ("about", "versions"):
        words[name] = dict(words[name])
    for name in ("agents", "players"):
        words[name] = tuple(map(str, words[name]))
    if words["agents"] != engine.agents or len(words["players"]) != len(engine.agents):
        raise ValueError(f"its agents or players are not those of {words['env']}")
    recording = Recording(
        **words,
        start={n.removeprefix(_START): a for n, a in arrays.items() if n.startswith(_START)},
        actions=arrays["actions"],
        rewards=arrays["rewards"],
    )
    steps = len(recording.rewards) if recording.rewards.ndim else 0
    shapes = (steps, *engine.actions.shape[1:]), (steps, len(engine.agents))
    actual = recording.actions.shape, recording.rewards.shape
    if actual != shapes or not 1 <= steps <= engine.horizon:
        raise ValueError(
            f"its actions {actual[0]} and rewards {actual[1]} are not those of 1 to "
            f"{engine.horizon} steps of {words['env']}"
        )
    engine.reset(np.array([recording.seed], np.uint64), state=recording.start)
    texts = (recording.title, *recording.about.values(), *recording.versions.values())
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("its description does not hold text")
    return recording
