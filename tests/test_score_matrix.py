"""Runs crossed with episodes in reports: strata, common seeds, claims, ties, runs behind."""

import dataclasses
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from builders import (
    GROUP_CURVE,
    GROUP_HIGH,
    TRUST,
    group_block,
    group_protocol,
    make_block,
    make_task,
    make_training,
    protocol_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import coopbench_envs
from coopbench.analysis.aggregates import aggregates
from coopbench.analysis.comparisons import comparisons, group_comparisons
from coopbench.analysis.deviations import deviations
from coopbench.analysis.estimates import estimates
from coopbench.analysis.findings import Findings
from coopbench.analysis.rankings import _ties
from coopbench.analysis.score_matrix import count_runs, group_matrices, score_matrix
from coopbench.baselines.match import OWN
from coopbench.episodes.table import DIGEST, Cell, EpisodeTable, Failure, Trace
from coopbench.report.sections.contexts import context_table, focal_contexts
from coopbench.report.sections.improvements import improvements
from coopbench.report.sections.profiles import profile_points
from coopbench.report.tables.entries import named_count
from coopbench.statistics import improvement_interval

EPISODES = 40
FIVE, TEN = range(900, 905), range(900, 910)


@pytest.fixture(scope="module")
def protocol():
    return group_protocol()


def learner(name, level, runs, task="b-one", spread=0.05, shift=0):
    """Runs of one learner around a level (of 10), on shared luck; ``shift`` moves their seeds."""
    rng = np.random.default_rng(17)
    luck = rng.normal(0.0, 0.3, EPISODES)
    offsets = np.linspace(-spread, spread, len(runs))
    scores = [(level + luck + offset, run) for offset, run in zip(offsets, runs, strict=True)]
    blocks = [group_block(task, name, returns, run) for returns, run in scores]
    return [dataclasses.replace(b, seeds=b.seeds + np.uint64(shift)) for b in blocks]


def fixed(name, level, task="b-one"):
    return learner(name, level, (None,), task)


def test_a_setting_that_one_run_alone_has_is_a_mixture(protocol):
    """Whichever of the runs it is; runs without settings were not trained here."""
    blocks = learner("mine", 5.0, FIVE[:3])
    first, second, _ = (block.cell for block in blocks)
    what = "runs of mine on b-one were trained with different values of lr"
    for odd, other in ((first, second), (second, first)):
        settings = {odd: {"lr": 0.1, "lanes": 8}, other: {"lanes": 8}}
        assert what in deviations(protocol, EpisodeTable(tuple(blocks), settings=settings))
    alike = {cell: {"lr": 0.1} for cell in (first, second)}
    assert what not in deviations(protocol, EpisodeTable(tuple(blocks), settings=alike))


def test_tasks_with_fewer_episodes_share_the_luck_of_their_seeds():
    """The second task repeats the first: fewer of its episodes do not make it another one."""
    protocol = group_protocol()
    luck = np.random.default_rng(2).normal(5.0, 2.0, EPISODES)
    widths = []
    for count in (EPISODES, EPISODES - 1):
        blocks = group_block("a-one", "mine", luck), group_block("a-two", "mine", luck[:count])
        rows = aggregates(protocol, EpisodeTable(blocks))
        row = next(row for row in rows if (row.group, row.statistic) == ("a", "mean"))
        widths.append(row.high - row.low)
    assert widths[1] == pytest.approx(widths[0], rel=0.05)


# -- strata ---------------------------------------------------------------------------------------


@pytest.fixture
def focal():
    """A task with two partners, and a block whose returns depend on seat and partner alone."""
    task = make_task(partners=["random", "always_defect"])
    protocol = protocol_of(tasks=[task], count=EPISODES, metrics=["own_return"], score="own_return")
    game = protocol.task[0]
    agents = ("left_0", "right_0")
    seating = game.seating(EPISODES, agents)
    returns = 5.0 * (seating == OWN) * (1 + seating[:, ::-1])
    noise = np.random.default_rng(2).normal(0.0, 0.1, (EPISODES, 2))
    block = make_block(
        Cell("dilemma", "mine"), returns + noise, agents=agents, seats=seating == OWN
    )
    return protocol, block


def test_seats_and_partners_are_strata(focal):
    protocol, block = focal
    one = score_matrix(protocol, EpisodeTable((block,)), protocol.task[0], "mine", "own_return")
    assert sorted(np.bincount(one.strata)) == [EPISODES // 4] * 4
    (row,) = estimates(protocol, EpisodeTable((block,)))
    earned = block.returns.mean(axis=1, where=block.seats)
    within = [np.var(earned[one.strata == k], ddof=1) for k in range(4)]
    error = np.sqrt(np.mean(within) / EPISODES)
    assert row.mean == pytest.approx(earned.mean())
    assert (row.high - row.low) / 2 == pytest.approx(2.03 * error, rel=0.01)  # t, 36 df
    assert row.std > 10 * np.sqrt(np.mean(within))
    others = dataclasses.replace(block, seats=~block.seats)  # not the protocol's: no strata
    assert (
        score_matrix(protocol, EpisodeTable((others,)), protocol.task[0], "mine", "length").strata
        is None
    )


def test_episodes_that_are_alike_by_chance_are_counted(protocol):
    """Of the run in which the fewest are, if all runs were played here."""

    def run(number, distinct):
        (block,) = learner("mine", 5.0, (number,))
        digests = np.arange(EPISODES)[:, None] % distinct + np.zeros((1, DIGEST), int)
        trace = Trace(digests.astype(np.uint8), np.zeros(0, np.uint64), {})
        return dataclasses.replace(block, trace=trace)

    blocks = run(900, 3), run(901, 8), run(902, 5)
    (row,) = estimates(protocol, EpisodeTable(blocks))
    assert f"8 of {EPISODES} episodes are distinct" in row.flag
    for other in (run(903, EPISODES), dataclasses.replace(blocks[0], trace=None)):
        (row,) = estimates(protocol, EpisodeTable((*blocks[1:], other)))
        assert "distinct" not in row.flag


def test_an_environment_names_a_stratum(protocol, monkeypatch):
    spec = dataclasses.replace(coopbench_envs.spec(TRUST), stratum="hidden")
    registry = SimpleNamespace(spec=lambda name: spec)
    monkeypatch.setattr("coopbench.analysis.score_matrix.coopbench_envs", registry)
    (block,) = fixed("mine", 5.0)
    hidden = np.arange(EPISODES) % 4.0
    typed = dataclasses.replace(
        block, metrics=block.metrics | {"hidden": hidden}, returns=block.returns + hidden[:, None]
    )
    one = score_matrix(
        protocol, EpisodeTable((typed,)), protocol.task_of("b-one"), "mine", "return"
    )
    assert np.array_equal(one.strata, hidden)
    (with_strata,) = estimates(protocol, EpisodeTable((typed,)))
    (without,) = estimates(protocol, EpisodeTable((block,)))
    assert with_strata.high - with_strata.low == pytest.approx(without.high - without.low, rel=0.2)
    single = dataclasses.replace(typed, metrics={**typed.metrics, "hidden": np.arange(EPISODES)})
    (row,) = estimates(protocol, EpisodeTable((single,)))  # strata of one episode are not used
    assert np.isfinite(row.low)


# -- episodes in common ---------------------------------------------------------------------------


def test_runs_with_other_seeds_are_crossed_on_common_ones(protocol):
    blocks = learner("mine", 5.0, FIVE[:4]) + learner("mine", 5.0, FIVE[4:], shift=10)
    one = score_matrix(
        protocol, EpisodeTable(tuple(blocks)), protocol.task_of("b-one"), "mine", "return"
    )
    assert one.values.shape == (5, EPISODES - 10)
    assert one.note == f"over the {EPISODES - 10} episodes that all runs have played"
    for run, block in enumerate(blocks):
        place = {seed: k for k, seed in enumerate(block.seeds)}
        expected = [block.team_returns[place[seed]] for seed in one.seeds]
        assert one.values[run] == pytest.approx(expected)


def test_runs_without_a_common_seed_have_no_score_and_take_none_from_others(protocol):
    apart = [b for run in FIVE[:3] for b in learner("mine", 5.0, [run], shift=100 * run)]
    table = EpisodeTable((*apart, *fixed("one", 4.0), *fixed("two", 6.0)))
    scores = {row.policy: row for row in estimates(protocol, table) if row.metric == "return"}
    assert np.isnan(scores["mine"].mean)
    assert "no episode that all runs have played" in scores["mine"].flag
    assert np.isfinite(scores["one"].low)
    (decided,) = [row for row in comparisons(protocol, table) if np.isfinite(row.p_value)]
    assert {decided.first, decided.second} == {"one", "two"}
    assert {rank.policy for rank in Findings(protocol, table).ranks} == {"one", "two"}


def test_models_that_play_several_tasks_count_once(protocol):
    blocks = [b for task in ("a-one", "a-two") for b in learner("mine", 5.0, FIVE, task)]
    plays = group_matrices(protocol, EpisodeTable(tuple(blocks)))["a"]["mine"]
    assert count_runs(plays) == 5  # the protocol says nothing: one model may play both
    training = {"on": "each", "plays": "own", "runs": 3, "episodes": 4}
    budgets = {"any": {"steps": 9, "interval": 3}}
    apart = group_protocol(training=training | {"budgets": budgets})
    plays = group_matrices(apart, EpisodeTable(tuple(blocks)))["a"]["mine"]
    assert count_runs(plays) == 10


# -- runs that failed -----------------------------------------------------------------------------


def failures(name, runs, task="b-one"):
    return tuple(Failure(Cell(task, name, run), "out of memory") for run in runs)


def test_failed_runs_count_with_the_floor(protocol):
    """As if they had been played with that score; in other metrics they have no value."""
    protocol = group_protocol(metrics=["return", GROUP_CURVE])
    bounds = protocol.task[-1].bounds.model_copy(update={"floor": -3.0})
    deeper = protocol.task[-1].model_copy(update={"bounds": bounds})
    protocol = protocol.model_copy(update={"task": (*protocol.task[:-1], deeper)})
    mine, rival = learner("mine", 9.0, FIVE[:4]), fixed("rival", 4.0)
    table = EpisodeTable((*mine, *rival), failures=failures("mine", FIVE[4:]))
    played = group_block("b-one", "mine", np.full(EPISODES, -3.0), FIVE[4])
    same = EpisodeTable((*mine, played, *rival))
    score, other, *_ = estimates(protocol, table)
    as_played = estimates(protocol, same)[0]
    assert (score.mean, score.low, score.count) == (as_played.mean, as_played.low, 5)
    assert score.failed == 1
    assert score.flag.startswith("1 of 5 runs failed and count with the floor of the task")
    assert (other.count, other.failed) == (4, 0)
    assert other.flag.startswith("1 of 5 runs failed and are left out")
    for compare in (comparisons, group_comparisons):
        assert compare(protocol, table) == compare(protocol, same)
    (row, *_) = aggregates(protocol, table)
    assert (row.failed, row.played, row.count) == (1, 5, 5)
    assert named_count(score).text == "5 runs, 1 of 5 failed"


def test_a_learner_all_of_whose_runs_failed_on_a_task_has_the_floor_there(protocol):
    played = [block for task in ("a-one",) for block in learner("mine", 9.0, FIVE, task)]
    rival = [block for task in ("a-one", "a-two") for block in fixed("rival", 4.0, task)]
    table = EpisodeTable((*played, *rival), failures=failures("mine", FIVE, "a-two"))
    (group,) = group_comparisons(protocol, table)
    assert group.difference == pytest.approx(((9.0 - 4.0) + (0.0 - 4.0)) / 2 / GROUP_HIGH, abs=0.02)
    rows = {(row.task, row.policy): row for row in estimates(protocol, table)}
    assert (rows["a-two", "mine"].mean, rows["a-two", "mine"].failed) == (0.0, 5)


def test_without_agreed_bounds_the_floor_is_the_lowest_score(protocol):
    report = protocol.report.model_copy(update={"normalisation": "minmax"})
    moved = protocol.model_copy(update={"report": report})
    table = EpisodeTable(
        (*learner("mine", 9.0, FIVE[:4]), *fixed("rival", 4.0)), failures=failures("mine", FIVE[4:])
    )
    one = score_matrix(moved, table, moved.task_of("b-one"), "mine", "return")
    assert np.all(one.values[-1] == min(block.team_returns.min() for block in table))
    assert one.runs == tuple(FIVE)


# -- claims ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [FIVE, TEN])
def test_a_difference_is_decided_by_its_p_value_alone(protocol, runs):
    """Whatever the scale: nothing is assumed of runs that nobody has seen."""
    table = EpisodeTable((*learner("mine", 9.0, runs), *fixed("rival", 8.0)))
    (row,) = comparisons(protocol, table)
    assert (row.first, row.second) == ("mine", "rival")
    assert row.difference == pytest.approx(1.0, abs=0.1)
    assert row.p_holm == row.p_value < 1e-4
    assert row.decided
    assert (row.above, row.runs) == (len(runs), len(runs))
    (group,) = group_comparisons(protocol, table)
    assert group.decided  # a group of one task
    assert group.difference == pytest.approx(row.difference / GROUP_HIGH)


def test_worse_than_a_policy_is_a_claim_as_well(protocol):
    even = learner("near", 1.0, FIVE)
    table = EpisodeTable((*learner("mine", 1.0, TEN), *fixed("rival", 2.0), *even))
    rows = {row.second: row for row in comparisons(protocol, table) if row.first == "mine"}
    assert rows["rival"].decided
    assert rows["rival"].above == 0
    assert not rows["near"].decided


@pytest.mark.parametrize(
    ("where", "counts"), [((0, 3), (5, 5)), (0, (4, 4)), (slice(None), (0, 0))]
)
def test_runs_above_count_where_the_score_is_defined(protocol, where, counts):
    blocks = [*learner("mine", 9.0, FIVE), *fixed("rival", 4.0)]
    returns = np.array([block.returns for block in blocks[:5]])
    returns[where] = np.nan
    mine = [dataclasses.replace(b, returns=r) for b, r in zip(blocks, returns, strict=False)]
    (row,) = comparisons(protocol, EpisodeTable((*mine, blocks[5])))
    assert (row.above, row.runs) == counts


def test_runs_that_play_all_tasks_are_not_counted_once_for_each_task():
    """Of two tasks with the same scores the second tells nothing new."""
    names = {"mine": 5.5, "other": 5.0}
    blocks = [
        block
        for name, level in names.items()
        for task in ("a-one", "a-two")
        for block in learner(name, level, FIVE, task, spread=2.0)
    ]
    blocks += [block for task in ("a-one", "a-two") for block in fixed("rival", 4.0, task)]
    widths: dict[str, list[float]] = {}
    for plays in ("own", "all"):
        protocol = group_protocol(training=make_training(runs=5, plays=plays), train=tuple(FIVE))
        report = Findings(protocol, EpisodeTable(tuple(blocks)))
        chance = next(r for r in improvements(protocol, report.episodes) if r.unit == "runs")
        points = [p for p in profile_points(protocol, report.episodes) if p.policy == "mine"]
        band = max(point.high - point.low for point in points)
        (iqm,) = (r for r in report.aggregates_of("iqm", "a") if r.policy == "mine")
        widths[plays] = [chance.high - chance.low, band, iqm.high - iqm.low]
        rows = group_comparisons(protocol, report.episodes)
        (row,) = (r for r in rows if (r.first, r.second) == ("mine", "rival"))
        assert row.runs == 10
        assert np.isnan(row.above_low) == (plays == "all")
    assert np.all(np.array(widths["all"]) > 1.2 * np.array(widths["own"]))


def test_a_run_that_fails_on_one_of_its_tasks_is_the_same_run_on_the_others():
    """The first of five runs fails on the second task: as if it had played with the floor."""
    protocol = group_protocol(training=make_training(runs=5, plays="all"), train=tuple(FIVE))
    whole = [learner(name, 5.5, FIVE, "a-one", spread=2.0) for name in ("mine", "other")]
    part = [
        *(learner(name, 5.5, FIVE[1:], "a-two", spread=2.0) for name in ("mine", "other")),
        *(fixed("rival", 4.0, task) for task in ("a-one", "a-two")),
    ]
    blocks = [block for some in (*whole, *part) for block in some]
    failed = [failures(name, FIVE[:1], "a-two") for name in ("mine", "other")]
    table = EpisodeTable(tuple(blocks), failures=tuple(f for some in failed for f in some))
    floors = [group_block("a-two", name, np.zeros(EPISODES), FIVE[0]) for name in ("mine", "other")]
    played = EpisodeTable((*blocks, *floors))
    for made in (improvements, profile_points, group_comparisons):
        assert made(protocol, table) == made(protocol, played)
    rows = group_comparisons(protocol, table)
    assert all(np.isnan(row.above_low) for row in rows)


def test_runs_that_one_of_their_tasks_lacks_are_matched_on_the_others():
    """Every task lacks another run of ten: differences vary as where none is missing."""
    protocol = group_protocol(training=make_training(runs=5, plays="all"), train=tuple(FIVE))
    widths = []
    for lacking in (None, 0):
        blocks = []
        for place, task in enumerate(("a-one", "a-two")):
            whole = learner("mine", 5.5, FIVE, task, spread=2.0)
            blocks += [b for k, b in enumerate(whole) if lacking is None or k != 2 + place]
            blocks += fixed("rival", 4.0, task)
        rows = group_comparisons(protocol, EpisodeTable(tuple(blocks)))
        (row,) = (row for row in rows if row.group == "a")
        widths.append(row.high - row.low)
    assert widths[1] > 0.95 * widths[0]


def test_tasks_of_which_one_has_fewer_episodes_are_not_independent(protocol):
    """The second task has the same scores, in all episodes or in all but one."""
    widths = []
    for fewer in (0, 1):
        rng = np.random.default_rng(4)
        blocks = []
        for name, level in (("one", 5.0), ("two", 5.2)):
            returns = level + rng.normal(0.0, 1.0, EPISODES)
            blocks += [
                group_block("a-one", name, returns),
                group_block("a-two", name, returns[: EPISODES - fewer]),
            ]
        table = EpisodeTable(tuple(blocks))
        (chance,) = improvements(protocol, table)
        points = [p for p in profile_points(protocol, table) if p.policy == "one"]
        widths.append([chance.high - chance.low, max(p.high - p.low for p in points)])
    assert np.array(widths[1]) == pytest.approx(np.array(widths[0]), rel=0.03)


def test_episodes_of_other_seeds_are_not_matched_by_their_places(protocol):
    rng = np.random.default_rng(6)
    scores = {name: rng.normal(5.0, 1.0, EPISODES) for name in ("one", "two")}
    blocks = [
        group_block(task, name, returns)
        for name, returns in scores.items()
        for task in ("a-one", "a-two")
    ]
    found = []
    for shift in (0, EPISODES):
        moved = [
            dataclasses.replace(b, seeds=b.seeds + np.uint64(shift * (b.cell.policy == "two")))
            for b in blocks
        ]
        (chance,) = improvements(protocol, EpisodeTable(tuple(moved)))
        found.append((chance.low, chance.high))
    tasks = [[returns / GROUP_HIGH] * 2 for returns in scores.values()]
    units = [np.arange(EPISODES)] * 2, [np.arange(EPISODES)] * 2
    wanted = [improvement_interval(*tasks, 0.95, units, matched=m) for m in (True, False)]
    assert found == [(one.low, one.high) for one in wanted]
    assert found[0] != found[1]


def test_effect_and_runs_above_are_over_the_episodes_of_the_difference(protocol):
    """The script wins all episodes that the learner has not played."""
    mine = learner("mine", 5.0, FIVE)
    returns = np.concatenate([mine[0].returns[:, 0] - 1.0, np.full(EPISODES, 90.0)])
    rival = group_block("b-one", "rival", returns)
    (row,) = comparisons(protocol, EpisodeTable((*mine, rival)))
    assert row.flag == f"over the {EPISODES} episodes that both have played"
    assert row.difference > 0.0
    assert row.hedges_g > 0.0
    assert (row.above, row.runs) == (5, 5)


def test_a_family_is_one_pair_on_the_tasks_of_a_group(protocol):
    blocks = [b for t in ("a-one", "a-two", "b-one") for b in fixed("one", 3.0, t)]
    rng = np.random.default_rng(1)
    for task in ("a-one", "a-two", "b-one"):
        block = group_block(task, "two", 3.1 + rng.normal(0.0, 0.4, EPISODES))
        blocks.append(block)
    rows = {row.task: row for row in comparisons(protocol, EpisodeTable(tuple(blocks)))}
    assert rows["b-one"].p_holm == rows["b-one"].p_value  # the only task of its group
    low, high = sorted((rows["a-one"], rows["a-two"]), key=lambda row: row.p_value)
    assert low.p_holm == pytest.approx(2 * low.p_value)
    assert high.p_holm == pytest.approx(max(2 * low.p_value, high.p_value))


@st.composite
def tables(draw):
    """Two learners and a fixed policy, with others that may be far off, or fail now and then."""
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    levels = {name: draw(st.floats(2.0, 9.0)) for name in ("mine", "theirs", "script")}
    others = draw(st.dictionaries(st.sampled_from(["bad", "odd", "more"]), st.floats(-50.0, 60.0)))
    blocks = []
    for name, level in (levels | others).items():
        runs = (None,) if name in ("script", "bad") else (900, 901, 902, 903)
        for task, run in itertools.product(("a-one", "a-two", "b-one"), runs):
            values = level + rng.normal(0.0, 0.3) + rng.normal(0.0, 1.0, EPISODES)
            blocks.append(group_block(task, name, values, run))
    return blocks, tuple(levels)


@settings(max_examples=25, deadline=None)
@given(tables())
def test_no_other_contestant_changes_a_decision(case):
    """The family is one pair of policies."""
    protocol, (blocks, names) = group_protocol(margin=0.05), case
    alone = [block for block in blocks if block.cell.policy in names]
    for compare in (comparisons, group_comparisons):
        among = compare(protocol, EpisodeTable(tuple(blocks)))
        rows = [row for row in among if row.first in names and row.second in names]
        for row, same in zip(rows, compare(protocol, EpisodeTable(tuple(alone))), strict=True):
            assert row.decided == same.decided
            for field in ("p_value", "p_holm", "p_equivalence", "low"):
                if hasattr(row, field):
                    expected = pytest.approx(getattr(same, field), rel=1e-6, nan_ok=True)
                    assert getattr(row, field) == expected


def test_a_scale_that_others_move_decides_alike(protocol):
    """The range of the table scales a task, and its test is the same on every scale."""
    noise = np.random.default_rng(1).normal(0.0, 0.4, EPISODES)
    blocks = learner("mine", 9.0, TEN) + fixed("rival", 1.0)
    blocks.append(group_block("b-one", "high", 9.9 + noise))
    table = EpisodeTable(tuple(blocks))
    moved = protocol.model_copy(
        update={"report": protocol.report.model_copy(update={"normalisation": "minmax"})}
    )
    for compare in (comparisons, group_comparisons):
        rows = {(row.first, row.second): row for row in compare(protocol, table)}
        for row in compare(moved, table):
            fixed_scale = rows[row.first, row.second]
            assert row.decided
            assert fixed_scale.decided
            assert row.p_value == pytest.approx(fixed_scale.p_value, rel=1e-6)


def test_runs_behind_the_best_of_their_task(protocol):
    blocks = learner("mine", 9.0, TEN[:8]) + learner("mine", 3.0, TEN[8:])
    rows = {r.statistic: r for r in aggregates(protocol, EpisodeTable(tuple(blocks)))}
    assert (rows["mean"].behind, rows["mean"].played, rows["mean"].runs) == (2, 10, 10)
    assert rows["iqm"].estimate == pytest.approx(0.9, abs=0.02)  # the typical run
    assert rows["mean"].estimate == pytest.approx(0.78, abs=0.02)  # the expectation
    assert rows["trimmed_mean"].estimate == rows["mean"].estimate  # of one task


def test_ties_end_where_everybody_before_is_better():
    names = ["a", "b", "c", "d"]
    nobody = {name: set() for name in names}
    assert set(_ties(names, nobody).values()) == {"A"}
    chain = nobody | {"c": {"a"}, "d": {"a", "b", "c"}}  # a and c differ, but b is like both
    assert _ties(names, chain) == {"a": "A", "b": "A", "c": "A", "d": "B"}


def test_learners_have_bootstrap_intervals_too(protocol):
    """Against a plain loop of its own."""
    blocks = learner("mine", 7.0, TEN, spread=1.0) + learner("theirs", 5.0, TEN, spread=2.0)
    table = EpisodeTable((*blocks, *fixed("rival", 4.0)))
    means = {
        name: score_matrix(protocol, table, protocol.task_of("b-one"), name, "return").run_means
        for name in ("mine", "theirs")
    }
    by_key = {r.statistic: r for r in aggregates(protocol, table) if r.policy == "mine"}
    rng = np.random.default_rng(5)
    drawn = np.array([rng.choice(means["mine"] / GROUP_HIGH, 10).mean() for _ in range(5000)])
    ends = by_key["mean"].low_bootstrap, by_key["mean"].high_bootstrap
    assert ends == pytest.approx(np.quantile(drawn, (0.025, 0.975)), abs=0.006)
    middle = by_key["iqm"]
    assert ends != (middle.low_bootstrap, middle.high_bootstrap)
    assert middle.low_bootstrap < middle.estimate < middle.high_bootstrap


def test_a_report_says_which_of_two_intervals_to_use(protocol):
    """Three runs: the bootstrap over runs is far too narrow."""
    few = aggregates(protocol, EpisodeTable(tuple(learner("mine", 7.0, FIVE[:3], spread=1.0))))
    many = aggregates(
        protocol, EpisodeTable(tuple(learner("mine", 7.0, range(900, 940), spread=1.0)))
    )
    for rows, differs in ((few, True), (many, False)):
        (row,) = (row for row in rows if row.statistic == "mean")
        assert ("use the two-way interval" in row.flag) is differs


def test_scores_with_partners_have_their_context(focal):
    """What the seat earns of the best response, all together, and partners over a defector."""
    protocol, block = focal
    other = dataclasses.replace(
        block, cell=Cell("dilemma", "always_defect"), returns=block.returns / 2 - 1.0
    )
    rows = {row.policy: row for row in focal_contexts(protocol, EpisodeTable((block, other)))}
    row, seats = rows["mine"], block.seats
    assert row.own == pytest.approx(block.returns[seats].mean())
    assert row.share == pytest.approx(row.own / protocol.task[0].bounds.high)
    assert row.joint == pytest.approx(block.returns.sum(axis=1).mean())
    assert row.partner == pytest.approx(block.returns[~seats].mean())
    assert row.gain == pytest.approx(row.partner - other.returns[~seats].mean())
    assert rows["always_defect"].gain == 0.0
    (alone,) = focal_contexts(protocol, EpisodeTable((block,)))
    assert np.isnan(alone.gain)
    shown = context_table(Findings(protocol, EpisodeTable((block,))))
    assert shown.columns[1].name == "Share of bound"  # nothing certifies a best response
    runs = tuple(dataclasses.replace(block, cell=Cell("dilemma", "mine", run)) for run in (50, 51))
    lost = Failure(Cell("dilemma", "mine", 52), "out of memory")
    (failed,) = focal_contexts(protocol, EpisodeTable(runs, failures=(lost,)))
    assert failed.own == pytest.approx((2 * row.own + protocol.task[0].bounds.low) / 3)
    assert failed.joint == pytest.approx(row.joint)
    assert "best response" not in shown.unit


def test_contexts_of_a_group_are_those_of_policies_that_have_played_all_of_it(focal):
    _, block = focal
    horizons = {"dilemma": 5, "other": 6}
    tasks = [make_task(name, horizon=h, partners=["random"]) for name, h in horizons.items()]
    protocol = protocol_of(tasks=tasks, count=EPISODES, metrics=["own_return"], score="own_return")
    blocks = [
        dataclasses.replace(block, cell=Cell(task, policy))
        for task, policy in (("dilemma", "half"), ("dilemma", "whole"), ("other", "whole"))
    ]
    (group,) = context_table(Findings(protocol, EpisodeTable(tuple(blocks)))).groups
    assert [row[0].text for row in group.rows] == ["whole"]
