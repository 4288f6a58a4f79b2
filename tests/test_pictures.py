"""Pictures: frames of one size throughout an episode, games of any size, plots of the pages."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from coopbench_envs import Engine

DOCS = Path(__file__).resolve().parent.parent / "docs"


def _picture(engine):
    return engine.spec.picture(engine.constants, engine.lane_state(), engine.agents)


def test_frames_of_an_episode_have_one_size(env_id):
    engine = Engine(env_id, horizon=5)
    engine.reset(np.array([3]))
    frames = [_picture(engine)]
    rng = np.random.default_rng(0)
    while not engine.control.done.all():
        if engine.discrete:
            engine.step(np.zeros(engine.actions.shape, np.int64))
        else:
            engine.step(rng.uniform(*engine.action_bounds(), engine.actions.shape))
        frames.append(_picture(engine))
    assert {frame.shape for frame in frames} == {frames[0].shape}
    assert all(frame.dtype == np.uint8 for frame in frames)
    assert engine.discrete or (frames[0] != frames[-1]).any()


@pytest.mark.parametrize("agents", [2, 12, 13, 64])
def test_many_agents_fit_into_a_picture(agents):
    engine = Engine("DynamicPartnerSelection-v1", num_agents=agents)
    engine.reset(np.array([0]))
    engine.step(np.full(engine.actions.shape, 0.5))
    image = _picture(engine)
    assert image.shape[0] < 500
    assert image.shape[1] < 1300
    page = engine.spec.text(engine.constants, engine.lane_state(), engine.agents)
    assert all(name in page for name in engine.agents)


@pytest.mark.parametrize("name", ["TrustDilemma-v0", "TrustDilemma-v1"])
def test_plots_of_the_pages(name, monkeypatch):
    """Small files, the same every time, with all three policies and both axes named."""
    monkeypatch.syspath_prepend(str(DOCS))
    try:
        import plots
    finally:
        sys.modules.pop("plots", None)
    env_id = f"coopbench/{name}"
    drawn = plots.written(env_id)
    assert len(drawn) < 60_000
    assert drawn == plots.written(env_id)
    words = "".join(ElementTree.fromstring(drawn).itertext())
    assert len(plots.policies(env_id)) == 3
    for word in (*plots.policies(env_id), *plots.LABELS, "step"):
        assert word in words
    assert f"plots/{plots.stem(env_id)}.svg" in plots.section(env_id)
