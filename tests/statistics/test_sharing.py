import numpy as np
import pytest

from coopbench.statistics import gini, jain


def test_indices_match_the_recorded_ones(golden):
    for case in golden("fairness")["cases"]:
        values = {"jain": jain(case["x"]), "gini": gini(case["x"])}
        wanted = {name: case[name] for name in values}
        if case["name"] == "mixed_sign":
            wanted["jain"] = np.nan  # recorded is 0, which the same note calls meaningless
        assert values == pytest.approx(wanted, abs=1e-12, nan_ok=True), case["name"]


@pytest.mark.parametrize("unit", [1e-250, 1.0, 1e250])
def test_the_unit_does_not_matter(unit):
    assert jain(unit * np.array([3.0, 1.0])) == pytest.approx(0.8)
    assert gini(unit * np.array([3.0, 1.0])) == pytest.approx(0.25)


@pytest.mark.parametrize("index", [jain, gini])
def test_mixed_signs_have_no_index(index):
    assert np.isnan(index([1.0, -2.0]))
    assert np.isfinite(
        [index(amounts) for amounts in ([0.0, 2.0], [-1.0, 0.0], [-1.0, -3.0])]
    ).all()


def test_the_last_axis_is_that_of_agents():
    episodes = np.array([[[1.0, 1.0], [3.0, 1.0]], [[1.0, -1.0], [0.0, 0.0]]])
    assert jain(episodes) == pytest.approx(np.array([[1.0, 0.8], [np.nan, 1.0]]), nan_ok=True)
    assert gini(episodes) == pytest.approx(np.array([[0.0, 0.25], [np.nan, np.nan]]), nan_ok=True)


def test_missing_amounts_are_refused_and_named():
    with pytest.raises(ValueError, match=r"amounts has nan at \(1, 0\)"):
        jain([[1.0, 2.0], [np.nan, 1.0]])
    with pytest.raises(ValueError, match=r"amounts has nan at \(0,\)"):
        gini(np.ma.array([1, 2], mask=[True, False]))
    with pytest.raises(ValueError, match="amounts has shape"):
        gini([])
