"""Rollout: play the evaluation episodes of one cell, all of them at once as lanes of one engine."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coopbench.baselines.policy import Game, Player, label
from coopbench.episodes import Cell, Episodes
from coopbench.instances import instance_state
from coopbench.plan import game_of
from coopbench.protocol import Protocol, Task
from coopbench.trajectories import Recorder
from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.registration import spec

__all__ = ["PlayJob", "joint", "play", "seating"]

OWN = -1  # in a seating: the policy that is evaluated


def play(
    protocol: Protocol,
    cell: Cell,
    policy: Any,
    progress: Callable[[float], None] | None = None,
    partners: Sequence[Any] | None = None,
) -> Episodes:
    """Play every episode of ``cell`` and return what they came to.

    Episode k is the environment seeded with the task's k-th evaluation seed; who sits where is told
    by ``seating``, with the task's partners unless others are given. Curves hold, for every
    metric of the environment, its value so far after each step (0 = at the start), averaged over
    episodes; an episode that is over counts with its last value.
    """
    task = _task(protocol, cell)
    seeds = protocol.seeds_of(task)
    engine = Engine(task.env, len(seeds), **task.parameters)
    pool = task.partners if partners is None else partners
    seats = seating(len(seeds), len(engine.agents), len(pool))
    control = engine.control
    engine.reset(seeds, state=instance_state(task, engine.constants, len(seeds)))
    players = [Player(each, Game.of(engine)) for each in (policy, *pool)]
    for stream, player in enumerate(players):
        player.begin(control.seed, control.episode, np.ones(len(seeds), np.bool_), stream)
    recorder = Recorder(engine)
    recorder.note()
    course = [control.measures.mean(axis=0)]
    while not control.done.all():
        engine.step(joint(players, seats, engine), DISABLED)
        recorder.note()
        course.append(control.measures.mean(axis=0))
        if progress is not None:
            progress(float(max(control.done.mean(), (len(course) - 1) / engine.horizon)))
    names = list(engine.spec.metrics)
    return Episodes(
        cell=cell,
        agents=engine.agents,
        seeds=seeds,
        lengths=engine.state.time.copy(),
        terminated=control.ended.copy(),
        seats=seats == OWN,
        returns=control.returns.copy(),
        metrics={name: control.measures[:, k].copy() for k, name in enumerate(names)}
        | recorder.metrics(),
        curves=dict(zip(names, np.array(course).T.copy(), strict=True)),
        agent_metrics=recorder.agent_metrics(),
    )


@dataclass(frozen=True)
class PlayJob:
    """A call of ``play`` as a value, for a backend; its result is (episodes, seconds it took)."""

    protocol: Protocol
    cell: Cell
    policy: Any
    partners: Sequence[Any] | None = None

    @property
    def cost(self) -> float:
        """Agents times steps times episodes, at most."""
        task = _task(self.protocol, self.cell)
        game = game_of(task)
        return len(game.agents) * game.constants.horizon * self.protocol.episodes(task)

    @property
    def kind(self) -> str:
        """Name the kernels that the task's environment compiles."""
        return spec(_task(self.protocol, self.cell).env).kernel.__name__

    def __str__(self) -> str:
        names = [each if isinstance(each, str) else label(each) for each in self.partners or ()]
        beside = f" beside {', '.join(map(repr, names))}" if names else ""
        return f"policy {self.cell.policy!r}{beside} on task {self.cell.task!r}"

    def __call__(self, tell: Callable[[float], None] | None) -> tuple[Episodes, float]:
        """Play the cell."""
        start = time.perf_counter()
        episodes = play(self.protocol, self.cell, self.policy, tell, self.partners)
        return episodes, time.perf_counter() - start


def _task(protocol: Protocol, cell: Cell) -> Task:
    return next(task for task in protocol.task if task.id == cell.task)


def seating(episodes: int, agents: int, partners: int) -> np.ndarray:
    """Say who sits where, (episodes, agents): -1 is the policy, p >= 0 the p-th partner.

    Without partners the policy sits everywhere. With P partners it sits in seat k mod n of episode
    k, and the j-th of the other seats (in index order, from 0) is taken by partner
    (floor(k / n) + j) mod P. So the policy visits all n seats in turn, then the partners move on by
    one, and after n * P episodes every partner has sat in every place equally often.
    """
    if partners == 0:
        return np.full((episodes, agents), OWN)
    episode, seat = np.arange(episodes)[:, None], np.arange(agents)[None, :]
    own = episode % agents
    place = seat - (seat > own)  # among the other seats
    return np.where(seat == own, OWN, (episode // agents + place) % partners)


def joint(players: list[Player], seats: np.ndarray, engine: Engine) -> np.ndarray:
    """Actions of all seats: every player acts everywhere, and those of its own seats count."""
    known = engine.control.obs, engine.view()
    actions = players[0].act(*known)
    for number, player in enumerate(players[1:]):
        theirs = seats == number
        actions[theirs] = player.act(*known)[theirs]
    return actions
