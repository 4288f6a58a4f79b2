"""Environments in plain NumPy: what the driver of compiled ones does, over arrays of lanes."""

from dataclasses import replace

import numpy as np
import pytest
import toy_pennies
from gymnasium.spaces import Box

from coopbench_envs import compiling, registration, spec
from coopbench_envs.batches import BatchKernels, integers, uniforms
from coopbench_envs.core import integer, uniform
from coopbench_envs.engine import DISABLED, NEXT_STEP, SAME_STEP, Engine
from coopbench_envs.marks import plain

ID = "test/Batches-v0"


def by_lane(kernel):
    """Return the kernel of an array of lanes that plays a kernel in each of them."""

    def play(c, s, i, *arrays):
        for lane in i:
            function(c, s, lane, *arrays)

    function = plain(kernel)
    return None if kernel is None else play


@pytest.fixture
def batches(monkeypatch):
    """Register a game twice: compiled, and with the same kernels as Python over arrays of lanes."""
    monkeypatch.setattr(registration, "_modules", dict(registration._modules))
    monkeypatch.setattr(registration, "_specs", dict(registration._specs))

    def registered(env_id):
        compiled = spec(env_id)

        def kernels(constants):
            own = compiled.kernels_of(constants)
            changed = {
                name: by_lane(kernel)
                for name, kernel in own._asdict().items()
                if name not in ("state", "late")
            }
            return BatchKernels(**(own._asdict() | changed))

        registration.register(replace(compiled, id=ID, kernels=kernels, vectorized=False))
        return ID

    return registered


def same(one, two):
    for name, left, right in zip(one.control._fields, one.control, two.control, strict=True):
        assert np.array_equal(left, right, equal_nan=True), name


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:.*Overriding environment")
@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
@pytest.mark.parametrize(
    ("env_id", "parameters"),
    [
        ("coopbench/Skirmish-v1", {"map": "3m", "horizon": 4}),
        ("test/Pennies-v0", {"horizon": 3}),
        ("coopbench/Routing-v1", {"num_agents": 3, "horizon": 3, "action_levels": 2}),
    ],
    ids=["falling", "terminated", "choices of numbers"],
)
def test_lanes_are_those_of_the_compiled_driver(batches, env_id, parameters, mode):
    registration.register(replace(toy_pennies.SPEC, id="test/Pennies-v0"))
    options = {"order": "C", "global_state": True, **parameters}
    compiled, batch = (Engine(name, 3, **options) for name in (env_id, batches(env_id)))
    random = np.random.default_rng(1)
    for engine in (compiled, batch):
        engine.reset(np.array([5, 6, 7], np.uint64))
    same(compiled, batch)
    for step in range(9):
        actions = random.integers(-1, compiled.control.masks.shape[2] + 1, (3, 3))
        chosen = np.array([True, step == 5, False])
        for engine in (compiled, batch):
            engine.step(actions, mode)
        same(compiled, batch)
        assert (compiled.global_state() == batch.global_state()).all()
        for engine in (compiled, batch):
            if mode == DISABLED and step in (5, 7):
                engine.reset(chosen=chosen)
        same(compiled, batch)
    state = compiled.get_state()
    batch.reset(state=state)
    compiled.reset(state=state)
    same(compiled, batch)


@pytest.fixture
def uncompiled(monkeypatch):
    """Run drivers as Python: their faults are seen in seconds, before every kind is compiled."""
    monkeypatch.setattr(compiling, "is_python", lambda: True)


TOYS = ("test/Pennies-v0", "test/Squad-v0", "test/Freelancers-v0")


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:.*Overriding environment")
@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
@pytest.mark.parametrize("env_id", TOYS)
def test_the_driver_as_python_does_the_same(uncompiled, batches, env_id, mode):
    """In every mode, with masked resets, restored states, dead agents, and limits by lane."""
    options = {"order": "C", "global_state": True, "horizon": 7}
    driven, batch = engines = [Engine(name, 4, **options) for name in (env_id, batches(env_id))]
    random, kept = np.random.default_rng(1), None

    def both(name, *arguments, **named):
        for engine in engines:
            getattr(engine, name)(*arguments, **named)
        same(driven, batch)
        np.testing.assert_equal(batch.state, driven.state)
        for final in (False, True):
            there = driven.present(final=final)
            np.testing.assert_array_equal(batch.present(final=final), there)
        np.testing.assert_equal(batch.finals, driven.finals)

    both("reset", np.array([5, 6, 7, 1 << 63], np.uint64))
    for step in range(16):
        both("step", random.integers(-1, 4, driven.actions.shape), mode)
        chosen = random.random(4) < 0.5
        if step == 3:
            kept = driven.get_state()
        elif step == 8:
            both("reset", state=kept, chosen=chosen)
        elif step in (5, 11):
            both("reset", chosen=chosen)
        elif step == 13:
            both("reset", random.integers(0, 99, 4).astype(np.uint64), chosen=chosen)


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("lanes", [1, 9])
def test_blocks_of_lanes_are_lanes_one_by_one_as_python(uncompiled, lanes):
    engines = [Engine("coopbench/TrustDilemma-v1", lanes, order=o, horizon=3) for o in ("C", None)]
    for engine in engines:
        engine.reset(np.arange(lanes, dtype=np.uint64))
    random = np.random.default_rng(2)
    for step in range(9):
        actions = random.uniform(0, 1, engines[0].actions.shape)
        for engine in engines:
            if step == 5:  # so that lanes end at different steps
                engine.reset(chosen=np.arange(lanes) % 3 == 1)
            engine.step(actions, NEXT_STEP)
        same(*engines)


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value encountered")
@pytest.mark.parametrize("place", [(0, 0, 0), (-1, -1, -1), (1, 0, -1)])
def test_no_number_of_an_action_may_be_infinite(uncompiled, place):
    for env_id, order in (("PartnerHoldUp-v1", "C"), ("TrustDilemma-v1", "F")):
        engine = Engine(f"coopbench/{env_id}", 9, order=order)
        engine.reset(np.arange(9, dtype=np.uint64))
        before, actions = engine.get_state(), np.zeros(engine.actions.shape)
        actions[place] = np.inf
        with pytest.raises(ValueError, match=f"lane {place[0] % 9}, agent"):
            engine.step(actions)
        np.testing.assert_equal(engine.get_state(), before)


def test_random_numbers_are_those_of_kernels():
    one = np.array([3, 1 << 63, 12], np.uint64)
    two, lanes = one.copy(), np.array([2, 0])
    drawn, chosen = uniforms(one, lanes, 3), integers(one, lanes, 10, 2)
    with np.errstate(over="ignore"):
        for row, lane in enumerate(lanes):
            assert drawn[row].tolist() == [uniform(two, lane) for _ in range(3)]
            assert chosen[row].tolist() == [integer(two, lane, 10) for _ in range(2)]
    assert (one == two).all()
    assert one[1] == 1 << 63


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:.*Overriding environment")
@pytest.mark.parametrize("place", [(0, 0, 0), (2, 2, 1)])
def test_no_number_of_an_action_in_numpy_may_be_infinite(batches, place):
    kernels = toy_pennies.SPEC.kernels._replace(mask=None)
    box = Box(-1, 1, (2,))
    changed = {"id": "test/Boxes-v0", "kernels": kernels, "action_space": lambda p, a: box}
    registration.register(replace(toy_pennies.SPEC, **changed))
    engine = Engine(batches("test/Boxes-v0"), 3)
    engine.reset(np.arange(3, dtype=np.uint64))
    actions = np.zeros((3, 3, 2))
    actions[place] = np.inf
    with pytest.raises(ValueError, match=f"lane {place[0]}, agent 'player_{place[1]}' gave inf"):
        engine.step(actions)
