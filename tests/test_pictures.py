"""Pictures: frames of one size throughout an episode, games of any size."""

from dataclasses import replace
from types import SimpleNamespace

import builders
import gymnasium
import numpy as np
import pettingzoo
import pytest
import toy_lift
import toy_pennies
from gymnasium.spaces import Box

from coopbench_envs import Engine
from coopbench_envs.layouts import consecutive
from coopbench_envs.pictures import check_picture_options, picture, text
from coopbench_envs.registration import register, spec
from coopbench_envs.rendering import BLUE, Canvas, mix_colours


def test_frames_of_an_episode_have_one_size(env_id):
    engine = builders.begun(env_id, horizon=5, seed=3)
    assert text(engine).strip()
    frames = [picture(engine)]
    assert frames[0].std() > 1  # something is drawn
    rng = np.random.default_rng(0)
    while not engine.control.done.all():
        if engine.discrete:
            engine.step(np.zeros(engine.actions.shape, np.int64))
        else:
            engine.step(rng.uniform(*engine.action_bounds(), engine.actions.shape))
        frames.append(picture(engine))
    assert {frame.shape for frame in frames} == {frames[0].shape}
    assert all(frame.dtype == np.uint8 for frame in frames)
    assert engine.discrete or (frames[0] != frames[-1]).any()


def test_every_lane_has_its_picture():
    engine = Engine("TrustDilemma-v1", 2)
    engine.reset(np.array([3, 3]))
    assert (picture(engine, 0) == picture(engine, 1)).all()
    engine.step(np.array([[[0.0], [0.0]], [[1.0], [1.0]]]))
    assert (picture(engine, 0) != picture(engine, 1)).any()


def test_shapes_are_filled_where_they_are():
    canvas = Canvas(9, 7)
    canvas.rectangle(2, 1, 5, 3, BLUE)
    filled = (canvas.pixels() == BLUE).all(axis=2)
    assert filled[1:4, 2:7].all()
    assert filled.sum() == 15


def test_colours_lie_between_the_two_ends():
    shades = [mix_colours((0, 10, 20), (100, 10, 0), s) for s in (-1.0, 0.0, 0.5, 1.0, 2.0)]
    assert [shade[0] for shade in shades] == [0, 0, 50, 100, 100]
    assert [shade[2] for shade in shades] == [20, 20, 10, 0, 0]


def test_options_that_pictures_do_not_have_are_refused():
    with pytest.raises(ValueError, match=r"no option 'sigth'; allowed: sight\. Leave it out"):
        check_picture_options(spec("coopbench/Skirmish-v1"), ["sight", "sigth"])


BARE = replace(toy_lift.SPEC, id="test/LiftBare-v0")


def test_a_game_without_a_picture_shows_what_agents_observe():
    engine = Engine("test/Pennies-v0", 2, num_agents=4, horizon=20)
    engine.reset(np.array([0, 1]))
    engine.reset(state={"pennies": [[3, 0, 2, 1], [1, 1, 1, 1]]})
    assert text(engine).splitlines() == [
        "Pennies-v0  step 0 of 20  return 0",
        "player_0: own_pennies 3; others_pennies 0 2 1",
        "player_1: own_pennies 0; others_pennies 2 1 3",
        "player_2: own_pennies 2; others_pennies 1 3 0",
        "player_3: own_pennies 1; others_pennies 3 0 2",
    ]
    first, second = picture(engine, 0), picture(engine, 1)
    assert first.shape == second.shape
    assert (first != second).any()
    rows = [blue_pixels(row) for row in (first, second)]
    assert rows[0] > rows[1]  # 6 pennies against 4, seen four times


def blue_pixels(image):
    return int((image == (0, 114, 178)).all(axis=2).sum())


def test_bars_go_from_the_lowest_to_the_highest_value():
    """Bounds of the observation space; without bounds x / (1 + |x|)."""
    ends = {"bounded": Box(0.0, 2.0, (2,), np.float32), "open": Box(-np.inf, np.inf, (2,))}
    heights = {}
    for name, space in ends.items():
        register(
            replace(
                BARE,
                id=f"test/Lift{name.title()}-v0",
                observation_space=lambda p, a, space=space: space,
                layout=lambda p: consecutive({"grid": (1, 2)}),
            )
        )
        engine = builders.begun(f"test/Lift{name.title()}-v0", num_agents=2)
        for value in (0.0, 1.0, 2.0):
            engine.control.obs[:] = value
            heights[name, value] = blue_pixels(picture(engine))
    assert heights["bounded", 0.0] == 0
    full = heights["bounded", 2.0]
    assert heights["bounded", 1.0] == pytest.approx(full / 2, rel=0.1)
    assert heights["open", 0.0] == pytest.approx(full / 2, rel=0.1)
    assert heights["open", 1.0] == pytest.approx(0.75 * full, rel=0.1)


def test_many_agents_and_large_observations_fit_into_the_default():
    observed, names = Box(0, 1, (1200,), np.float32), tuple(f"player_{a}" for a in range(60))
    control = SimpleNamespace(obs=np.ones((1, 60, 1200), np.float32), returns=np.zeros((1, 60)))
    large = SimpleNamespace(
        spec=toy_pennies.SPEC,
        agents=names,
        layout=consecutive(dict.fromkeys(map(str, range(30)), 40)),
        observation_spaces=[observed] * 60,
        horizon=3,
        view=lambda: SimpleNamespace(time=np.zeros(1, np.int64)),
        fetched=lambda: (control, None),
    )
    image = picture(large)
    assert image.shape[0] < 1000
    assert image.shape[1] < 1500
    lines = text(large).splitlines()
    assert len(lines) == 61
    assert "0 1 1 1 1 1 1 1 1 ... (40);" in lines[1]


def test_the_default_is_shown_on_every_interface():
    register(BARE)
    single = gymnasium.make(BARE.id, render_mode="rgb_array")
    many = gymnasium.make_vec(BARE.id, num_envs=2, render_mode="rgb_array")
    both = [pettingzoo.make(kind, BARE.id, render_mode="rgb_array") for kind in ("parallel", "aec")]
    for env in (single, many, *both):
        env.reset(seed=0)
    images = [single.render(), many.render()[0], *(env.render() for env in both)]
    assert all(image.dtype == np.uint8 for image in images)
    for image in images[1:]:
        np.testing.assert_array_equal(image, images[0])
    ansi = gymnasium.make(BARE.id, render_mode="ansi")
    ansi.reset(seed=0)
    assert "carrier_1: time 0; own_share 0" in ansi.render()
