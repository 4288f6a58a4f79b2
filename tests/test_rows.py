"""Rows give learners whole sequences, for critics and mixers too, across the ends of episodes."""

import numpy as np
import pytest
import toy_lift
import toy_squad
from team_training import rows_of

from coopbench_envs import registration
from coopbench_envs.engine import DISABLED, Engine

SQUAD, FREELANCERS = toy_squad.SPEC.id, toy_squad.SPEC_FREELANCERS.id
PENNIES, LIFT = "test/Pennies-v0", toy_lift.SPEC.id
LANES = 5


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    """Make the toy known to the tests of this file alone."""
    monkeypatch.setitem(registration._modules, LIFT, toy_lift.__name__)
    monkeypatch.setitem(registration._specs, LIFT, toy_lift.SPEC)


def choices(rows, numbers):
    """Random actions of all rows, legal ones if they are choices."""
    if not rows.discrete:
        return numbers.uniform(-1, 1, (LANES, rows.agents, rows.outputs)).astype(np.float32)
    legal = rows.legal()
    chosen = [numbers.choice(np.flatnonzero(row)) for row in legal.reshape(-1, rows.outputs)]
    return np.array(chosen).reshape(legal.shape[:2])


def sequences(rows, steps, seed=0):
    """Play and cut at ``first``: per episode (lane, actions, states, inputs, legal, end)."""
    numbers, running, episodes = np.random.default_rng(seed), [None] * LANES, []
    for _ in range(steps):
        inputs, legal = rows.observe(), rows.legal()
        state, first, actions = rows.state(), rows.first, choices(rows, numbers)
        step, played = rows.step(actions), rows.engine.actions.copy()
        for i in range(LANES):
            if first[i]:
                running[i] = {name: [] for name in ("actions", "state", "inputs", "legal")}
                running[i]["lane"] = i
            episode = running[i]
            episode["actions"].append(played[i])
            episode["state"].append(state[i])
            episode["inputs"].append(inputs[i])
            episode["legal"].append(legal[i])
            if step.over[i]:
                episode["truncated"] = step.by_time[i]
                episode["state"].append(step.state[i])
                episode["inputs"].append(step.following[i])
                episode["legal"].append(step.legal[i])
                episodes.append(episode)
            else:
                after = rows.observe()
                np.testing.assert_array_equal(step.state[i], rows.state()[i])
                np.testing.assert_array_equal(step.following[i], after[i])
                np.testing.assert_array_equal(step.legal[i], rows.legal()[i])
    return episodes


@pytest.mark.parametrize(
    ("env_id", "parameters"),
    [(SQUAD, {}), (FREELANCERS, {}), (PENNIES, {"horizon": 9}), (LIFT, {"lives": 2})],
)
def test_sequences_are_those_of_episodes_played_one_by_one(env_id, parameters):
    """Against an engine of one lane that rests at the end of every episode."""
    rows = rows_of(env_id, parameters, shared=True, global_state=True)
    seeds = rows.engine.control.seed.copy()
    twins = [Engine(env_id, 1, global_state=True, **parameters) for _ in range(LANES)]
    for twin, seed in zip(twins, seeds, strict=True):
        twin.reset(np.array([seed]))
    episodes, begun = sequences(rows, 60), set()
    for episode in episodes:
        lane, twin = episode["lane"], twins[episode["lane"]]
        if lane in begun:
            twin.reset()
        begun.add(lane)
        control = twin.control
        for at, actions in enumerate(episode["actions"]):
            check_present(episode, at, control)
            twin.step(actions[None], DISABLED)
        assert control.done[0]
        assert episode["truncated"] == (control.truncated[0] and not control.ended[0])
        check_present(episode, len(episode["actions"]), control)
    assert begun == set(range(LANES))
    assert len({len(episode["actions"]) for episode in episodes}) > (env_id != LIFT)
    if env_id in (SQUAD, PENNIES):
        assert len({bool(episode["truncated"]) for episode in episodes}) == 2


def check_present(episode, at, control):
    """The state, inputs and legal choices at one step are those of an engine of one lane."""
    np.testing.assert_array_equal(episode["state"][at], control.state[0])
    alive = control.alive[0]
    features = control.obs.shape[2]
    inputs = episode["inputs"][at][:, :features]
    np.testing.assert_array_equal(inputs[alive], control.obs[0][alive])
    last = at == len(episode["actions"])
    if not last:
        assert (episode["inputs"][at][~alive] == 0.0).all()
    legal = episode["legal"][at]
    if legal is not None:
        masks = control.masks[0] != 0
        everything = ~masks.any(axis=1) | ~alive
        np.testing.assert_array_equal(legal, masks | everything[:, None])


def test_a_teams_reward_is_earned_once():
    """Also after some have fallen, who get it as the others do."""
    rows = rows_of(SQUAD)
    numbers, after_a_fall = np.random.default_rng(1), 0
    for _ in range(40):
        step = rows.step(choices(rows, numbers))
        rewards, valid = step.rewards, step.valid
        np.testing.assert_array_equal(rewards, np.repeat(rewards[:, :1], 4, axis=1))
        after_a_fall += int((rewards[~valid] > 0).sum())
    assert after_a_fall > 0


def test_who_has_fallen_is_not_cut_off_by_the_time_limit():
    rows, numbers, fallen, cut = rows_of(PENNIES, {"horizon": 9}), np.random.default_rng(1), 0, 0
    for _ in range(60):
        step = rows.step(choices(rows, numbers))
        truncated, control = step.truncated, rows.engine.control
        assert not (truncated & (control.terminated != 0)).any()
        fallen += int((control.terminated[control.truncated != 0] != 0).sum())
        cut += int(truncated.sum())
    assert fallen > 0
    assert cut > 0


def test_the_state_is_kept_only_where_it_is_asked_for():
    rows = rows_of(SQUAD)
    assert rows.state().shape == (LANES, 0)
    assert rows.step(choices(rows, np.random.default_rng(0))).state.shape == (LANES, 0)
    assert rows_of(SQUAD, global_state=True).state().shape == (LANES, 6)
    every = rows_of(FREELANCERS, global_state=True)
    assert every.state().shape == (LANES, 16)  # all observations


def test_what_is_returned_belongs_to_the_caller():
    rows, numbers = rows_of(SQUAD, global_state=True), np.random.default_rng(0)
    returned = [rows.state(), rows.first, *rows.step(choices(rows, numbers))]
    copies = [np.array(array) for array in returned]
    for _ in range(15):
        rows.step(choices(rows, numbers))
    for array, copy in zip(returned, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_the_history_of_an_episode_begins_with_its_first_observation():
    rows, numbers, begun = rows_of(PENNIES, {"horizon": 4}, history=3), np.random.default_rng(0), 0
    for _ in range(14):
        step = rows.step(choices(rows, numbers))
        seen = rows.observe()[:, :, : rows.engine.control.obs.shape[2] * 3]
        one, two, three = np.split(seen, 3, axis=2)
        np.testing.assert_array_equal(one[step.over], two[step.over])
        np.testing.assert_array_equal(one[step.over], three[step.over])
        begun += step.over.sum()
    assert begun
    assert (one != three).any()
