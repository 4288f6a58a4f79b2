"""Episodes that a policy plays in all lanes of an engine."""

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench_envs import Engine


def begun(engine, policy):
    """Return the player of a policy in the episodes that an engine has begun."""
    player = Player(policy, Game.of(engine))
    player.begin(engine.control.seed, engine.control.episode, np.ones(engine.lanes, np.bool_))
    return player


def playing(env_id, policy, lanes, **parameters):
    """Yield an engine after every step of one episode in each lane."""
    engine = Engine(env_id, lanes, **parameters)
    match = Match(engine, [Player(policy, Game.of(engine))])
    match.begin(np.arange(lanes, dtype=np.uint64))
    for _ in match.steps():
        yield engine


def played(env_id, policy, lanes, **parameters):
    """Return an engine after one episode in each lane."""
    *_, engine = playing(env_id, policy, lanes, **parameters)
    return engine


def measure(engine, name):
    """Return a metric of every lane."""
    return engine.control.measures[:, list(engine.spec.metrics).index(name)]
