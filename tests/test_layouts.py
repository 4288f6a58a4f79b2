"""Layouts: named parts of flat vectors, of any shape, as views, alike for games and policies."""

from dataclasses import replace

import numpy as np
import pytest
import toy_pennies

import coopbench_envs
from coopbench.baselines.policy import Game
from coopbench.describe import describe_environment
from coopbench_envs import Engine
from coopbench_envs.layouts import Part, consecutive, unpack
from coopbench_envs.parameters import describe
from coopbench_envs.registration import register

# Pennies with six players, whose observation is told as a grid of two rows of three.
GRID = replace(
    toy_pennies.SPEC, id="test/PenniesGrid-v0", layout=lambda p: consecutive({"grid": (2, 3)})
)


def test_parts_lie_one_after_the_other_in_c_order():
    layout = consecutive({"first": 2, "grid": (2, 3), "empty": (0, 4), "last": 1})
    assert layout == {
        "first": Part(0, 2),
        "grid": Part(2, 8, (2, 3)),
        "empty": Part(8, 8, (0, 4)),
        "last": Part(8, 9),
    }
    vectors = np.arange(2 * 5 * 9).reshape(2, 5, 9)
    views = unpack(layout, vectors)
    assert {name: view.shape for name, view in views.items()} == {
        "first": (2, 5, 2),
        "grid": (2, 5, 2, 3),
        "empty": (2, 5, 0, 4),
        "last": (2, 5, 1),
    }
    assert views["grid"][1, 4].tolist() == [[83, 84, 85], [86, 87, 88]]
    views["grid"][0, 0, 1, 2] = -1
    assert vectors[0, 0, 7] == -1
    np.testing.assert_array_equal(vectors[..., layout["grid"].index], vectors[..., 2:8])


def test_views_of_vectors_that_are_not_contiguous():
    layout = consecutive({"skipped": 1, "grid": (2, 2)})
    vectors = np.arange(40).reshape(4, 10)[::2, ::2]
    view = layout["grid"].view(vectors)
    assert view.tolist() == [[[2, 4], [6, 8]], [[22, 24], [26, 28]]]
    assert np.shares_memory(view, vectors)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((0, 6, (2, 2)), r"6 entries, 0 to 5, cannot have the shape \(2, 2\)"),
        ((0, 4, (-2, -2)), "cannot have the shape"),
        ((3, 2), "from 0 <= start to stop"),
        ((-1, 2), "from 0 <= start to stop"),
    ],
)
def test_parts_that_cannot_be(numbers, message):
    with pytest.raises(ValueError, match=message):
        Part(*numbers)


def test_policies_and_pages_see_the_shape_of_a_toy():
    register(GRID)
    engine = Engine("test/PenniesGrid-v0", 3, num_agents=6)
    engine.reset(np.arange(3))
    game = Game.of(engine)
    assert game.layout == engine.layout == {"grid": Part(0, 6, (2, 3))}
    grid = game.unpack(engine.control.obs)["grid"]
    assert grid.shape == (3, 6, 2, 3)
    assert np.shares_memory(grid, engine.control.obs)
    assert (grid[:, 0, 1, 2] == engine.state.pennies[:, 5]).all()
    register(replace(GRID, id="test/PenniesRow-v0", layout=lambda p: consecutive({"row": (1, 3)})))
    assert "| `row` | 0 to 2, shape (1, 3) |" in describe_environment("test/PenniesRow-v0")


def test_layouts_cover_observations_and_actions(env_id):
    engine = Engine(env_id)
    for layout, size in (
        (engine.layout, engine.observation_spaces[0].shape[0]),
        (engine.action_layout, engine.actions.shape[-1]),
    ):
        if layout:
            ends = [part.stop for part in layout.values()]
            assert [part.start for part in layout.values()] == [0, *ends[:-1]]
            assert ends[-1] == size
        if env_id.startswith("coopbench/"):
            assert all(part.meaning for part in layout.values())


@pytest.mark.parametrize("name", ["Rail-v0", "Rail-v1"])
def test_every_observation_of_trains_says_what_its_parts_are(name):
    spec = coopbench_envs.spec(name)
    for observation in describe(spec.params)["observation"][2].choices:
        parts = spec.layout(spec.constants(spec.params(observation=observation)))
        assert all(part.meaning for part in parts.values())
