"""SynergySearch-v1: what each firm observes, and one step by hand."""

import numpy as np
import pytest
from venture_play import begun, step

FIRST = np.array([True, False])  # firm 0 is informed


def _venture(good, state=None, **parameters):
    values = {"good": good, "productivity": 1.5 if good else 0.5, "informed": FIRST}
    levels = {"high": (1.5, 1.5), "low": (0.5, 0.5)}
    return begun("SynergySearch-v1", values | (state or {}), **(levels | parameters))


@pytest.mark.parametrize("informed", [0, 1])
def test_one_observes_the_times_and_both_who_does(informed):
    flags = np.arange(2) == informed
    engine = _venture(True, {"informed": flags})
    seen, layout = engine.control.obs[0], engine.layout
    expected = np.where(flags, 1.5 / 2.5, 0.0)
    np.testing.assert_allclose(seen[:, layout["productivity"].index][:, 0], expected, rtol=1e-6)
    shown = seen[:, layout["informed"].index].tolist()
    assert shown == [[float(flag), float(not flag)] for flag in flags]
    assert list(layout)[-2:] == ["time", "informed"]
    assert "income" not in layout  # it would tell the times
    assert engine.global_state()[0, -2:].tolist() == flags.astype(float).tolist()


def test_a_step_pays_by_the_hidden_times_and_not_by_records():
    for record in (0.0, 1.0):
        records = {"record": np.full(2, record)}
        assert step(_venture(True, records), 0.4, 1.0) == pytest.approx([0.6 + 1.05, 1.05])
        assert step(_venture(False, records), 0.4, 1.0) == pytest.approx([0.6 + 0.35, 0.35])
