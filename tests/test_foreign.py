"""Environments of other packages: what is played, seen and paid, is what they say."""

import builders
import gymnasium as gym
import numpy as np
import pettingzoo
import pytest
from builders import GUESSES, LAMPS, block_of, foreign_engine, lit

import coopbench
import coopbench_envs
from coopbench.protocol.loading import ad_hoc
from coopbench_envs.foreign.environment import foreign_spec
from coopbench_envs.foreign.seeds import reset_seed
from coopbench_envs.lanes import lanes_of, of_user

MIXED = "pettingzoo:toy_foreign:Mixed"
MASKED = "gymnasium:toy_foreign:Masked"
CARTPOLE = "gymnasium:CartPole-v1"


def zeros(observations):
    return np.zeros(observations.shape[:2], np.int64)


@pytest.fixture
def protocol(tmp_path):
    return builders.loaded(tmp_path, GUESSES, "lamps")


def test_an_episode_is_that_of_its_seed_alone():
    def act(observations):
        return (observations[:, :, 2] > 0).astype(np.int64)

    report = coopbench.evaluate(CARTPOLE, act, episodes=4, seed=20)
    block = block_of(report, "act")
    assert block.agents == ("agent_0",)
    assert block.seeds.tolist() == [20, 21, 22, 23]
    env = gym.make("CartPole-v1")
    observation, _ = env.reset(seed=22)
    total, over = 0.0, False
    while not over:
        observation, reward, terminated, truncated, _ = env.step(int(observation[2] > 0))
        total, over = total + float(reward), terminated or truncated
    assert block.team_returns[2] == total
    alone = coopbench.evaluate(CARTPOLE, "random", episodes=1, seed=22)
    many = coopbench.evaluate(CARTPOLE, "random", episodes=4, seed=20)
    assert block_of(alone).team_returns[0] == block_of(many).team_returns[2]


def test_seeds_beyond_what_environments_take_are_mixed():
    assert reset_seed(5, 0) == 5
    seeds = {reset_seed(s, k) for s in (5, 1 << 40, (1 << 64) - 1) for k in (1, 2)}
    assert len(seeds) == 6
    assert all(0 <= seed < 1 << 31 for seed in seeds)


def test_agents_that_leave_act_no_more():
    play = foreign_engine(LAMPS, 2, {"hit": "last"})
    play.reset(np.arange(2, dtype=np.uint64))
    assert play.control.alive.all()
    for _ in range(2):
        play.step(np.zeros((2, 3), np.int64), 1)
    assert play.control.alive.tolist() == [[True, True, False]] * 2
    assert play.control.terminated.tolist() == [[False, False, True]] * 2
    before = play.control.returns[:, 2].copy()
    while not play.control.done.all():
        play.step(np.zeros((2, 3), np.int64), 1)
    assert (play.control.returns[:, 2] == before).all()
    assert play.state.time.tolist() == [6, 6]
    assert play.control.truncated.all()
    assert not play.control.ended.any()


def test_an_episode_can_end_by_the_game_and_by_time_in_the_same_step():
    env = gym.make("CartPole-v1")
    env.reset(seed=0)
    length, fallen = 0, False
    while not fallen:
        *_, fallen, _, _ = env.step(1)
        length += 1
    for steps, ended, truncated in (
        (length - 1, False, True),
        (length, True, True),
        (length + 1, True, False),
    ):
        play = foreign_engine(CARTPOLE, steps=steps)
        play.reset(np.zeros(1, np.uint64))
        while not play.control.done.all():
            play.step(np.ones((1, 1), np.int64))
        assert play.control.ended.tolist() == [ended]
        assert play.control.truncated.tolist() == [truncated]


@pytest.mark.parametrize(
    ("how", "summary"),
    [("last", lambda x: x[-1]), ("sum", sum), ("mean", np.mean), ("max", max), ("min", min)],
)
def test_metrics_summarise_the_steps_of_an_episode(how, summary):
    play, hits = foreign_engine(LAMPS, 1, {"hit": how}), []
    play.reset(np.array([3], np.uint64))
    while not play.control.done.all():
        play.step(np.array([[2, 0, 1]]), 1)
        hits.append(np.mean([info["hit"] for info in play.told(0).values()]))
        assert play.control.measures[0, 1] == pytest.approx(summary(hits))
    assert len(set(hits)) > 1


def test_metrics_come_from_info_by_name_and_path(protocol):
    report = coopbench.evaluate(protocol, ["random", lit])
    short, long = (block_of(report, "lit", task) for task in ("short", "long"))
    assert (short.metrics["hit"] == 1.0).all()
    assert (short.metrics["total.hits"] == 3 + 3 + 2 + 2).all()
    assert (long.metrics["hit"] == 7.0).all()  # a sum of means over agents
    assert (long.lengths == 7).all()
    assert (short.lengths == 4).all()
    assert set(short.curves) == {"return", "hit", "total.hits"}
    assert short.curves["return"].tolist() == [0, 3, 6, 8, 10]


def test_observations_are_arrays_where_agents_have_equal_spaces_and_else_dictionaries():
    def look(observations):
        assert observations.shape == (4, 3, 2)
        assert observations.dtype == np.float32
        return zeros(observations)

    coopbench.evaluate(LAMPS, look, episodes=4)

    def copy(observations):
        assert observations.shape == (3,)
        seen = [agents["right_0"] for agents in observations]
        chosen = [(one["n"] % 3, np.array([one["x"][0], 9.0])) for one in seen]
        return [{"left_0": 0, "right_0": pair} for pair in chosen]

    with pytest.raises(ValueError, match=r"returned .* for 'right_0', which is not in Tuple"):
        coopbench.evaluate(MIXED, copy, episodes=3)

    def bounded(observations):
        vector = np.array([0.25, 0.5], np.float32)
        return [{"left_0": seen["right_0"]["n"], "right_0": (0, vector)} for seen in observations]

    report = coopbench.evaluate(MIXED, {"bounded": bounded}, episodes=3)
    assert block_of(report, "bounded").returns.tolist() == [[1.75, 1.75]] * 3


def test_actions_that_lack_an_agent_are_errors():
    with pytest.raises(ValueError, match="needs an action for 'right_0' in step 1 of seed 0"):
        coopbench.evaluate(MIXED, {"half": lambda seen: [{"left_0": 1}] * len(seen)}, episodes=2)
    with pytest.raises(ValueError, match="an action for 'who'"):
        coopbench.evaluate(MIXED, {"odd": lambda seen: [{"who": 1}] * len(seen)}, episodes=2)
    with pytest.raises(ValueError, match=r"chose 2 for 'a_1'; allowed: 0 to 1"):
        coopbench.evaluate(LAMPS, {"two": lambda seen: zeros(seen) + 2}, episodes=2)
    with pytest.raises(ValueError, match=r"of shape \(2,\).*expected \(2, 3\)"):
        coopbench.evaluate(LAMPS, {"flat": lambda seen: np.zeros(2, int)}, episodes=2)


def test_actions_that_are_masked_or_not_finite_are_errors():
    lamps, pendulum = (coopbench_envs.make_vec(n, 1) for n in (LAMPS, "gymnasium:Pendulum-v1"))
    lamps.reset(seed=0)
    pendulum.reset(seed=0)
    with pytest.raises(ValueError, match="some are masked"):
        lamps.step(np.ma.masked_all((1, 3), np.int64))
    with pytest.raises(ValueError, match="of finite numbers; given -inf"):
        pendulum.step(np.full((1, 1, 1), -np.inf))


def test_random_draws_legal_choices_and_elements_of_any_space():
    report = coopbench.evaluate(MASKED, "random", episodes=2)
    assert (block_of(report).metrics["legal"] == 1.0).all()
    assert (block_of(report).lengths == 1000).all()
    assert "does not say how long" in str(report)
    one, two = (block_of(coopbench.evaluate(MIXED, "random", episodes=4)) for _ in range(2))
    assert one.trace.episodes == two.trace.episodes
    assert len(set(one.trace.episodes)) == 4


def test_partners_take_seats_and_cross_play_pairs_policies():
    report = coopbench.evaluate(LAMPS, {"lit": lit}, episodes=6, partners="random")
    block = block_of(report, "lit")
    assert block.seats.sum(axis=1).tolist() == [1] * 6
    assert block.returns[block.seats].min() >= 2
    matrices = coopbench.crossplay(ad_hoc(LAMPS, 6), {"lit": lit, "zeros": zeros})
    assert len(matrices.meetings) == 4
    with pytest.raises(ValueError, match="partners need seats"):
        coopbench.evaluate(CARTPOLE, "random", episodes=2, partners="random")


@pytest.mark.parametrize(
    ("name", "keywords", "message"),
    [
        ("gymnasium", {"fault": "old reset"}, r"reset.*return the tuple \(observation, info\)"),
        ("gymnasium", {"fault": "old step"}, "step.*must return the tuple.*given a tuple of 4 par"),
        ("gymnasium", {"fault": "short"}, r"an observation of shape \(1,\); its space has \(2,\)"),
        ("gymnasium", {"fault": "array"}, r"reward array\(\[1\.\]\).*must be one finite number"),
        ("gymnasium", {"fault": "text"}, "reward '1' in step 1 of seed 0.*one finite number"),
        ("pettingzoo", {"fault": "alone"}, r"must return the tuple .* given a dict"),
        ("pettingzoo", {"fault": "list"}, "returns observations as list; allowed: a dictionary"),
    ],
)
def test_what_the_frameworks_do_not_define_is_named(name, keywords, message):
    kind = {"gymnasium": "Faulty", "pettingzoo": "Pair"}[name]
    with pytest.raises(ValueError, match=message):
        coopbench.evaluate(f"{name}:toy_foreign:{kind}", "random", episodes=1, **keywords)


class Odd(gym.Env):
    """Its reset takes no seed, its actions have no length, or it tells a number beyond floats."""

    def __init__(self, fault):
        discrete = gym.spaces.Discrete(2)
        self.observation_space = gym.spaces.Box(0, 1, (1,))
        odd = {"sequence": gym.spaces.Sequence(discrete), "text": gym.spaces.Text(3)}
        self.action_space = odd.get(fault, discrete)
        self.told = {"hash": 10**400, "small": 2} if fault == "huge" else {}
        if fault == "seed":
            self.reset = lambda: (np.zeros(1, np.float32), {})

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, True, False, self.told


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("seed", r"reset\(seed=...\) of .*Odd cannot be called: .* Give reset the keywords seed"),
        ("sequence", "actions of 'agent_0' in .*Odd, Sequence.* are no fixed count of numbers"),
        ("text", "actions of 'agent_0' in .*Odd, Text.* are no fixed count of numbers"),
    ],
)
def test_what_cannot_be_called_or_stored_is_named_with_its_cure(fault, message):
    with pytest.raises(ValueError, match=message):
        coopbench.evaluate("python:test_foreign:Odd", "random", episodes=1, fault=fault)


def test_numbers_beyond_floats_are_no_metrics():
    name = "python:test_foreign:Odd"
    report = coopbench.evaluate(name, "random", episodes=1, fault="huge")
    assert [*block_of(report).metrics] == ["return", "small"]
    engine = lanes_of(foreign_spec(name, {"hash": "last"}), 1, fault="huge")
    engine.reset(np.zeros(1, np.uint64))
    with pytest.raises(ValueError, match="info 'hash' is a number beyond the largest float"):
        engine.step(np.zeros((1, 1), np.int64))


def test_agents_that_take_turns_act_one_by_one():
    play = foreign_engine("python:toy_foreign:only_turns")
    both = foreign_engine(LAMPS)
    for each in (play, both):
        each.reset(np.array([3], np.uint64))
    for _ in range(2):  # c_0 leaves after two rounds
        for seat in range(3):
            choices = play.control.masks[0].sum(axis=1)
            assert choices[seat] > 1
            assert choices.sum() == choices[seat] + 2
            play.step(np.array([[1, 1, 1]]), 1)
        both.step(np.array([[1, 1, 1]]), 1)
        assert (play.control.returns == both.control.returns).all()
    assert play.control.alive.tolist() == [[True, True, False]]


class Reach(pettingzoo.ParallelEnv):
    """Two agents move within bounds of their own, one behind the other."""

    possible_agents = ("near_0", "far_0")

    def observation_space(self, agent):
        return gym.spaces.Box(0.0, 1.0, (1,))

    def action_space(self, agent):
        low, high = np.array([-1, 0], np.float32), np.array([1, 3], np.float32)
        far = agent == "far_0"
        return gym.spaces.Box(low - 2 * far, high + 2 * far)

    def reset(self, seed=None, options=None):
        self.agents, self.moves = list(self.possible_agents), []
        return self._seen(), {}

    def _seen(self):
        return {agent: np.zeros(1, np.float32) for agent in self.possible_agents}

    def step(self, actions):
        self.moves.append({agent: move.tolist() for agent, move in actions.items()})
        none = dict.fromkeys(self.agents, False)
        return self._seen(), {a: float(m.sum()) for a, m in actions.items()}, none, none, {}


def test_every_number_of_every_agent_is_clipped_to_its_own_bounds():
    engine = foreign_engine("python:test_foreign:Reach", 2, steps=5)
    engine.reset(np.zeros(2, np.uint64))
    engine.step(np.array([[[-9, -9], [-9, -9]], [[0.5, 9], [-0.5, 9]]], float))
    first, second = (world._env.moves[-1] for world in engine._worlds)
    assert first == {"near_0": [-1, 0], "far_0": [-3, -2]}
    assert second == {"near_0": [0.5, 3], "far_0": [-0.5, 5]}
    assert engine.control.rewards.tolist() == [[-1, -5], [3.5, 4.5]]


def test_random_draws_for_every_agent_among_its_own_choices():
    """Also where another agent has no legal choice, who then has all of them."""
    codec = foreign_engine(LAMPS).codec
    masks = np.zeros((50, 3, 3), bool)
    masks[:, 0, 2] = masks[:, 1, 1] = True
    drawn = codec.sampled(np.arange(150, dtype=np.uint64).reshape(50, 3), masks)
    assert set(drawn[:, 0]) == {2}
    assert set(drawn[:, 1]) == {1}
    assert set(drawn[:, 2]) == {0, 1}


def test_the_limit_of_games_of_turns_is_that_of_its_rounds():
    turns = foreign_engine("python:toy_foreign:only_turns")
    assert turns.horizon == 6 * 3  # steps of a game of three agents
    assert foreign_engine(LAMPS).horizon == 6


def test_an_episode_goes_on_while_one_agent_is_not_cut_off():
    class Cut(Reach):
        def step(self, actions):
            seen, paid, none, _, infos = super().step(actions)
            cut = {agent: agent == "near_0" for agent in self.agents}
            self.agents = ["far_0"]
            return seen, paid, none, cut, infos

    engine = lanes_of(of_user(Cut), 1)
    engine.reset(np.zeros(1, np.uint64))
    engine.step(np.zeros((1, 2, 2)))
    assert engine.control.alive.tolist() == [[False, True]]
    assert not engine.control.done[0]
    assert not engine.control.truncated[0]
