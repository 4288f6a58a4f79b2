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
from coopbench.episodes.table import Cell, Progress
from coopbench.errors import ProtocolError
from coopbench.playing.plan import game_of
from coopbench.playing.rollout import play
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.variants import whole_of, with_tasks
from coopbench.results import store
from coopbench.workflows.training_plan import Scope, runs

POOL = ("always_defect", "cooperator", "unforgiving:0.4", "random")
GAME = ("TrustDilemma-v1", {"horizon": 3})
SETTINGS = {"lanes": 8, "partners": POOL, "share": 0.5}
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


def test_lanes_with_partners_go_through_all_line_ups():
    rows = rows_of(*GAME, **SETTINGS)
    met = {lane: [] for lane in range(8)}
    for learning, _, _ in played(rows, 3 * 8):
        for lane in range(8):
            met[lane].append(tuple(learning[lane]))
    assert all(seats == (True, True) for lane in range(4) for seats in met[lane])
    table = [tuple(row) for row in seating(8, 2, 4) == OWN]
    for lane in range(4, 8):  # 8 episodes of 3 steps
        assert met[lane][::3] == [table[(lane - 4 + e * 4) % 8] for e in range(8)]


def test_rows_of_partners_are_not_learned_from():
    rows = rows_of(*GAME, **SETTINGS)
    for learning, _, step in played(rows, 7):
        np.testing.assert_array_equal(step.valid, learning)


def test_partners_act_as_they_do_elsewhere():
    """In a lane with partners the game goes as if they had been seated in a match."""
    rows = rows_of(*GAME, lanes=8, partners=("always_defect",), share=1.0)
    for learning, _, _ in played(rows, 5):
        assert learning.sum() == 8
        if not rows.engine.control.done.any():
            assert (rows.engine.actions[~learning] == 0.0).all()


def test_without_partners_nothing_changes():
    plain, beside = rows_of(*GAME, lanes=8), rows_of(*GAME, **(SETTINGS | {"share": 0.25}))
    for (_, _, first), (_, _, second) in zip(played(plain, 7), played(beside, 7), strict=True):
        np.testing.assert_array_equal(first.rewards[:6], second.rewards[:6])
        np.testing.assert_array_equal(first.following[:6], second.following[:6])
    assert not any(name.startswith("partners") for name in plain.save())


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


def test_a_model_without_experience_is_not_updated():
    settings = SETTINGS | TINY["isac"] | {"lanes": 1, "warmup": 0, "train_every": 1}
    learner = make_learner("isac", *GAME, 3, **settings)
    learner.learn(2)  # of the first episode, in which a partner has the other seat
    assert [len(model.replay) for model in learner._models] == [2, 0]


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


def test_partners_and_share_go_together():
    for settings in ({"partners": POOL}, {"share": 0.5}):
        with pytest.raises(ValueError, match="partners with a share above 0, or neither"):
            make_learner("ippo", *GAME, 0, **settings)


# -- protocols -----------------------------------------------------------------------------------


def pooled(
    folder, met=("always_defect", "cooperator"), trained_on="alone", selection=None, **training
):
    """A protocol with partners that are met and one that is held out."""
    tasks = [
        builders.make_task("alone", group="self-play"),
        builders.make_task("met", partners=met, trained_on=trained_on, group="focal"),
        builders.make_task(
            "new", partners=["bully"], trained_on=trained_on, group="focal-held-out"
        ),
    ]
    parts = {"training": builders.make_training(**training), "selection": selection}
    parts |= {"score": "own_return", "metrics": ["own_return"]}
    return builders.small_protocol(folder, tasks=tasks, learned=["ippo"], **parts)


BUDGET = {"steps": 12_500, "interval": 12_500}


def test_a_protocol_fixes_the_partners_of_all_learners(tmp_path):
    protocol = pooled(tmp_path, partners="focal", share=0.25, **BUDGET)
    jobs = runs(protocol, "ippo", tmp_path, Scope(), {})
    assert len(jobs) == 2
    assert all(job.settings["partners"] == ["always_defect", "cooperator"] for job in jobs)
    assert all(job.settings["share"] == 0.25 for job in jobs)
    with pytest.raises(ValueError, match=r"share was 0.5; .* trains every learner on 'partners of"):
        runs(protocol, "ippo", tmp_path, Scope(), {"share": 0.5})


def test_without_the_key_nobody_is_met_and_the_digest_stays(tmp_path):
    plain = pooled(tmp_path, **BUDGET)
    assert "partners" not in runs(plain, "ippo", tmp_path, Scope(), {})[0].settings
    assert "share" not in plain.model_dump(mode="json")["training"]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"partners": "focal-held-out", "share": 0.5}, r"'focal-held-out', which are held out"),
        ({"partners": "focal"}, "partners go with share"),
        ({"partners": "fokal", "share": 0.5}, r"Did you mean 'focal'"),
        ({"partners": "self-play", "share": 0.5}, r"no task with trained_on = 'alone'"),
        ({"partners": "focal", "share": 0.5, "met": ("random", "bully")}, "held out in 'new'"),
        (
            {"partners": "focal", "share": 0.5, "met": {"firm": ["random"]}},
            "task 'met' has partners by role",
        ),
    ],
)
def test_what_training_partners_may_not_be(tmp_path, parts, message):
    with pytest.raises(ProtocolError, match=message):
        pooled(tmp_path, **parts)


@pytest.mark.parametrize(("share", "best"), [(0.1, 0), (0.5, 2)])
def test_checkpoints_are_chosen_by_the_lanes_of_training(tmp_path, share, best):
    parts = {"episodes": 2, "selection": (900, 2)}
    protocol = pooled(tmp_path, partners="focal", share=share, **parts, **BUDGET)
    alone, beside = [[5.0, 5.0], [0.0, 0.0], [4.0, 4.0]], [[0.0, 0.0], [5.0, 5.0], [3.0, 5.0]]
    metrics = {"return": alone, "own_return": alone, "own_return.focal": beside}
    arrays = {name: np.array(rows) for name, rows in metrics.items()}
    progress = Progress(Cell("alone", "ippo", 50), np.array([1, 2, 3]), arrays)
    assert protocol.chosen(progress) == best


def test_checkpoints_of_a_part_of_a_protocol_are_those_of_the_whole():
    whole = load_protocol("coopetition-standard")
    part = with_tasks(whole, ["slcd"])
    assert part.score_with_partners is None  # the tasks with the partners of training are left out
    assert whole_of(part) is whole_of(whole) is whole


def test_a_run_stores_its_score_with_partners_partners(tmp_path):
    parts = {"episodes": 4, "selection": (900, 4), "steps": 200, "interval": 100}
    protocol = pooled(tmp_path, partners="focal", share=0.5, **parts)
    settings = TINY["ippo"] | {"lanes": 4}
    coopbench.train(protocol, "ippo", tmp_path / "out", seeds=[50], **settings)
    stored = store.read(tmp_path / "out", protocol, Cell("alone", "ippo", 50))
    metrics, chosen = stored.progress.metrics, protocol.chosen(stored.progress)
    assert stored.meta["training"]["chosen_step"] == stored.progress.steps[chosen]
    seeds = np.arange(900, 904, dtype=np.uint64)
    block = play(protocol, Cell("met", "ippo", 50), stored.policy, seeds=seeds)
    np.testing.assert_array_equal(metrics["own_return.focal"][chosen], values(block, "own_return"))
    assert not np.array_equal(metrics["own_return.focal"], metrics["own_return"])
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


def test_an_unknown_pool_is_refused_with_the_nearest_name(tmp_path):
    with pytest.raises(ProtocolError, match=r"'stranger'.*Did you mean 'strangers'"):
        load_protocol(written(tmp_path, '"stranger"'))


def test_pools_are_lists(tmp_path):
    file = written(tmp_path, '"strangers"')
    file.write_text(file.read_text().replace('["random", "always_defect"]', '"random"'))
    with pytest.raises(ProtocolError, match=r"'pools' takes a table"):
        load_protocol(file)


@pytest.mark.parametrize("name", ["coopetition-standard", "coopetition-team"])
def test_every_run_learns_from_the_reward_of_its_track(tmp_path, name):
    protocol = load_protocol(name)
    jobs = runs(protocol, "ippo", tmp_path, Scope(tasks=["trust-dilemma"]), {})
    assert {job.settings.get("reward", "own") for job in jobs} == {protocol.training.reward}


def test_the_reward_of_the_other_track_is_refused(tmp_path):
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
