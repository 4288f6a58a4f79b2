"""Training beside partners, pools of partners, and rewards that a protocol fixes for learners."""

import builders
import numpy as np
import pytest
from team_training import rows_of

import coopbench
from coopbench.baselines.match import OWN, seating
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_learner
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell
from coopbench.errors import ProtocolError
from coopbench.playing.plan import game_of
from coopbench.playing.rollout import play
from coopbench.protocol.loading import ad_hoc, load_protocol
from coopbench.results import store
from coopbench.workflows.training_plan import Scope, runs

POOL = ("always_defect", "cooperator", "unforgiving:0.4", "random")
GAME = ("TrustDilemma-v1", {"horizon": 3})
SETTINGS = {"lanes": 8, "partners": POOL}
POOLED = """
extends = "coopetition-published"
[protocol]
name = "mine"
[report]
learned = []
[pools]
strangers = ["random", "always_defect"]
[[task]]
id = "dilemma"
env = "coopbench/TrustDilemma-v0"
partners = {partners}
bounds = {{ low = 0.0, high = 1.0 }}
"""
TINY = {
    "ippo": {"rollout": 32, "batch_size": 16, "epochs": 1, "layers": "8"},
    "isac": {"warmup": 8, "train_every": 8, "batch_size": 8, "updates": 1, "layers": "8"},
}


def played(rows, steps):
    """Play noise; yield the seats of the learner, what was seen, and what came of it."""
    rng = np.random.default_rng(0)
    for _ in range(steps):
        learning = rows.learning().copy()
        before = rows.engine.control.obs.copy()
        yield learning, before, rows.step(rng.uniform(-1, 1, (8, 2, 1)))


def test_all_lanes_go_through_all_line_ups_and_rows_of_partners_are_not_learned_from():
    rows = rows_of(*GAME, **SETTINGS)
    met = {lane: [] for lane in range(8)}
    for learning, _, step in played(rows, 3 * 8):
        np.testing.assert_array_equal(step.valid, learning)
        for lane in range(8):
            met[lane].append(tuple(learning[lane]))
    table = [tuple(row) for row in seating(8, 2, 4) == OWN]
    for lane in range(8):  # 8 episodes of 3 steps
        assert met[lane][::3] == [table[(lane + e * 8) % 8] for e in range(8)]


def test_partners_act_as_they_do_elsewhere():
    """In a lane with partners the game goes as if they had been seated in a match."""
    rows = rows_of(*GAME, lanes=8, partners=("always_defect",))
    for learning, _, _ in played(rows, 5):
        assert learning.sum() == 8
        if not rows.engine.control.done.any():
            assert (rows.engine.actions[~learning] == 0.0).all()


def test_without_partners_none_are_stored():
    plain, beside = rows_of(*GAME, lanes=8), rows_of(*GAME, **SETTINGS)
    names = [any(name.startswith("partners") for name in rows.save()) for rows in (plain, beside)]
    assert names == [False, True]
    assert plain.learning().all()


@pytest.mark.parametrize("learner", ["ippo", "isac", "mappo", "maddpg"])
def test_beside_partners_one_model_has_all_seats(learner):
    """It learns from every episode, and is told its seat, as shared learners are."""
    tiny = TINY.get(learner, {"layers": "8"})
    alone = make_learner(learner, *GAME, 3, **tiny, lanes=8)
    beside = make_learner(learner, *GAME, 3, **tiny, **SETTINGS)
    assert [list(seats) for seats in alone._rows.groups] == [[0], [1]]
    assert [list(seats) for seats in beside._rows.groups] == [[0, 1]]
    assert beside._rows.inputs == alone._rows.inputs + 2
    beside.policy().check(game_of(load_protocol("coopetition-standard").task[0]))


@pytest.mark.parametrize("learner", TINY)
def test_a_resumed_training_is_the_same(learner):
    """Also in the middle of an episode, where partners remember what they have seen."""
    settings = SETTINGS | TINY[learner]
    whole = make_learner(learner, *GAME, 3, **settings)
    whole.learn(200)
    first = make_learner(learner, *GAME, 3, **settings)
    first.learn(104)
    second = make_learner(learner, *GAME, 3, **settings)
    second.load(first.save())
    second.learn(200)
    assert second.policy().pack() == whole.policy().pack()
    assert whole.policy().facts["hyperparameters"]["partners"] == list(POOL)


def test_a_replay_holds_the_steps_of_the_seat_of_the_learner():
    settings = SETTINGS | TINY["isac"] | {"lanes": 1, "warmup": 0, "train_every": 1}
    learner = make_learner("isac", *GAME, 3, **settings)
    learner.learn(6)  # of two episodes, in which a partner has the other seat
    assert [len(model.replay) for model in learner._models] == [6]


def test_a_player_continues_from_what_it_saved():
    task = load_protocol("coopetition-standard").task_of("trust-dilemma.focal")
    game = game_of(task)
    rng = np.random.default_rng(1)
    seeds, episodes = np.arange(4, dtype=np.uint64), np.zeros(4, np.int64)
    for name in task.partner_names:
        players = [Player(name, game), Player(name, game)]
        for player in players:
            player.begin(seeds, episodes, np.ones(4, np.bool_))
        features = max(part.stop for part in game.layout.values())
        seen = rng.uniform(0, 1, (3, 4, 2, features)).astype(np.float32)
        players[0].act(seen[0])
        saved = players[0].save()
        for number, array in players[1].save().items():
            assert array.dtype == saved[number].dtype, name
            assert array.shape == saved[number].shape, name
        players[1].load(saved)
        for observations in seen[1:]:
            first, second = (player.act(observations) for player in players)
            np.testing.assert_array_equal(first, second, err_msg=name)


# -- protocols -----------------------------------------------------------------------------------


def pooled(folder, met=("always_defect", "cooperator"), new=("bully",), selection=None, **parts):
    """A protocol of two tracks: self-play, and partners that are met, with others held out."""
    group = parts.pop("group", "focal-held-out")
    tasks = [
        builders.make_task("alone", group="self-play"),
        builders.make_task("met", partners=met, group="focal"),
        builders.make_task("new", partners=new, trained_on="met", group=group),
    ]
    parts = {"training": builders.make_training(**parts), "selection": selection}
    parts |= {"score": "own_return", "metrics": ["own_return"]}
    return builders.small_protocol(folder, tasks=tasks, learned=["ippo"], **parts)


BUDGET = {"steps": 12_500, "interval": 12_500}


def test_every_task_is_trained_on_as_it_is_played(tmp_path):
    jobs = runs(pooled(tmp_path, **BUDGET), "ippo", tmp_path, Scope(), {})
    met = {job.cell.task: job.settings.get("partners") for job in jobs}
    assert met == {"alone": None, "met": ["always_defect", "cooperator"]}
    assert [cell.task for job in jobs if job.cell.task == "met" for cell in job.plays][:2] == [
        "met",
        "new",
    ]


@pytest.mark.parametrize(
    ("task", "how"), [("alone", "in all seats"), ("met", "beside the partners of this task")]
)
def test_other_partners_than_those_of_the_task_are_refused(tmp_path, task, how):
    scope = Scope(tasks=[task])
    with pytest.raises(ValueError, match=rf"\['random'\]; .* '{task}' {how}\. Leave them out"):
        runs(pooled(tmp_path, **BUDGET), "ippo", tmp_path, scope, {"partners": ("random",)})


@pytest.mark.parametrize("group", ["focal-held-out", "focal-unmet"])
def test_held_out_partners_are_not_met_in_training(tmp_path, group):
    with pytest.raises(ProtocolError, match=r"'bully' is held out in 'new' .* met in training"):
        pooled(tmp_path, met=("random", "bully"), group=group)


def test_other_groups_may_share_partners_with_training(tmp_path):
    mixed = pooled(tmp_path, met=("random", "bully"), new=("bully",), group="mixed")
    assert [task.id for task in mixed.trained_tasks] == ["alone", "met"]


def test_partners_by_role_are_refused_in_training(tmp_path):
    protocol = pooled(tmp_path, met={"firm": ["random"]}, **BUDGET)
    with pytest.raises(
        ValueError, match=r"'met' of .* has partners by role.*evaluated, but not trained"
    ):
        runs(protocol, "ippo", tmp_path, Scope(), {})


def test_checkpoints_are_chosen_in_the_task_that_is_trained_on(tmp_path):
    parts = {"episodes": 4, "selection": (900, 4), "steps": 200, "interval": 100}
    protocol = pooled(tmp_path, **parts)
    settings = TINY["ippo"] | {"lanes": 4}
    coopbench.train(protocol, "ippo", tmp_path / "out", seeds=[50], **settings)
    seeds = np.arange(900, 904, dtype=np.uint64)
    for task in ("alone", "met"):
        stored = store.read(tmp_path / "out", protocol, Cell(task, "ippo", 50))
        course = stored.progress
        chosen = protocol.chosen(course)
        assert chosen == course.metrics["own_return"].mean(axis=1).argmax()
        assert stored.meta["training"]["chosen_step"] == course.steps[chosen]
        block = play(protocol, Cell(task, "ippo", 50), stored.policy, seeds=seeds)
        scores = values(block, "own_return")
        np.testing.assert_array_equal(course.metrics["own_return"][chosen], scores)
    carried = store.read(tmp_path / "out", protocol, Cell("new", "ippo", 50))
    assert carried.policy.pack() == stored.policy.pack()
    assert carried.progress is None
    assert coopbench.verify(tmp_path / "out").identical


def written(folder, partners):
    file = folder / "mine.toml"
    file.write_text(POOLED.format(partners=partners))
    return file


def test_the_name_of_a_pool_stands_for_its_partners(tmp_path):
    """The digest is that of a protocol that lists them."""
    named = load_protocol(written(tmp_path, '"strangers"'))
    listed = load_protocol(written(tmp_path, '["random", "always_defect"]'))
    assert named.task[0].partners == ("random", "always_defect")
    assert named.digest == listed.digest


def test_the_partners_of_a_role_can_be_a_pool(tmp_path):
    for partners in ('{ firm = "strangers" }', '{ firm = ["random", "always_defect"] }'):
        task = load_protocol(written(tmp_path, partners)).task[0]
        assert task.pools == {"firm": ("random", "always_defect")}


@pytest.mark.parametrize("partners", ['"stranger"', '{ firm = "stranger" }'])
def test_an_unknown_pool_is_refused_with_the_nearest_name(tmp_path, partners):
    with pytest.raises(ProtocolError, match=r"'stranger'.*Did you mean 'strangers'"):
        load_protocol(written(tmp_path, partners))


def test_what_is_wrong_with_an_evaluation_is_said_in_its_own_words():
    with pytest.raises(ProtocolError, match=r":\n  partner 'nobody' cannot play: Unknown policy"):
        ad_hoc("TrustDilemma-v1", partners=["nobody"])
    with pytest.raises(ProtocolError, match=r":\n  seed: .* \(given -1\)"):
        ad_hoc("TrustDilemma-v1", seed=-1)


def test_pools_are_lists(tmp_path):
    file = written(tmp_path, '"strangers"')
    file.write_text(file.read_text().replace('["random", "always_defect"]', '"random"'))
    with pytest.raises(ProtocolError, match=r"'pools' takes a table"):
        load_protocol(file)


def test_every_run_learns_from_the_reward_of_the_protocol(tmp_path):
    protocol = load_protocol("coopetition-standard")
    jobs = runs(protocol, "ippo", tmp_path, Scope(tasks=["trust-dilemma"]), {})
    assert {job.settings.get("reward", "own") for job in jobs} == {protocol.training.reward}


def test_another_reward_is_refused(tmp_path):
    protocol = load_protocol("coopetition-standard")
    with pytest.raises(ValueError, match=r"reward was 'team'.*trains every learner on 'own'"):
        runs(protocol, "ippo", tmp_path, Scope(tasks=["trust-dilemma"]), {"reward": "team"})


def test_the_team_reward_of_a_seat_is_the_mean_of_all():
    own, team = (rows_of("TrustDilemma-v1", lanes=4, reward=whose) for whose in ("own", "team"))
    actions = np.broadcast_to([[-1.0], [1.0]], (4, 2, 1))
    first, second = own.step(actions).rewards.T
    assert (first > second).all()
    for rewards in team.step(actions).rewards.T:
        np.testing.assert_allclose(rewards, (first + second) / 2, rtol=1e-6)
