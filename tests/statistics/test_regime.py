"""A small run of studies/validity/regime: intervals where runs dominate."""

import numpy as np
import pytest

from studies.validity.regime import EPISODES, SHAPES, TASKS, coverage

TRIALS = 200


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_have_the_moments_that_they_state(shape):
    one, ratio = SHAPES[shape], 3.0
    scores = one.scores(np.random.default_rng(0), ratio, (20_000,))
    runs = scores.mean(axis=1)
    assert runs.mean() == pytest.approx(one.mean, abs=0.01)
    error = scores.std(axis=1, ddof=1).mean() / np.sqrt(EPISODES)
    assert one.sd / error == pytest.approx(ratio, rel=0.01)
    rel = 0.1 if shape in ("t(3)", "lognormal") else 0.03  # heavy tails
    assert np.sqrt(runs.var() - error**2) == pytest.approx(one.sd, rel=rel)


@pytest.mark.parametrize("tasks", [1, TASKS])
@pytest.mark.parametrize("ratio", [3.0, 60.0])
@pytest.mark.parametrize("shape", ["normal", "t(3)"])
def test_intervals_cover_runs_without_failures(shape, ratio, tasks):
    assert coverage(shape, ratio, 5, TRIALS, tasks) >= 0.90


def test_the_shortfall_of_failing_runs_is_what_the_page_says():
    assert 0.35 <= coverage("a tenth fails", 14.0, 5, TRIALS) <= 0.60
