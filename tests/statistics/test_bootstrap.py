import numpy as np
import pytest
from scipy import stats

from coopbench.statistics import (
    bootstrap_interval,
    bootstrap_intervals,
    iqm,
    mean,
    median,
    optimality_gap,
    probability_of_improvement,
    t_interval,
)
from coopbench.statistics.bootstrap import BLOCK, METHODS

AGGREGATES = (mean, median, iqm, optimality_gap)


def ends(interval):
    return interval.low, interval.high


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


def above(tau):
    """Return the share of cells above a threshold as a statistic of all resamples."""
    return lambda drawn: np.mean(np.concatenate(drawn, axis=-1) > tau, axis=-1)


def test_intervals_match_the_recorded_bootstrap(golden):
    for case in golden("bootstrap_ci")["cases"]:
        statistics = AGGREGATES
        if case["stats"][0].startswith("tau"):
            statistics = [above(float(name.removeprefix("tau_"))) for name in case["stats"]]
        intervals = bootstrap_intervals(
            case["scores"],
            statistics,
            reps=10 * case["reps"],
            confidence=case["confidence"],
            vectorised=True,
        )
        for k, (name, interval) in enumerate(zip(case["stats"], intervals, strict=True)):
            step = lattice_step(case, name)
            for side, end in (("lo", interval.low), ("hi", interval.high)):
                recorded = case[f"{side}_mean"][k], case[f"{side}_sd"][k], case["seeds"]
                assert within(end, *recorded, step), (case["name"], name, side, end, recorded)


def test_improvement_intervals_match_the_recorded_bootstrap(golden):
    for case in golden("bootstrap_poi_ci")["cases"]:
        pair = np.array(case["x"]), np.array(case["y"])
        interval = bootstrap_interval(pair, probability_of_improvement, reps=20_000)
        for side, end in (("lo", interval.low), ("hi", interval.high)):
            recorded = case[f"{side}_mean"], case[f"{side}_sd"], case["seeds"]
            assert within(end, *recorded), case["name"]


def test_t_intervals_match_the_recorded_ones(golden):
    for case in golden("t_ci")["cases"]:
        for level in (0.9, 0.95, 0.99):
            interval = t_interval(case["x"], confidence=level)
            assert interval.estimate == pytest.approx(case["mean"], abs=1e-12)
            half = pytest.approx(case[f"half_{level}"], rel=1e-9, abs=1e-12, nan_ok=True)
            assert interval.high - interval.estimate == half, case["name"]
        assert bool(interval.warnings) == (case["name"] in ("n1", "const"))


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("runs", [(10,), (10, 7, 12)])
def test_another_implementation_has_the_same_intervals(beta, method, runs):
    """SciPy draws every task on its own as well; the scores are skewed, so that BCa matters."""
    skewed = np.vstack([beta, beta[:2]])[:, ::-1] ** 6
    tasks = [skewed[:count, task] for task, count in enumerate(runs)]
    other = stats.bootstrap(
        tasks,
        lambda *drawn, axis: np.mean([scores.mean(axis=axis) for scores in drawn], axis=0),
        vectorized=True,
        method=method.replace("bca", "BCa"),
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    error = 0.04 * (other.high - other.low)
    assert ends(bootstrap_interval(tasks, mean, method=method)) == pytest.approx(other, abs=error)
    plain = bootstrap_interval(tasks, mean)
    assert method == "percentile" or plain.high < other.high - 2 * error


def expanded_levels(tasks, tail=0.025):
    """Return Hesterberg's levels of the mean, for which every task's variance is known."""
    sizes = np.array([len(task) for task in tasks])
    parts = np.array([np.var(task, ddof=1) / len(task) for task in tasks])
    df = parts.sum() ** 2 / np.sum(parts**2 / (sizes - 1))
    scale = np.sqrt(parts.sum() / np.sum(parts * (sizes - 1) / sizes))
    low = stats.norm.cdf(scale * stats.t.ppf(tail, df))
    return low, 1.0 - low


def test_expanded_levels_follow_from_the_variances_of_the_tasks(beta):
    tasks = [beta[:4, 0], 3.0 * beta[:6, 1], beta[:9, 2]]
    low, high = expanded_levels(tasks)
    interval = bootstrap_interval(tasks, mean, method="expanded", reps=20_000)
    same = bootstrap_interval(tasks, mean, confidence=high - low, reps=20_000)
    assert ends(interval) == pytest.approx(ends(same), rel=1e-9)
    assert low < 0.02  # of .025


@pytest.mark.parametrize("method", METHODS)
def test_arguments_alone_decide_and_estimates_keep_their_bits(beta, method):
    reps = BLOCK + 400  # more than one block
    options = {"method": method, "reps": reps, "seed": 2**64 - 1}
    first, again = (bootstrap_interval(beta, iqm, **options) for _ in range(2))
    assert first == again
    assert (first.estimate, first.method, first.reps) == (iqm(beta), method, reps)
    assert first.low < first.estimate < first.high
    assert ends(first) != ends(bootstrap_interval(beta, iqm, **options | {"seed": 0}))
    together = bootstrap_intervals(beta, AGGREGATES, **options)
    assert together[2] == first
    assert [interval.estimate for interval in together] == [f(beta) for f in AGGREGATES]


def test_other_functions_see_the_same_resamples(beta):
    ragged = [beta[: 3 + task, task] for task in range(6)]
    pair = beta, beta[:7] * 1.1
    for scores, statistic in (
        *((scores, statistic) for scores in (beta, ragged) for statistic in AGGREGATES),
        (pair, probability_of_improvement),
    ):
        known = bootstrap_interval(scores, statistic, method="bca", reps=60)
        plain = bootstrap_interval(scores, lambda *s, f=statistic: f(*s), method="bca", reps=60)
        assert (known.estimate, *ends(known)) == pytest.approx((plain.estimate, *ends(plain)))
    tied = np.round(4.0 * beta), np.round(4.0 * beta[:7])
    known = bootstrap_interval(tied, probability_of_improvement, reps=60)
    plain = bootstrap_interval(tied, lambda x, y: probability_of_improvement(x, y), reps=60)
    assert ends(known) == pytest.approx(ends(plain))


def notes(*arguments, **options):
    return " ".join(bootstrap_interval(*arguments, reps=2_000, **options).warnings)


def test_weak_evidence_is_pointed_out(beta):
    assert notes(beta, iqm) == ""
    assert "5 runs" in notes(beta[:5], iqm)
    assert "too narrow" in notes(beta[:5], iqm)
    assert "too narrow" not in notes(beta[:5], iqm, method="expanded")
    assert "unequal run counts" in notes([beta[:, 0], beta[:4, 1]], iqm)
    assert "unequal run counts" not in notes([beta[:, 0], beta[:4, 1]], mean)
    assert "4 runs" in notes((beta, beta[:4]), probability_of_improvement)
    assert "raise reps" in notes(beta, iqm, confidence=0.999)


@pytest.mark.parametrize("method", METHODS)
def test_a_single_run_claims_nothing(beta, method):
    interval = bootstrap_interval(beta[:1], iqm, method=method, reps=200)
    assert interval.estimate == iqm(beta[:1])
    if method == "percentile":
        assert ends(interval) == pytest.approx((interval.estimate,) * 2, abs=1e-12)
    else:
        assert np.isnan(ends(interval)).all()
        assert any("an end is unknown" in note for note in interval.warnings)
    assert any("single run" in note for note in interval.warnings)


@pytest.mark.parametrize("method", ["percentile", "expanded"])
def test_no_variation_gives_no_width_and_says_so(method):
    interval = bootstrap_interval(np.full((10, 3), 0.1), mean, method=method, reps=200)
    assert ends(interval) == pytest.approx((0.1, 0.1), abs=1e-12)
    assert any("equal" in note for note in interval.warnings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "normal"}, "method is 'normal'; allowed are percentile, bca, expanded"),
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
    with pytest.raises(TypeError, match="a pair"):
        bootstrap_interval(beta, probability_of_improvement)
    with pytest.raises(TypeError, match="tuple of 3"):
        bootstrap_interval((beta, beta, beta), probability_of_improvement)
    with pytest.raises(ValueError, match="y has 5 tasks"):
        bootstrap_interval((beta, beta[:, :5]), probability_of_improvement)
    missing = beta.copy()
    missing[4, 2] = np.nan
    with pytest.raises(ValueError, match=r"y has nan at run 4, task 2"):
        bootstrap_interval((beta, missing), probability_of_improvement)
