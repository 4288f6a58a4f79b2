"""Environments of other packages: played, recorded, reported and verified like ours."""

import pickle
import sys
from functools import partial
from pathlib import Path

import builders
import gymnasium as gym
import numpy as np
import pytest
import toy_foreign
from results_folder import edit_row

import coopbench
import coopbench_envs
from coopbench.baselines.registry import make_learner
from coopbench.errors import ProtocolError, ReplayError
from coopbench.protocol.loading import ad_hoc
from coopbench.results import store
from coopbench.workflows.verdicts import DIFFERENT, IDENTICAL, REPLAYED, RERUN, UNVERIFIABLE
from coopbench_envs.engine import SAME_STEP, Engine
from coopbench_envs.foreign.engine import ForeignEngine
from coopbench_envs.foreign.environment import foreign_spec
from coopbench_envs.foreign.seeds import reset_seed
from coopbench_envs.foreign_names import (
    Keywords,
    check_permitted,
    is_foreign,
    parse_foreign,
    permit,
)
from coopbench_envs.lanes import lanes_of, of_user
from coopbench_envs.shells.parallel_env import ParallelEnv

LAMPS, MIXED = "pettingzoo:toy_foreign", "pettingzoo:toy_foreign:Mixed"
MASKED, CARTPOLE = "gymnasium:toy_foreign:Masked", "gymnasium:CartPole-v1"
TRUST = "coopbench/TrustDilemma-v0"
TOML = """
[protocol]
name = "lamps"
version = 1
description = "Guesses"
[seeds]
evaluation = { first = 3, count = 6 }
[report]
score = "own_return"
metrics = ["return", "hit", "total.hits", "length"]
curve = "hit"
baselines = ["random"]
normalisation = "minmax"
[[task]]
id = "short"
env = "pettingzoo:toy_foreign"
parameters = { max_steps = 4 }
info = { hit = "mean", "total.hits" = "last" }
[[task]]
id = "long"
env = "pettingzoo:toy_foreign"
parameters = { max_steps = 9 }
info = { hit = "sum", "total.hits" = "max" }
steps = 7
"""


def zeros(observations):
    return np.zeros(observations.shape[:2], np.int64)


def lit(observations):
    """Choose the number that is seen, where all agents see it."""
    return observations[:, :, 0].astype(np.int64)


@pytest.fixture
def protocol(tmp_path):
    return builders.loaded(tmp_path, TOML, "lamps")


def engine(name, lanes=1, metrics=None, steps=None, **keywords):
    permit(name)
    return ForeignEngine(foreign_spec(name, metrics, steps), lanes, **keywords)


def played(report, policy="random", task=None):
    return report.episodes.of(task or report.protocol.task[0].id, policy)


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("gymnasium:CartPole-v1", ("gymnasium", "CartPole-v1", "")),
        ("gymnasium:ALE/Pong-v5", ("gymnasium", "ALE/Pong-v5", "")),
        ("gymnasium:package:Game-v0", ("gymnasium", "package:Game-v0", "")),
        ("gymnasium:a dir/game.py:make", ("gymnasium", "a dir/game.py", "make")),
        ("pettingzoo:mpe2.simple_v3", ("pettingzoo", "mpe2.simple_v3", "")),
        ("pettingzoo:package.game:Game", ("pettingzoo", "package.game", "Game")),
        ("pettingzoo:game.py", ("pettingzoo", "game.py", "")),
        ("python:make", ("python", "make", "")),
    ],
)
def test_names_say_what_is_made(name, parts):
    assert is_foreign(name)
    assert parse_foreign(name) == parts
    assert not is_foreign("coopbench/TrustDilemma-v1")
    assert not is_foreign("game.py:SPEC")


@pytest.mark.parametrize(
    "name",
    [
        *("gymnasium:", "gymnasium:game.py", "pettingzoo:a b", "python:a:b c", "other:x"),
        f"python:{300 * 'x'}",
    ],
)
def test_names_of_other_forms_are_errors(name):
    with pytest.raises(ValueError, match="Allowed: gymnasium:ID"):
        parse_foreign(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gymnasium:no_package:Nothing-v7", "no module 'no_package'.*pip install no_package"),
        ("pettingzoo:mpe7.spread_v0", "no module 'mpe7'.*pip install mpe7"),
        (
            "pettingzoo:gymnasium.none_v0",
            "gymnasium .* is installed, and has no module 'gymnasium.n",
        ),
        ("pettingzoo:toy_foreign:Lamp", "Unknown environment 'Lamp' in toy_foreign.*'Lamps'"),
        ("pettingzoo:none.py:make", "There is no file none.py"),
        ("python:toy_foreign:nothing", "makes a object; allowed: a pettingzoo.ParallelEnv"),
        ("python:elsewhere", "function of another process"),
    ],
)
def test_what_cannot_be_made_is_said_before_anything_is_played(name, message):
    with pytest.raises(ValueError, match=message):
        coopbench.evaluate(name, "random", episodes=1)


def test_arguments_and_objects_that_make_nothing_are_named():
    with pytest.raises(ValueError, match=r"cannot be made with .*'max_step': 3"):
        coopbench.evaluate(LAMPS, "random", episodes=1, max_step=3)
    for value in (object(), float("nan")):
        with pytest.raises(ValueError, match="cannot be written as JSON"):
            Keywords("a game", {"pay": value})
    with pytest.raises(ValueError, match=r"An object of TimeLimit.*: pass a function that makes"):
        coopbench.evaluate(gym.make("CartPole-v1"), "random", episodes=1)


# --- playing --------------------------------------------------------------------------------------


def test_an_episode_is_that_of_its_seed_alone():
    def act(observations):
        return (observations[:, :, 2] > 0).astype(np.int64)

    report = coopbench.evaluate(CARTPOLE, act, episodes=4, seed=20)
    block = played(report, "act")
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
    assert played(alone).team_returns[0] == played(many).team_returns[2]


def test_seeds_beyond_what_environments_take_are_mixed():
    assert reset_seed(5, 0) == 5
    seeds = {reset_seed(s, k) for s in (5, 1 << 40, (1 << 64) - 1) for k in (1, 2)}
    assert len(seeds) == 6
    assert all(0 <= seed < 1 << 31 for seed in seeds)


def test_agents_that_leave_act_no_more():
    play = engine(LAMPS, 2, {"hit": "last"})
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
        play = engine(CARTPOLE, steps=steps)
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
    play, hits = engine(LAMPS, 1, {"hit": how}), []
    play.reset(np.array([3], np.uint64))
    while not play.control.done.all():
        play.step(np.array([[2, 0, 1]]), 1)
        hits.append(np.mean([info["hit"] for info in play.told(0).values()]))
        assert play.control.measures[0, 1] == pytest.approx(summary(hits))
    assert len(set(hits)) > 1


def test_metrics_come_from_info_by_name_and_path(protocol):
    report = coopbench.evaluate(protocol, ["random", lit])
    short, long = (played(report, "lit", task) for task in ("short", "long"))
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
    assert played(report, "bounded").returns.tolist() == [[1.75, 1.75]] * 3


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
    assert (played(report).metrics["legal"] == 1.0).all()
    assert (played(report).lengths == 1000).all()
    assert "does not say how long" in str(report)
    one, two = (played(coopbench.evaluate(MIXED, "random", episodes=4)) for _ in range(2))
    assert one.trace.episodes == two.trace.episodes
    assert len(set(one.trace.episodes)) == 4


def test_partners_take_seats_and_cross_play_pairs_policies():
    report = coopbench.evaluate(LAMPS, {"lit": lit}, episodes=6, partners="random")
    block = played(report, "lit")
    assert block.seats.sum(axis=1).tolist() == [1] * 6
    assert block.returns[block.seats].min() >= 2
    matrices = coopbench.crossplay(ad_hoc(LAMPS, 6), {"lit": lit, "zeros": zeros})
    assert len(matrices.meetings) == 4
    with pytest.raises(ValueError, match="partners need seats"):
        coopbench.evaluate(CARTPOLE, "random", episodes=2, partners="random")


def test_a_callable_makes_environments():
    def short_lamps(**keywords):
        return toy_foreign.Lamps(max_steps=2, **keywords)

    report = coopbench.evaluate(short_lamps, "random", episodes=2, pay=2.0)
    assert report.protocol.task[0].env == "python:short_lamps"
    assert (played(report).lengths == 2).all()
    report = coopbench.evaluate(toy_foreign.Lamps, "random", episodes=2)
    assert report.protocol.task[0].env == "python:toy_foreign:Lamps"
    report = coopbench.evaluate("python:toy_foreign:turns", {"lit": lit}, episodes=2)
    assert (played(report, "lit").lengths == 6).all()  # agents that take turns act at once


def test_a_file_makes_environments_and_its_code_is_known(tmp_path):
    file = tmp_path / "game.py"
    file.write_text(Path(toy_foreign.__file__).read_text(encoding="utf-8"), encoding="utf-8")

    def evaluated():
        return coopbench.evaluate(f"pettingzoo:{file}", "random", episodes=2, out=tmp_path / "out")

    assert played(evaluated()).environment["code"].keys() == {"game.py", "gymnasium", "pettingzoo"}
    assert not any("redone" in note for note in evaluated().notes)
    file.write_text(file.read_text(encoding="utf-8") + "\nnew = 1\n", encoding="utf-8")
    assert any("redone" in note and "other code" in note for note in evaluated().notes)


@pytest.mark.slow("starts a process")
def test_processes_play_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(toy_foreign.__file__).parent))
    protocol = ad_hoc(LAMPS, 5, 3)
    one = coopbench.evaluate(protocol, ["random"])
    two = coopbench.evaluate(protocol, ["random"], backend="processes", workers=1)
    assert played(one).trace.episodes == played(two).trace.episodes


# --- protocols ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('normalisation = "minmax"', "", "task 'short' has no bounds"),
        ('hit = "mean"', 'hit = "median"', "info.hit"),
        ('hit = "mean", ', "", "Unknown metric 'hit'"),
        ("steps = 7", "steps = 0", "steps"),
        ('env = "pettingzoo:toy_foreign"', 'env = "coopbench/TrustDilemma-v1"', "'info' goes with"),
        ('env = "pettingzoo:toy_foreign"', 'env = "pettingzoo:a b"', "Unknown form"),
    ],
)
def test_mistakes_in_protocols_are_named(tmp_path, before, after, message):
    text = TOML.replace(before, after, 1) if "env" in before else TOML.replace(before, after)
    with pytest.raises(ProtocolError, match=message):
        builders.loaded(tmp_path, text.replace("parameters = { max_steps = 4 }\n", ""), "wrong")


def test_code_is_executed_only_with_a_permission():
    with pytest.raises(ValueError, match="is not executed because results name it; name it"):
        check_permitted("pettingzoo:nobody_has_named_it")
    permit(LAMPS)
    check_permitted(LAMPS)


def test_reading_a_protocol_executes_nothing(tmp_path):
    builders.loaded(tmp_path, TOML.replace("pettingzoo:toy_foreign", "python:this:does_not_exist"))
    assert "this" not in sys.modules


# --- verification ---------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    coopbench.evaluate(LAMPS, ["random", lit], episodes=4, out=folder)
    return folder


def by_cell(verification):
    return {check.what.rpartition("/")[2]: check for check in verification.cells}


def test_verify_executes_only_what_the_user_names(results):
    checks = by_cell(coopbench.verify(results))
    assert {check.verdict for check in checks.values()} == {UNVERIFIABLE}
    assert (
        "executed only if you name it: --execute pettingzoo:toy_foreign" in checks["lit"].reasons[0]
    )
    assert "pettingzoo 1" in checks["lit"].reasons[0]
    verification = coopbench.verify(results, env=[LAMPS])
    checks = by_cell(verification)
    assert verification.holds
    assert {check.verdict for check in checks.values()} == {IDENTICAL}
    assert checks["random"].how == RERUN
    assert checks["lit"].how == REPLAYED
    assert checks["lit"].played == 4
    with pytest.raises(ValueError, match="Unknown environment 'gymnasium:Other-v0'"):
        coopbench.verify(results, env=["gymnasium:Other-v0"])


def test_verify_sees_a_changed_episode_and_other_code(results):
    row = store.cell_of(next(results.glob("*/lit/meta.json")))
    edit_row(row.folder, 0, lambda episode: episode.update(length=5))(results)
    meta = builders.edit_meta(results / "toy_foreign" / "random")
    code = meta["environment"] | {"code": meta["environment"]["code"] | {"pettingzoo": "0.1"}}
    builders.edit_meta(results / "toy_foreign" / "random", environment=code)
    checks = by_cell(coopbench.verify(results, env=[LAMPS]))
    assert checks["lit"].verdict == DIFFERENT
    reasons = checks["random"].reasons
    assert any("pettingzoo 0.1" in reason and "here with" in reason for reason in reasons)


def test_an_environment_with_chance_is_not_verifiable(tmp_path):
    chance, out = {"chance": True}, tmp_path / "r"
    report = coopbench.evaluate(LAMPS, "random", episodes=2, **chance, out=out)
    assert not played(report).environment["repeats"]
    for each in (report, coopbench.load_report(out)):
        assert any("not deterministic" in note for note in each.notes)
    check = by_cell(coopbench.verify(out, env=[LAMPS]))["random"]
    assert check.verdict == UNVERIFIABLE
    assert "not deterministic" in check.reasons[0]


def test_reports_of_results_execute_nothing(results, monkeypatch, tmp_path):
    def refuse(*arguments):
        raise AssertionError("an environment was made")

    for each in ("environment.make_world", "engine.make_world", "environment.check_permitted"):
        monkeypatch.setattr(f"coopbench_envs.foreign.{each}", refuse)
    report = coopbench.load_report(results)
    assert played(report, "lit").environment["repeats"]
    assert any("another package" in note for note in report.notes)
    page = report.save(tmp_path / "report")["html"].read_text(encoding="utf-8")
    assert "environment of another package" in page
    assert "in environments that draw themselves" in page


@pytest.mark.parametrize("facts", [{"code": 1}, [1], {"code": {"a": "b c"}, "repeats": 1}])
def test_what_results_say_of_an_environment_is_checked(results, facts):
    builders.edit_meta(results / "toy_foreign" / "random", environment=facts)
    assert any("left out" in note for note in coopbench.load_report(results).notes)


# --- learners and interfaces ----------------------------------------------------------------------


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
        self.action_space = gym.spaces.Sequence(discrete) if fault == "sequence" else discrete
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
        ("sequence", "actions of 'agent_0' in .*Odd, Sequence.* have no fixed length"),
    ],
)
def test_what_cannot_be_called_or_stored_is_named_with_its_cure(fault, message):
    with pytest.raises(ValueError, match=message):
        coopbench.evaluate("python:test_foreign:Odd", "random", episodes=1, fault=fault)


def test_numbers_beyond_floats_are_no_metrics():
    name = "python:test_foreign:Odd"
    report = coopbench.evaluate(name, "random", episodes=1, fault="huge")
    assert [*played(report).metrics] == ["return", "small"]
    engine = lanes_of(foreign_spec(name, {"hash": "last"}), 1, fault="huge")
    engine.reset(np.zeros(1, np.uint64))
    with pytest.raises(ValueError, match="info 'hash' is a number beyond the largest float"):
        engine.step(np.zeros((1, 1), np.int64))


def test_agents_that_take_turns_act_one_by_one():
    play = engine("python:toy_foreign:only_turns")
    both = engine(LAMPS)
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


def test_finished_lanes_begin_anew_in_the_same_step():
    env = coopbench_envs.make_vec(LAMPS, 2, autoreset_mode="SameStep", max_episode_steps=4)
    alone = coopbench_envs.make_vec(toy_foreign.Lamps, 2, max_steps=4)
    actions = np.ones((2, 3), np.int64)
    assert (env.reset(seed=5)[0] == alone.reset(seed=5)[0]).all()
    for step in range(8):
        observation, reward, ended, truncated, infos = env.step(actions)
        last, same, *_, last_infos = alone.step(actions)
        assert (reward == same).all()
        assert (truncated == (step % 4 == 3)).all()
        assert not ended.any()
        if step % 4 == 3:
            assert (np.stack(infos["final_obs"]) == last).all()
            totals = (infos["final_info"]["metrics"], last_infos["metrics"])
            assert (totals[0]["return"] == totals[1]["return"]).all()
            last, *_ = alone.step(actions)
        assert (observation == last).all()
    assert env.metadata["autoreset_mode"] is gym.vector.AutoresetMode.SAME_STEP


@pytest.mark.parametrize("env", [CARTPOLE, toy_foreign.Lamps, "gymnasium:FrozenLake-v1"])
@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_vector_environments_are_shown_and_pickled(env, mode):
    env = coopbench_envs.make_vec(env, 2, render_mode=mode)
    env.reset(seed=0)
    shown = env.render()
    assert all("observation" in one if mode == "ansi" else one.shape[2] == 3 for one in shown)
    assert env.engine.first.alive.all()
    twin, actions = pickle.loads(pickle.dumps(env)), env.action_space.sample()
    for each in (env, twin):
        each.step(actions)
    np.testing.assert_equal(twin.render(), env.render())
    np.testing.assert_array_equal(twin.engine.first.obs, env.engine.first.obs)


def test_a_game_of_this_package_plays_the_same_through_its_pettingzoo_interface():
    def pair():
        return ParallelEnv(TRUST, horizon=6)

    own, other = Engine(TRUST, 3, horizon=6), lanes_of(of_user(pair), 3)
    for play in (own, other):
        play.reset(np.arange(3, dtype=np.uint64))
    random = np.random.default_rng(0)
    for _ in range(14):
        actions = random.uniform(0.0, 100.0, own.actions.shape).astype(np.float32)
        for play in (own, other):
            play.step(actions, SAME_STEP)
        for name in ("obs", "rewards", "returns", "alive", "terminated", "team", "episode"):
            ours, theirs = (getattr(play.control, name) for play in (own, other))
            np.testing.assert_array_equal(ours, theirs, name)
        np.testing.assert_array_equal(own.finals.obs, other.finals.obs)
        np.testing.assert_array_equal(own.finals.returns, other.finals.returns)


def test_different_observations_become_vectors_of_one_length():
    permit(MIXED)
    play = ForeignEngine(foreign_spec(MIXED), 2)
    play.reset(np.arange(2, dtype=np.uint64))
    vectors = play.codec.vectors(play.control.obs)
    assert vectors.shape == (2, 2, 6)  # one-hot n, and x
    assert (vectors[:, 0, 0] == vectors[:, 1, 5]).all()
    assert vectors[:, 1, 0].tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match=r"The actions of .*Mixed are no vectors of a fixed"):
        coopbench_envs.make_vec(MIXED, 1)


def test_learners_get_the_global_state_of_every_lane():
    permit(LAMPS)
    play = lanes_of(LAMPS, 2, global_state=True)
    play.reset(np.arange(2, dtype=np.uint64))
    assert (play.control.state == play.global_state()).all()


@pytest.mark.parametrize("learner", ["ippo", "qmix_shared"])
def test_learners_train_on_them_and_go_on_bit_for_bit(learner, torch):
    values = {"lanes": 2, "batch_size": 4, "replay": 8, "reward": "team"}
    if learner == "ippo":
        values = {"lanes": 2, "rollout": 16, "batch_size": 8, "epochs": 1}
    permit(LAMPS)
    whole, part, rest = (make_learner(learner, LAMPS, {}, 1, **values) for _ in range(3))
    assert whole.learn(130)["episode_length"] == 6
    part.learn(75)
    rest.load(part.save())
    rest.learn(130)
    np.testing.assert_equal(rest.save(), whole.save())


def test_saved_states_of_another_course_are_refused(torch):
    permit(LAMPS)
    values = {"lanes": 2, "rollout": 16, "batch_size": 8}
    learner = make_learner("ippo", LAMPS, {"chance": True}, 1, **values)
    learner.learn(7)
    with pytest.raises(ValueError, match="does not repeat the episode of seed"):
        make_learner("ippo", LAMPS, {"chance": True}, 1, **values).load(learner.save())


@pytest.mark.slow("trains two runs and verifies them")
def test_a_training_run_is_reported_and_verified(tmp_path, torch):
    selection = "[seeds]\nselection = { first = 100, count = 6 }\ntraining = [1, 2]\n"
    training = '[training]\non = "each"\nplays = "own"\nruns = 2\nepisodes = 6\n'
    training += "budgets.on_policy = { steps = 64, interval = 32 }\n"
    protocol = builders.loaded(tmp_path, TOML.replace("[seeds]\n", selection) + training, "lamps")
    values = {"lanes": 2, "rollout": 16, "batch_size": 8}
    report = coopbench.train(protocol, "ippo", tmp_path / "out", **values)
    lengths = [block.lengths for block in report.episodes if block.cell.task == "long"]
    assert np.unique(lengths).tolist() == [7]  # steps of the task
    checks = coopbench.verify(tmp_path / "out", env=[LAMPS])
    assert checks.holds, checks.to_json()


def test_stable_baselines_trains_on_them():
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    env = coopbench_envs.sb3_vec_env(CARTPOLE, 2)
    with pytest.raises(gym.error.ResetNeeded, match="call reset"):
        env.step(np.zeros(2, np.int64))
    stable_baselines3.PPO("MlpPolicy", env, n_steps=16, batch_size=16, seed=1).learn(64)
    assert "agent_0: observation" in env.render("ansi")
    assert env.get_attr("engine")[0].control.episode.max() >= 1


# --- what there is not ----------------------------------------------------------------------------


def test_what_cannot_be_done_is_said(results):
    permit(LAMPS)
    with pytest.raises(ValueError, match="another package, which is not compiled"):
        Engine(LAMPS)
    with pytest.raises(ValueError, match="another package"):
        coopbench.play_episode(LAMPS, "random")
    with pytest.raises(ReplayError, match="cannot be shown here"):
        coopbench.find_episode(f"{results}/toy_foreign/random/0")
    with pytest.raises(ValueError, match="neither saved nor restored"):
        engine(LAMPS).reset(np.zeros(1, np.uint64), state={"time": 1})


class Uneven(toy_foreign.Lamps):
    """Lamps whose first agent has fewer choices than the others, and may not take its first."""

    def action_space(self, agent):
        return gym.spaces.Discrete(2 if agent == self.possible_agents[0] else 3)

    def step(self, actions):
        return super().step({agent: min(choice, 1) for agent, choice in actions.items()})


class Forbidding(gym.Env):
    """Of three choices the first is never legal."""

    observation_space = gym.spaces.Dict(
        {"observation": gym.spaces.Box(0, 1, (1,)), "action_mask": gym.spaces.MultiBinary(3)}
    )
    action_space = gym.spaces.Discrete(3)
    seen = {"observation": np.zeros(1, np.float32), "action_mask": np.array([0, 1, 1], np.int8)}  # noqa: RUF012

    def reset(self, *, seed=None, options=None):
        return self.seen, {}

    def step(self, action):
        return self.seen, 0.0, False, False, {}


@pytest.mark.parametrize("made", [Uneven, Forbidding])
def test_choices_that_an_agent_does_not_have_are_counted_once_and_restored(made):
    played, restored = (lanes_of(of_user(made), 1) for _ in range(2))
    played.reset(np.zeros(1, np.uint64))
    agents = len(played.agents)
    for choice in (2, -1):
        played.step(np.full((1, agents), choice))
    expected = [1] * agents
    expected[0] += made is Uneven  # whose first agent has no choice 2
    assert played.control.invalid[0].tolist() == expected
    restored.reset(np.ones(1, np.uint64), state=played.get_state())
    assert restored.control.invalid[0].tolist() == expected
    played.step(np.full((1, agents), 1))
    restored.step(np.full((1, agents), 1))
    assert restored.control.obs.tobytes() == played.control.obs.tobytes()


class Sized(gym.Env):
    """Its observation has as many numbers as it is told."""

    def __init__(self, size=1):
        self.observation_space = gym.spaces.Box(0, 1, (size,))
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.low, {}


def test_functions_with_other_arguments_are_other_environments():
    sizes = (1, 2, 1)
    made = [coopbench_envs.make_vec(partial(Sized, size), max_episode_steps=3) for size in sizes]
    assert [env.single_observation_space.shape[-1] for env in made] == [1, 2, 1]
    names = [env.engine.spec.id for env in made]
    assert names[0] == names[2] != names[1]
    for size in (3, 4):  # of one name
        env = coopbench_envs.make_vec(lambda size=size: Sized(size), max_episode_steps=3)
        assert env.single_observation_space.shape[-1] == size
