"""The coopetition family against recorded trajectories, and what must hold for any play."""

import gzip
import json

import numpy as np
import pettingzoo
import pytest
from golden_folders import unpacked
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbench import play_episode
from coopbench_envs import Engine, ids, spec
from coopbench_envs.coopetition.published.dynamics import State
from coopbench_envs.engine import DISABLED
from coopbench_envs.layouts import unpack
from coopbench_envs.packing import types_of

FOLDER = unpacked("coopetition")
# Which of the games whose files are there already: all of them in the end.
GAMES = [i.split("/")[1] for i in ids() if spec(i).source.startswith("Coopetition-Gym")]
LANE_FIELDS = {  # what the recordings call our fields
    "loyalty": "loyalty",
    "public_reputations": "public_reputation",
    "global_reputation": "score",
}
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def _record(name):
    return json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))["sequences"]


# The recordings' names of numbers that our metrics average over the steps or give after the last.
AVERAGES = {"team_output", "public_good", "social_efficiency", "effort_deviation"}
AVERAGES |= {"loyalty_lift", "coalition_size"}
LASTS = {"mean_loyalty", "trust_asymmetry", "peak_trust", "mean_reputation"}
LASTS |= {"reputation_inequality"}
SEQUENCES = [
    pytest.param(name, sequence, id=f"{name}-{sequence['name']}")
    for name in GAMES
    for sequence in _record(name)
]


def _off_diagonal(matrix):
    """Pairs as recorded: all of them row by row, for many agents only agent 0's and one other."""
    n = len(matrix)
    if n <= 8:
        return matrix[~np.eye(n, dtype=bool)]
    assert np.ptp(matrix[~np.eye(n, dtype=bool)]) < 1e-12  # played by equal agents alike
    return np.concatenate([[matrix[1, 0]], matrix[0, 1:]])


def _compare_own_fields(state, recorded):
    """Loyalty, reputations, agreements and coalitions, where the game has them."""
    for key, value in recorded.items():
        field = LANE_FIELDS.get(key)
        if field is not None and hasattr(state, field):
            np.testing.assert_allclose(getattr(state, field)[0], value, **CLOSE)
        elif key == "loyalty":
            assert set(value) == {0.5}  # TeamProduction never touches it
        elif key == "agreement":
            assert state.agreed[0] == (value is not None)
            np.testing.assert_allclose(state.agreement[0], value or 0.0, **CLOSE)
        elif key in ("coalition", "excluded"):
            chosen = np.flatnonzero(state.inside[0] == (key == "coalition"))
            assert chosen[np.argsort(state.order[0, chosen])].tolist() == value
        elif key == "timers":
            assert {str(a): state.cooldown[0, int(a)] for a in value} == value
        else:
            raise AssertionError(key)


def _compare_metrics(engine, t, recorded):
    """The first step's numbers are averages of one; what describes a state is so at any step."""
    metrics = engine.metrics()
    for key, value in recorded.items():
        if key in metrics and (key in LASTS or (key in AVERAGES and t == 0)):
            np.testing.assert_allclose(metrics[key], value, rtol=1e-6, err_msg=key)
        elif key == "free_rider_count" and t == 0:
            assert round(metrics["free_riders"] * len(engine.agents)) == value
        elif key in ("total_agreements", "total_breaches"):
            rate = metrics["agreement_rate" if key == "total_agreements" else "breach_rate"]
            assert round(rate * (t + 1)) == value


@pytest.mark.parametrize(("name", "sequence"), SEQUENCES)
def test_recorded_trajectories(name, sequence):
    """Rewards, trust, own fields, flags, observations and metrics up to the first done step."""
    engine = Engine(name, **sequence["kwargs"])
    gamma = sequence["initial"].get("gamma")
    engine.reset(np.array([0]), state=None if gamma is None else {"gamma": gamma})
    if sequence["reset_obs"] is not None:
        np.testing.assert_array_equal(engine.global_state()[0], np.float32(sequence["reset_obs"]))
    steps = sequence["steps"]
    for t in range(len(steps["rewards"])):
        engine.step(np.array(steps["actions"][t])[None, :, None])
        np.testing.assert_allclose(engine.control.rewards[0], steps["rewards"][t], **CLOSE)
        trust, reputation = engine.state.trust[0], engine.state.reputation[0]
        np.testing.assert_allclose(_off_diagonal(trust), steps["trust"][t], **CLOSE)
        np.testing.assert_allclose(_off_diagonal(reputation), steps["reputation"][t], **CLOSE)
        assert engine.control.ended[0] == steps["terminated"][t]
        assert engine.control.truncated[0] == steps["truncated"][t]
        _compare_own_fields(engine.state, steps["aux"][t] if "aux" in steps else {})
        _compare_metrics(engine, t, sequence["info_at_step"].get(str(t + 1), {}))
        seen = sequence["obs_at_step"].get(str(t + 1))
        if seen is not None:
            np.testing.assert_allclose(engine.global_state()[0], seen, rtol=1e-6, atol=1e-7)
        if engine.control.done[0]:
            break
    assert engine.control.done[0] == (sequence["first_done_step"] is not None)
    np.testing.assert_allclose(
        engine.control.returns[0], sequence["episode_return_per_agent_until_first_done"], rtol=1e-9
    )


# Constants that are parameters of Coopetition under the same name, and games that add no factor to
# rewards.
SHARED = ("num_agents", "horizon", "alpha", "dependence", "theta", "gamma", "trust_gain")
SHARED += ("trust_loss", "damage_gain", "damage_decay", "dependence_loss", "sensitivity")
SHARED += ("initial_trust", "initial_damage")
PLAIN = ("DynamicPartnerSelection-v0", "PartnerHoldUp-v0", "PlatformEcosystem-v0", "SLCD-v0")
PLAIN += ("RecoveryRace-v0", "RenaultNissan-v0", "SynergySearch-v0", "TrustDilemma-v0")


@pytest.mark.parametrize(("name", "sequence"), SEQUENCES)
def test_every_game_is_an_instance_of_the_model(name, sequence):
    """Coopetition with a game's numbers moves by the same bits, until the game ends."""
    drawn = {key: sequence["initial"][key] for key in ("gamma",) if key in sequence["initial"]}
    game = Engine(name, **sequence["kwargs"])
    c = game.constants
    own = {key: getattr(c, key) for key in SHARED} | {"endowments": c.endowment} | drawn
    own |= {"baseline_share": (c.baseline / c.endowment).round(9)}
    model = Engine("Coopetition-v0", **own)
    game.reset(np.array([0]), state=drawn or None)
    model.reset(np.array([0]))
    for actions in sequence["steps"]["actions"]:
        for engine in (game, model):
            engine.step(np.array(actions)[None, :, None], DISABLED)
        for field in State._fields:
            np.testing.assert_array_equal(*(getattr(e.state, field) for e in (model, game)))
        np.testing.assert_array_equal(model.control.obs, game.control.obs)
        np.testing.assert_array_equal(model.control.measures[:, :4], game.control.measures[:, :4])
        if name in PLAIN:
            np.testing.assert_array_equal(model.control.rewards, game.control.rewards)
        if game.control.done[0]:
            break


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": [0.5, 0.6]}, "'alpha' .* allowed: shares with sum 1"),
        ({"alpha": [1.2, -0.2]}, r"'alpha' .* allowed: 2 numbers in \[0, 1\]"),
        (
            {"dependence": [[0.0, 0.5], [0.5]]},
            r"'dependence' .* allowed: 2 x 2 numbers in \[0, 1\]",
        ),
        ({"dependence": np.full((2, 2), 0.5)}, "'dependence' .* allowed: .* a diagonal of zeros"),
        (
            {"num_agents": 3, "endowments": [1.0, 2.0]},
            "'endowments' .*: 3 numbers .* num_agents is 3",
        ),
        ({"endowments": [1.0, 0.0]}, "'endowments' .*: 2 numbers in"),
    ],
)
def test_parameters_of_the_model_fit_together(parameters, message):
    with pytest.raises(ValueError, match=message):
        Engine("Coopetition-v0", **parameters)


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("observation", ["full", "asymmetric", "minimal"])
def test_the_model_hides_what_an_observation_leaves_out(observation, timed):
    """What is left has the numbers and bounds of the full observation."""
    own = {"num_agents": 3, "endowments": [90.0, 100.0, 60.0]}
    whole = Engine("Coopetition-v0", **own)
    part = Engine("Coopetition-v0", **own, observation=observation, observe_time=timed)
    for engine in (whole, part):
        engine.reset(np.array([0]))
        for shares in ([0.9, 0.1, 0.4], [0.2, 0.3, 0.8]):
            actions = np.array(shares) * engine.constants.endowment
            engine.step(actions[None, :, None], DISABLED)
    (full,), seen = whole.control.obs, unpack(part.layout, part.control.obs[0])
    size = {"full": 21, "asymmetric": 14, "minimal": 3}[observation]
    assert part.control.obs.shape[2] == size - (observation != "minimal" and not timed)
    assert ("time" in seen) == (timed and observation != "minimal")
    for name, values in seen.items():
        if name == "trust_in_others":
            trust = whole.layout["trust"].view(full)[np.arange(3), np.arange(3)]
            np.testing.assert_array_equal(values, trust[~np.eye(3, dtype=bool)].reshape(3, 2))
        else:
            np.testing.assert_array_equal(values, whole.layout[name].view(full))
    for agent in range(3):
        box = part.observation_spaces[agent]
        assert box.contains(part.control.obs[0, agent].astype(np.float32))
        np.testing.assert_array_equal(
            unpack(part.layout, box.high)["own_action"], own["endowments"][agent]
        )


def test_strategies_play_alike_where_they_see_their_own_trust_alone():
    played = [
        play_episode("Coopetition-v0", name, num_agents=3, observation=observation).rewards
        for name in ("trust_threshold:threshold=0.52", "tit_for_tat")
        for observation in ("full", "asymmetric")
    ]
    np.testing.assert_array_equal(*played[:2])
    np.testing.assert_array_equal(*played[2:])
    assert not np.array_equal(played[0], played[2])
    with pytest.raises(ValueError, match="others_actions"):
        play_episode("Coopetition-v0", "tit_for_tat", observation="minimal")


SEEN = json.loads((FOLDER / "parallel_obs.json").read_text())


@pytest.mark.parametrize("key", [k for k in SEEN if k.split("/")[0] in GAMES])
def test_recorded_agent_observations(key):
    name, record = key.split("/")[0], SEEN[key]
    env = pettingzoo.make("parallel", f"coopbench/{name}")
    seen, _ = env.reset(seed=0)
    rows = [(record["reset_obs"], None), *((s["obs"], s) for s in record["steps"])]
    for expected, step in rows:
        if step is not None:
            actions = dict(zip(env.agents, np.array(step["actions"])[:, None], strict=True))
            seen, rewards, *_ = env.step(actions)
            np.testing.assert_allclose(
                list(rewards.values()), list(step["rewards"].values()), **CLOSE
            )
        for ours, theirs in zip(seen.values(), expected.values(), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


fractions = st.lists(st.floats(0, 1), min_size=10, max_size=10)


@settings(max_examples=25, deadline=None)
@given(levels=fractions, name=st.sampled_from(GAMES))
def test_bounds_hold_for_any_play(levels, name):
    engine = Engine(name)
    engine.reset(np.array([1]))
    for t in range(10):
        shares = np.resize(np.roll(levels, t), len(engine.agents))
        engine.step((engine.constants.endowment * shares)[None, :, None], DISABLED)
        for matrix in (engine.state.trust[0], engine.state.reputation[0]):
            assert (matrix >= 0).all()
            assert (matrix <= 1).all()
        for agent, space in enumerate(engine.observation_spaces):
            assert space.contains(engine.control.obs[0, agent])
        assert engine.state_space.contains(engine.global_state()[0])
        engine._checked_state(engine.get_state())  # no state of its own is refused


@pytest.mark.parametrize("name", GAMES)
def test_normalized_rewards_are_paid_by_the_same_compiled_code(name):
    game = spec(name)
    plain, divided = (game.constants(game.params(normalize=flag)) for flag in (False, True))
    assert divided.reward_factor < plain.reward_factor
    assert types_of(divided) == types_of(plain)
