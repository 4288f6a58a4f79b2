import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from coopbench.statistics import (
    alpha_rank,
    bradley_terry,
    iqm,
    mean,
    nash_average,
    optimality_gap,
    rank_intervals,
)

FAST = settings(deadline=None, max_examples=20)
CYCLE = np.array([[0.0, 1.0, -1.0], [-1.0, 0.0, 1.0], [1.0, -1.0, 0.0]])  # rock, paper, scissors
LADDER = np.array([[0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], [-2.0, -1.0, 0.0]])
GAMES = arrays(np.float64, (4, 4), elements=st.floats(-5.0, 5.0, width=16))


def contestants(gap, runs=12):
    rng = np.random.default_rng(3)
    return [rng.normal(gap * k, 1.0, size=(runs, 4)) for k in range(4)]


def test_clear_winners_have_sure_ranks_and_equals_have_wide_ones():
    ranking = rank_intervals(contestants(gap=3.0), mean, reps=2_000)
    assert ranking.interval.estimate.tolist() == [4, 3, 2, 1]
    assert np.array_equal(ranking.interval.low, ranking.interval.high)
    assert np.array_equal(ranking.shares, np.eye(4)[::-1])
    ranking = rank_intervals(contestants(gap=0.0), iqm, reps=2_000)
    assert ranking.interval.low.tolist() == [1] * 4
    assert ranking.interval.high.tolist() == [4] * 4
    assert ranking.shares.sum(axis=1) == pytest.approx(np.ones(4))
    assert np.all(ranking.shares > 0.0)


def test_lower_can_be_better_and_the_order_of_contestants_is_kept():
    scores = [s / 20 for s in contestants(gap=2.0)]
    by_gap = rank_intervals(scores, optimality_gap, best="lowest", reps=1_000)
    by_mean = rank_intervals(scores[::-1], mean, reps=1_000)
    assert by_gap.interval.estimate.tolist() == [4, 3, 2, 1]
    assert by_mean.interval.estimate.tolist() == [1, 2, 3, 4]
    assert by_gap.interval.reps == 1_000


def test_identical_matrices_are_resampled_independently():
    same = contestants(gap=0.0)[:1] * 3
    ranking = rank_intervals(same, mean, reps=3_000)
    assert ranking.interval.estimate.tolist() == [1, 1, 1]  # equal values share the better rank
    assert ranking.shares[:, 0] == pytest.approx(np.full(3, 1 / 3), abs=0.05)


def test_equals_are_seldom_told_apart_however_few_their_runs():
    rng, trials, held = np.random.default_rng(0), 150, 0
    for seed in range(trials):
        scores = rng.normal(size=(3, 5, 1))
        ends = rank_intervals(list(scores), mean, reps=300, confidence=0.9, seed=seed).interval
        held += np.all(ends.low == 1) and np.all(ends.high == 3)
    assert held / trials > 0.9 - 3 * np.sqrt(0.09 / trials)  # 0.73 without the allowance


def test_luck_that_paired_rows_share_does_not_blur_the_ranks():
    rng = np.random.default_rng(6)
    luck = rng.normal(size=(20, 3))
    scores = [luck + 0.2 * k + 0.05 * rng.normal(size=(20, 3)) for k in range(3)]
    paired, alone = (
        rank_intervals(scores, mean, rows=rows, reps=2_000) for rows in ("paired", "independent")
    )
    assert paired.interval.low.tolist() == paired.interval.high.tolist() == [3, 2, 1]
    assert alone.interval.high[2] > 1
    assert np.array_equal(paired.shares, np.eye(3)[::-1])
    with pytest.raises(ValueError, match=r"scores\[1\] has \[19, 19, 19\] rows"):
        rank_intervals([scores[0], scores[1][:19]], rows="paired")


def test_a_single_run_supports_no_rank_and_scores_that_do_not_vary_keep_theirs():
    single = rank_intervals([np.zeros((1, 2)), np.ones((9, 2))], mean, reps=100)
    assert single.interval.low.tolist() == [1, 1]
    assert single.interval.high.tolist() == [2, 2]
    assert any("single run" in note for note in single.interval.warnings)
    flat = rank_intervals([np.full((10, 1), 0.1), np.full((7, 1), 0.1), [[0.2]] * 9], mean, reps=9)
    assert flat.interval.low.tolist() == [2, 2, 1]
    assert flat.interval.high.tolist() == [3, 3, 1]


def test_few_contestants_and_wrong_directions_are_refused():
    with pytest.raises(ValueError, match="scores has 1 contestants"):
        rank_intervals(contestants(1.0)[:1])
    with pytest.raises(ValueError, match="best is 'up'"):
        rank_intervals(contestants(1.0), best="up")
    with pytest.raises(ValueError, match="rows is 'same'"):
        rank_intervals(contestants(1.0), rows="same")


def test_strengths_are_recovered_from_expected_wins():
    strengths = np.array([-2.5, 0.0, 0.3, 0.3, 1.9])
    wins = 100.0 / (1.0 + np.exp(strengths[None, :] - strengths[:, None]))
    np.fill_diagonal(wins, 7.0)  # ignored
    estimated = bradley_terry(wins)
    assert estimated == pytest.approx(strengths - strengths.mean(), abs=1e-8)
    assert bradley_terry(wins.T) == pytest.approx(-estimated, abs=1e-8)


def test_strengths_are_unbounded_without_a_chain_of_wins():
    assert np.all(np.isnan(bradley_terry([[0, 3], [0, 0]])))
    assert bradley_terry([[0, 3], [0, 0]], prior=1.0) == pytest.approx([np.log(2), -np.log(2)])
    assert bradley_terry([[0, 3], [1, 0]])[0] == pytest.approx(np.log(3) / 2)
    with pytest.raises(ValueError, match="negative"):
        bradley_terry([[0, -1], [1, 0]])
    with pytest.raises(ValueError, match="wins has shape"):
        bradley_terry([[0, 1]])


def test_a_cycle_is_even_and_a_ladder_has_a_top():
    for masses in (alpha_rank(CYCLE), alpha_rank(CYCLE, alpha=0.3), nash_average(CYCLE).rows):
        assert masses == pytest.approx(np.full(3, 1 / 3), abs=1e-6)
    for masses in (alpha_rank(LADDER), alpha_rank(LADDER, alpha=5.0), nash_average(LADDER).rows):
        assert masses == pytest.approx([1.0, 0.0, 0.0], abs=1e-6)
    assert nash_average(LADDER).row_ratings == pytest.approx([0.0, -1.0, -2.0], abs=1e-6)


def test_two_players_end_where_evolution_ends():
    mine = np.array([[3.0, 0.0], [5.0, 1.0]])  # defecting is always better
    assert alpha_rank([mine, mine.T])[1, 1] == pytest.approx(1.0, abs=1e-6)
    assert alpha_rank(mine) == pytest.approx([0.0, 1.0], abs=1e-6)


def stationary(chain):
    values, vectors = np.linalg.eig(chain.T)
    vector = np.real(vectors[:, np.argmin(np.abs(values - 1.0))])
    return vector / vector.sum()


def test_masses_are_stationary_under_the_moran_process():
    payoffs, alpha, size = np.random.default_rng(1).normal(size=(4, 4)), 0.2, 10
    chain = np.zeros((4, 4))
    for i, j in itertools.permutations(range(4), 2):
        gain = payoffs[j, i] - payoffs[i, j]
        chain[i, j] = (1 - np.exp(-alpha * gain)) / (1 - np.exp(-alpha * size * gain)) / 3
    np.fill_diagonal(chain, 1.0 - chain.sum(axis=1))
    masses = alpha_rank(payoffs, alpha=alpha, population=size)
    assert masses == pytest.approx(stationary(chain), abs=1e-10)


@pytest.mark.parametrize("alpha", [0.5, np.inf])
def test_masses_are_a_distribution_that_follows_the_names(alpha):
    payoffs, order = np.random.default_rng(6).uniform(-5.0, 5.0, (4, 4)), [2, 0, 3, 1]
    masses = alpha_rank(payoffs, alpha=alpha)
    assert np.all(masses >= 0.0)
    assert masses.sum() == pytest.approx(1.0)
    renamed = alpha_rank(payoffs[np.ix_(order, order)], alpha=alpha)
    assert renamed == pytest.approx(masses[order], abs=1e-6)


TINY = 2.0**-22  # a game in which the solver sees no equilibrium within its tolerance
UNSEEN = np.full((4, 4), TINY)
UNSEEN[[0, 1, 2, 3], [0, 1, 0, 1]] = 5.0, 0.0, 1.0, 0.0


@FAST
@given(GAMES)
@example(UNSEEN)
def test_nash_ratings_are_at_most_the_value_and_used_rows_reach_it(payoffs):
    average = nash_average(payoffs)
    unit = np.ptp(payoffs) or 1.0
    assert average.rows.sum() == pytest.approx(1.0)
    assert np.all(average.rows >= 0.0)
    assert np.all(average.row_ratings <= average.value + 1e-5 * unit)
    assert np.all(average.column_ratings >= average.value - 1e-5 * unit)
    assert average.rows @ average.row_ratings == pytest.approx(average.value, abs=1e-5 * unit)
    mirrored = nash_average(payoffs - payoffs.T)
    assert mirrored.value == pytest.approx(0.0, abs=1e-5 * unit)
    assert mirrored.rows == pytest.approx(mirrored.columns, abs=1e-3)


def test_copies_split_their_mass_and_change_no_rating():
    game = CYCLE * [[1.0], [2.0], [1.0]]
    game = game - game.T
    plain = nash_average(game)
    copied = nash_average(np.pad(game, (0, 1), mode="edge"))  # the last agent twice
    assert copied.rows[2:] == pytest.approx(np.full(2, plain.rows[2] / 2), abs=1e-5)
    assert copied.row_ratings[:3] == pytest.approx(plain.row_ratings, abs=1e-5)


def test_games_of_other_shapes_are_refused():
    for bad in (np.zeros((2, 3)), [np.zeros((2, 2))], [np.zeros((2, 2)), np.zeros((2, 3))]):
        with pytest.raises(ValueError, match="payoffs has shape"):
            alpha_rank(bad)
    with pytest.raises(ValueError, match="alpha is 0"):
        alpha_rank(CYCLE, alpha=0.0)
    with pytest.raises(ValueError, match="payoffs has shape"):
        nash_average(np.full((2, 2), np.nan))
