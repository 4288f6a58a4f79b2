"""The forms in which ``evaluate`` takes policies, environments and progress."""

import copy
import json
import pickle
import re
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from builders import Last, make_block

import coopbench
import coopbench_envs
from coopbench.baselines.policy import label
from coopbench.baselines.predicting import Torch
from coopbench.episodes.table import Cell, EpisodeTable
from coopbench.playing.rollout import play
from coopbench.playing.wrapped import Named
from coopbench.protocol.loading import ad_hoc
from coopbench.report.markdown import as_markdown
from coopbench.report.sections.outside import actions_outside

ENV = "coopbench/TrustDilemma-v1"
SHORT = {"episodes": 3, "seed": 5, "horizon": 6}


def nothing(observations):
    return np.zeros((*observations.shape[:2], 1))


class Counting:
    """Invests more with every step of an episode, and remembers the step per lane."""

    def initial(self, game, seeds):
        return np.zeros(len(seeds))

    def act(self, observations, memory):
        actions = np.broadcast_to(memory[:, None, None], (*observations.shape[:2], 1))
        return actions / 10.0, memory + 1.0


class Model:
    """Predicts one action per row, like a model of parameter sharing."""

    def __init__(self):
        self.rows = set()

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        assert deterministic
        self.rows.add(observation.shape[1:])
        return np.full((len(observation), 1), 0.25, np.float32), state


def _returns(report, policy):
    blocks = [block for block in report.episodes if block.cell.policy == policy]
    assert len(blocks) == 1
    return blocks[0].returns


def _names(report):
    return list(dict.fromkeys(block.cell.policy for block in report.episodes))


def test_a_mapping_names_its_policies():
    report = coopbench.evaluate(ENV, {"idle": nothing, "counts": Counting()}, **SHORT)
    assert _names(report) == ["idle", "counts"]
    listed = coopbench.evaluate(ENV, [nothing, Counting()], **SHORT)
    assert np.array_equal(_returns(report, "idle"), _returns(listed, "nothing"))
    assert np.array_equal(_returns(report, "counts"), _returns(listed, "Counting"))
    assert not np.array_equal(_returns(report, "idle"), _returns(report, "counts"))


def test_a_function_is_called_by_the_name_that_its_author_gave_it():
    def invests(observations):
        return np.ones((*observations.shape[:2], 1))

    assert label(invests) == "invests"
    invests.name = "all in"
    assert label(invests) == "all in"


@pytest.mark.parametrize("policy", ["random", Model()])
def test_one_policy_needs_no_list(policy):
    alone = coopbench.evaluate(ENV, policy, **SHORT)
    listed = coopbench.evaluate(ENV, [policy], **SHORT)
    assert [block.returns.tolist() for block in alone.episodes] == [
        block.returns.tolist() for block in listed.episodes
    ]


@pytest.mark.parametrize(
    ("policies", "error", "message"),
    [
        ({"random": nothing}, ValueError, "'random' is a policy of this package, and another one"),
        ({"mine": "random"}, ValueError, "'random' is called 'mine' here"),
        ([Counting(), Counting()], ValueError, r"called Counting.*dictionary \{name: policy\}"),
        ({3: nothing}, ValueError, "Policies are named by texts; given 3"),
        ({"a": Counting}, TypeError, r"Counting is a class; make an object of it: Counting\("),
        ({"a": 5}, TypeError, "A policy is a name, a callable"),
        (5, TypeError, "Policies are a name, a function"),
        ({}, ValueError, "No policies to evaluate"),
        ({"a": coopbench.Failed("it")}, ValueError, r"TrainedRuns\('a', \{training seed"),
    ],
)
def test_other_forms_are_refused(policies, error, message):
    with pytest.raises(error, match=message):
        coopbench.evaluate(ENV, policies, **SHORT)


def test_a_named_policy_is_the_policy():
    named = Named("mine", Counting())
    for again in (named, copy.deepcopy(named), pickle.loads(pickle.dumps(named))):
        assert again.name == "mine"
        assert again.initial(None, np.zeros(2)).shape == (2,)
        assert not hasattr(again, "uses_state")


def test_a_model_trained_through_rescale_action_is_scaled_to_the_game():
    class Rescaled:
        """Always invests one half, in its own units."""

        action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

        def predict(self, observation):
            return np.zeros((len(observation), 1)), None

    def half(observations):
        return np.full((*observations.shape[:2], 1), 0.5)

    report = coopbench.evaluate(ENV, {"rescaled": Rescaled(), "half": half}, **SHORT)
    assert np.array_equal(_returns(report, "rescaled"), _returns(report, "half"))
    assert len(report.notes) == 1
    assert "rescaled on trustdilemma-v1 are scaled from [-1, 1] to [0, 1]" in report.notes[0]


@pytest.mark.parametrize("joint", [False, True])
def test_a_model_that_takes_masks_is_given_the_legal_choices(joint):
    """As that of sb3-contrib's MaskablePPO, of rows of agents or of joint control."""

    class Maskable:
        """Makes the last legal choice of every agent."""

        def predict(self, observation, state=None, deterministic=False, action_masks=None):
            assert action_masks.dtype == np.bool_
            legal = action_masks.reshape(len(observation), -1, 9)
            return 8 - legal[:, :, ::-1].argmax(axis=2), state

    model = Maskable()
    if joint:
        env = gymnasium.make("coopbench/Skirmish-v1", map="3m")
        model.observation_space = env.observation_space
    policies = {"model": model, "last": Last()}
    report = coopbench.evaluate("Skirmish-v1", policies, map="3m", episodes=3)
    assert np.array_equal(_returns(report, "model"), _returns(report, "last"))


def test_a_model_trained_in_vec_normalize_sees_normalized_observations():
    normalizing = pytest.importorskip("stable_baselines3.common.vec_env").VecNormalize
    environment = normalizing(coopbench_envs.sb3_vec_env(ENV, 2))
    environment.obs_rms.mean[:] = 3.0

    class Normalized:
        """Invests everything where the observations are those of its training."""

        def get_vec_normalize_env(self):
            return environment

        def predict(self, observation):
            return (observation.max(axis=1, keepdims=True) < 0).astype(np.float32), None

    def everything(observations):
        return np.ones((*observations.shape[:2], 1))

    report = coopbench.evaluate(ENV, {"model": Normalized(), "all": everything}, **SHORT)
    assert np.array_equal(_returns(report, "model"), _returns(report, "all"))


def test_actions_outside_of_the_space_are_counted_at_the_top_of_every_report(tmp_path, command):
    def beyond(observations):
        actions = np.full((*observations.shape[:2], 1), 0.5)
        actions[:, 1] = -0.2  # one of two agents
        return actions

    with pytest.warns(UserWarning, match=r"beyond takes .* step on: \[-0.2\] for .*: \[0.0\] to"):
        report = coopbench.evaluate(ENV, [beyond, "random"], tmp_path / "r", **SHORT)
    ((policy, count, share),) = [(r.policy, r.actions, r.share) for r in report.outside]
    assert (policy, count, share) == ("beyond", 18, 0.5)
    for text in (str(report), as_markdown(report.document), command("report", "r").out):
        assert text.index("Actions outside of the action space") < text.index("Metric")
        assert re.search(r"beyond\W+trustdilemma-v1\W+18\W+50 %", text)


def test_actions_that_leave_the_space_later_are_counted_without_a_warning():
    def later(observations):
        later.step += 1
        return np.full((*observations.shape[:2], 1), 0.5 + (later.step > 4))

    later.step = 0
    report = coopbench.evaluate(ENV, {"later": later}, **SHORT)
    assert [(row.actions, row.share) for row in report.outside] == [(12, 1 / 3)]


def test_actions_outside_of_the_space_are_a_share_of_those_of_all_runs():
    """Of one run two of eight, of the other, which is longer, three of sixteen."""
    first = make_block(Cell("t", "p", 0), np.zeros((1, 2)), outside=2)
    second = make_block(Cell("t", "p", 1), np.zeros((1, 2)), outside=3, lengths=np.array([8]))
    (row,) = actions_outside(None, EpisodeTable((first, second)))
    assert (row.actions, row.share) == (5, 5 / 24)


@pytest.mark.filterwarnings("ignore:p takes actions outside")
def test_actions_outside_of_bounds_of_other_packages_are_counted():
    space = gymnasium.spaces.Box(np.array([-1, -np.inf], np.float32), np.array([1, 2], np.float32))

    class Wide(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), space

        def reset(self, *, seed=None, options=None):
            self.time = 0
            return np.zeros(1, np.float32), {}

        def step(self, action):
            assert space.contains(action)
            self.time += 1
            return np.zeros(1, np.float32), 0.0, False, self.time == 6, {}

    for action, outside in (([0.5, 2.5], 12), ([1.0, -99.0], 0)):
        played = coopbench.evaluate(
            Wide,
            {"p": lambda o, action=action: np.tile(action, (*o.shape[:2], 1))},
            episodes=2,
            only=True,
        )
        assert sum(row.actions for row in played.outside) == outside


class Ending(gymnasium.Env):
    """An episode takes as many steps as its seed says, from 1 to 5."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (2,))

    def reset(self, *, seed=None, options=None):
        self.left = 1 + seed % 5
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.zeros(1, np.float32), 0.0, self.left == 0, False, {}


@pytest.mark.filterwarnings("ignore:p takes actions outside")
def test_actions_count_until_an_episode_is_over_and_partners_do_not():
    def beyond(observations):
        return np.full((*observations.shape[:2], 2), [0.0, -1.5])

    report = coopbench.evaluate(Ending, {"p": beyond}, episodes=5, seed=0, only=True)
    (block,) = report.episodes
    assert len(set(block.lengths.tolist())) > 1
    assert block.outside == block.lengths.sum() == block.decisions

    def above(observations):
        return np.full((*observations.shape[:2], 1), 1.5)

    def within(observations):
        return np.full((*observations.shape[:2], 1), 0.5)

    protocol = ad_hoc(ENV, episodes=4, horizon=6)
    for policy, partner, outside in ((within, above, 0), (above, within, 4 * 6)):
        cell = Cell(protocol.task[0].id, "p")
        assert play(protocol, cell, policy, partners=[partner]).outside == outside


def test_check_names_actions_outside_of_the_space(command, tmp_path):
    code = "import numpy as np\ndef fifty(o):\n    return np.full((*o.shape[:2], 1), 50.0)\n"
    (tmp_path / "mine.py").write_text(code + "def fine(o):\n    return 0.01 * fifty(o)\n")
    words = "check", ENV, "--param", "horizon=6", "-p"
    with pytest.warns(UserWarning, match="from the first step on"):
        printed = command(*words, "mine.py:fifty", status=1)
    assert "took 12 of its actions (100 %) outside of the action space" in printed.out
    assert "no fault found" in command(*words, "mine.py:fine").out
    assert "no fault found" in command(*words, "named=mine.py:fine").out


def test_models_predict_without_exploration():
    model = Model()
    report = coopbench.evaluate(ENV, {"model": model}, **SHORT)
    constant = coopbench.evaluate(
        ENV, {"c": lambda o: np.full((*o.shape[:2], 1), np.float32(0.25))}, **SHORT
    )
    assert np.array_equal(_returns(report, "model"), _returns(constant, "c"))
    ((features,),) = model.rows  # of one agent

    class Joint:
        observation_space = SimpleNamespace(shape=(2, features))

        def predict(self, observation):
            return np.zeros((len(observation), 2, 1))

    report = coopbench.evaluate(ENV, Joint(), **SHORT)
    idle = coopbench.evaluate(ENV, nothing, **SHORT)
    assert np.array_equal(_returns(report, "Joint"), _returns(idle, "nothing"))
    Joint.observation_space.shape = (features + 1,)
    with pytest.raises(ValueError, match=rf"predicts from observations of shape \({features + 1},"):
        coopbench.evaluate(ENV, Joint(), **SHORT)


def test_a_model_with_memory_is_refused():
    class Recurrent:
        def predict(self, observation):
            return np.zeros((len(observation), 1)), (np.zeros(3),)

    with pytest.raises(ValueError, match=r"has a memory.*initial\(game, seeds\)"):
        coopbench.evaluate(ENV, Recurrent(), **SHORT)


def test_a_torch_module_plays_on_its_device_without_gradients(tmp_path):
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Sequential):
        calls = ()

        def forward(self, observations):
            actions = super().forward(observations)
            self.calls += ((self.training, actions.requires_grad, observations.device.type),)
            return actions

    features = len(coopbench_envs.Engine(ENV).control.obs[0, 0])
    torch.manual_seed(0)
    net = Net(torch.nn.Linear(features, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    report = coopbench.evaluate(ENV, {"net": net}, out=tmp_path / "r", **SHORT)
    assert set(net.calls) == {(False, False, "cpu")}
    assert net.training  # as it was
    Torch(net.eval()).act(np.zeros((2, 2, features), np.float32), None)
    assert not net.training
    weights = [part.detach().numpy() for part in net.parameters()]

    def by_hand(o):
        return (o @ weights[0].T + weights[1]) @ weights[2].T + weights[3]

    again = coopbench.evaluate(ENV, {"same": by_hand}, **SHORT)
    np.testing.assert_allclose(_returns(report, "net"), _returns(again, "same"), rtol=1e-4)
    result = coopbench.verify(tmp_path / "r")
    assert result.identical
    (meta,) = (json.loads(file.read_bytes()) for file in tmp_path.glob("r/*/net/meta.json"))
    assert meta["machine"]["device"] == "cpu"
    with pytest.raises(ValueError, match="returned actions of shape"):
        coopbench.evaluate(ENV, torch.nn.Linear(features, 3), **SHORT)


@pytest.mark.parametrize("kind", ["float64", "bfloat16"])
def test_a_torch_module_sees_observations_of_the_type_of_its_weights(kind):
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(7, 1), torch.nn.Sigmoid())
    plain = Torch(module).act(np.full((3, 2, 7), 0.1, np.float32), None)[0]
    typed = Torch(module.to(getattr(torch, kind))).act(np.full((3, 2, 7), 0.1, np.float32), None)[0]
    assert typed.shape == (3, 2, 1)
    np.testing.assert_allclose(typed, plain, atol=0.01)


@pytest.mark.parametrize("grows", [False, True])
def test_a_torch_module_may_return_a_view_of_a_parameter(grows):
    torch = pytest.importorskip("torch")

    class Same(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.share = torch.nn.Parameter(torch.full((3, 2, 1), 0.5))

        def forward(self, observations):
            if grows:  # in place: what it has returned before is part of the game by then
                self.share.data += 0.5
            return self.share if len(observations) == 3 else self.share[:1]

    def half(observations):
        half.step += grows
        return np.full((*observations.shape[:2], 1), 0.5 + 0.5 * half.step)

    half.step = 0
    reports = [coopbench.evaluate(ENV, {"x": each}, **SHORT) for each in (Same(), half)]
    np.testing.assert_array_equal(*(_returns(report, "x") for report in reports))


def test_an_environment_is_evaluated_as_on_the_command_line(command, tmp_path):
    report = coopbench.evaluate(ENV, "random", partners="tit_for_tat", **SHORT)
    words = ["--episodes", 3, "--seed", 5, "--param", "horizon=6", "--partner", "tit_for_tat"]
    command("evaluate", "TrustDilemma-v1", *words, "-p", "random", "--out", "there")
    stored = coopbench.load_report(tmp_path / "there")
    assert np.array_equal(_returns(stored, "random"), _returns(report, "random"))
    (block,) = report.episodes
    assert block.seeds.tolist() == [5, 6, 7]
    assert set(block.lengths) == {6}
    assert not block.seats.all()


def test_parameters_may_be_numbers_and_arrays_of_numpy():
    report = coopbench.evaluate(ENV, "random", horizon=np.int64(6), episodes=2, metrics="length")
    assert report.protocol.task[0].parameters == {"horizon": 6}
    assert {row.metric for row in report.estimates} == {"return", "length"}
    report = coopbench.evaluate(ENV, "random", high=np.array([1.5, 2.0]), episodes=2)
    assert report.protocol.task[0].parameters == {"high": [1.5, 2.0]}
    for pair in ((np.float32(0.25), np.float32(0.5)), np.array([0.25, 0.5])):
        report = coopbench.evaluate("SynergySearch-v0", "random", gamma_range=pair, episodes=2)
        assert report.protocol.task[0].parameters == {"gamma_range": [0.25, 0.5]}


def test_settings_go_with_what_they_set():
    with pytest.raises(ValueError, match="episodes, seed go with the id of an environment"):
        coopbench.evaluate("coopetition-standard", "random", episodes=3, seed=1)
    with pytest.raises(ValueError, match="tasks go with a protocol"):
        coopbench.evaluate(ENV, "random", tasks="a")
    with pytest.raises(ValueError, match="no argument 'baselines': required baselines are played"):
        coopbench.evaluate("coopetition-standard", "random", baselines=True)
    with pytest.raises(ValueError, match="no argument 'task': name tasks with tasks="):
        coopbench.evaluate("coopetition-standard", "random", task="slcd")
    with pytest.raises(ValueError, match="name their number with episodes="):
        coopbench.evaluate(ENV, "random", n_episodes=3)
    with pytest.raises(ValueError, match="a task: 'coopbench evaluate coopetition-standard --task"):
        coopbench.evaluate("slcd.focal", "random")
    with pytest.raises(ValueError, match="no argument 'parameters': give each parameter"):
        coopbench.evaluate(ENV, "random", parameters={"horizon": 3})
    with pytest.raises(ValueError, match="Did you mean 'horizon'"):
        coopbench.evaluate(ENV, "random", horizn=3)


def test_progress_is_shown_on_the_error_stream(capsys):
    coopbench.evaluate(ENV, ["random", "cooperator"], progress=True, **SHORT)
    printed = capsys.readouterr()
    assert printed.err.splitlines() == ["playing trustdilemma-v1"]  # one line for each task
    assert printed.out == ""
    coopbench.evaluate(ENV, "random", **SHORT)
    assert capsys.readouterr().err == ""
