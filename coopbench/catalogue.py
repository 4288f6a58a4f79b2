"""Catalogue: names of environments, policies, learners and protocols; compiling them all."""

import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from typing import Any

import numpy as np

import coopbench_envs
from coopbench.baselines import registry
from coopbench.baselines.game import Game
from coopbench.baselines.match import Match, seating
from coopbench.baselines.networks.network import Network, perceptron
from coopbench.baselines.player import Player
from coopbench.playing.processes import WorkerContext
from coopbench.protocol.loading import load_protocol, protocol_files
from coopbench_envs.drivers import MANY_LANES

__all__ = ["compilations", "environments", "learners", "policies", "protocol_names", "warmup"]

_PLANNED = ("coopbench/Routing-v0", "coopbench/Routing-v1")
_PLANNERS = ("astar_pibt", "greedy", "orca", "potential_field", "prioritised_rrt_star")
_DISPATCHED = ("coopbench/Rail-v0", "coopbench/Rail-v1")
_DISPATCHERS = ("deadlock_avoidance", "prioritised_replan")
_RULED, _RULE = "coopbench/TrustDilemma-v1", "rule:trust-dilemma/memory"


def environments() -> tuple[str, ...]:
    """Return the ids of all environments."""
    return coopbench_envs.ids()


def policies() -> dict[str, str]:
    """Return all policies that need no training as {name: what it does}."""
    entries = registry.entries()
    return {name: entry.summary for name, entry in entries.items() if not entry.trained}


def learners() -> dict[str, str]:
    """Return all learners as {name: what it does}; their trained policies have the same name."""
    return registry.summaries()


def protocol_names() -> tuple[str, ...]:
    """Return the names of the protocols that come with this package."""
    return tuple(sorted(protocol_files()))


def warmup(progress: Callable[[str, float, str], None] | None = None, workers: int = 1) -> None:
    """Compile all code of environments and policies now, and store it.

    The code is that of environments with their default parameters and with those of protocols, and
    of policies that compute much: planners, dispatchers, searched rules and networks.
    ``progress`` is called with the name of a part, the share of it that is done, and "plays" or
    "done". Up to ``workers`` processes compile at the same time. With ``COOPBENCH_WHEEL=1`` in the
    environment, the code that wheels contain is written to the folder ``COOPBENCH_KERNELS``.
    """
    parts = compilations()
    if workers == 1:
        for name, compile_part in parts.items():
            if progress is not None:
                progress(name, 0.0, "plays")
            compile_part()
            if progress is not None:
                progress(name, 1.0, "done")
        return
    with ProcessPoolExecutor(min(workers, len(parts)), WorkerContext()) as pool:
        futures = {pool.submit(compile_part): name for name, compile_part in parts.items()}
        for future in as_completed(futures):
            future.result()
            if progress is not None:
                progress(futures[future], 1.0, "done")


def compilations() -> dict[str, Callable[[], None]]:
    """Return what ``warmup`` compiles as {name: function that does it}.

    Environments come first, the largest at the front, so that several processes end together;
    planners and rules play environments that are compiled by then. All networks run by one loop.
    """
    parts: dict[str, Callable[[], None]] = {}
    settings = _settings()
    for env_id in sorted(environments(), key=_source_length, reverse=True):
        parts[env_id] = partial(_compile_environment, env_id, settings[env_id])
    for names, env_ids in ((_PLANNERS, _PLANNED), (_DISPATCHERS, _DISPATCHED)):
        for env_id in env_ids:
            for policy in names:
                parts[f"{policy} on {env_id}"] = partial(_play_policy, policy, env_id)
    parts[f"rule on {_RULED}"] = partial(_play_policy, _RULE, _RULED)
    parts["choices"] = _compile_choices
    parts["networks"] = _run_network
    return parts


def _source_length(env_id: str) -> int:
    """Return the characters of an environment's module, a measure of what it takes to compile."""
    module = sys.modules[coopbench_envs.spec(env_id).module]
    return len(inspect.getsource(module))


def _settings() -> dict[str, list[dict[str, Any]]]:
    """Return the parameters of every environment in the tasks of protocols, each of them once."""
    settings: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name in protocol_names():
        for task in load_protocol(name).task:
            if task.parameters not in settings[task.env]:
                settings[task.env].append(task.parameters)
    return settings


def _compile_environment(env_id: str, settings: Sequence[Mapping[str, Any]]) -> None:
    """Compile what an environment plays by default and with these parameters."""
    is_vectorized = coopbench_envs.spec(env_id).vectorized
    # A vectorized game has code of its own for many lanes.
    for lanes in (1, MANY_LANES) if is_vectorized else (1,):
        engine = coopbench_envs.Engine(env_id, lanes)
        engine.reset(np.arange(lanes))
        engine.global_state()
        for parameters in settings:
            coopbench_envs.Engine(env_id, lanes, **parameters).compile()


def _compile_choices() -> None:
    """Compile what translates choices, for one lane and for many, whose arrays are laid out so."""
    for lanes in (1, MANY_LANES):
        coopbench_envs.Engine(_RULED, lanes, action_levels=2).compile()


def _play_policy(policy: str, env_id: str) -> None:
    engine = coopbench_envs.Engine(env_id)
    players, seats = [Player(policy, Game.of(engine))], seating(1, len(engine.agents), 0)
    match = Match(engine, players, seats)
    match.begin(np.zeros(1, np.uint64), None)
    next(iter(match.steps()))


def _run_network() -> None:
    """Run the smallest network."""
    weights, biases = np.zeros((1, 1, 1), np.float32), np.zeros((1, 1), np.float32)
    network = Network(
        seats=np.zeros(1, np.int64),
        layers=perceptron([weights], [biases]),
        centre=np.zeros(1, np.float32),
        scale=np.ones(1, np.float32),
        identity=False,
        activation="tanh",
        head="clip",
    )
    network.step(np.zeros((1, 1, 1), np.float32), np.zeros((1, 1, 0), np.float32))
