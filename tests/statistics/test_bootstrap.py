import numpy as np
import pytest
from scipy import stats

from coopbench.statistics import bootstrap_intervals, iqm, mean, median, optimality_gap, t_interval
from coopbench.statistics.bootstrap import BLOCK

AGGREGATES = (mean, median, iqm, optimality_gap)


def bootstrap_interval(scores, statistic, **options):
    return bootstrap_intervals(scores, [statistic], **options)[0]


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
            case["scores"], statistics, reps=10 * case["reps"], confidence=case["confidence"]
        )
        for k, (name, interval) in enumerate(zip(case["stats"], intervals, strict=True)):
            step = lattice_step(case, name)
            for side, end in (("lo", interval.low), ("hi", interval.high)):
                recorded = case[f"{side}_mean"][k], case[f"{side}_sd"][k], case["seeds"]
                assert within(end, *recorded, step), (case["name"], name, side, end, recorded)


def test_t_intervals_match_the_recorded_ones(golden):
    for case in golden("t_ci")["cases"]:
        for level in (0.9, 0.95, 0.99):
            interval = t_interval(case["x"], confidence=level)
            assert interval.estimate == pytest.approx(case["mean"], abs=1e-12)
            half = pytest.approx(case[f"half_{level}"], rel=1e-9, abs=1e-12, nan_ok=True)
            assert interval.high - interval.estimate == half, case["name"]
        assert bool(interval.warnings) == (case["name"] in ("n1", "const"))


@pytest.mark.parametrize("runs", [(10,), (10, 7, 12)])
def test_another_implementation_has_the_same_intervals(beta, runs):
    """SciPy draws every task on its own as well; the scores are skewed, so the ends differ."""
    skewed = np.vstack([beta, beta[:2]])[:, ::-1] ** 6
    tasks = [skewed[:count, task] for task, count in enumerate(runs)]
    other = stats.bootstrap(
        tasks,
        lambda *drawn, axis: np.mean([scores.mean(axis=axis) for scores in drawn], axis=0),
        vectorized=True,
        method="percentile",
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    error = 0.04 * (other.high - other.low)
    assert ends(bootstrap_interval(tasks, mean)) == pytest.approx(other, abs=error)


def test_arguments_alone_decide_and_estimates_keep_their_bits(beta):
    reps = BLOCK + 400  # more than one block
    options = {"reps": reps, "seed": 2**64 - 1}
    first, again = (bootstrap_interval(beta, iqm, **options) for _ in range(2))
    assert first == again
    assert first.estimate == iqm(beta)
    assert first.low < first.estimate < first.high
    assert ends(first) != ends(bootstrap_interval(beta, iqm, **options | {"seed": 0}))
    together = bootstrap_intervals(beta, AGGREGATES, **options)
    assert together[2] == first
    assert [interval.estimate for interval in together] == [f(beta) for f in AGGREGATES]


def test_other_functions_see_the_same_resamples(beta):
    """They take all resamples at once, of which each is like the scores."""
    for scores in (beta, [beta[: 3 + task, task] for task in range(6)]):
        for statistic in AGGREGATES:

            def one_by_one(drawn, statistic=statistic):
                draws = zip(*drawn, strict=True)
                return np.array([statistic(list(draw)) for draw in draws])

            known = bootstrap_interval(scores, statistic, reps=60)
            plain = bootstrap_interval(scores, one_by_one, reps=60)
            assert (known.estimate, *ends(known)) == pytest.approx((plain.estimate, *ends(plain)))


def notes(*arguments, **options):
    return " ".join(bootstrap_interval(*arguments, reps=2_000, **options).warnings)


def test_weak_evidence_is_pointed_out(beta):
    assert notes(beta, iqm) == ""
    assert "5 runs" in notes(beta[:5], iqm)
    assert "too narrow" in notes(beta[:5], iqm)
    assert "unequal run counts" in notes([beta[:, 0], beta[:4, 1]], iqm)
    assert "unequal run counts" not in notes([beta[:, 0], beta[:4, 1]], mean)
    assert "raise reps" in notes(beta, iqm, confidence=0.999)


def test_a_single_run_or_no_variation_gives_no_width_and_says_so(beta):
    for scores, word in ((beta[:1], "single run"), (np.full((10, 3), 0.1), "equal")):
        interval = bootstrap_interval(scores, iqm, reps=200)
        assert interval.estimate == iqm(scores)
        assert ends(interval) == pytest.approx((interval.estimate,) * 2, abs=1e-12)
        assert any(word in note for note in interval.warnings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reps": 0}, "reps is 0"),
        ({"confidence": 95}, "confidence is 95"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_wrong_options_are_named(beta, options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(beta, iqm, **options)


def test_missing_scores_are_named(beta):
    beta[4, 2] = np.nan
    with pytest.raises(ValueError, match="scores has nan at run 4, task 2"):
        bootstrap_interval(beta, iqm)
