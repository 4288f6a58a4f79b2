"""Policies: every registered one on every environment that it can play, and what users pass."""

import builders
import numpy as np
import pytest
from episodes import begun

import coopbench
from coopbench.baselines.game import Game
from coopbench.baselines.policy import PolicyName
from coopbench.baselines.registry import entries, hyperparameters, make_policy
from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED

# Policies that cannot do without a parameter; others of this kind have tests of their own.
NAMES = {"constant": "constant:0.35", "switcher": "switcher:reciprocator,always_defect"}
# Parameters beside the horizon with which all policies for a game can play it.
OPTIONS = {f"coopbench/Skirmish-v{version}": {"free_orders": True} for version in (0, 1)}


def _registered():
    """Names of all policies that need no training and no other parameter than in ``NAMES``."""
    complete = [
        name
        for name, entry in entries().items()
        if set(entry.params._fields) <= set(entry.params._field_defaults) or name in NAMES
    ]
    return [NAMES.get(name, name) for name in complete]


def _can_play(name, game):
    try:
        make_policy(name, game)
    except ValueError as error:
        if "cannot play" not in str(error):
            raise
        return False
    return True


def _begun(env_id, policy, lanes, seed=0):
    engine = builders.begun(env_id, lanes, seed=seed, horizon=5, **OPTIONS.get(env_id, {}))
    return engine, begun(engine, policy)


def _playable(env_id):
    game = Game.of(Engine(env_id, horizon=5, **OPTIONS.get(env_id, {})))
    return [name for name in _registered() if _can_play(name, game)]


PLAYED = ("TrustDilemma-v0", "TrustDilemma-v1", "Routing-v0", "Skirmish-v0", "Rail-v0")
PLAYED = tuple(f"coopbench/{name}" for name in PLAYED)
MORE = ("coopbench/PlatformEcosystem-v1", "coopbench/DynamicPartnerSelection-v1", "test/Pennies-v0")


def test_every_policy_has_a_game():
    played = {name for game in PLAYED for name in _playable(game)}
    assert played == set(_registered())


@pytest.mark.parametrize("env_id", [*PLAYED, *MORE])
def test_registered_policies_play_and_lanes_do_not_matter(env_id):
    """What a policy does in a lane depends on that lane's seed alone, and stays in bounds."""
    for name in _playable(env_id):
        engine, player = _begun(env_id, name, 5)
        alone, single = _begun(env_id, name, 1, seed=3)
        for _ in range(5):
            actions, one = (
                p.act(e.control.obs, e.view(), e.control.masks)
                for p, e in ((player, engine), (single, alone))
            )
            np.testing.assert_array_equal(actions[3], one[0], err_msg=name)
            for agent, space in enumerate(engine.action_spaces):
                assert space.contains(actions[0, agent].astype(space.dtype))
            engine.step(actions, DISABLED)
            alone.step(one, DISABLED)


def test_random_covers_the_range_and_differs():
    engine, player = _begun("coopbench/PlatformEcosystem-v0", "random", 500)
    draws = player.act(engine.control.obs)[:, :, 0] / engine.constants.endowment
    assert abs(draws.mean() - 0.5) < 0.02
    assert draws.min() < 0.01
    assert draws.max() > 0.99
    assert len(np.unique(draws)) == draws.size
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.15


def test_tit_for_tat_mirrors_fractions():
    engine, player = _begun("coopbench/PlatformEcosystem-v0", "tit_for_tat", 1)
    e = engine.constants.endowment
    first = player.act(engine.control.obs)[0, :, 0]
    np.testing.assert_allclose(first, 0.5 * e)
    shares = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    engine.step((shares * e)[None, :, None])
    others = np.array([np.delete(shares, a).mean() for a in range(5)])
    np.testing.assert_allclose(player.act(engine.control.obs)[0, :, 0], others * e, rtol=1e-6)
    # A new episode opens with one half again.
    player.begin(engine.control.seed, engine.control.episode + 1, np.ones(1, np.bool_))
    np.testing.assert_allclose(player.act(engine.control.obs)[0, :, 0], 0.5 * e)


ROUNDS = {  # what a firm does after its partner's fractions of the rounds before
    "always_defect": ([1.0, 1.0], [0.0, 0.0, 0.0]),
    "suspicious_tit_for_tat": ([0.3, 0.8], [0.0, 0.3, 0.8]),
    "generous_tit_for_tat:0.5": ([0.0, 0.6], [0.5, 0.5, 0.8]),
    "grim_trigger:0.6,0.4": ([0.5, 0.39, 1.0, 1.0], [0.6, 0.6, 0.0, 0.0, 0.0]),
    "win_stay_lose_shift:0.6,0.4": ([0.5, 0.1, 0.1, 0.9], [0.6, 0.6, 0.0, 0.6, 0.6]),
}


@pytest.mark.parametrize(("name", "partner", "expected"), [(k, *v) for k, v in ROUNDS.items()])
def test_reactive_policies_by_hand(name, partner, expected):
    engine, player = _begun("coopbench/TrustDilemma-v0", name, 1)
    played = []
    for fraction in (*partner, 0.5):
        actions = player.act(engine.control.obs)
        played.append(actions[0, 0, 0] / 100.0)
        actions[0, 1, 0] = 100.0 * fraction
        engine.step(actions, DISABLED)
        engine.control.done[:] = False  # the horizon is short, the rounds are what matters
    np.testing.assert_allclose(played, expected, rtol=1e-6, atol=1e-9)


def test_a_fixed_sequence_stays_at_its_last_step():
    engine, _ = _begun("coopbench/DynamicPartnerSelection-v1", "constant:0.5", 4)
    game = Game.at(engine.spec.id)
    policy, last = make_policy("open_loop", game), game.constants.horizon - 1
    steps = np.array([0, last, last + 1, 2 * last])
    actions, after = policy.act(engine.control.obs, steps)
    assert (actions[0] != actions[1]).any()
    assert (actions[2:] == actions[1]).all()
    assert (after == steps + 1).all()


def test_trust_threshold_follows_its_own_row():
    engine, player = _begun("coopbench/TrustDilemma-v0", "trust_threshold:0.7,0.5", 1)
    state = {"trust": np.array([[1.0, 0.6], [0.4, 1.0]])}
    engine.reset(np.zeros(1), state=state)
    np.testing.assert_allclose(player.act(engine.control.obs)[0, :, 0], [70.0, 0.0])


def test_memory_is_per_lane():
    engine, player = _begun("coopbench/TrustDilemma-v0", "tit_for_tat", 3)
    engine.step(np.full((3, 2, 1), 20.0))
    player.act(engine.control.obs)
    second = player.act(engine.control.obs)
    player.begin(engine.control.seed, engine.control.episode, np.array([False, True, False]))
    third = player.act(engine.control.obs)
    np.testing.assert_allclose(third[:, 0, 0], [second[0, 0, 0], 50.0, second[2, 0, 0]])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tit_for_tot", "Did you mean 'tit_for_tat'"),
        ("constant", "fraction"),
        ("constant:1.5", r"'fraction' .* was 1.5; allowed: float in \[0, 1\]"),
        ("constant:much", "'fraction' .* was 'much'"),
        ("constant:0.1,0.2", "Unknown parameter 'value 2'"),
        ("constant:fracton=0.2", "Did you mean 'fraction'"),
        ("greedy", "cannot play coopbench/TrustDilemma-v0: it needs .*goal"),
    ],
)
def test_names_that_do_not_work(name, message):
    game = Game.of(Engine("TrustDilemma-v0"))
    with pytest.raises(ValueError, match=message):
        make_policy(name, game)


@pytest.mark.parametrize("text", ["random", "constant:0.5", "rule:C:/rule.json"])
def test_names_are_written_as_they_are_read(text):
    name = PolicyName.parse(text)
    assert (str(name), name.kind) == (text, text.split(":")[0])


def test_names_are_not_parsed_again_and_again(tmp_path):
    """For two policies on one task, with its folder and its report."""
    before = PolicyName.parse.cache_info()
    report = coopbench.evaluate(
        "TrustDilemma-v0", ["random", "always_defect"], tmp_path, episodes=2
    )
    report.save(tmp_path / "report")
    after = PolicyName.parse.cache_info()
    assert after.hits + after.misses - before.hits - before.misses < 50


def test_the_file_of_a_policy_has_its_name():
    """By which it is found without a look into the others."""
    assert {name: entry.name for name, entry in entries().items()} == {n: n for n in entries()}


def test_games_tell_what_a_policy_needs():
    invested, chosen = Game.at("coopbench/TrustDilemma-v1"), Game.at("test/Pennies-v0")
    assert invested.low.dtype == invested.high.dtype == np.float64
    invested.require("mine", "own_action")
    for game, part in ((invested, "goal"), (chosen, "own_pennies")):
        with pytest.raises(ValueError, match=f"needs Box actions and the .* parts {part}; there"):
            game.require("mine", part)


def test_hyperparameters_are_small():
    policy = Half()
    for length, allowed in ((65_000, True), (66_000, False)):
        policy.hyperparameters = {"note": length * "x"}
        if allowed:
            assert hyperparameters(policy) == policy.hyperparameters
            continue
        with pytest.raises(ValueError, match="a dict of 66,012 characters as JSON; allowed"):
            hyperparameters(policy)


class Half:
    name = "half"

    def act(self, observations):
        return np.full((*observations.shape[:2], 1), 50.0)


def test_users_pass_functions_and_objects():
    for policy, label in ((Half(), "half"), (Half().act, "act"), ("constant:fraction=0.5",) * 2):
        engine, player = _begun("coopbench/TrustDilemma-v0", policy, 2)
        assert player.label == label
        np.testing.assert_array_equal(player.act(engine.control.obs), np.full((2, 2, 1), 50.0))
    with pytest.raises(TypeError, match="given int"):
        _begun("coopbench/TrustDilemma-v0", 3, 2)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda o: np.zeros((len(o), 2)), r"shape \(2, 2\).*expected \(2, 2, 1\)"),
        (lambda o: None, "expected"),
        (lambda o: np.full((2, 2, 1), "x"), "expected"),
        (lambda o: [[1.0], [[2.0], [3.0]]], "expected"),
        (lambda o: np.full((2, 2, 1), np.nan), r"not finite: \[nan\] for the observation \[\d"),
        (lambda o: np.full((2, 2, 1), np.inf), "not finite"),
        (lambda o: np.ma.masked_all((2, 2, 1)), "masked values"),
    ],
)
def test_wrong_actions_name_the_policy(result, message):
    engine, player = _begun("coopbench/TrustDilemma-v0", result, 2)
    with pytest.raises(ValueError, match=message) as error:
        player.act(engine.control.obs)
    assert "<lambda>" in str(error.value)


def test_set_partner_takes_objects():
    import gymnasium

    env = gymnasium.make("coopbench/TrustDilemma-v0", control="focal").unwrapped
    env.set_partner(Half())
    env.reset(seed=0)
    env.step(np.array([10.0], np.float32))
    assert env.engine.state.last_action[0].tolist() == [10.0, 50.0]


class Onlooker:
    """Pushes every agent by its own position, which it reads in the state."""

    uses_state = True

    def initial(self, game, seeds):
        return None

    def act(self, observations, memory, state):
        with pytest.raises(ValueError, match="read-only"):
            state.agent_pos[0, 0, 0] = 1.0
        return np.clip(state.agent_pos, -1, 1), memory


def test_a_policy_that_uses_the_state_gets_it():
    engine = builders.begun("Routing-v0", 3)
    player = begun(engine, Onlooker())
    actions = player.act(engine.control.obs, engine.view())
    np.testing.assert_array_equal(actions, np.clip(engine.state.agent_pos, -1, 1))
    engine.step(actions)
    assert np.shares_memory(engine.view().agent_pos, engine.state.agent_pos)
    with pytest.raises(ValueError, match="Onlooker"):
        player.act(engine.control.obs)
