"""Choices in place of Box actions: the parameter ``action_levels``."""

import pickle
from dataclasses import replace
from typing import NamedTuple

import builders
import gymnasium
import numpy as np
import pettingzoo
import pytest
import toy_lift
from kinds import KINDS

import coopbench
import coopbench_envs
from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_learner
from coopbench.describe import describe_environment
from coopbench_envs import Engine
from coopbench_envs.check import check_environment
from coopbench_envs.choices import choices_of, resolved
from coopbench_envs.drivers import MANY_LANES
from coopbench_envs.engine import DISABLED, NEXT_STEP, SAME_STEP
from coopbench_envs.foreign.engine import ForeignEngine
from coopbench_envs.foreign.environment import foreign_spec
from coopbench_envs.foreign_names import permit

TRUST, ROUTING = "coopbench/TrustDilemma-v1", "coopbench/Routing-v1"
SLIDERS, PENDULUM = "pettingzoo:toy_foreign:Sliders", "gymnasium:Pendulum-v1"
BOXES = [env_id for env_id in KINDS if not Engine(env_id).discrete]
SHORT = {"horizon": 13}  # several episodes in one run
LEVELS, STEPS, SEED = 3, 40, 7


def box(low, high, dtype=np.float32):
    return gymnasium.spaces.Box(np.array(low, dtype), np.array(high, dtype), dtype=dtype)


@pytest.fixture(params=BOXES)
def box_id(request):
    """One environment of each kind with Box actions."""
    return request.param


# --- what choices stand for -----------------------------------------------------------------------


def test_values_are_evenly_spaced_and_the_last_dimension_varies_fastest():
    choices = choices_of("x", (2, 3), [box([0, -1], [1, 1]), box([0, 0], [4, 4])])
    expected = [[0, -1], [0, 0], [0, 1], [1, -1], [1, 0], [1, 1]]
    assert choices.values[0].tolist() == expected
    assert choices.values[1].tolist() == [[0, 0], [0, 2], [0, 4], [4, 0], [4, 2], [4, 4]]
    assert [space.n for space in choices.spaces()] == [6, 6]
    assert (choices.low.tolist(), choices.high.tolist()) == ([[0, -1], [0, 0]], [[1, 1], [4, 4]])
    assert choices.actions(np.array([[5, 0]])).tolist() == [[[1, 1], [0, 0]]]
    assert choices.actions(np.array([[-1, -1]])).tolist() == [[[0, 0], [0, 0]]]


def test_the_nearest_choice_is_played_and_of_two_the_lower():
    choices = choices_of("x", [2, 5], [box([0, -1], [1, 1])])
    near = {(0.5, -0.75): 0, (0.51, -0.74): 6, (0.0, 0.25): 2, (9.0, -9.0): 5, (1.0, 1.0): 9}
    actions = np.array(list(near), np.float64)[:, None]
    assert choices.nearest(actions)[:, 0].tolist() == list(near.values())
    every = choices.values.transpose(1, 0, 2)
    assert choices.nearest(every)[:, 0].tolist() == list(range(10))


def test_agents_may_have_other_numbers_of_dimensions_and_whole_numbers():
    choices = choices_of("x", 3, [box([0], [1]), box([0, 0], [4, 3], np.int64)])
    assert choices.counts.tolist() == [3, 9]
    assert (choices.low.tolist(), choices.high.tolist()) == ([[0, 0], [0, 0]], [[1, 0], [4, 3]])
    assert str(choices) == "3 or 9"
    assert choices.values[1, :, 1].tolist() == [0, 2, 3] * 3
    assert choices.nearest(np.array([[[0.9, 7.0], [4.0, 3.0]]])).tolist() == [[2, 8]]


@pytest.mark.parametrize(
    ("levels", "space", "message"),
    [
        (1, box([0], [1]), "'action_levels' of x was 1; allowed: a whole number from 2 to 256"),
        (2.5, box([0], [1]), "was 2.5; allowed: a whole number"),
        (True, box([0], [1]), "was True; allowed: a whole number"),
        ([], box([0], [1]), r"was \[\]; allowed: a whole number"),
        ("3", box([0], [1]), "was '3'; allowed: a whole number"),
        ([3, 3], box([0], [1]), r"was \[3, 3\]; allowed: .* each of the 1 dimensions"),
        (17, box([0, 0], [1, 1]), "was 17, which makes 289 choices .* allowed: up to 256"),
        (3, box([0, -np.inf], [1, 1]), "dimension 1 of its actions has no bounds"),
        (3, gymnasium.spaces.Discrete(4), r"actions of x are Discrete\(4\); .* leave it out"),
    ],
)
def test_levels_that_do_not_fit_are_named(levels, space, message):
    with pytest.raises(ValueError, match=message):
        choices_of("x", levels, [space])


def test_the_parameter_is_known_where_actions_are_numbers():
    with pytest.raises(TypeError, match=r"'action_level' .* mean 'action_levels'\? Known: action_"):
        Engine(TRUST, action_level=3)
    with pytest.raises(TypeError) as error:
        Engine("Skirmish-v1", action_level=3)
    assert "action_levels" not in str(error.value)
    with pytest.raises(ValueError, match=r"Skirmish-v1 are Discrete\(9\); allowed with Box"):
        Engine("Skirmish-v1", action_levels=3)
    plain = Engine(TRUST, action_levels=None)
    assert not plain.discrete
    assert "action_levels" not in plain.parameters._fields
    assert Engine(TRUST, action_levels=3.0).parameters._asdict()["action_levels"] == 3


def test_an_environment_cannot_have_another_parameter_of_that_name():
    Params = NamedTuple("Params", [("horizon", int), ("action_levels", int)])  # noqa: UP014
    with pytest.raises(ValueError, match=r"a field 'action_levels', .* another name"):
        resolved(replace(coopbench_envs.spec(TRUST), params=Params), {})


def test_parameters_of_choices_are_pickled():
    values = resolved(coopbench_envs.spec(TRUST), {"action_levels": [5]})
    again = pickle.loads(pickle.dumps(values))
    assert (again, again.action_levels) == (values, (5,))


# --- the same game --------------------------------------------------------------------------------


def pair(env_id, lanes=3, **options):
    """Return a game of choices and the same game of numbers, reset with the same seeds."""
    both = [
        Engine(env_id, lanes, **SHORT, **options, **given) for given in ({"action_levels": 3}, {})
    ]
    for game in both:
        game.reset(np.arange(lanes) + SEED)
    return both


def same(chosen, plain):
    """Whether two games are alike in every bit but for masks."""
    left, right = (game.get_state() for game in (chosen, plain))
    seen = ("obs", "rewards", "terminated", "truncated", "ended", "measures", "team")
    left |= {name: getattr(chosen.control, name) for name in seen}
    right |= {name: getattr(plain.control, name) for name in seen}
    return all(left[name].tobytes() == right[name].tobytes() for name in left)


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
@pytest.mark.parametrize("lanes", [3, MANY_LANES + 1])
def test_choices_play_the_game_of_the_numbers_that_they_stand_for(box_id, lanes, mode):
    chosen, plain = pair(box_id, lanes)
    assert same(chosen, plain)
    random = np.random.default_rng(1)
    for _ in range(STEPS):
        choices = random.integers(0, chosen.choices.most, chosen.actions.shape)
        chosen.step(choices, mode)
        plain.step(chosen.choices.actions(choices), mode)
        assert same(chosen, plain)
    assert not chosen.control.invalid.any()


BY_NAME = {"firm_0": 2, "firm_1": 1}
FACES = {  # how an interface is made, and what its steps are given
    "gymnasium": (gymnasium.make, [[2, 1]]),
    "vector": (lambda env, **given: gymnasium.make_vec(env, num_envs=1, **given), [[[2, 1]]]),
    "parallel": (lambda env, **given: pettingzoo.make("parallel", env, **given), [BY_NAME]),
    "aec": (lambda env, **given: pettingzoo.make("aec", env, **given), [2, 1]),
    "pymarl": (coopbench_envs.pymarl, [[2, 1]]),
    "rows": (lambda env, **given: coopbench_envs.sb3_vec_env(env, 1, **given), [[2, 1]]),
}


@pytest.mark.parametrize("face", FACES)
def test_every_interface_hands_choices_on(face):
    """What an engine does with them, and that interfaces show what it does, is tested elsewhere."""
    if face == "rows":
        pytest.importorskip("stable_baselines3")
    make, steps = FACES[face]
    env = make(TRUST, **SHORT, action_levels=LEVELS)
    env.reset()
    for given in steps:
        env.step(given if face == "parallel" else np.array(given))
    assert getattr(env, "unwrapped", env).engine.actions.tolist() == [[2, 1]]
    if face == "pymarl":
        assert env.get_avail_actions() == [[1] * LEVELS] * 2


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("control", ["joint", "focal"])
def test_interfaces_of_choices_pass_the_checkers(control):
    from gymnasium.utils.env_checker import check_env
    from pettingzoo.test import api_test, parallel_api_test

    made = {**SHORT, "action_levels": 5}
    env = gymnasium.make(TRUST, control=control, **made)
    space = gymnasium.spaces.MultiDiscrete([5, 5]) if control == "joint" else None
    assert env.action_space == (space or gymnasium.spaces.Discrete(5))
    check_env(env.unwrapped)
    parallel_api_test(pettingzoo.make("parallel", TRUST, **made), num_cycles=20)
    api_test(pettingzoo.make("aec", TRUST, **made), num_cycles=20)


def test_illegal_choices_do_nothing_and_are_counted():
    chosen, plain = pair(TRUST)
    illegal = np.full(chosen.actions.shape, 3)
    illegal[0], illegal[1, 0] = -1, 1
    for _ in range(2):
        chosen.step(illegal)
        assert chosen.actions.tolist() == [[-1, -1], [1, -1], [-1, -1]]
        action = chosen.choices.actions(chosen.actions)
        assert not action[0].any()
        plain.step(action)
        assert same_but_count(chosen, plain)
    assert chosen.control.invalid.tolist() == [[2, 2], [0, 2], [2, 2]]
    for _ in range(30):  # beyond the end, where nobody chooses
        chosen.step(illegal, DISABLED)
    assert chosen.control.invalid.max() == SHORT["horizon"]
    chosen.reset()
    assert not chosen.control.invalid.any()


def same_but_count(chosen, plain):
    plain.control.invalid[:] = chosen.control.invalid
    return same(chosen, plain)


def test_dead_agents_choose_nothing():
    engine = Engine(ROUTING, 1, num_agents=2, action_levels=3)
    engine.reset(np.array([1]))
    engine.control.alive[0, 1] = False
    engine.step(np.array([[8, 99]]))
    assert engine.actions.tolist() == [[8, -1]]
    assert engine.control.invalid.tolist() == [[0, 0]]


def test_agents_that_are_terminated_alone_are_idle_from_then_on():
    """Whatever they choose; replays of the stored choices play the same."""
    coopbench_envs.register(toy_lift.SPEC)
    games = [Engine(toy_lift.SPEC.id, 1, action_levels=3, lives=1) for _ in range(2)]
    for game in games:
        game.reset(np.array([1]))
    for choices, shares in (([2, 2], [1.0, 1.0]), ([2, 1], [0.0, 0.5])):
        games[0].step(np.array([choices]))
        assert games[0].state.shares.tolist() == [shares]
        games[1].step(games[0].actions.copy())
        assert same(*games)


def test_a_game_of_choices_is_saved_pickled_and_shared_by_threads(sharing):
    whole = Engine(TRUST, 20, action_levels=5, threads=3)
    single = Engine(TRUST, 20, action_levels=5)
    random = np.random.default_rng(3)
    whole.reset(np.arange(20))
    single.reset(np.arange(20))
    for step in range(12):
        choices = random.integers(0, 5, (20, 2))
        whole.step(choices)
        single.step(choices)
        if step == 6:
            single = pickle.loads(pickle.dumps(single))
        assert same(whole, single)
    further = Engine(TRUST, 20, action_levels=5)
    further.reset(state=single.get_state())
    for game in (single, further):
        game.step(choices)
    assert same(single, further)
    whole.close()


# --- environments of other packages ---------------------------------------------------------------


def foreign(name, **parameters):
    permit(name)
    return ForeignEngine(foreign_spec(name), 2, **parameters)


@pytest.mark.parametrize("vectors", [True, False])
def test_environments_of_other_packages_get_the_numbers(vectors):
    given = {"action_levels": 5}
    chosen, plain = foreign(PENDULUM, vectors=vectors, **given), foreign(PENDULUM, vectors=vectors)
    assert [space.n for space in chosen.action_spaces] == [5]
    for game in (chosen, plain):
        game.reset(np.arange(2))
    for k in range(12):
        choices = np.array([[k % 5], [(k + 2) % 5]])
        chosen.step(choices)
        plain.step(-2.0 + choices[..., None].astype(np.float64))
        assert chosen.control.obs.tobytes() == plain.control.obs.tobytes()
        assert chosen.control.rewards.tobytes() == plain.control.rewards.tobytes()
    assert chosen.repeats() or vectors


def test_agents_of_other_packages_may_have_other_boxes():
    engine = foreign(SLIDERS, vectors=True, action_levels=3)
    assert [space.n for space in engine.action_spaces] == [3, 9]
    engine.reset(np.arange(2))
    assert engine.control.masks[0].sum(axis=1).tolist() == [3, 9]
    engine.step(np.array([[2, 8], [0, 4]]))
    assert engine.control.rewards.tolist() == [[1.0, 4.0], [0.0, 2.0]]
    engine.step(np.array([[5, 0], [-1, 9]]))  # beyond those of their agent: the first
    assert engine.control.invalid.tolist() == [[1, 0], [1, 1]]
    assert engine.control.rewards.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_policies_of_other_packages_return_choices_or_numbers():
    engine = foreign(SLIDERS, action_levels=3)
    codec = engine.codec
    rows = [
        {"left_0": np.array([0.6], np.float32), "right_0": np.array([2.0, 0.4], np.float32)},
        {"left_0": np.array([0.9], np.float32)},
    ]
    encoded = codec.encoded(rows, 2, "mine")
    assert encoded.tolist() == [[1, 6], [2, -1]]
    assert codec.encoded(np.array([[0, 8], [2, 1]]), 2, "mine").tolist() == [[0, 8], [2, 1]]
    engine.reset(np.arange(2))
    with pytest.raises(ValueError, match="needs an action for 'right_0'"):
        engine.step(encoded)
    for game in ("gymnasium:CartPole-v1", "pettingzoo:toy_foreign:Mixed"):
        with pytest.raises(ValueError, match=r"'action_levels' was 3, and the actions of"):
            foreign(game, action_levels=3)


def test_environments_of_other_packages_are_evaluated_checked_and_trained(torch):
    def still(observations):
        return np.zeros((*observations.shape[:2], 1))

    report = coopbench.evaluate(PENDULUM, ["random", still], episodes=2, action_levels=5)
    assert "still acts by numbers on pendulum-v1 and plays the nearest of 5 choices" in str(report)
    assert "random acts" not in str(report)
    assert check_environment(PENDULUM, action_levels=5) == []
    values = {"lanes": 2, "batch_size": 4, "replay": 8, "reward": "team"}
    learner = make_learner("qmix_shared", PENDULUM, {"action_levels": 5}, 1, **values)
    assert learner.learn(900)["episode_length"] == 200


# --- those who play -------------------------------------------------------------------------------


def test_policies_of_numbers_play_the_nearest_choices():
    engine = Engine(TRUST, 2, action_levels=5)
    game = Game.of(engine)
    high = coopbench_envs.Engine(TRUST, 2).action_bounds()[1]
    for policy, choices in {
        "constant:0.3": [1, 1],
        "constant:0.125": [0, 0],
        "best_script": None,
        builders.trained_to_invest(0.3, 1): [1, 1],
        lambda obs: np.full((2, 2, 1), 0.9): [4, 4],
        lambda obs: np.full((2, 2), 2): [2, 2],
    }.items():
        player = Player(policy, game)
        played = Match(engine, [player])
        played.begin(np.arange(2))
        next(iter(played.steps()))
        assert choices is None or engine.actions[0].tolist() == choices
        number = not callable(policy) or choices == [4, 4]
        assert player.nearest == ("5 choices" if number else "")
    assert (game.choices, game.high.tolist()) == (5, high.tolist())


def test_random_draws_among_all_choices():
    engine = Engine(ROUTING, 4, num_agents=3, action_levels=3)
    player = Player("random", Game.of(engine))
    match, drawn = Match(engine, [player]), set()
    match.begin(np.arange(4))
    for actions, _ in zip(match.steps(), range(40), strict=False):
        drawn |= set(actions.ravel().tolist())
    assert (drawn, player.nearest) == (set(range(9)), "")


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.zeros((2, 2, 2)), r"expected \(2, 2\) \(integers"),
        (np.zeros((2, 2)), r"expected \(2, 2\) \(integers"),
        (np.full((2, 2, 1), np.nan), "not finite"),
    ],
)
def test_other_returned_actions_are_errors(returned, message):
    engine = Engine(TRUST, 2, action_levels=5)
    match = Match(engine, [Player(lambda observations: returned, Game.of(engine))])
    match.begin(np.arange(2))
    with pytest.raises(ValueError, match=message):
        match.actions()


def test_partners_beside_the_ego_play_the_nearest_choices():
    env = gymnasium.make(TRUST, control="focal", partner="constant:0.9", action_levels=5)
    env.reset(seed=1)
    env.step(2)
    assert env.unwrapped.engine.actions.tolist() == [[2, 4]]


def test_learners_of_values_train_on_games(torch):
    values = {"lanes": 2, "batch_size": 4, "replay": 8}
    with pytest.raises(ValueError, match="allowed: its parameter action_levels"):
        make_learner("iql_shared", TRUST, SHORT, 1, **values)
    learner = make_learner("iql_shared", TRUST, {**SHORT, "action_levels": 5}, 1, **values)
    assert learner.learn(200)["episode_length"] == 13
    network = learner.policy().network
    assert (network.actions, network.head) == (5, "argmax")


def test_models_with_predict_return_choices_or_numbers():
    class Model:
        observation_space = None

        def __init__(self, space, action):
            self.action_space, self._action = space, action

        def predict(self, rows):
            return np.full((len(rows), *np.shape(self._action)), self._action)

    engine = Engine(TRUST, 2, action_levels=5)
    game, seen = Game.of(engine), np.zeros((2, 2, 7), np.float32)
    numbers = Player(Model(box([-1], [1]), [0.5]), game)
    assert numbers.act(seen).tolist() == [[3, 3], [3, 3]]
    assert (numbers.nearest, numbers.rescaled) == ("5 choices", "from [-1, 1] to [0, 1]")
    choosing = Player(Model(gymnasium.spaces.Discrete(5), 2), game)
    assert choosing.act(seen).tolist() == [[2, 2], [2, 2]]
    with pytest.raises(ValueError, match="5 choices for each agent"):
        Player(Model(gymnasium.spaces.Discrete(6), 2), game)


# --- results --------------------------------------------------------------------------------------


def test_results_say_who_plays_the_nearest_choices_and_are_verified(tmp_path):
    protocol = builders.protocol_of(
        tasks=[
            builders.make_task(
                parameters={"horizon": 6, "action_levels": 5}, partners=["tit_for_tat", "random"]
            )
        ]
    )
    report = coopbench.evaluate(protocol, ["constant:0.3", "random"], out=tmp_path)
    notes = [
        f"{name} acts by numbers on dilemma and plays the nearest of 5 choices, of two equally"
        for name in ("constant:0.3", "tit_for_tat")
    ]
    for shown in (report, coopbench.load_report(tmp_path)):
        text = " ".join(str(shown).split())
        assert all(note in text for note in notes)
        assert "random acts" not in text
    assert coopbench.verify(tmp_path).holds
    episode = coopbench.find_episode(f"{tmp_path}/dilemma/constant:0.3/1")
    assert episode.parameters["action_levels"] == 5
    assert episode.actions.shape == (6, 2)
    assert (episode.actions[:, 1] == 1).all()


def test_show_and_check_know_the_parameter():
    assert "| `action_levels` |" in describe_environment(TRUST)
    assert "action_levels" not in describe_environment("test/Pennies-v0")
    assert check_environment(TRUST, horizon=5, action_levels=5) == []
    with pytest.raises(ValueError, match="allowed: up to 256"):
        check_environment(ROUTING, action_levels=17)
