"""What a team of Routing-v1 earns if one agent waits; a table of ``validity.py``.

Every planner plays the same episodes three times: all agents go at once, agent 0 stands still for
200 steps, and it stands still until 100 steps before the end. Cells are means over episodes: return
of the team, and that of agent 0 times the number of agents, so that both are per agent.
"""

import argparse
from collections.abc import Iterator

import numpy as np

import coopbench
from coopbench.baselines.game import Game
from coopbench.baselines.player import Player
from coopbench.protocol.task import Task
from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED

EPISODES, FIRST_SEED = 20, 1_000_000  # seeds of no protocol
TASKS = ("random_grid_a8_o20", "labmaze_a8_c0.8")
PLANNERS = ("greedy", "potential_field", "orca", "astar_pibt")
WAITS = {"all go at once": 0, "waits 200 steps": 200, "waits outside": 900}  # of 1000 steps


def waiting(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield the rows for every task, planner and time that agent 0 waits."""
    protocol = coopbench.load_protocol("routing-standard")
    yield ["task", "planner", "agent 0", "success", "spl", "steps", "return", "of agent 0"]
    for name in TASKS:
        for planner in PLANNERS:
            for label, steps in WAITS.items():
                success, spl, length, team, own = play(protocol.task_of(name), planner, steps)
                values = (f"{success:.3f}", f"{spl:.3f}", f"{length:.1f}", f"{team:.3f}")
                yield [f"`{name}`", f"`{planner}`", label, *values, f"{own:.3f}"]


def play(task: Task, planner: str, steps: int) -> tuple[float, ...]:
    """Play the episodes with agent 0 standing still for ``steps``; return the means of a row.

    Planners play the continuous actions that they are written for.
    """
    parameters = {key: value for key, value in task.parameters.items() if key != "action_levels"}
    engine = Engine(task.env, EPISODES, **parameters)
    engine.reset(np.arange(EPISODES) + FIRST_SEED)
    player = Player(planner, Game.of(engine))
    player.begin(engine.control.seed, engine.control.episode, np.ones(EPISODES, bool))
    while not engine.control.done.all():
        actions = player.act(engine.control.obs, engine.view())
        actions[engine.state.time < steps, 0] = 0.0
        engine.step(actions, DISABLED)
    measures = dict(zip(engine.spec.metrics, engine.control.measures.T, strict=True))
    returns = engine.control.returns
    return (
        float(measures["success_rate"].mean()),
        float(measures["spl"].mean()),
        float(engine.state.time.mean()),
        float(returns.sum(axis=1).mean()),
        float(returns[:, 0].mean() * returns.shape[1]),
    )
