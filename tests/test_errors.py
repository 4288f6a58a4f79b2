"""Errors are part of the interface: they name the thing, what was given, what is allowed."""

import ast
import pickle
import re
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import builders
import gymnasium
import numpy as np
import pettingzoo
import pytest

from coopbench import errors
from coopbench.baselines.registry import learners
from coopbench.cli import main as command_line
from coopbench.describe import describe
from coopbench.protocol.loading import find_protocol
from coopbench_envs import Engine
from coopbench_envs.parameters import Allowed, between, resolve, unknown

ROOT = Path(__file__).resolve().parent.parent
_ROOT = errors.CoopbenchError.__module__


def _bases(name):
    """Names of the bases of an exception other than ``CoopbenchError``."""
    return [base.__name__ for base in getattr(errors, name).__bases__ if base.__module__ != _ROOT]


def test_a_misspelled_environment_in_place_of_a_protocol_is_told():
    with pytest.raises(
        errors.ProtocolError, match=r"mean 'coopbench/TrustDilemma-v1'.* environment"
    ):
        find_protocol("TrustDilema-v1")
    with pytest.raises(errors.ProtocolError, match=r"must end in \.toml"):
        find_protocol("qqqq")


def test_all_exceptions_are_in_one_tree():
    """Every exception of the three packages that users can meet is listed in the tree."""
    # The one is the cause of an error and never raised, the other is caught where it is raised.
    beside = {"WorkerTraceback", "EpisodeLost"}
    for folder in ("coopbench_envs", "baselines", "coopbench"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                bases = [ast.unparse(b) for b in node.bases] if type(node) is ast.ClassDef else []
                if any(re.search(r"(Error|Exception)$", base) for base in bases):
                    private = node.name.startswith("_") or node.name in beside
                    assert private or node.name in errors.__all__, f"{file} defines {node.name}"
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), errors.CoopbenchError)


@pytest.mark.parametrize("page", ["docs/running.md", "coopbench/errors.py"])
def test_the_tree_of_exceptions_is_documented(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    row = r"\| `(\w+)` \| (?:`(\w+)`)? ?\|" if page.endswith(".md") else r"── (\w+) +\((\w+)\)"
    documented = {name: base or "Exception" for name, base in re.findall(row, text)}
    defined = {name: (_bases(name) or ["Exception"])[0] for name in errors.__all__}
    assert documented == {n: base for n, base in defined.items() if n != "CoopbenchError"}


@pytest.mark.parametrize("name", errors.__all__)
def test_exceptions_travel_between_processes_and_are_printed(name, monkeypatch, capsys):
    error = getattr(errors, name)("this and that")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == "this and that"

    def app(**options):
        raise error

    monkeypatch.setattr(command_line, "app", app)
    with pytest.raises(SystemExit) as stop:
        command_line.main()
    assert stop.value.code == (1 if name in ("WorkerError", "DamagedResultError") else 2)
    assert capsys.readouterr().err == "Error: this and that\n"


def test_unknown_parameter_names_the_nearest(kind_id):
    for make in (
        partial(gymnasium.make, kind_id),
        partial(gymnasium.make_vec, kind_id, num_envs=2),
        partial(pettingzoo.make, "parallel", kind_id),
    ):
        with pytest.raises(TypeError, match=r"'horizn'.*Did you mean 'horizon'"):
            make(horizn=5)
        with pytest.raises(TypeError, match=r"Unknown parameter 'lanes' .*Known: "):
            make(lanes=3)  # the name of an argument of engines


@pytest.mark.parametrize("value", [0, 2.0, "4", None, True])
def test_counts_are_whole_numbers(value):
    for name in ("num_envs", "threads"):
        with pytest.raises(ValueError, match=f"{name} was {value!r}; allowed: whole numbers >= 1"):
            gymnasium.make_vec("coopbench/TrustDilemma-v0", **{name: value})


@pytest.mark.parametrize("value", [0, -3, 2.5, "ten", None, True, float("nan")])
def test_value_out_of_range(value):
    with pytest.raises(ValueError, match=r"'horizon'.*was .*allowed: int in \[1, "):
        Engine("TrustDilemma-v0", horizon=value)


def test_what_is_no_number_has_no_range():
    params = learners()["ippo"].params
    given = {"partners": 'a list of texts, as ["A", "B"]', "scale_observations": "True or False"}
    for name, allowed in given.items():
        message = re.escape(f"'{name}' of x was 1; allowed: {allowed}.")
        with pytest.raises(ValueError, match=message):
            resolve(params, {name: 1}, "x")
    assert "finite" not in describe("ippo")


@pytest.mark.parametrize(
    ("hint", "allowed"),
    [
        (tuple[float, ...] | None, "a list of numbers, each in [0, 1000], or None"),
        (float | tuple[float, ...], "a number or a list of numbers, each in [0, 1000]"),
        (tuple[int, ...], "a list of whole numbers, each in [0, 1000]"),
        (
            float | tuple[tuple[float, ...], ...],
            "a number or a list of lists of numbers, each in [0, 1000]",
        ),
        (float | None, "float | None in [0, 1000]"),
    ],
)
def test_lists_are_said_in_english(hint, allowed):
    class Bounded(NamedTuple):
        x: Annotated[hint, between(0, 1e3, "some")]

    class Unbounded(NamedTuple):
        x: Annotated[hint, Allowed("some")]

    with pytest.raises(ValueError, match=re.escape(f"was 'ab'; allowed: {allowed}.")):
        resolve(Bounded, {"x": "ab"}, "here")
    with pytest.raises(ValueError, match="allowed: ") as error:
        resolve(Unbounded, {"x": "ab"}, "here")
    assert ", each" not in str(error.value)


def test_two_numbers_are_said_in_english():
    with pytest.raises(ValueError, match=r"was 1\.5; allowed: two numbers 0 <= lowest <= highest"):
        Engine("TrustDilemma-v1", high=1.5)


def test_the_ends_of_an_interval_are_allowed_and_no_more():
    for above, allowed in ((False, [0.0, 0.5, 1.0]), (True, [0.5, 1.0])):
        interval = between(0.0, 1.0, "share", above=above)
        values = (-0.1, 0.0, 0.5, 1.0, 1.1, float("inf"), float("nan"))
        assert [value for value in values if interval.admits(value)] == allowed


@pytest.mark.parametrize(
    "parameter", ["Routing-v0.contact_margin", "PlatformEcosystem-v1.floor", "LoyaltyTeam-v0.c"]
)
def test_positive_numbers_are_not_so_small_that_quotients_overflow(parameter):
    env, name = parameter.split(".")
    with pytest.raises(ValueError, match=rf"'{name}' of .* was 5e-324; allowed: float in \[1e-09"):
        Engine(env, **{name: 5e-324})


def test_a_range_runs_from_its_lowest_to_its_highest_number():
    for ends, fits in (((0.3, 0.3), True), ((0.3, 0.9), True), ((0.9, 0.3), False)):
        given = {"initial_trust": ends}
        with nullcontext() if fits else pytest.raises(ValueError, match="lowest <= highest"):
            Engine("PlatformEcosystem-v1", **given)


def test_choices_are_listed_or_there_is_a_command_that_lists_them():
    with pytest.raises(ValueError, match=r"'reward_type'.*'selfish'.*'integrated', 'private'"):
        Engine("TrustDilemma-v0", reward_type="selfish")
    text = "Unknown fruit 'x' in a bowl. Known: apple, lime, pear."
    assert unknown("fruit", "x", ["pear", "apple", "lime"], "a bowl", "eat") == text
    many = [f"a/Pear-v{k}" for k in range(19)] + ["b/Lime-v0", "b/Lime-v2"]
    text = "Unknown fruit 'lime-v3'. Did you mean 'b/Lime-v2' or 'b/Lime-v0'? 'eat' prints all 21."
    assert unknown("fruit", "lime-v3", many, listing="eat") == text


def test_actions_of_wrong_shape_or_kind(kind_id):
    engine = builders.begun(kind_id, 2)
    before = engine.get_state()
    with pytest.raises(ValueError, match=r"must have shape .*given \(7,\)"):
        engine.step(np.zeros(7))
    with pytest.raises(ValueError, match=r"must be (integers|numbers)"):
        engine.step(np.full(engine.actions.shape, "x"))
    with pytest.raises(ValueError, match="some are masked"):
        engine.step(np.ma.masked_all_like(engine.actions))
    with pytest.raises(ValueError, match=r"mode was 2; allowed"):
        engine.step(np.zeros(engine.actions.shape, engine.actions.dtype), 2)
    if not engine.discrete:
        for bad in (np.nan, np.inf, -np.inf):
            actions = np.ones(engine.actions.shape)
            actions[1, 1, 0] = bad
            with pytest.raises(ValueError, match=f"finite; lane 1, agent '{engine.agents[1]}'"):
                engine.step(actions)
    np.testing.assert_equal(engine.get_state(), before)  # nothing was corrupted
    single = gymnasium.make(kind_id).unwrapped
    single.reset(seed=0)
    with pytest.raises(ValueError, match=r"that of action_space; given \(11,\)"):
        single.step(np.zeros(11))


def test_a_refused_action_of_one_agent_changes_nothing(kind_id):
    """The partner, who draws numbers, has not acted either."""
    env, plain = (gymnasium.make_vec(kind_id, num_envs=2, control="focal") for _ in range(2))
    shape, kind = plain.action_space.shape, plain.action_space.dtype
    plain.action_space.seed(0)
    for each in (env, plain):
        each.reset(seed=1)
    masked = np.ma.masked_all(shape, kind)
    for bad in (np.zeros(7), *(np.full(shape, x) for x in (np.nan, "1", 1j, None)), masked):
        with pytest.raises(ValueError, match="Actions of"):
            env.step(bad)
        actions = plain.action_space.sample()
        np.testing.assert_equal(env.step(actions)[:2], plain.step(actions)[:2])


def test_illegal_discrete_actions_do_nothing_and_are_counted():
    env = gymnasium.make("test/Pennies-v0", num_agents=2, horizon=9, disable_env_checker=True)
    env.reset(seed=0)
    before = env.unwrapped.engine.state.pennies.copy()
    for count, action in enumerate(([99, 0], [-5, 0], [3, 0]), start=1):
        *_, info = env.step(np.array(action))
        assert info["invalid_actions"].tolist() == [count, 0]
    np.testing.assert_array_equal(env.unwrapped.engine.state.pennies, before)
    env.unwrapped.engine.reset(state={"pennies": np.array([[0, 3]])})
    *_, info = env.step(np.array([1, 0]))  # there is nothing to give
    assert info["invalid_actions"].tolist() == [1, 0]
    assert env.unwrapped.engine.state.pennies.tolist() == [[0, 3]]
    parallel = pettingzoo.make("parallel", "test/Pennies-v0", num_agents=2)
    parallel.reset(seed=0)
    *_, infos = parallel.step({"player_0": 7, "player_1": 0})
    assert infos["player_0"]["invalid_actions"] == 1
    assert infos["player_1"]["invalid_actions"] == 0
    assert infos["player_0"]["action_mask"].dtype == np.int8


def test_bad_state_changes_nothing(kind_id):
    engine = builders.begun(kind_id, seed=1)
    before = engine.get_state()
    field = engine.state._fields[1]
    shape = before[field].shape[1:]
    with pytest.raises(ValueError, match=r"Unknown state field 'tme'.*Did you mean 'time'"):
        engine.reset(state={"tme": 3})
    with pytest.raises(ValueError, match=f"'{field}' .*must have shape"):
        engine.reset(state={field: np.zeros((9, 9, 9, 9))})
    with pytest.raises(ValueError, match=f"'{field}' .*must hold (finite|whole|True)"):
        engine.reset(state={field: np.full(shape, np.nan)})
    np.testing.assert_equal(engine.get_state(), before)


def test_seeds_and_masks(kind_id):
    with pytest.raises(ValueError, match=r"Unknown autoreset_mode 'NextSteps'. Did you mean"):
        gymnasium.make_vec(kind_id, num_envs=3, autoreset_mode="NextSteps")
    env = gymnasium.make_vec(kind_id, num_envs=3)
    with pytest.raises(ValueError, match="one per lane: 3; given 2"):
        env.reset(seed=[1, 2])
    for seed in (-1, 0.5, np.array(True), float("inf"), float("nan"), 2**64, 2**64 - 1):
        with pytest.raises(ValueError, match=r"seed must be (a whole number|below 2\^64)"):
            env.reset(seed=seed)
    with pytest.raises(ValueError, match="names 1 of 3 lanes, and no episode has begun"):
        env.reset(seed=1, options={"reset_mask": np.arange(3) == 1})
    first = env.reset(seed=1)[0][0]
    for seed in (np.int64(1), np.array(1)):
        single = gymnasium.make(kind_id).unwrapped
        np.testing.assert_array_equal(single.reset(seed=seed)[0], first)
    for mask in (np.ones(3), np.zeros(3, np.bool_), np.ones(2, np.bool_)):
        with pytest.raises(ValueError, match="reset_mask"):
            env.reset(options={"reset_mask": mask})
    parallel = pettingzoo.make("parallel", kind_id)
    with pytest.raises(ValueError, match="seed must be a whole number"):
        parallel.reset(seed=-1)
    with pytest.raises(ValueError, match="options\\['state'\\] must map"):
        parallel.reset(seed=1, options={"state": 3})
    with pytest.raises(ValueError, match="18446744073709551616"):
        parallel.reset(seed=2**64)  # not the game of seed 0
    parallel.reset(seed=2**64 - 1, options={"anything": 1})  # foreign options pass


def test_control_and_partner(kind_id):
    with pytest.raises(ValueError, match="'control' was 'both'; allowed: 'joint', 'focal'"):
        gymnasium.make(kind_id, control="both")
    for ego in (99, True, 1.0, "0", None):
        with pytest.raises(ValueError, match=rf"'ego' .* was {ego!r}; allowed: 0 to"):
            gymnasium.make(kind_id, control="focal", ego=ego)
    with pytest.raises(ValueError, match=r"Unknown policy 'randm'. Did you mean 'random'"):
        gymnasium.make(kind_id, control="focal", partner="randm")
    with pytest.raises(ValueError, match="control='focal'"):
        gymnasium.make(kind_id).unwrapped.set_partner("random")
    with pytest.raises(ValueError, match="'dead_agents' was 'bury'"):
        pettingzoo.make("parallel", kind_id, dead_agents="bury")


def test_missing_action_and_finished_episode(kind_id):
    env = pettingzoo.make("parallel", kind_id, max_cycles=1)
    with pytest.raises(AssertionError, match="needs to be called before step"):
        env.step({})
    env.reset(seed=0)
    with pytest.raises(ValueError, match="render_mode='rgb_array'"):
        env.render()
    actions = {agent: env.action_space(agent).sample() for agent in env.agents}
    first, *others = env.agents
    with pytest.raises(ValueError, match=f"No action for '{first}'"):
        env.step({agent: actions[agent] for agent in others})
    with pytest.raises(ValueError, match="Unknown agent 'nobody'"):
        env.step(actions | {"nobody": actions[first]})
    with pytest.raises(ValueError, match=r"must be a mapping .*given list"):
        env.step([0, 0])
    env.step(actions)
    turns = pettingzoo.make("aec", kind_id)
    for each in (env, turns):  # the state of an end begins no episode
        each.reset(options={"state": env.get_state()})
        assert each.agents == []
    assert list(turns.agent_iter()) == []
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(actions)


@pytest.mark.parametrize(
    ("make", "name"),
    [(gymnasium.make_vec, "max_episode_steps"), (partial(pettingzoo.make, "aec"), "max_cycles")],
)
def test_two_limits_that_differ(make, name):
    assert make("coopbench/TrustDilemma-v0", horizon=3, **{name: 3}).unwrapped.engine.horizon == 3
    with pytest.raises(ValueError, match=f"{name} was 3, and horizon 50; .*give one"):
        make("coopbench/TrustDilemma-v0", horizon=50, **{name: 3})


def test_a_task_that_is_to_be_described_is_called_a_task():
    with pytest.raises(
        ValueError, match=r"'3m-drawn' is a task of skirmish-small; 'coopbench show"
    ):
        describe("3m-drawn")


def test_what_a_protocol_names_and_is_not_here_is_listed_when_it_is_shown(tmp_path):
    """Only then: others may have evaluated it with policies of packages of theirs."""
    text = """
    extends = "routing-easy"
    protocol = { name = "mine" }
    report = { baselines = ["greddy"], learned = ["ippo_shard"], chart = [], reproduces = {} }
    [[task]]
    id = "one"
    env = "coopbench/Routing-v0"
    parameters = { num_agents = 2 }
    bounds = { low = 0.0, high = 1.0 }
    instances = { file = "none.npz", sha256 = "%s" }
    """
    protocol = builders.loaded(tmp_path, text % ("0" * 64))
    with pytest.raises(errors.ProtocolError) as error:
        describe(str(tmp_path / "small.toml"))
    head, *lines = str(error.value).splitlines()
    assert head == f"{protocol.name} names what is not here:"
    for line, words in zip(
        lines,
        (
            "report.baselines: Unknown policy 'greddy'. Did you mean 'greedy'",
            "report.learned: Unknown learner 'ippo_shard'. Did you mean 'ippo_shared'",
            "task.instances: Task 'one': there is no instance file none.npz",
        ),
        strict=True,
    ):
        assert words in line
