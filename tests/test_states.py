"""States from outside: what is not refused keeps every index of every kernel inside its array."""

import json
from pathlib import Path

import builders
import numpy as np
import pytest

from coopbench.playing.recording import Recording
from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED
from coopbench_envs.states import bounds_of

LANES, STEPS = 3, 2
RAILWAY = {
    **{"num_agents": 3, "height": 7, "width": 8, "cities": 0, "line_length": 3, "tree_depth": 1},
    **{"malfunction_rate": 0.5, "malfunction_duration": (1, 2)},
}
NETWORK = {name: value for name, value in RAILWAY.items() if name != "line_length"}
CROWD = {"num_agents": 3, "frameskip": 1, "map_params": {"num_rows": 6, "num_cols": 6}}
# What is played of an environment, beside its horizon; {} where it is not named.
TASKS = {
    "coopbench/ApacheProject-v0": [{"phase": "emergence"}],
    "coopbench/Rail-v0": [RAILWAY | {"observation": o} for o in ("tree", "global", "short")],
    "coopbench/Rail-v1": [NETWORK | {"observation": o} for o in ("tree", "graph", "global")],
    "coopbench/Routing-v0": [CROWD, CROWD | {"lifelong": True, "dynamics": "diffdrive"}],
    "coopbench/Routing-v1": [CROWD, CROWD | {"on_goal": "lifelong"}],
    "coopbench/Skirmish-v0": [{"map": "2s_vs_1sc"}, {"map": "3m", "opponent": "kite"}],
    "coopbench/Skirmish-v1": [
        {"map": "2s_vs_1sc", "obs_last_action": True},
        {"map": "3s_vs_5z", "opponent": "kite"},
        {"teams": "drawn", "race": "terran", "num_agents": 4, "num_enemies": 3},
    ],
}
_CONTROL = ("seed", "episode", "rng", "done", "alive", "returns", "invalid")  # no kernel's fields


class Guarded(np.ndarray):
    """An array without indices that count from its end, which compiled code does not tell apart."""

    def __getitem__(self, key):
        _check(key)
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        _check(key)
        super().__setitem__(key, value)


def _check(key):
    for k in key if isinstance(key, tuple) else (key,):
        if isinstance(k, int | np.integer) and k < 0:
            raise IndexError(f"index {k} is below 0")


def _guarded(value):
    if isinstance(value, np.ndarray):
        return value.view(Guarded)
    if isinstance(value, tuple):
        parts = map(_guarded, value)
        return value._make(parts) if hasattr(value, "_make") else tuple(parts)
    return value


def _bounds(engine, name):
    """Lowest and highest value of a field, each of the shape of a lane's field."""
    bounds = bounds_of(engine.kernels.state, engine.constants)
    field = engine._field(name)
    usual = (0, 1) if field.dtype == bool else (-1e18, 1e18)
    if field.dtype.kind in "iu":
        usual = np.iinfo(field.dtype).min, np.iinfo(field.dtype).max
    ends = (np.array(end).astype(field.dtype) for end in bounds.get(name, usual))
    return [np.broadcast_to(end, field.shape[1:]) for end in ends]


def _drawn(engine, name, draws):
    """Values of a field: in a lane the lowest, the highest, small ones, or any."""
    low, high = _bounds(engine, name)
    rows = []
    for _ in range(LANES):
        any_one = low + draws.uniform(size=low.shape) * (high.astype(np.float64) - low)
        small = draws.integers(-3, 9, low.shape)
        row = [low, high, any_one, small][draws.integers(4)]
        if row is any_one:  # within what a float64 holds exactly
            row = np.clip(row, -(2.0**62), 2.0**62).astype(low.dtype)
        rows.append(np.clip(row, low, high).astype(low.dtype))
    return np.stack(rows)


def _play(engine, state, draws):
    engine.reset(np.arange(LANES, dtype=np.uint64), state=state)
    for _ in range(STEPS):
        if engine.discrete:
            actions = draws.integers(0, engine.action_spaces[0].n, engine.actions.shape)
        else:
            actions = draws.uniform(*engine.action_bounds(), engine.actions.shape)
        engine.step(actions)


def _accepted(engine, name):
    """Values just beyond the ends of a field that are not refused; there should be none."""
    for end, step in zip(_bounds(engine, name), (-1, 1), strict=True):
        value = end.astype(np.int64) + step
        try:
            engine._checked_state({name: value})
        except ValueError:
            continue
        if value.size:
            yield name, step


def fault(env_id, rounds):
    """Say what goes wrong in some task of an environment; "" for nothing."""
    for number, parameters in enumerate(TASKS.get(env_id, [{}])):
        engine = Engine(env_id, LANES, global_state=True, horizon=5, **parameters)
        engine._whole, engine.constants = _guarded(engine._whole), _guarded(engine.constants)
        bounds = bounds_of(engine.kernels.state, engine.constants)
        names = [name for name in engine.fields if name not in _CONTROL]
        accepted = [what for n in names if n in bounds for what in _accepted(engine, n)]
        if accepted:
            return f"{parameters}: not refused beyond their ends: {accepted}"
        draws = np.random.default_rng(number)
        for _ in range(rounds):
            chosen = draws.permutation(names)[: 1 + draws.integers(len(names))]
            state = {name: _drawn(engine, name, draws) for name in chosen}
            try:
                _play(engine, state, draws)
            except (IndexError, OverflowError, ValueError) as error:
                return f"{parameters}: {type(error).__name__}: {error}; {state}"
    return ""


def _faults(rounds):
    """{id: fault} of all environments, played without a compiler, in a process of its own."""
    script = (
        "import sys, json, warnings; sys.path.insert(0, sys.argv[1]);"
        "warnings.simplefilter('ignore'); import numba; assert numba.config.DISABLE_JIT;"
        "from kinds import IDS; from test_states import fault;"
        "print(json.dumps({name: fault(name, int(sys.argv[2])) for name in IDS}))"
    )
    printed = builders.run_python(
        "-c", script, Path(__file__).parent, rounds, NUMBA_DISABLE_JIT="1"
    )
    return {name: what for name, what in json.loads(printed).items() if what}


def test_no_state_that_is_accepted_leads_out_of_an_array():
    """A whole number beyond an array makes compiled code write into foreign memory."""
    assert _faults(rounds=2) == {}


@pytest.mark.slow("plays hundreds of states of every environment without a compiler")
def test_nor_does_any_of_many_states():
    assert _faults(rounds=60) == {}


@pytest.mark.parametrize(
    ("env_id", "field", "value"),
    [
        ("coopbench/Rail-v1", "place", -(2**31)),
        ("coopbench/Rail-v1", "rail", 0xFFFF),  # also on the ring
        ("coopbench/Rail-v0", "next_strike", 10**9),
        ("coopbench/Skirmish-v0", "target", 6),
        ("coopbench/Skirmish-v1", "kind", 10**6),
        ("coopbench/TrustDilemma-v0", "time", -1),
    ],
)
def test_a_recording_that_begins_beyond_an_array_is_refused(
    env_id, field, value, tmp_path, command
):
    """Before it is played, with what it may hold."""
    engine = Engine(env_id)
    start = {field: np.full(engine._field(field).shape[1:], value)}
    actions, agents = np.zeros((2, *engine.actions.shape[1:])), engine.agents
    Recording(
        title="train",
        env=env_id,
        parameters=engine.parameters._asdict(),
        seed=0,
        agents=agents,
        players=agents,
        start=start,
        actions=actions.astype(engine.actions.dtype),
        rewards=np.zeros((2, len(agents))),
    ).save(tmp_path / "train.npz")
    message = command("replay", "train.npz", status=2).message
    assert f"{field!r} of {env_id} must lie from" in message
    assert f"given {value} at [" in message


@pytest.mark.parametrize(
    ("env_id", "field", "value"),
    [
        ("coopbench/TrustDilemma-v0", "trust", 1.5),
        ("coopbench/TrustDilemma-v0", "reputation", -0.5),
        ("coopbench/TrustDilemma-v0", "last_action", 100.5),
        ("coopbench/CooperativeNegotiation-v0", "agreement", 1e4),
        ("coopbench/DynamicPartnerSelection-v0", "score", 1.5),
        ("coopbench/ReputationMarket-v0", "public_reputation", -0.5),
        ("coopbench/SynergySearch-v0", "gamma", 9.0),
        ("coopbench/Skirmish-v0", "hp", 45.5),
        ("coopbench/Skirmish-v0", "shield", 1.0),
        ("coopbench/Skirmish-v1", "hp", 45.5),
        ("coopbench/Skirmish-v1", "energy", -1.0),
    ],
)
def test_a_state_that_observations_would_show_beyond_their_bounds_is_refused(env_id, field, value):
    engine = Engine(env_id)
    state = {field: np.full(engine._field(field).shape[1:], value)}
    with pytest.raises(
        ValueError, match=f"{field!r} of {env_id} must lie from .* given {value} at"
    ):
        engine.reset(np.arange(1), state=state)


@pytest.mark.parametrize(
    ("env_id", "parameters"),
    [
        (
            "Coopetition-v0",
            {"num_agents": 3, "endowments": 0.7, "baseline_share": 1.0, "initial_damage": 1.0},
        ),
        ("SynergySearch-v0", {"gamma_range": (0.1, 0.7), "reveal_gamma_in_obs": True}),
        ("SynergySearch-v0", {"gamma_range": (9e5, 1e6), "reveal_gamma_in_obs": True}),
        ("Coopetition-v0", {"gamma": 1e6, "endowments": 1e6, "reward_scale": 1e9}),
        ("Skirmish-v0", {"map": "MMM"}),
        ("Skirmish-v1", {"map": "MMM"}),
        ("Skirmish-v1", {"teams": "drawn", "race": "terran"}),
    ],
)
def test_no_state_of_its_own_is_refused(env_id, parameters):
    engine = Engine(env_id, LANES, horizon=60, **parameters)
    engine.reset(np.arange(LANES, dtype=np.uint64))
    draws = np.random.default_rng(4)
    for _ in range(90):
        engine._checked_state(engine.get_state())
        if engine.discrete:
            legal = draws.random(engine.control.masks.shape) * engine.control.masks
            engine.step(legal.argmax(axis=-1))
        else:
            engine.step(draws.uniform(*engine.action_bounds(), engine.actions.shape))


def test_a_snapshot_of_a_finished_episode_is_accepted():
    """Its fields are at the ends of what they may be."""
    engine = builders.begun("TrustDilemma-v0", horizon=2)
    for _ in range(2):
        engine.step(np.zeros(engine.actions.shape), DISABLED)
    engine.restore(engine.get_state())
    assert engine.state.time[0] == engine.horizon
