"""Rollout: play the evaluation episodes of one cell, all of them at once as lanes of one engine."""

from collections.abc import Callable
from typing import Any

import numpy as np

from coopbench.baselines.policy import Game, Player
from coopbench.episodes import Cell, Episodes
from coopbench.instances import instance_state
from coopbench.protocol import Protocol
from coopbench_envs.engine import DISABLED, Engine

__all__ = ["play"]


def play(
    protocol: Protocol,
    cell: Cell,
    policy: Any,
    progress: Callable[[float], None] | None = None,
) -> Episodes:
    """Play every episode of ``cell`` and return what they came to.

    Episode k is the environment seeded with the task's k-th evaluation seed. Curves hold, for every
    metric of the environment, its value so far after each step (0 = at the start), averaged over
    episodes; an episode that is over counts with its last value.
    """
    task = next(task for task in protocol.task if task.id == cell.task)
    seeds = protocol.seeds_of(task)
    engine = Engine(task.env, len(seeds), **task.parameters)
    player = Player(policy, Game.of(engine))
    control = engine.control
    engine.reset(seeds, state=instance_state(task, engine.constants, len(seeds)))
    player.begin(control.seed, control.episode, np.ones(len(seeds), np.bool_))
    course = [control.measures.mean(axis=0)]
    while not control.done.all():
        engine.step(player.act(control.obs), DISABLED)
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
        returns=control.returns.copy(),
        metrics={name: control.measures[:, k].copy() for k, name in enumerate(names)},
        curves=dict(zip(names, np.array(course).T.copy(), strict=True)),
    )
