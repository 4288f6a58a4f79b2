from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from scipy import stats

from coopbench.statistics import (
    bootstrap_distribution,
    bootstrap_interval,
    bootstrap_intervals,
    difference_of,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    published_curve_interval,
    t_interval,
    welch,
)
from coopbench.statistics.resampling import sampler_for

METHODS = ("percentile", "basic", "bc", "bca", "expanded", "t")
LEVELS = ("runs", "tasks", "hierarchical")
AGGREGATES = (mean, median, iqm, optimality_gap)
TAUS = np.linspace(0.0, 1.0, 11)


def within(values, centre, sd, seeds, lattice=0.0):
    return abs(values - centre) <= 5.0 * sd * np.sqrt(1.0 + 1.0 / seeds) + lattice + 1e-9


def lattice_step(case, name):
    """Return one step of a discrete statistic: win rates are multiples of 1 / 32."""
    runs, tasks = np.shape(case["scores"])
    if name.startswith("tau"):
        return 1.0 / (runs * tasks)
    if not case["name"].startswith("winrate"):
        return 0.0
    kept = runs * tasks - 2 * int(0.25 * runs * tasks)
    return {"mean": 1 / tasks / runs, "median": 1 / runs, "iqm": 1 / kept}.get(name, 1 / runs) / 32


def recorded_bca(scores, reps):
    """Compute BCa ends as the recorded library does for several statistics at once.

    It subtracts the leave-one-out values from their mean over runs AND statistics. That is a slip
    (each statistic has its own mean), so the interval under test does not share it.
    """
    scores = np.array(scores)
    left_out = np.array(
        [[f(np.delete(scores, run, axis=0)) for f in AGGREGATES] for run in range(len(scores))]
    )
    pull = left_out.mean() - left_out
    speed = np.sum(pull**3, axis=0) / (6.0 * np.sum(pull**2, axis=0) ** 1.5)
    ends = []
    for k, statistic in enumerate(AGGREGATES):
        values = bootstrap_distribution(scores, statistic, reps=reps)
        bias = stats.norm.ppf(np.mean(values < statistic(scores)))
        shifted = bias + stats.norm.ppf([0.025, 0.975])
        levels = stats.norm.cdf(bias + shifted / (1.0 - speed[k] * shifted))
        ends.append(np.quantile(values, levels))
    return ends


def test_intervals_match_the_recorded_bootstrap(golden):
    profile = partial(performance_profile, taus=TAUS)
    for case in golden("bootstrap_ci")["cases"]:
        options = {
            "method": case["method"],
            "resample": "hierarchical" if case["task_bootstrap"] else "runs",
            "reps": 10 * case["reps"],
            "confidence": case["confidence"],
        }
        if case["stats"][0].startswith("tau"):
            intervals = bootstrap_interval(case["scores"], profile, **options)
            ends = list(zip(intervals.low, intervals.high, strict=True))
        elif case["method"] == "bca":
            ends = recorded_bca(case["scores"], options["reps"])
        else:
            intervals = bootstrap_intervals(case["scores"], AGGREGATES, **options)
            ends = [(interval.low, interval.high) for interval in intervals]
        for k, name in enumerate(case["stats"]):
            step = lattice_step(case, name)
            for side, end in zip(("lo", "hi"), ends[k], strict=True):
                recorded = case[f"{side}_mean"][k], case[f"{side}_sd"][k], case["seeds"]
                assert within(end, *recorded, step), (case["name"], name, side, end, recorded)


def test_one_task_matches_another_implementation(beta):
    sample = beta[:, 4] ** 3  # skewed, so that the correction matters
    interval = bootstrap_interval(sample, mean, method="bca", reps=100_000)
    other = stats.bootstrap(
        (sample,), np.mean, method="BCa", n_resamples=100_000, rng=np.random.default_rng(1)
    ).confidence_interval
    plain = bootstrap_interval(sample, mean, reps=100_000)
    assert (interval.low, interval.high) == pytest.approx(tuple(other), abs=0.003)
    assert abs(interval.high - plain.high) > 0.005


def test_improvement_intervals_match_the_recorded_bootstrap(golden):
    for case in golden("bootstrap_poi_ci")["cases"]:
        pair = np.array(case["x"]), np.array(case["y"])
        interval = bootstrap_interval(pair, probability_of_improvement, reps=20_000)
        for side, end in (("lo", interval.low), ("hi", interval.high)):
            assert within(end, case[f"{side}_mean"], case[f"{side}_sd"], case["seeds"]), case[
                "name"
            ]


def test_t_intervals_match_the_recorded_ones(golden):
    for case in golden("t_ci")["cases"]:
        for level in (0.9, 0.95, 0.99):
            interval = t_interval(case["x"], confidence=level)
            assert interval.estimate == pytest.approx(case["mean"], abs=1e-12)
            half = pytest.approx(case[f"half_{level}"], rel=1e-9, abs=1e-12, nan_ok=True)
            assert interval.high - interval.estimate == half, case["name"]
        assert bool(interval.warnings) == (case["name"] in ("n1", "const"))
        band = published_curve_interval(case["x"])
        assert band.high - band.estimate == pytest.approx(
            case["marl_eval_single_task_half"], rel=1e-9, abs=1e-12
        )


def same_resamples(scores, statistic, level, reps=100):
    """Return values of the compiled form, after a look at those of the function itself."""
    compiled, plain = (
        bootstrap_distribution(scores, s, resample=level, reps=reps, seed=3)
        for s in (statistic, lambda *samples: statistic(*samples))
    )
    assert compiled == pytest.approx(plain, abs=1e-12)
    return compiled


@pytest.mark.parametrize("level", LEVELS)
def test_compiled_and_plain_statistics_see_the_same_resamples(beta, level):
    ragged = [beta[: 3 + j, j] for j in range(6)]
    quarters = np.round(4.0 * beta[:8]) / 4.0  # ties with thresholds, which are not above
    for statistic in AGGREGATES:
        assert np.ptp(same_resamples(beta, statistic, level)) > 0.0
        same_resamples(ragged, statistic, level, reps=50)
    for kind in ("run", "average"):
        profile = partial(performance_profile, taus=[0.75, 0.25, 0.5], kind=kind)  # in no order
        for scores in (beta, quarters):
            assert same_resamples(scores, profile, level).shape == (100, 3)
    # Within a task the compiled form numbers the runs of y by size.
    pair = beta, np.sort(beta[:7] * 1.1, axis=0)
    for statistic in (probability_of_improvement, difference_of(iqm)):
        same_resamples(pair, statistic, level)


def test_the_bias_counts_resamples_strictly_below_the_estimate(beta):
    quarters = np.round(4.0 * beta[:8]) / 4.0
    values = bootstrap_distribution(quarters, mean, reps=1_000)
    below = np.mean(values < mean(quarters))
    assert below < np.mean(values <= mean(quarters)) - 0.01  # ties are common here
    levels = stats.norm.cdf(2.0 * stats.norm.ppf(below) + stats.norm.ppf([0.025, 0.975]))
    interval = bootstrap_interval(quarters, mean, method="bc", reps=1_000)
    assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(values, levels)))


@pytest.mark.parametrize("unit", ["cells", "runs", "tasks"])
def test_compiled_and_plain_statistics_lack_the_same_units(beta, unit):
    singles = *AGGREGATES, partial(performance_profile, taus=TAUS)
    pairs = probability_of_improvement, difference_of(iqm)
    for statistic in (*singles, *pairs):
        double = statistic in pairs
        scores = (beta, beta[:7, ::-1] * 1.1) if double else beta
        compiled, strata = sampler_for(scores, statistic).leave_out(unit)
        plain, others = sampler_for(scores, lambda *s, f=statistic: f(*s)).leave_out(unit)
        assert compiled == pytest.approx(plain, abs=1e-12)
        assert np.array_equal(strata, others)
        units = {"cells": 60 + 42 * double, "runs": 10 + 7 * double, "tasks": 6}[unit]
        assert compiled.shape[1] == units
        apart = {"cells": 6 + 6 * double, "runs": 1 + double, "tasks": 1}[unit]
        assert strata.max() + 1 == apart


def test_a_resample_depends_on_the_seed_and_its_number_alone(beta):
    from coopbench.statistics import kernels
    from coopbench.statistics.resampling import Aggregate

    table, key = Aggregate(beta, mean).table, (np.uint64(11), 1)
    whole, parts = np.empty((90, kernels.WIDTH)), np.empty((90, kernels.WIDTH))
    kernels.resample_aggregates(table, key, 0, kernels.HIERARCHICAL, whole)

    def fill(first):
        block = parts[first : first + 30]
        kernels.resample_aggregates(table, key, first, kernels.HIERARCHICAL, block)

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(fill, range(0, 90, 30)))
    assert np.array_equal(whole, parts)
    assert np.unique(whole, axis=0).shape == whole.shape


def test_draws_are_uniform():
    # 40 tasks of 7 runs whose scores are the run numbers: every number is drawn equally often.
    scores = np.tile(np.arange(7.0)[:, None], 40)
    drawn = np.stack(
        [
            bootstrap_distribution(scores, lambda s, k=k: np.mean(s == k), reps=500, seed=1)
            for k in range(7)
        ]
    )
    share = drawn.mean(axis=1)
    assert share == pytest.approx(np.full(7, 1 / 7), abs=5 * np.sqrt(6 / 49 / (500 * 280)))
    # The variance of the count of one run among 280 draws is that of a binomial.
    assert drawn[0].var() * 280 == pytest.approx(6 / 49, rel=0.35)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("method", METHODS)
def test_seeds_decide_everything(beta, method, level):
    options = {"method": method, "resample": level, "reps": 400, "seed": 2**64 - 1}
    first, again = (bootstrap_interval(beta, iqm, **options) for _ in range(2))
    assert first == again
    assert first.estimate == iqm(beta)
    assert first.low < first.high
    one, other = (
        bootstrap_distribution(beta, iqm, resample=level, reps=400, seed=s) for s in (7, 6)
    )
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("method", ["percentile", "expanded", "t"])
def test_intervals_follow_the_scale_and_hardly_the_order_of_runs(beta, method):
    shuffled = np.random.default_rng(2).permuted(beta, axis=0)
    one, other, moved = (
        bootstrap_interval(s, iqm, method=method, reps=20_000)
        for s in (beta, shuffled, 3.0 * beta - 1.0)
    )
    assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=0.01)
    expected = 3.0 * one.low - 1.0, 3.0 * one.high - 1.0
    assert (moved.low, moved.high) == pytest.approx(expected, abs=1e-9)


def test_several_statistics_at_once_equal_one_by_one(beta):
    half = partial(optimality_gap, gamma=0.5)
    statistics = (*AGGREGATES, half, partial(performance_profile, taus=TAUS))
    together = bootstrap_intervals(beta, statistics, reps=500, seed=4)
    for interval, statistic in zip(together, statistics, strict=True):
        alone = bootstrap_interval(beta, statistic, reps=500, seed=4)
        for field in ("estimate", "low", "high", "method", "reps", "warnings"):
            assert np.array_equal(getattr(interval, field), getattr(alone, field))


@pytest.mark.parametrize("method", METHODS)
def test_shares_are_bounded_and_profiles_fall(beta, method):
    profile = partial(performance_profile, taus=TAUS)
    interval = bootstrap_interval(beta, profile, method=method, reps=2_000)
    ends = np.isfinite(interval.low) & np.isfinite(interval.high)
    assert np.all(interval.low[ends] <= interval.high[ends])
    if method in ("percentile", "expanded", "t"):
        assert np.all((interval.low >= 0.0) & (interval.high <= 1.0))
        assert np.all((interval.low <= interval.estimate) & (interval.estimate <= interval.high))
    if method == "percentile":
        assert np.all(np.diff(interval.low) <= 0.0)
        assert np.all(np.diff(interval.high) <= 0.0)


def test_shares_lie_on_the_quantiles_that_sorting_gives(beta):
    profile = partial(performance_profile, taus=TAUS)
    values = bootstrap_distribution(beta, profile, reps=999)
    interval = bootstrap_interval(beta, profile, reps=999, confidence=0.9)
    assert interval.low == pytest.approx(np.quantile(values, 0.05, axis=0), abs=1e-12)
    assert interval.high == pytest.approx(np.quantile(values, 0.95, axis=0), abs=1e-12)


def test_student_is_the_special_case_of_one_task_and_welch_that_of_two_samples(beta):
    x, y = beta[:, 0], beta[:6, 1]
    for scores, statistic, wanted in (
        (x, mean, t_interval(x)),
        ((x, y), difference_of(mean), welch(x, y).interval),
    ):
        interval = bootstrap_interval(scores, statistic, method="t")
        assert (interval.low, interval.high) == pytest.approx((wanted.low, wanted.high), rel=1e-12)
        assert interval.reps == 0


def test_wider_confidence_and_small_sample_methods_widen(beta):
    narrow, wide = (bootstrap_interval(beta, iqm, confidence=c) for c in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high
    few = beta[:5]
    plain, expanded, t = (
        bootstrap_interval(few, mean, method=m) for m in ("percentile", "expanded", "t")
    )
    assert expanded.low < plain.low
    assert expanded.high > plain.high
    assert t.high - t.low == pytest.approx(expanded.high - expanded.low, rel=0.1)
    # Five runs: the bootstrap variance is 4 / 5 of the unbiased one.
    unbiased = np.sqrt(np.sum(few.var(axis=0, ddof=1)) / 5) / 6
    spread = bootstrap_distribution(few, mean).std()
    assert spread == pytest.approx(unbiased * np.sqrt(0.8), rel=0.02)


def test_tasks_resampled_as_well_widen_and_runs_stay_put_without(beta):
    by_runs, by_both = (
        bootstrap_interval(beta, mean, resample=r) for r in ("runs", "hierarchical")
    )
    assert by_both.high - by_both.low > by_runs.high - by_runs.low
    same_runs = np.tile(beta[:1], (4, 1))
    assert np.ptp(bootstrap_distribution(same_runs, mean, resample="tasks")) > 0.0
    one_task = bootstrap_distribution(beta[:, :1], mean, resample="tasks", reps=50)
    assert one_task == pytest.approx(beta[:, 0].mean())


def test_a_pair_shares_its_tasks(beta):
    # y is x minus a constant, so that a difference over tasks alone does not vary.
    shifted = bootstrap_distribution((beta, beta - 0.25), difference_of(mean), resample="tasks")
    assert shifted == pytest.approx(0.25, abs=1e-12)
    both = bootstrap_distribution((beta, beta), difference_of(mean), reps=2_000)
    assert np.std(both) > 0.0  # the runs of the two are drawn independently


def notes(*arguments, **options):
    return " ".join(bootstrap_interval(*arguments, reps=2_000, **options).warnings)


def test_weak_evidence_is_pointed_out(beta):
    assert notes(beta, iqm) == ""
    assert "5 runs" in notes(beta[:5], iqm)
    assert "too narrow" in notes(beta[:5], iqm)
    assert "too narrow" not in notes(beta[:5], iqm, method="expanded")
    assert "single run" in notes(beta[:1], iqm)
    assert "equal" in notes(np.tile(beta[:1], (12, 1)), iqm)
    assert "6 tasks" in notes(beta, iqm, resample="hierarchical")
    assert "5 runs" not in notes(beta[:5], iqm, resample="tasks")
    assert "unequal run counts" in notes([beta[:, 0], beta[:4, 1]], iqm)
    assert "unequal run counts" not in notes([beta[:, 0], beta[:4, 1]], mean)
    assert "4 runs" in notes((beta, beta[:4]), probability_of_improvement)
    assert "raise reps" in notes(beta, iqm, confidence=0.999)


@pytest.mark.parametrize("method", METHODS)
def test_a_single_run_claims_nothing(beta, method):
    interval = bootstrap_interval(beta[:1], iqm, method=method, reps=200)
    assert interval.estimate == iqm(beta[:1])
    if method in ("percentile", "basic"):
        assert interval.low == interval.high == pytest.approx(interval.estimate, abs=1e-12)
    else:
        assert np.isnan(interval.low)
        assert np.isnan(interval.high)
    assert any("single run" in note for note in interval.warnings)


def test_no_variation_gives_no_width_and_says_so():
    for method in ("percentile", "basic", "expanded", "t"):
        interval = bootstrap_interval(np.full((10, 3), 0.1), mean, method=method, reps=200)
        assert (interval.low, interval.high) == pytest.approx((0.1, 0.1), abs=1e-12)
        assert any("equal" in note for note in interval.warnings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "normal"}, "method is 'normal'"),
        ({"resample": "cells"}, "resample is 'cells'"),
        ({"reps": 0}, "reps is 0"),
        ({"confidence": 95}, "confidence is 95"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_wrong_options_are_named(beta, options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(beta, iqm, **options)


def test_pairs_and_single_matrices_are_not_confused(beta):
    with pytest.raises(TypeError, match="one score matrix"):
        bootstrap_interval((beta, beta), iqm)
    with pytest.raises(TypeError, match="pair"):
        bootstrap_interval(beta, probability_of_improvement)
    with pytest.raises(ValueError, match="y has 5 tasks"):
        bootstrap_interval((beta, beta[:, :5]), probability_of_improvement)
    missing = beta.copy()
    missing[4, 2] = np.nan
    with pytest.raises(ValueError, match=r"y has nan at run 4, task 2"):
        bootstrap_interval((beta, missing), probability_of_improvement)
