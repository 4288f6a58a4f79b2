"""What code of users is given is theirs: wherever it is called, it keeps it all, and writes in it.

Nothing that it keeps changes during the next three calls, and what it writes changes nothing.
"""

from copy import deepcopy

import builders
import gymnasium as gym
import numpy as np
import pettingzoo
import pytest
import toy_pennies

import coopbench
import coopbench_envs
from coopbench.analysis import aggregates
from coopbench.baselines import player
from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench_envs.core import draw
from coopbench_envs.engine import Engine
from coopbench_envs.lanes import of_user
from coopbench_envs.shells.aec_env import AECEnv
from coopbench_envs.shells.parallel_env import ParallelEnv

TRUST, SQUAD = "coopbench/TrustDilemma-v1", "test/Squad-v0"
PENNIES = toy_pennies.TOLD.id  # with infos
CALLS = 3


@pytest.fixture(autouse=True, scope="module")
def _told():
    coopbench_envs.register(toy_pennies.TOLD)


class Kept:
    """What one place has been given, with what it was then."""

    def __init__(self, *, writes=True):
        self._kept, self._writes, self.calls = [], writes, 0

    def __call__(self, *given):
        """Keep more; all that is kept is still what it was. What is old enough is written over."""
        for now, then in self._kept:
            check_equal(now, then)
        self._kept.append((given, deepcopy(given)))
        self.calls += 1
        if len(self._kept) > CALLS:
            now, _ = self._kept.pop(0)
            if self._writes:
                scribble(now)


def check_equal(now, then):
    """Compare nested values, also arrays of arrays."""
    if isinstance(now, np.ndarray) and now.dtype == object:
        now, then = now.tolist(), then.tolist()
    if isinstance(now, dict):
        assert list(now) == list(then)
        now, then = list(now.values()), list(then.values())
    if isinstance(now, list | tuple):
        for one, other in zip(now, then, strict=True):
            check_equal(one, other)
    else:
        np.testing.assert_array_equal(now, then)


def scribble(value):
    """Write into every array of a nested value that can be written."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            scribble(value.tolist())
        elif value.flags.writeable:
            value[...] = 1
    elif isinstance(value, dict):
        scribble(list(value.values()))
        value.clear()
    elif isinstance(value, list | tuple):
        for part in value:
            scribble(part)


class Buffers(pettingzoo.ParallelEnv):
    """Shows and pays in the same objects all the time, and does what it likes with its actions."""

    possible_agents = ("left_0", "right_0")
    kept, spaces = None, {}

    def observation_space(self, agent):
        return self.spaces[agent][0]

    def action_space(self, agent):
        return self.spaces[agent][1]

    def reset(self, seed=None, options=None):
        self.agents, self._time = list(self.possible_agents), 0
        self._random = np.random.default_rng(seed)
        self._shown = {agent: np.zeros(2, np.float32) for agent in self.agents}
        self._paid = dict.fromkeys(self.agents, 0.0)
        return self._show(), {agent: {} for agent in self.agents}

    def _show(self):
        for shown in self._shown.values():
            shown[:] = self._random.random(2)
        seen = self._shown
        if self.spaces["left_0"][0] != self.spaces["right_0"][0]:  # of agents that differ
            seen = seen | {"right_0": {"x": seen["right_0"]}}
        return seen

    def step(self, actions):
        for agent, action in actions.items():
            self._paid[agent] = float(np.sum(action)) * float(self._shown[agent][1])
        if self.kept is not None:
            self.kept(actions)
        self._time += 1
        over = dict.fromkeys(self.agents, self._time >= 8)
        if self._time >= 8:
            self.agents = []
        return self._show(), self._paid, dict.fromkeys(over, False), over, {a: {} for a in over}


def box(low, high, dtype=np.float32):
    return gym.spaces.Box(low, high, (2,), dtype)


class Choosing(Buffers):
    spaces = dict.fromkeys(Buffers.possible_agents, (box(0, 1), gym.spaces.Discrete(3)))


class Moving(Buffers):
    spaces = dict.fromkeys(Buffers.possible_agents, (box(0, 1), box(-1, 1)))


class Uneven(Buffers):
    """Its agents see and do things of different kinds, in numbers of the type that is stored."""

    spaces = {  # noqa: RUF012
        "left_0": (box(0, 1), gym.spaces.Discrete(3)),
        "right_0": (gym.spaces.Dict({"x": box(0, 1)}), box(-1, 1, np.float64)),
    }


FOREIGN = [Choosing, Moving, Uneven]
NATIVE = [TRUST, PENNIES, SQUAD]


class Keeper:
    """A policy with memory that is told everything, and keeps all of it."""

    uses_masks = uses_seats = True

    def __init__(self, kept=None, *, uses_state=True):
        self._kept, self.uses_state = kept, uses_state

    def initial(self, game, seeds):
        self._game = game
        return np.array(seeds)[:, None] + np.arange(len(game.agents), dtype=np.uint64)

    def act(self, observations, memory, *told):
        if self._kept is not None:
            self._kept(observations, *told)
        states = memory.copy()
        return acting(self._game, states), states


def acting(game, states):
    """Return random actions of all agents in the form that their game takes."""
    if game.codec is not None:
        return game.codec.sampled(states, None)
    number = draw(states)
    if game.choices:
        return (number * game.choices).astype(np.int64)
    return game.low + (game.high - game.low) * number[:, :, None]


@pytest.mark.parametrize(
    ("env", "place"),
    [*((env, "partner") for env in NATIVE), *((env, "policy") for env in NATIVE + FOREIGN)],
)
def test_policies(env, place):
    outcomes, agents = [], 3 if env in (PENNIES, SQUAD) else 2
    for kept in (Kept(), None):
        policies = [Keeper(kept)]
        if not isinstance(env, str):
            report = coopbench.evaluate(env, {"keeper": Keeper(kept)}, episodes=5, only=True)
            outcomes.append([block.returns for block in report.episodes])
        else:
            engine = Engine(env, 5)
            seats = np.full((5, len(engine.agents)), -1)
            if place == "partner":
                policies.insert(0, Keeper())
                seats[:, agents - 1 :] = 0
            match = Match(engine, [Player(each, Game.of(engine)) for each in policies], seats)
            outcomes.append(match.play(np.arange(5)).copy())
        assert kept is None or kept.calls > CALLS
    check_equal(*outcomes)


def test_policies_that_are_functions_or_predict_or_are_known_by_a_name(monkeypatch):
    class Model:
        def predict(self, observations):
            kept(observations)
            return np.full(len(observations), 0.5)

    def function(observations):
        kept(observations)
        return np.full((*observations.shape[:2], 1), 0.5)

    for policy in (function, Model()):
        kept = Kept()
        coopbench.evaluate(TRUST, {"mine": policy}, episodes=2, only=True, horizon=9)
        assert kept.calls >= 9

    def kept_by_name(name, game):
        return Keeper(kept, uses_state=False)

    kept = Kept()
    monkeypatch.setattr(player, "is_shipped", lambda kind: False)
    monkeypatch.setattr(player, "make_policy", kept_by_name)
    engine = Engine(TRUST, 2, horizon=9)
    Match(engine, [Player("registered_elsewhere", Game.of(engine))]).play(np.arange(2))
    assert kept.calls == 9


def test_opponents():
    kept, policy = Kept(), Keeper()
    engine = Engine("coopbench/Skirmish-v1", 2, map="3m", opponent="policy:random")
    own = Player("attack_nearest", Game.of(engine))
    outcomes = []
    for policy in (Keeper(kept), Keeper()):
        engine.set_opponent(policy)
        outcomes.append(Match(engine, [own]).play(np.arange(2)).copy())
    assert kept.calls > CALLS
    check_equal(*outcomes)


@pytest.mark.parametrize("env", FOREIGN)
def test_environments_of_other_packages(env, monkeypatch):
    outcomes = []
    for kept in (Kept(), None):
        monkeypatch.setattr(Buffers, "kept", kept)
        report = coopbench.evaluate(env, "random", episodes=1, only=True)
        (block,) = report.episodes
        assert block.environment["repeats"]
        outcomes.append(block.returns)
    check_equal(*outcomes)


@pytest.mark.parametrize("env", [TRUST, PENNIES, SQUAD, Choosing, Moving])
def test_learners(env, torch):
    from team_training import rows_of

    outcomes = []
    for writes in (True, False):
        rows, kept = rows_of(of_user(env), lanes=3), Kept(writes=writes)
        paid = []
        for k in range(30):
            numbers = np.random.default_rng(k)
            actions = numbers.uniform(-1, 1, (3, rows.agents, rows.outputs)).astype(np.float32)
            chosen = (actions * rows.legal()).argmax(axis=2) if rows.discrete else actions
            seen = rows.observe(), rows.legal(), rows.state(), rows.first, rows.learning()
            step = rows.step(chosen)
            kept(*seen, step._asdict(), rows.played())
            paid.append((step.rewards.copy(), rows.observe()))
        outcomes.append(paid)
    check_equal(*outcomes)


def _many(**options):
    def make(env):
        return coopbench_envs.make_vec(env, 3, **options)

    return make


MAKERS = {
    "NextStep": _many(),
    "SameStep": _many(autoreset_mode="SameStep", global_state=True),
    "focal": _many(control="focal", ego=1),
    "sb3": lambda env: coopbench_envs.sb3_vec_env(env, 3),
    "gymnasium": gym.make,
    "parallel": ParallelEnv,
    "keep": lambda env: ParallelEnv(env, dead_agents="keep"),
    "aec": AECEnv,
    "pymarl": coopbench_envs.pymarl,
}


@pytest.mark.parametrize("interface", MAKERS)
@pytest.mark.parametrize("env", [TRUST, PENNIES, SQUAD, Choosing, Moving])
def test_users_of_interfaces(env, interface):
    if interface == "sb3":
        pytest.importorskip("stable_baselines3")
    single = interface in ("gymnasium", "parallel", "keep", "aec")
    if (not isinstance(env, str) and single) or (interface == "pymarl" and env in (TRUST, Moving)):
        return
    runs = []
    for writes in (True, False):
        made, kept, told = MAKERS[interface](env), Kept(writes=writes), []
        for given in _course(made, interface):
            told.append(deepcopy(given))
            kept(*given)
        assert kept.calls > 12
        runs.append(told)
    check_equal(*runs)


def _course(env, interface):
    """Yield what an interface returns in every call of three episodes or more."""
    if interface == "sb3":
        env.seed(0)
    for episode in range(3):
        yield _tuple(env.reset(**({} if interface == "sb3" or episode else {"seed": 0})))
        for step in range(24):
            told = WAYS.get(interface, _play)(env, step)
            if told is None:
                break
            yield told


def _play(env, step):
    env.action_space.seed(step)
    return env.step(env.action_space.sample())


def _play_until_it_ends(env, step):
    if step == 0:
        env.over = False
    if env.over:
        return None
    told = _play(env, step)
    env.over = told[2] or told[3]
    return told


def _play_rows(env, step):
    env.action_space.seed(step)
    return env.step(np.array([env.action_space.sample() for _ in range(env.num_envs)]))


def _play_choices(env, step):
    if env.engine.control.done[0]:
        return None
    shown = env.get_obs(), env.get_state(), env.get_avail_actions()
    return *shown, env.step([legal.index(1) for legal in env.get_avail_actions()])


def _act(env, agent, step):
    space = env.action_space(agent)
    space.seed(step + env.possible_agents.index(agent))
    return space.sample()


def _play_together(env, step):
    if not env.agents:
        return None
    return env.step({agent: _act(env, agent, step) for agent in env.agents})


def _play_in_turn(env, step):
    if not env.agents:
        return None
    agent, shown = env.agent_selection, env.last()
    over = env.terminations[agent] or env.truncations[agent]
    env.step(None if over else _act(env, agent, step))
    return *shown, env.state()


WAYS = {
    "sb3": _play_rows,
    "gymnasium": _play_until_it_ends,
    "parallel": _play_together,
    "keep": _play_together,
    "aec": _play_in_turn,
    "pymarl": _play_choices,
}


def _tuple(value):
    return value if isinstance(value, tuple) else (value,)


def test_statistics(monkeypatch):
    kept, usual = Kept(), aggregates.STATISTICS["mean"]

    def weights(means):
        kept(means)
        assert not means.flags.writeable
        return usual.weights(means)

    monkeypatch.setattr(aggregates, "_installed", lambda: {"own": usual._replace(weights=weights)})
    names = ["random", "constant:0.1", "constant:0.2", "constant:0.5", "constant:0.9"]
    protocol = builders.protocol_of(baselines=[])
    report = coopbench.evaluate(protocol, names, only=True)
    values = {(row.statistic, row.policy): row.estimate for row in report.aggregates}
    assert kept.calls >= len(names)
    assert all(values["own", name] == values["mean", name] for name in names)


def test_progress_is_told_in_values_that_nobody_can_change():
    told = []
    coopbench.evaluate(TRUST, "random", episodes=2, only=True, progress=lambda *a: told.append(a))
    assert {type(share) for _, share, _ in told} == {float}
    assert all(hash(cell) == hash(told[0][0]) for cell, _, _ in told)
