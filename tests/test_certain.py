"""Scores and differences that do not vary: exact, within a bound, and never in contradiction."""

import dataclasses
import itertools

import numpy as np
import pytest
from builders import GROUP_HIGH, group_block, group_protocol, make_task, small_protocol
from scipy import stats

import coopbench
from coopbench.analysis.aggregates import aggregates
from coopbench.analysis.comparisons import comparisons, count_decisions, group_comparisons
from coopbench.analysis.estimates import CERTAIN, estimates
from coopbench.analysis.findings import Findings
from coopbench.episodes.table import EpisodeTable, Trace
from coopbench.exchange import import_results
from coopbench.statistics import constant_half_width, constant_p

EPISODES = 1000
RNG = np.random.default_rng(8)


def block(policy, level, run=None, episodes=EPISODES, spread=0.0, task="b-one"):
    return group_block(task, policy, level + spread * RNG.normal(size=episodes), run)


def certain(policy, level, run=None, episodes=EPISODES, prints=None, task="b-one"):
    """A block of episodes that are all the same, from a start that no seed moves."""
    marks = np.zeros(episodes) if prints is None else prints
    digests = np.repeat(np.array(marks, "<f8").view(np.uint8).reshape(-1, 8), 4, axis=1)
    trace = Trace(digests, np.zeros(4, np.uint64), {})
    played = block(policy, level, run, episodes, task=task)
    return dataclasses.replace(played, trace=trace, drawn=False)


def runs(policy, level, count, **options):
    return [block(policy, level, 900 + k, **options) for k in range(count)]


def test_episodes_that_were_not_played_here_have_no_trace():
    assert certain("two", 5.0).own_trace.checksums
    with pytest.raises(ValueError, match=r"policy='two'.* was not played here: it has no trace"):
        _ = block("two", 5.0).own_trace


# -- bounds ---------------------------------------------------------------------------------------


def test_the_bound_is_that_of_clopper_and_pearson_and_its_p_that_of_the_sign_test():
    exact = stats.binomtest(0, 50).proportion_ci(0.95, method="exact")
    assert constant_half_width(0.0, 50, 1.0) == pytest.approx(exact.high)
    assert constant_half_width(0.0, 1000, 1.0) == pytest.approx(3.0 / 1000, rel=0.25)
    assert constant_p(1.0, 12, 1.0) == pytest.approx(stats.binomtest(12, 12).pvalue)
    for gap, count in itertools.product((0.05, 0.4, 1.0), (3, 40)):
        level = constant_p(gap, count, 1.0)
        if level < 1.0:  # the interval touches 0 at that level
            assert constant_half_width(gap, count, 1.0, 1.0 - level) == pytest.approx(gap)
    assert constant_p(0.0, 40, 0.0) == 1.0
    with pytest.raises(ValueError, match="at least the difference"):
        constant_p(2.0, 40, 1.0)


def test_the_interval_covers_if_rare_episodes_are_otherwise():
    """Episodes differ by 1 but for a share that has the opposite: never seen in most samples."""
    for share in (0.001, 0.01, 0.05):
        for count in (10, 100, 1000):
            unseen = (1.0 - share) ** count
            covered = constant_half_width(1.0, count, 1.0) >= 2.0 * share
            assert covered or unseen < 0.025


# -- reports --------------------------------------------------------------------------------------


def test_one_thousand_wins_of_one_thousand_beat_none():
    protocol = group_protocol()
    table = EpisodeTable((block("win", GROUP_HIGH), block("lose", 0.0), block("too", 0.0)))
    (row, other, equal) = comparisons(protocol, table)
    assert row.basis == other.basis == equal.basis == "bound"
    assert row.decided
    assert row.p_value == row.p_holm == 1e-150
    assert 0.0 < row.low < row.difference < row.high
    assert (equal.p_value, equal.decided) == (1.0, False)
    assert equal.low < 0.0 < equal.high
    places = {rank.policy: (rank.low, rank.high) for rank in Findings(protocol, table).ranks}
    assert places == {"win": (1, 1), "lose": (2, 3), "too": (2, 3)}
    for mean in (r for r in aggregates(protocol, table) if r.statistic == "mean"):
        assert 0.003 < mean.high - mean.low < 0.004
        assert (mean.low, mean.high)[mean.estimate > 0.5] == mean.estimate  # not beyond the scale


def test_small_constant_differences_need_more_episodes():
    protocol = group_protocol()
    for episodes, decided in ((20, False), (100, True)):
        pair = block("one", 6.0, episodes=episodes), block("two", 5.0, episodes=episodes)
        (row,) = comparisons(protocol, EpisodeTable(pair))
        assert row.decided is decided is (row.low > 0.0)
        assert row.p_value == pytest.approx(
            2 * (10 / 11) ** episodes if decided else 0.297, abs=1e-3
        )


def test_equal_scores_are_no_tests_in_a_family():
    protocol = group_protocol()
    blocks = [block("one", 5.0, task="a-one"), block("two", 5.0, task="a-one")]
    blocks += [block("one", 5.0, task="a-two", episodes=30, spread=1.0)]
    blocks += [block("two", 5.6, task="a-two", episodes=30, spread=1.0)]
    same, differing = comparisons(protocol, EpisodeTable(tuple(blocks)))
    assert (same.p_value, same.p_holm) == (1.0, 1.0)
    assert differing.p_holm == differing.p_value


def test_what_is_exact_is_decided_and_counted_once():
    protocol = group_protocol(margin=0.05)
    table = EpisodeTable((certain("one", 5.01), certain("two", 5.0), certain("like", 5.0)))
    (row, _, equal) = comparisons(protocol, table)
    assert (row.basis, row.p_value, row.decided) == ("exact", 0.0, True)
    assert row.low == row.high == row.difference
    assert row.p_equivalence == 0.0
    assert (equal.p_value, equal.decided) == (1.0, False)
    groups = group_comparisons(protocol, table)
    assert [group.basis for group in groups] == ["exact"] * 3
    assert count_decisions(protocol, comparisons(protocol, table), groups) == 0
    for one in estimates(protocol, table):
        assert (one.count, one.episodes) == (1, 1)
        assert one.low == one.mean == one.high
        assert one.flag.startswith(CERTAIN)
    (mean, *_) = aggregates(protocol, table)
    assert (mean.count, mean.low) == (1, mean.high)
    ranks = {rank.policy: (rank.low, rank.high) for rank in Findings(protocol, table).ranks}
    assert ranks == {"one": (1, 1), "two": (2, 3), "like": (2, 3)}


@pytest.mark.parametrize("gap", [0.1, 5.0])
def test_what_is_exact_is_no_test_of_equivalence(gap):
    """It is 0 or 1 of itself, and the test on the other task of the group is the only one."""
    protocol = group_protocol(margin=0.05)
    width = 0.05 * GROUP_HIGH
    played = [block(name, 5.0, task="a-two", episodes=30, spread=0.5) for name in ("one", "two")]
    alone = [certain(name, level, task="a-one") for name, level in (("one", 5.0 + gap), ("two", 5))]
    exact, tested = comparisons(protocol, EpisodeTable((*alone, *played)))
    assert (exact.basis, exact.p_equivalence) == ("exact", float(gap >= width))
    one, two = (episodes.returns.sum(axis=1) for episodes in played)
    sides = ((-width, "greater"), (width, "less"))
    p = max(stats.ttest_1samp(one - two, end, alternative=side).pvalue for end, side in sides)
    assert tested.p_equivalence == pytest.approx(p)


def test_equal_scores_in_all_episodes_are_a_test_of_equivalence():
    """Other episodes may differ, so it counts in Holm's method: the larger p stays."""
    protocol = group_protocol(margin=0.05)
    played = [block(name, 5.0, task="a-two", episodes=30, spread=0.5) for name in ("one", "two")]
    alike = [block(name, 5.0, task="a-one", episodes=30) for name in ("one", "two")]
    single = [comparisons(protocol, EpisodeTable(tuple(b)))[0] for b in (alike, played)]
    assert single[0].basis == "bound"
    low, high = sorted(row.p_equivalence for row in single)
    both = comparisons(protocol, EpisodeTable((*alike, *played)))
    expected = [2.0 * low, max(2.0 * low, high)]
    assert sorted(row.p_equivalence for row in both) == pytest.approx(expected)


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(certain("two", 5.0), drawn=True),  # starts, or chance in the game
        certain("two", 5.0, prints=range(EPISODES)),  # the policy draws
        dataclasses.replace(certain("two", 5.0), trace=None),
    ],
)
def test_what_is_drawn_is_not_exact(other):
    (row,) = comparisons(group_protocol(), EpisodeTable((certain("one", 5.5), other)))
    assert row.basis == "bound"
    assert row.low < row.difference < row.high


def test_learners_whose_runs_are_all_alike_are_decided():
    """As the nearest data that vary would be: a run in which one episode goes the other way."""
    protocol = group_protocol()
    for count, drawn, decided in (
        (10, False, True),
        (5, False, True),
        (3, False, False),
        (3, True, True),
    ):
        make = block if drawn else certain
        mine = [make("mine", GROUP_HIGH, 900 + k) for k in range(count)]
        (row,) = comparisons(protocol, EpisodeTable((*mine, make("rival", 0.0))))
        assert (row.basis, row.decided) == ("bound", decided)
        means = np.full(count, GROUP_HIGH)
        means[0] -= GROUP_HIGH / (EPISODES if drawn else 1)
        error = np.std(means, ddof=1) / np.sqrt(count)
        expected = 2 * stats.t.sf(GROUP_HIGH / error, count - 1)
        assert row.p_value == pytest.approx(expected, rel=1e-6)
    two = EpisodeTable((*runs("mine", GROUP_HIGH, 5), *runs("theirs", 0.0, 5)))
    assert comparisons(protocol, two)[0].decided
    few = EpisodeTable((*runs("mine", GROUP_HIGH, 2), block("rival", 0.0)))
    assert comparisons(protocol, few)[0].basis == "none"


# -- results that were played ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A game that draws nothing, and one whose starts are drawn, from a folder of results."""
    place = tmp_path_factory.mktemp("certain")
    tasks = [
        make_task("still", "coopbench/TrustDilemma-v0"),
        make_task("drawn"),
        make_task("seats", "coopbench/TrustDilemma-v0", partners=["tit_for_tat", "always_defect"]),
    ]
    protocol = small_protocol(place, tasks=tasks, count=8)
    coopbench.evaluate(protocol, ["random", "tit_for_tat", "always_defect"], place / "results")
    return coopbench.load_report(place / "results")


def test_a_deterministic_policy_on_one_start_is_one_episode(played):
    score = played.protocol.report.score
    counts = {
        (row.task, row.policy): (row.count, row.flag == CERTAIN)
        for row in played.estimates
        if row.metric == score
    }
    for policy in ("tit_for_tat", "always_defect"):
        assert counts["still", policy] == (1, True)
        assert counts["drawn", policy] == (8, False)
        assert counts["seats", policy] == (4, True)  # each seat beside each partner
    assert counts["still", "random"] == (8, False)
    bases = {(r.task, frozenset((r.first, r.second))): r.basis for r in played.comparisons}
    scripts, chance = (frozenset((name, "always_defect")) for name in ("tit_for_tat", "random"))
    assert bases["still", scripts] == bases["seats", scripts] == "exact"
    assert bases["drawn", scripts] == "test"
    assert bases["still", chance] == "test"


# -- results of other programs --------------------------------------------------------------------


def test_imported_runs_are_ranked_by_welchs_test(tmp_path):
    """Disjoint intervals and p below .0001 never share ranks, on the scale of the file too."""
    levels = {"ippo": 0.963, "matcher": 0.646, "same": 0.64}
    lines = [
        f"{name},{task},{run},{level + 0.02 * RNG.normal()}"
        for name, level in levels.items()
        for task in ("one", "two")
        for run in range(10)
    ]
    file = tmp_path / "scores.csv"
    file.write_text("algorithm,task,run,score\n" + "\n".join(lines) + "\n")
    report = import_results(file, "score")
    ranks = {row.policy: (row.low, row.high) for row in report.ranks}
    assert ranks == {"ippo": (1, 1), "matcher": (2, 3), "same": (2, 3)}
    means = {r.policy: r for r in report.aggregates if r.statistic == "mean"}
    assert means["matcher"].high < means["ippo"].low
    for row in report.comparisons:
        one, two = (report.scores[name][row.task] for name in (row.first, row.second))
        welch = stats.ttest_ind(one, two, equal_var=False)
        assert row.p_value == pytest.approx(welch.pvalue, rel=1e-6)
        assert (row.welch_t, row.welch_df) == pytest.approx((welch.statistic, welch.df))


def test_p_values_intervals_and_ranks_agree():
    """On random tables: p below alpha if and only if the interval leaves 0 out."""
    protocol = group_protocol()
    for _ in range(20):
        blocks = [block("a", 5.0), block("b", 5.0 + RNG.normal(), spread=1.0)]
        blocks += [block("c", 5.0, spread=RNG.uniform(0.0, 1.0)), certain("d", 5.3)]
        blocks += runs("e", 5.2, 4, spread=0.5) + runs("f", 5.1, 4)
        table = EpisodeTable(tuple(blocks))
        rows = [*comparisons(protocol, table), *group_comparisons(protocol, table)]
        assert len(rows) == 30
        for row in rows:
            assert (row.p_value < 0.05) == (row.low > 0.0 or row.high < 0.0) == row.decided
        groups = group_comparisons(protocol, table)
        ranks = {rank.policy: rank for rank in Findings(protocol, table).ranks}
        for row in groups:
            first, second = ranks[row.first], ranks[row.second]
            if row.p_ranks < 0.05:
                better, worse = (first, second) if row.difference > 0.0 else (second, first)
                assert better.low <= worse.low
                assert better.high <= worse.high
