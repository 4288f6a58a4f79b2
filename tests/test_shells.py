"""What shells tell of every lane and every seat: nothing of the first lane, or of another agent."""

import dataclasses
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import toy_pennies
from builders import Last

import coopbench_envs
from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED, SAME_STEP
from coopbench_envs.shells.aec_env import AECEnv
from coopbench_envs.shells.gymnasium_env import GymnasiumEnv
from coopbench_envs.shells.parallel_env import ParallelEnv

PENNIES, SQUAD = "test/Pennies-v0", "test/Squad-v0"
TRUST = "coopbench/TrustDilemma-v1"
TOLD = toy_pennies.TOLD.id
LANES = 4
WAIT, GIVE, FLIP = range(3)


@pytest.fixture(autouse=True, scope="module")
def _told():
    coopbench_envs.register(toy_pennies.TOLD)


class Counts:
    """A partner that invests more with every step of an episode, as its memory of the lane says."""

    def initial(self, game, seeds):
        return np.zeros(len(seeds))

    def act(self, observations, memory):
        actions = np.broadcast_to(memory[:, None, None] / 10, (*observations.shape[:2], 1))
        return actions, memory + 1


def course(env_id, mode, steps=20, **parameters):
    """Yield a vector environment, the engine beside it, and what each step returns."""
    env = coopbench_envs.make_vec(env_id, LANES, autoreset_mode=mode, **parameters)
    env.reset(seed=3)
    for step in range(steps):
        env.action_space.seed(step)
        yield env, env.step(env.action_space.sample())


# --- the learner and its partners -----------------------------------------------------------------


def test_a_masked_reset_restarts_the_partners_of_its_lanes_alone():
    env = coopbench_envs.make_vec(
        TRUST, LANES, control="focal", ego=1, partner=Counts(), horizon=8, autoreset_mode="Disabled"
    )
    env.reset(seed=0)
    expected = np.zeros(LANES)
    for step in range(6):
        if step == 3:
            mask = np.array([False, True, False, True])
            env.reset(options={"reset_mask": mask})
            expected[mask] = 0
        env.step(np.full((LANES, 1), 0.9))
        np.testing.assert_allclose(env.engine.actions[:, 0, 0], expected / 10)
        np.testing.assert_allclose(env.engine.actions[:, 1, 0], 0.9)
        expected += 1


def test_a_partner_begins_anew_in_the_lanes_whose_episodes_do():
    env = coopbench_envs.make_vec(TRUST, 3, control="focal", partner=Counts(), horizon=4)
    env.reset(seed=0)
    state = env.get_state() | {"time": np.array([0, 2, 1])}
    env.reset(options={"state": state})
    played = []
    for _ in range(7):
        env.step(np.full((3, 1), 0.5))
        played.append(np.rint(10 * env.engine.actions[:, 1, 0]).astype(int))
    # Lane k rests when its episode is over; from the step after it the partner counts from 0.
    first, second, third = np.array(played).T
    assert first.tolist()[:4] == [0, 1, 2, 3]
    assert second.tolist()[:2] == [0, 1]
    assert second.tolist()[3:] == [0, 1, 2, 3]
    assert third.tolist()[:3] == [0, 1, 2]
    assert third.tolist()[4:] == [0, 1, 2]


def test_partners_choose_among_the_legal_choices_of_their_lane():
    env = coopbench_envs.make_vec(PENNIES, LANES, control="focal", ego=2, partner=Last())
    env.reset(seed=0)
    differ = 0
    for _ in range(20):
        control = env.engine.control
        legal, acts = control.masks.copy(), control.alive & ~control.done[:, None]
        env.step(np.full(LANES, WAIT))
        last = 2 - legal[:, :2, ::-1].argmax(axis=2)
        np.testing.assert_array_equal(env.engine.actions[:, :2][acts[:, :2]], last[acts[:, :2]])
        differ += (last != last[0]).sum()
    assert differ


@pytest.mark.parametrize("ego", [0, 1, 2])
def test_the_learner_is_told_what_is_its_own(ego):
    many = coopbench_envs.make_vec(PENNIES, LANES, control="focal", ego=ego)
    alone = GymnasiumEnv(PENNIES, control="focal", ego=ego)
    seen, _ = many.reset(seed=3)
    first, told = alone.reset(seed=3)
    np.testing.assert_array_equal(seen[0], first)
    for step in range(8):
        control, one = many.engine.control, alone.engine.control
        np.testing.assert_array_equal(seen, control.obs[:, ego])
        np.testing.assert_array_equal(first, one.obs[0, ego])
        np.testing.assert_array_equal(told["action_mask"], one.masks[0, ego])
        np.testing.assert_array_equal(alone.action_masks(), one.masks[0, ego])
        if one.done[0]:
            break
        seen, paid, *_ = many.step(np.full(LANES, step % 3))
        first, earned, *_, told = alone.step(step % 3)
        np.testing.assert_array_equal(paid, control.rewards[:, ego])
        assert earned == one.rewards[0, ego]
    assert len(np.unique(control.returns[0])) > 1


# --- many lanes -----------------------------------------------------------------------------------


def test_metrics_are_those_of_lanes_that_are_over_and_0_elsewhere():
    over, going = 0, 0
    for env, (_, _, ended, truncated, infos) in course(PENNIES, "NextStep", 30):
        if "metrics" not in infos:
            continue
        finished = ended | truncated
        pennies = infos["metrics"]["pennies"]
        np.testing.assert_array_equal(infos["metrics"]["_pennies"], finished)
        np.testing.assert_array_equal(pennies[~finished], 0)
        held = env.engine.control.measures[finished, list(env.engine.spec.metrics).index("pennies")]
        np.testing.assert_array_equal(pennies[finished], held)
        over, going = over + finished.sum(), going + (~finished).sum()
    assert over > 3
    assert going > 3


def test_infos_of_an_end_stay_while_other_lanes_go_on():
    engine = Engine(TOLD, 2, horizon=5)
    engine.reset(np.arange(2, dtype=np.uint64))
    engine.reset(state=engine.get_state() | {"time": np.array([3, 0])})
    kept = None
    for step in range(6):  # the other lane ends in the fifth
        held = engine.state.pennies.copy()
        engine.step(np.full((2, 3), GIVE), SAME_STEP)
        if step == 1:
            kept = engine.final_info["pennies"][0].copy()
            np.testing.assert_array_equal(kept, np.maximum(held[0] - 1, 0))
        elif kept is not None:
            np.testing.assert_array_equal(engine.final_info["pennies"][0], kept)


# --- rows of Stable-Baselines3 --------------------------------------------------------------------


def test_rows_are_told_of_their_own_lane_and_agent():
    pytest.importorskip("stable_baselines3")
    env = coopbench_envs.sb3_vec_env(TOLD, LANES, horizon=7)
    env.seed(3)
    env.reset()
    agents, random = 3, np.random.default_rng(0)
    twin = Engine(TOLD, LANES, horizon=7)
    twin.reset(np.arange(3, 3 + LANES, dtype=np.uint64))
    ends = 0
    for _ in range(30):
        actions = random.integers(0, 3, (LANES, agents))
        twin.step(actions, DISABLED)
        *_, infos = env.step(actions.reshape(-1))
        assert [info["pennies"] for info in infos] == twin.state.pennies.ravel().tolist()
        over = twin.control.done.copy()
        ends += over.sum()
        twin.reset(chosen=over)
        held = [info["pennies"] for info in env.reset_infos]
        for lane in np.flatnonzero(over):
            assert held[lane * agents : (lane + 1) * agents] == twin.state.pennies[lane].tolist()
    assert ends > LANES


def test_rows_that_begin_in_a_given_state_count_the_steps_before():
    pytest.importorskip("stable_baselines3")
    env = coopbench_envs.sb3_vec_env(TRUST, 2, horizon=5)
    env.seed(0)
    env.reset()
    env.set_options({"state": env.get_state() | {"time": np.array([3, 0])}})
    env.reset()
    lengths = []
    for _ in range(5):
        *_, infos = env.step(np.full((4, 1), 0.5))
        lengths.append([info["episode"]["l"] for info in infos if "episode" in info])
    assert lengths == [[], [5, 5], [], [], [5, 5]]


def test_rows_that_begin_in_an_end_count_the_steps_of_the_next_episode():
    pytest.importorskip("stable_baselines3")
    single = gymnasium.make(TRUST, horizon=3)
    single.reset(seed=1)
    for _ in range(3):
        *_, ended, truncated, _ = single.step(np.ones((2, 1)))
    assert ended or truncated
    env = coopbench_envs.sb3_vec_env(TRUST, 1, horizon=3)
    env.set_options({"state": single.unwrapped.get_state()})
    env.reset()
    earned = []
    for _ in range(4):
        _, rewards, dones, infos = env.step(np.ones((2, 1)))
        earned.append(rewards)
    assert dones.all()
    assert not earned[0].any()
    for row in range(2):
        assert infos[row]["episode"]["l"] == 3
        total = float(sum(rewards[row] for rewards in earned[1:]))
        assert infos[row]["episode"]["r"] == pytest.approx(total, rel=1e-5)


def test_rows_keep_no_array_of_the_learner_and_refuse_masked_ones():
    pytest.importorskip("stable_baselines3")
    env, twin = (coopbench_envs.sb3_vec_env(TRUST, 2, horizon=5) for _ in range(2))
    for each in (env, twin):
        each.seed(0)
        each.reset()
    actions = np.full((4, 1), 0.9, np.float32)
    env.step_async(actions)
    actions[:] = 0.0
    for one, other in zip(
        env.step_wait()[:3], twin.step(np.full((4, 1), 0.9, np.float32)), strict=False
    ):
        np.testing.assert_array_equal(one, other)
    masked = np.ma.masked_array(np.full((4, 1), 0.7), mask=[[0], [1], [0], [0]])
    with pytest.raises(ValueError, match="some are masked"):
        env.step(masked)


def test_rows_that_are_not_there_and_masks_without_choices_are_refused():
    pytest.importorskip("stable_baselines3")
    env = coopbench_envs.sb3_vec_env(TRUST, 2)
    assert env.get_attr("num_envs", [3, -1]) == [4, 4]
    with pytest.raises(ValueError, match=r"indices were \[4\]; allowed: 0 to 3"):
        env.get_attr("num_envs", [4])
    with pytest.raises(ValueError, match="no choices to mask"):
        env.env_method("action_masks")


def test_the_device_of_an_environment_is_never_ignored():
    pytest.importorskip("stable_baselines3")
    for env in (TRUST, coopbench_envs.spec(TRUST)):
        with pytest.raises(ValueError, match="banana"):
            coopbench_envs.sb3_vec_env(env, 2, device="banana")
    with pytest.raises(ValueError, match="device goes with compiled environments"):
        coopbench_envs.sb3_vec_env("gymnasium:CartPole-v1", 2, device="cuda")


def test_a_spec_is_played_as_its_id():
    registered = coopbench_envs.spec(TRUST)
    env = coopbench_envs.make_vec(registered, 2, max_episode_steps=5, device="cpu")
    assert env.engine.horizon == 5
    assert coopbench_envs.make_vec(dataclasses.replace(registered), 2).engine.horizon == 100
    with pytest.raises(ValueError, match="is not the one that is registered under its id"):
        coopbench_envs.make_vec(dataclasses.replace(registered, common_reward=True), 2)


def test_switches_are_true_or_false():
    for options in ({"global_state": "no"}, {"copy": "False"}):
        (name,) = options
        with pytest.raises(ValueError, match=f"{name} was .*; allowed: True and False"):
            coopbench_envs.make_vec(TRUST, 2, **options)
    assert coopbench_envs.make_vec(TRUST, 2, copy=np.False_).copy == np.False_


@pytest.mark.parametrize("space", ["observation_space", "action_space"])
def test_spaces_of_agents_that_are_not_there_name_those_that_are(space):
    env = ParallelEnv(TRUST)
    with pytest.raises(ValueError, match=r"Unknown agent 'firm_9'.*Did you mean 'firm_"):
        getattr(env, space)("firm_9")


def test_rows_are_given_one_option_for_all():
    pytest.importorskip("stable_baselines3")
    env = coopbench_envs.sb3_vec_env(TRUST, 2, horizon=5)
    env.seed(0)
    first = env.reset()
    state = env.get_state()
    env.step(np.full((4, 1), 0.5))
    other = {"state": state | {"time": np.array([3, 0])}}
    env.set_options([{"state": state}, {"state": state}, other, other])
    with pytest.raises(ValueError, match="must be the same for all rows"):
        env.reset()
    env.reset()  # the refused options are gone
    env.set_options([{"state": state}, {"state": dict(state)}] * 2)
    np.testing.assert_array_equal(env.reset(), first)


# --- agents by name -------------------------------------------------------------------------------


def dying(cls, **options):
    """Return a game in which the second of three agents dies in the fifth step, and the actions."""
    env = cls(PENNIES, **options)
    env.reset(seed=0, options={"state": {"pennies": np.array([4, 1, 9])}})
    return env, {"player_0": WAIT, "player_1": GIVE, "player_2": WAIT}


def test_an_agent_that_is_dead_and_kept_sees_zeros_and_has_its_first_choice():
    env, actions = dying(ParallelEnv, dead_agents="keep")
    for step in range(8):
        seen, _, terminated, _, infos = env.step(actions)
        dead = step >= 4  # nobody dies in the first four steps
        assert infos["player_1"]["alive"] == (not dead)
        assert infos["player_1"]["action_mask"].tolist() == [1, 0, 0] if dead else True
        assert (not seen["player_1"].any()) == dead
        assert seen["player_0"].any()
        assert infos["player_0"]["action_mask"].tolist() == [1, 1, 0]
        assert infos["player_2"]["action_mask"].tolist() == [1, 1, 1]
        assert not any(terminated.values())
        # Illegal: to give nothing away, until it is dead.
        assert infos["player_1"]["invalid_actions"] == min(step, 4)
        assert infos["player_0"]["invalid_actions"] == 0


def test_time_alone_terminates_nobody_who_is_kept():
    env, actions = dying(ParallelEnv, dead_agents="keep", horizon=6)
    for _ in range(6):
        _, _, terminated, truncated, _ = env.step(actions)
    assert set(terminated.values()) == {False}
    assert set(truncated.values()) == {True}
    assert env.agents == []


def test_dead_agents_are_kept_where_an_episode_begins_without_them():
    fewest = 4
    for keep, names in (("keep", 4), ("remove", None)):
        env = ParallelEnv(SQUAD, dead_agents=keep)
        for seed in range(9):
            seen, infos = env.reset(seed=seed)
            there = int(env.engine.control.alive[0].sum())
            assert len(env.agents) == len(seen) == len(infos) == (names or there)
            fewest = min(fewest, there)
    assert fewest < 4


@pytest.mark.parametrize("dead_agents", ["remove", "keep"])
@pytest.mark.parametrize("cls", [ParallelEnv, AECEnv])
def test_nobody_acts_in_an_episode_that_begins_with_its_end(cls, dead_agents):
    env = cls(PENNIES, dead_agents=dead_agents)
    env.reset(seed=0)
    engine = Engine(PENNIES)
    engine.reset(np.zeros(1, np.uint64), state={"pennies": [[1, 1, 1]]})
    for _ in range(6):
        if not engine.control.done[0]:
            engine.step(np.full((1, 3), GIVE), DISABLED)
    assert engine.control.ended[0]
    assert not engine.control.truncated[0]
    env.reset(options={"state": engine.lane_state()})
    assert env.agents == []


def test_rewards_of_a_round_are_told_until_the_next_one_begins():
    env = AECEnv(TRUST, horizon=3)
    env.reset(seed=0)
    for turn, agent in enumerate(env.agent_iter(6)):
        env.step(np.array([0.3 + 0.2 * (agent == "firm_1")], np.float32))
        assert any(env.rewards.values()) == (turn % 2 == 1)


# --- the end for all together ---------------------------------------------------------------------


def joint_end(env_id, field, **parameters):
    """Return a seed, the joint actions of its episode, what follows the last, and who is left.

    Everybody plays the last legal choice. The episode ends for all together, after some have
    fallen, or never took part, and before the others do.
    """
    env = gymnasium.make(env_id, **parameters).unwrapped
    for seed in range(99):
        _, info = env.reset(seed=seed)
        actions, ended, truncated = [], False, False
        while not (ended or truncated):
            actions.append([np.flatnonzero(mask)[-1] for mask in info["action_mask"]])
            *seen, ended, truncated, info = env.step(np.array(actions[-1]))
        left = getattr(env.engine.state, field)[0, : len(env.engine.agents)] > 0
        if ended and left.any() and not left.all():
            return seed, np.array(actions), seen[0], info, left
    raise AssertionError("no such episode")


@pytest.fixture(
    params=[(SQUAD, "health", {"goal": 6}), ("coopbench/Skirmish-v1", "living", {"map": "3m"})],
    ids=["squad", "skirmish"],
)
def battle(request):
    """An environment, its parameters, and what ``joint_end`` returns of it."""
    env_id, field, parameters = request.param
    return env_id, parameters, joint_end(env_id, field, **parameters)


def test_who_is_left_at_a_joint_end_is_alive_and_sees_it(battle):
    env_id, parameters, (seed, actions, last, told, left) = battle
    np.testing.assert_array_equal(told["alive"], left)
    np.testing.assert_array_equal(last.any(axis=1), left)
    for mode in ("NextStep", "SameStep", "Disabled"):
        many = coopbench_envs.make_vec(env_id, 2, autoreset_mode=mode, **parameters)
        many.reset(seed=[seed, seed])
        for joint in actions:
            infos = many.step(np.stack([joint, joint]))[4]
        infos = infos.get("final_info", infos)
        np.testing.assert_array_equal(infos["alive"], [left, left], err_msg=mode)


@pytest.mark.parametrize("dead_agents", ["remove", "keep"])
def test_pettingzoo_tells_of_a_joint_end_the_same(battle, dead_agents):
    env_id, parameters, (seed, actions, last, told, left) = battle
    parallel, turns = (
        cls(env_id, dead_agents=dead_agents, **parameters) for cls in (ParallelEnv, AECEnv)
    )
    for env in (parallel, turns):
        env.reset(seed=seed)
    for joint in actions:
        chosen = dict(zip(parallel.possible_agents, joint, strict=True))
        seen, _, _, _, infos = parallel.step({agent: chosen[agent] for agent in parallel.agents})
        while turns.engine.view().time < parallel.engine.view().time:
            agent = turns.agent_selection
            turns.step(None if turns.terminations[agent] else chosen[agent])
    for seat, agent in enumerate(parallel.possible_agents):
        if agent in infos:
            for shown, info in (
                (seen[agent], infos[agent]),
                (turns.observe(agent), turns.infos[agent]),
            ):
                np.testing.assert_array_equal(shown, last[seat])
                np.testing.assert_array_equal(info["action_mask"], told["action_mask"][seat])
                assert info.get("alive", left[seat]) == left[seat]
        else:
            assert dead_agents == "remove"
            assert not left[seat]


def test_stable_baselines_tells_who_took_part_in_the_last_step(battle):
    pytest.importorskip("stable_baselines3")
    env_id, parameters, (seed, actions, last, _, left) = battle
    rows = coopbench_envs.sb3_vec_env(env_id, 1, **parameters)
    rows.seed(seed)
    rows.reset()
    for joint in actions:
        acted = rows.engine.control.alive[0].copy()
        infos = rows.step(joint)[3]
    assert acted[left].all()
    assert [info["alive"] for info in infos] == acted.tolist()
    np.testing.assert_array_equal([info["terminal_observation"] for info in infos], last)


def test_who_is_kept_sees_how_a_game_ends_for_all_together():
    """Also where agents are gone because they were terminated: not those who were so before."""
    env = ParallelEnv(PENNIES, dead_agents="keep")
    env.reset(seed=0, options={"state": {"pennies": np.array([6, 1, 6])}})
    while env.agents:
        seen, _, terminated, _, infos = env.step(dict.fromkeys(env.agents, GIVE))
    assert all(terminated.values())
    assert [infos[agent]["alive"] for agent in env.possible_agents] == [True, False, True]
    assert [info["action_mask"].tolist() for info in infos.values()] == [[1, 0, 0]] * 3
    assert set(seen) == set(env.possible_agents)


# --- PyMARL ---------------------------------------------------------------------------------------


def test_pymarl_tells_every_agent_its_own():
    env = coopbench_envs.pymarl(PENNIES, seed=5, horizon=6)
    finished = []
    for _ in range(3):
        env.reset()
        over = False
        while not over:
            control = env.engine.control
            for agent in range(3):
                np.testing.assert_array_equal(env.get_obs_agent(agent), control.obs[0, agent])
                assert env.get_avail_agent_actions(agent) == control.masks[0, agent].tolist()
            _, _, ended, truncated, info = env.step([GIVE, WAIT, FLIP])
            over = ended or truncated
        finished.append(info["pennies"])
    assert len(set(finished)) > 1
    assert env.get_stats()["pennies"] == pytest.approx(np.mean(finished))


def test_masks_of_all_agents_are_as_long_as_their_choices():
    env = GymnasiumEnv(PENNIES)
    env.engine = SimpleNamespace(
        discrete=True,
        agents=("a", "b"),
        action_spaces=[gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(3)],
        first=SimpleNamespace(masks=np.array([[0, 1, 0], [1, 0, 1]], np.int8)),
    )
    assert env.action_masks().tolist() == [False, True, True, False, True]
