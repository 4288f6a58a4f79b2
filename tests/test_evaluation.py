"""Evaluation end to end: the finished is kept, the damaged redone, nothing is made up."""

import dataclasses

import gymnasium
import numpy as np
import pytest
from builders import Invests, make_task, small_protocol

import coopbench
from coopbench.analysis.deviations import deviations
from coopbench.analysis.meetings import Meeting
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell, EpisodeTable, Played
from coopbench.errors import ProtocolError
from coopbench.playing.plan import plan
from coopbench.protocol.loading import ad_hoc, load_protocol
from coopbench.report.leaderboard import Row
from coopbench.report.sections import parts
from coopbench.report.sections.learning import CurvePoint
from coopbench.results import store
from coopbench.workflows import consistency

POLICIES = ["random", "constant:0.5", "tit_for_tat"]


@pytest.fixture(scope="module")
def protocol(tmp_path_factory):
    """Two small tasks, one of them without any chance in it."""
    platform = {"horizon": 8, "num_developers": 2}
    return small_protocol(
        tmp_path_factory.mktemp("evaluation"),
        tasks=[
            make_task(env="coopbench/TrustDilemma-v0", horizon=8, high=4000),
            make_task("platform", "coopbench/PlatformEcosystem-v0", parameters=platform, high=8000),
        ],
        train=[50],
        count=12,
        metrics=["return", "final_trust", "fairness", "length"],
        baselines=POLICIES,
    )


@pytest.fixture(scope="module")
def whole(protocol):
    """The report on all policies."""
    return coopbench.evaluate(protocol, POLICIES)


def _watch():
    events = []
    return events, lambda cell, done, what: events.append((cell.task, cell.policy, done, what))


def _ends(events, what):
    return [(task, policy) for task, policy, _, happened in events if happened == what]


def test_numbers_of_the_report(whole):
    """Every estimate is recomputed from the episodes by other means."""
    from scipy import stats

    report = whole
    assert len(report.episodes) == 2 * 3 * 12
    for estimate in report.estimates:
        sample = values(report.episodes.of(estimate.task, estimate.policy), estimate.metric)
        assert estimate.mean == pytest.approx(sample.mean())
        assert estimate.count == (12 if sample.std() > 1e-9 else 1)
        if sample.std() > 1e-9:
            low, high = stats.t.interval(0.95, 11, sample.mean(), stats.sem(sample))
            assert (estimate.low, estimate.high) == pytest.approx((low, high))
            assert estimate.std == pytest.approx(sample.std(ddof=1))
            assert not estimate.flag
        else:
            assert estimate.low == estimate.mean == estimate.high
            assert estimate.flag.startswith("exact: all starts are played")
    for c in report.comparisons:
        a, b = (values(report.episodes.of(c.task, p), "return") for p in (c.first, c.second))
        if c.flag:  # nothing is drawn: no test
            assert c.basis == "exact"
            assert c.p_value == c.p_holm == float(c.difference == 0.0)
            assert c.difference == pytest.approx(a[0] - b[0])
            assert np.isnan(c.hedges_g)
        else:
            spread = [sample.std(ddof=1) if np.ptp(sample) else 0.0 for sample in (a, b)]
            test = stats.ttest_ind_from_stats(
                a.mean(), spread[0], 12, b.mean(), spread[1], 12, equal_var=False
            )
            assert c.p_value == pytest.approx(test.pvalue, rel=1e-6)
            assert c.p_holm >= c.p_value > 0


def test_finished_cells_are_kept_and_the_report_is_found_again(protocol, tmp_path):
    events, watch = _watch()
    first = coopbench.evaluate(
        protocol, POLICIES[:2], out=tmp_path / "r", progress=watch, only=True
    )
    assert len(_ends(events, "done")) == 4
    events, watch = _watch()
    second = coopbench.evaluate(protocol, POLICIES, out=tmp_path / "r", progress=watch)
    assert len(_ends(events, "kept")) == 4
    assert _ends(events, "done") == [("dilemma", "tit_for_tat"), ("platform", "tit_for_tat")]
    for estimate in first.estimates:
        assert estimate in second.estimates
    again = coopbench.load_report(tmp_path / "r")
    assert again.estimates == second.estimates
    assert again.aggregates == second.aggregates
    assert again.comparisons == second.comparisons


def test_rewards_that_are_no_numbers_are_refused_where_they_are_played():
    """Scores that were not played here may have undefined returns."""
    (block,) = coopbench.evaluate("TrustDilemma-v1", "random", episodes=2, horizon=3).episodes
    undefined = np.full_like(block.returns, np.nan)
    with pytest.raises(ValueError, match="/random is nan in an episode: a reward of the envir"):
        dataclasses.replace(block, returns=undefined)
    assert dataclasses.replace(block, returns=undefined, trace=None).trace is None


@pytest.mark.parametrize(
    "kind", [*(part.row for part in parts().values()), CurvePoint, Meeting, Row]
)
def test_rows_are_equal_where_every_field_is_and_nan_equals_nan(kind):
    names = [field.name for field in dataclasses.fields(kind)]
    row, same = (kind(**{name: np.array([1.0, float("nan")]) for name in names}) for _ in range(2))
    assert row == same
    assert hash(row) == hash(same)
    for name in names:
        assert row != dataclasses.replace(row, **{name: float("nan")})


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("episodes.npz", lambda text: text[: len(text) // 2]),
        ("episodes.npz", lambda text: b"nothing"),
        ("meta.json", lambda text: b"[]"),
    ],
)
def test_a_damaged_file_is_named_and_that_cell_alone_redone(protocol, tmp_path, name, damage):
    coopbench.evaluate(protocol, POLICIES[1:], out=tmp_path / "r", only=True)
    file = tmp_path / "r" / "platform" / "tit_for_tat" / name
    file.write_bytes(damage(file.read_bytes()))
    left = coopbench.load_report(tmp_path / "r")
    assert left.episodes.of("platform", "tit_for_tat") is None
    assert str(file.parent) in left.notes[0]
    assert any("lacks the tasks platform" in reason for reason in left.deviations)
    events, watch = _watch()
    report = coopbench.evaluate(
        protocol, POLICIES[1:], out=tmp_path / "r", progress=watch, only=True
    )
    assert _ends(events, "done") == [("platform", "tit_for_tat")]
    assert str(file.parent) in report.notes[0]
    assert not coopbench.load_report(tmp_path / "r").notes


def raised(block):
    """Returns of which that of an episode without recorded actions is the highest."""
    (k, *_) = {*range(len(block))} - {*block.trace.recorded}
    return block.returns + 1e3 * (np.arange(len(block)) == k)[:, None]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (lambda block: {"returns": block.returns + 1e6}, "its rewards add up to"),
        (lambda block: {"returns": raised(block)}, "it should be"),
        (lambda block: {"seeds": block.seeds + np.uint64(1)}, "seeds[0] is 1"),
        (lambda block: {"curves": {k: v + 1 for k, v in block.curves.items()}}, "the curve of"),
        (
            lambda block: {"curves": block.curves | {"mean_trust": block.curves["mean_trust"] + 1}},
            "the curve of mean_trust",
        ),
        (
            lambda block: {"lengths": 0 * block.lengths, "terminated": block.lengths > 0},
            "episode 0 has 0 steps",
        ),
    ],
)
def test_a_cell_that_cannot_have_been_played_is_named_and_redone(
    protocol, tmp_path, changes, reason
):
    coopbench.evaluate(protocol, "tit_for_tat", tmp_path, only=True)
    cell = Cell("platform", "tit_for_tat")
    honest = store.read(tmp_path, protocol, cell)
    forged = dataclasses.replace(honest.episodes, **changes(honest.episodes))
    store.write(tmp_path, Played(forged, None, 1.0), honest.meta, "tit_for_tat")
    report = coopbench.evaluate(protocol, "tit_for_tat", tmp_path, only=True)
    (note,) = (note for note in report.notes if "platform/tit_for_tat" in note)
    assert "redone: platform/tit_for_tat cannot have been played" in note
    assert reason in note
    again = store.read(tmp_path, protocol, cell).episodes
    np.testing.assert_array_equal(again.returns, honest.episodes.returns)
    np.testing.assert_array_equal(again.seeds, honest.episodes.seeds)
    assert not coopbench.evaluate(protocol, "tit_for_tat", tmp_path, only=True).notes


def test_returns_that_cancel_add_up_but_for_rounding():
    rewards = np.random.default_rng(0).normal(size=(50, 2)) * 1e6
    rewards[-1] = -rewards[:-1].sum(axis=0)
    sums = rewards.sum(axis=0)
    assert consistency._adds_up(sums + 1e-8, rewards)  # as they are in another order
    assert not consistency._adds_up(sums + 1e3, rewards)
    assert consistency._adds_up(np.array([np.nan]), np.array([[np.nan], [1.0]]))
    assert not consistency._adds_up(np.array([np.nan]), np.ones((2, 1)))


@pytest.mark.parametrize("reward", [1e308, -2e70])
def test_numbers_that_cannot_be_averaged_are_refused(tmp_path, reward, recwarn):
    class Rich(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Box(0.0, 1.0, (1,))

        def reset(self, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return np.zeros(1, np.float32), reward, True, False, {}

    with pytest.raises(
        ValueError, match=r"return of .*random is .*up to 1e[+]70 in size. Scale the rew"
    ):
        coopbench.evaluate(Rich, "random", tmp_path, episodes=3)
    assert not [str(warning.message) for warning in recwarn]
    assert not list(tmp_path.rglob("meta.json"))


def test_an_interruption_loses_only_the_cell_at_work(protocol, tmp_path):
    def interrupt(cell, done, what):
        if (cell.task, cell.policy, what) == ("platform", "constant:0.5", "plays"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        coopbench.evaluate(protocol, POLICIES, out=tmp_path / "r", progress=interrupt)
    partial = coopbench.load_report(tmp_path / "r")
    assert len(partial.episodes.blocks) == 4
    # The others have not finished all tasks.
    assert {row.policy for row in partial.aggregates} == {"random"}


def test_a_damaged_protocol_is_named(protocol, tmp_path):
    coopbench.evaluate(protocol, ["random"], out=tmp_path / "r")
    file = tmp_path / "r" / "protocol.json"
    text = file.read_text()
    for damaged, message in (
        (text[:300], "Expecting value"),
        (text.replace('"alpha"', '"alpa"'), "Did you mean 'alpha'"),
    ):
        file.write_text(damaged)
        for use in (
            lambda: coopbench.load_report(tmp_path / "r"),
            lambda: coopbench.evaluate(protocol, ["random"], out=tmp_path / "r"),
            lambda: coopbench.find_episode(f"{tmp_path}/r/{protocol.task[0].id}/random/0"),
        ):
            with pytest.raises(ProtocolError, match=rf"(?s)protocol\.json.*{message}.*Remove it"):
                use()


def test_deviations(protocol, whole):
    assert whole.deviations == ("small-v1 is not a protocol of this package",)
    some = EpisodeTable(tuple(b for b in whole.episodes if b.cell.policy != "tit_for_tat"))
    assert any("baseline tit_for_tat" in reason for reason in deviations(protocol, some))
    standard = load_protocol("coopetition-standard")
    edited = standard.model_copy(
        update={"seeds": standard.seeds.model_copy(update={"training": (500,)})}
    )
    assert any("differs from" in reason for reason in deviations(edited, some))
    adhoc = coopbench.evaluate("TrustDilemma-v0", ["constant:0.5"])
    assert not adhoc.is_standard
    assert not adhoc.aggregates
    assert "one environment" in adhoc.deviations[0]


def test_learned_baselines_have_to_be_there(protocol):
    learned = protocol.model_copy(
        update={"report": protocol.report.model_copy(update={"learned": ("ippo",)})}
    )
    report = coopbench.evaluate(learned, POLICIES)
    reason = "the required learner ippo is missing"
    assert report.deviations[1:] == (reason,)
    assert "missing" in str(report)

    class Trained:
        name = "ippo:best"

        def act(self, observations):
            return np.full((*observations.shape[:2], 1), 30.0)

    assert reason not in coopbench.evaluate(learned, [*POLICIES, Trained()]).deviations


def test_other_seeds_seats_and_tasks_are_deviations(protocol, whole):
    blocks = list(whole.episodes.blocks)
    blocks[1] = dataclasses.replace(blocks[1], seeds=blocks[1].seeds + np.uint64(1))
    blocks[2] = dataclasses.replace(blocks[2], seats=~blocks[2].seats)
    short = blocks.pop()
    cut = {
        name: getattr(short, name)[:6]
        for name in ("seeds", "lengths", "terminated", "seats", "returns")
    }
    reasons = deviations(protocol, EpisodeTable(tuple(blocks)))
    assert reasons[1:] == (
        "tit_for_tat lacks the tasks platform",
        "constant:0.5 played other seeds than the protocol's in dilemma",
        "tit_for_tat played other seats than the protocol's in dilemma",
    )
    fewer = EpisodeTable((*blocks, dataclasses.replace(short, **cut)))
    reasons = deviations(protocol, fewer)
    assert "tit_for_tat played other seeds than the protocol's in platform" in reasons
    third = protocol.task[0].model_copy(update={"id": "third"})
    longer = protocol.model_copy(update={"task": [*protocol.task, third]})
    reasons = deviations(longer, EpisodeTable(tuple(blocks)))
    assert "tit_for_tat has played 1 of 3 tasks: dilemma" in reasons


def test_plans_are_checked_before_anything_runs(protocol):
    with pytest.raises(ValueError, match="No policies"):
        plan(protocol, [])
    with pytest.raises(ValueError, match="Two policies are called random: name each of them once"):
        plan(protocol, ["random", "random"])
    with pytest.raises(ValueError, match=r"called random: give them other names.*dictionary"):
        plan(protocol, ["random", Invests(0.5, "random")])
    with pytest.raises(ValueError, match=r"greedy.* cannot play"):
        coopbench.evaluate(protocol, ["random", "greedy"])


class Predicts:
    """A model of another library for agents with three numbers each."""

    action_space = gymnasium.spaces.Box(-1.0, 1.0, (3,))

    def predict(self, observations):
        return np.zeros((len(observations), 3)), None


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda o: np.zeros((*o.shape[:2], 2)), r"shape \(1, 2, 2\).*expected \(1, 2, 1\)"),
        (Predicts(), r"predicts actions in Box\(.*; coopbench/.* has 1 numbers for each agent"),
    ],
)
def test_actions_that_do_not_fit_are_found_before_anything_is_played(protocol, policy, message):
    task = protocol.task[0].id
    with pytest.raises(ValueError, match=f"Task '{task}' cannot be played: .*{message}"):
        plan(protocol, [policy])


def test_the_check_of_actions_changes_nothing_of_a_policy(protocol):
    class Counts:
        seen = 0

        def act(self, observations):
            self.seen += 1
            return np.full((*observations.shape[:2], 1), np.random.random() * np.nan)

    policy, drawn = Counts(), np.random.get_state()[2]
    plan(protocol, [policy])
    assert (policy.seen, np.random.get_state()[2]) == (0, drawn)


def test_callables_are_played_anew(protocol, tmp_path):
    level = [10.0]

    def player(observations):
        return np.full((*observations.shape[:2], 1), level[0])

    first = coopbench.evaluate(protocol, [player], out=tmp_path / "r")
    level[0] = 20.0
    second = coopbench.evaluate(protocol, [player], out=tmp_path / "r")
    assert first.estimates[0].mean != second.estimates[0].mean


def test_a_game_is_reported_as_the_caller_asks():
    """Metrics, comparison and effect of a single environment; what stands there without them."""
    chosen = {"metrics": ["final_trust"], "comparison": "welch", "effect": "cohens_d"}
    report = coopbench.evaluate("TrustDilemma-v1", ["random", "cooperator"], episodes=6, **chosen)
    assert {row.metric for row in report.estimates} == {"return", "final_trust"}
    assert {row.method for row in report.comparisons} == {"welch"}
    assert len(report.effects) == 1
    plain = ad_hoc("TrustDilemma-v1").report
    assert {"return", "final_trust", "fairness"} <= set(plain.metrics)
    assert (plain.comparison, plain.effect) == ("paired", None)
    assert "fairness" not in ad_hoc("Skirmish-v1").report.metrics  # a team has one reward
    assert "fairness" not in ad_hoc("gymnasium:CartPole-v1").report.metrics
    with pytest.raises(ValueError, match=r"effect.*Did you mean 'cohens_d'"):
        coopbench.evaluate("TrustDilemma-v1", "random", effect="cohen_d")
    with pytest.raises(ValueError, match=r"comparison.*'paired'"):
        coopbench.evaluate("TrustDilemma-v1", "random", comparison="pared")
    with pytest.raises(ValueError, match="metrics go with the id of an environment"):
        coopbench.evaluate("coopetition-standard", "random", metrics=["return"])
