"""RenaultNissan-v1: one step by hand, and what is observed."""

import numpy as np
import pytest
from venture_play import begun, step

FIXED = {"jitter": (0.0, 0.0), "pull": (0.5, 0.5), "high": (1.8, 1.8), "low": (0.2, 0.2)}


def _alliance(state=None, **parameters):
    return begun("RenaultNissan-v1", state, **(FIXED | parameters))


def test_a_step_pays_by_share_whatever_the_records():
    """Formation takes in 0.7: units 0.9 x 0.7 + 1 x 0.5 = 1.13, worth 1.13 x 1.5 = 1.695."""
    for record in ([0.0, 1.0], [1.0, 0.0]):
        state = {"record": np.array(record), "good": True, "productivity": 1.5}
        engine = _alliance(state)
        nissan, renault = 0.9 * 0.2 + 0.48 * 1.695, 0.5 + 0.52 * 1.695
        assert step(engine, 0.8, 0.5) == pytest.approx([nissan, renault])
    assert engine.agents == ("nissan_0", "renault_0")


def test_what_agents_and_the_global_state_see():
    state = {"record": np.array([0.3, 0.8]), "good": True, "productivity": 1.5}
    engine = _alliance(state)
    layout, seen = engine.layout, engine.control.obs[0]
    assert list(layout)[-2:] == ["phase", "level"]
    assert "income" in layout
    assert seen[:, layout["trust_in_me"].index].ravel() == pytest.approx([0.3, 0.8])
    assert seen[:, layout["trust_in_others"].index].ravel() == pytest.approx([0.8, 0.3])
    assert seen[0, layout["productivity"].index] == pytest.approx([0.6])
    assert seen[0, layout["phase"].index].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert seen[0, layout["level"].index] == pytest.approx([0.7])
    world = engine.global_state()[0]
    assert world.shape == engine.state_space.shape == (11,)
    np.testing.assert_allclose(world, [0, 0, 0.3, 0.8, 0.6, 0, 1, 0, 0, 0, 0.7], rtol=1e-6)
