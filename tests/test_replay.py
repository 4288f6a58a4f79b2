"""Episodes played again: recordings, addresses, the page and the GIF; and files that are wrong."""

import base64
import io
import json
import re
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import builders
import numpy as np
import pytest
import toy_pennies  # noqa: F401  (registers test/Pennies-v0)
import toy_team
from PIL import Image
from rail_networks import stuck_trains
from results_folder import BESIDE, FIXED, add, edit_row, remove_actions, sign

import coopbench
import coopbench_envs
from coopbench.errors import ReplayError
from coopbench.playing.recording import load
from coopbench.protocol.loading import find_protocol
from coopbench.report import gif, player
from coopbench.report.gif import as_gif
from coopbench.report.scenes import pictures
from coopbench.report.scenes.arrays import ScriptedCourse
from coopbench_envs import scenes
from coopbench_envs.pathfinding.scene import AGENT_BYTES
from coopbench_envs.pictures import picture as drawn_picture
from coopbench_envs.rail.trains import ARRIVED, BROKEN, BROKEN_OFF_MAP, MOVING
from coopbench_envs.scenes import Course, Scripted

ROOT = Path(__file__).resolve().parent.parent
WORLD = {"num_agents": 5, "map_params": {"num_rows": 6, "num_cols": 6, "obstacle_density": 0.1}}
PLACES = ("Rail-", "Routing-", "Skirmish-")  # games whose scenes have places
SCENES = [name for name in coopbench_envs.ids() if name.split("/")[1].startswith(PLACES)]
POLICIES = {"focal": ["random", "constant:0.5"], "routes": ["random", "greedy"]}


@pytest.fixture(scope="module")
def episode():
    return coopbench.play_episode("Routing-v0", "greedy", seed=3, horizon=60, **WORLD)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of a game among partners and of one with frozen starts, five episodes each."""
    folder = tmp_path_factory.mktemp("replay")
    frozen = coopbench.load_protocol("routing-easy").task_of("random_grid_a8_o20").instances
    games = {
        "focal": builders.make_task("focal", horizon=8, high=1, partners=["random", "tit_for_tat"]),
        "routes": builders.make_task(
            "routes",
            "coopbench/Routing-v0",
            high=1,
            parameters={"num_agents": 8, "map_params": {"obstacle_density": 0.05}, "horizon": 250},
            instances=frozen.model_dump(),
        ),
    }
    for name, curve in (("focal", "length"), ("routes", "success_rate")):
        file = builders.protocol_file(
            folder, name, tasks=[games[name]], train=None, first=40, count=5, curve=curve
        )
        coopbench.evaluate(file, POLICIES[name], folder / name)
    return folder


def _page(recording, tmp_path):
    text = recording.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    return text, json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def _numbers(text, kind):
    return np.frombuffer(base64.b64decode(text), kind)


def _lie(stage, packed, true):
    """Check that packed places are the true ones up to half a tick."""
    ticks = _numbers(packed, "<u2").reshape(true.shape)
    shown = np.array(stage["low"]) + ticks / 65535 * np.array(stage["span"])
    assert np.abs(shown - true).max() <= 0.51 * max(stage["span"]) / 65535


# --- recordings -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("team_toy")
def test_a_common_reward_counts_once(tmp_path):
    """The return of a team that shares one reward is that reward, not the sum over its agents."""
    recording = coopbench.play_episode(toy_team.SPEC.id, "random", seed=3)
    assert len(recording.agents) > 1
    assert recording.team_return == recording.rewards[:, 0].sum() != 0
    text, data = _page(recording, tmp_path)
    course = _numbers(data["series"]["return"], "<f4")
    assert course[-1] == pytest.approx(recording.team_return)
    assert "team&#39;s reward" in text or "team's reward" in text
    assert "Return by agent" not in text


def test_a_recording_has_the_ending_by_which_it_is_found(tmp_path):
    with pytest.raises(ReplayError, match=r"ep\.dat is to end in \.npz"):
        coopbench.play_episode("TrustDilemma-v1", "random", path=tmp_path / "ep.dat")


def test_a_recording_plays_again_bit_for_bit(kind_id, tmp_path):
    path = tmp_path / "episode.npz"
    made = coopbench.play_episode(kind_id, "random", seed=5, path=path, horizon=4)
    read = load(path)
    engine = builders.begun(kind_id, horizon=4, seed=5)
    for again in read.play():
        np.testing.assert_equal(again.lane_state(), engine.lane_state())
        if not engine.control.done[0]:
            engine.step(made.actions[engine.state.time[0]][None])
    assert len(read) == len(made) >= 1
    assert read.players == ("random",) * len(engine.agents)
    assert (read.title, read.env, read.seed) == (made.title, kind_id, 5)


def test_every_episode_of_results_comes_out_as_it_did(results):
    for name, policies in POLICIES.items():
        protocol = find_protocol(results / f"{name}.toml")
        report = coopbench.load_report(results / name)
        for policy in policies:
            block = report.episodes.of(name, policy)
            for k in range(5):
                episode = coopbench.find_episode(f"{results}/{name}/{name}/{policy}/{k}")
                assert len(episode) == block.lengths[k]
                assert np.array_equal(np.cumsum(episode.rewards, axis=0)[-1], block.returns[k])
                own = np.array(episode.players)[block.seats[k]]
                assert own.tolist() == [policy] * block.seats[k].sum()
                alone = coopbench.find_episode(f"{results}/{name}.toml/{name}/{policy}/{k}")
                assert np.array_equal(alone.actions, episode.actions)
                assert episode.about["protocol"] == protocol.name


def test_results_that_cannot_be_reproduced_are_named(root):
    edit_row(FIXED, 2, add("returns", 0, 1e-9))(root)
    with pytest.raises(ReplayError, match="checksum differs"):
        coopbench.find_episode(f"{root}/{FIXED}/2")
    sign(root)
    with pytest.raises(ReplayError, match="could not be reproduced: returns"):
        coopbench.find_episode(f"{root}/{FIXED}/2")
    assert len(coopbench.find_episode(f"{root}/{FIXED}/1")) == 6


def test_an_object_is_shown_in_every_episode_whose_actions_are_stored(root):
    task, policy, run = BESIDE.split("/")
    block = coopbench.load_report(root).episodes.of(task, policy, int(run[4:]))
    for k in range(len(block)):
        episode = coopbench.find_episode(f"{root}/{BESIDE}/{k}")
        *_, engine = episode.play()
        assert np.array_equal(engine.control.returns[0], block.returns[k])
        assert [player == policy for player in episode.players] == block.seats[k].tolist()
    other = next(k for k in range(len(block)) if k not in block.trace.recorded)
    remove_actions(BESIDE)(root)
    with pytest.raises(ReplayError, match=r"do not keep the policy 'learner' .*coopbench\.play_ep"):
        coopbench.find_episode(f"{root}/{BESIDE}/{other}")


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("routing-esy/x/greedy/0", "Did you mean 'routing-easy'"),
        ("routing-easy/labmaze_a8_c04/greedy/0", "Did you mean 'labmaze_a8_c0.4'"),
        ("routing-easy/labmaze_a8_c0.4/gredy/0", "Did you mean 'greedy'"),
        ("routing-easy/labmaze_a8_c0.4/tit_for_tat/0", "cannot play"),
        ("routing-easy/labmaze_a8_c0.4/greedy", "FOLDER/TASK/POLICY/K"),
        ("nothing.npz", "There is no recording nothing.npz"),
        ("{root}/nowhere/focal/random/0", "no protocol.json"),
        ("{root}/focal/focal/random/5", "allowed: 0 to 4"),
        ("{root}/focal.toml/focal/random/5", "allowed: 0 to 4"),
    ],
)
def test_wrong_addresses_say_what_to_do(address, message, results):
    with pytest.raises((ValueError, FileNotFoundError), match=re.escape(message)):
        coopbench.find_episode(address.replace("{root}", str(results)))


def test_a_wrong_seed_or_place_is_refused_before_play(tmp_path):
    for seed in (-1, 0.5, True):
        with pytest.raises(ValueError, match="whole number"):
            coopbench.play_episode("Routing-v0", "greedy", seed=seed)
    with pytest.raises(ReplayError, match="There is no folder"):
        coopbench.play_episode("Routing-v0", "nobody", path=tmp_path / "no" / "episode.npz")


# --- files that are wrong -------------------------------------------------------------------------


def _rewritten(episode, words=None, **arrays):
    """Bytes of a recording with some words of its description and some arrays replaced."""
    buffer = io.BytesIO()
    content = {"actions": episode.actions, "rewards": episode.rewards} | arrays
    description = {
        "schema": 1,
        "title": episode.title,
        "env": episode.env,
        "parameters": episode.parameters,
        "seed": episode.seed,
        "agents": episode.agents,
        "players": episode.players,
        "about": {},
        "versions": {},
    } | (words or {})
    text = json.dumps(description).encode()
    content.setdefault("description", np.frombuffer(text, np.uint8))
    np.savez(buffer, **content)
    return buffer.getvalue()


WRONG = [
    ({"schema": 9}, {}, "schema 1"),
    ({"env": "coopbench/Rooting-v0"}, {}, "Did you mean 'coopbench/Routing-v0'"),
    ({"env": "antigravity:coopbench/Routing-v0"}, {}, "Unknown environment"),
    ({"agents": ["a"]}, {}, "agents or players"),
    ({"seed": -1}, {}, "whole number >= 0"),
    ({"about": {"x": ["y"]}}, {}, "does not hold text"),
    ({}, {"actions": np.zeros((0, 5, 2)), "rewards": np.zeros((0, 5))}, "steps"),
    ({}, {"actions": np.zeros((60, 4, 2))}, "steps"),
    ({}, {"actions": np.array([{}], object)}, "not an array of numbers"),
    ({}, {"start.agent_pos": np.full((5, 2), np.nan)}, "agent_pos"),
    ({}, {"description": np.frombuffer(b"[" * 100_000, np.uint8)}, "cannot be used"),
]


@pytest.mark.parametrize(("words", "arrays", "message"), WRONG)
def test_wrong_files_are_refused(words, arrays, message, episode, tmp_path):
    path = tmp_path / "wrong.npz"
    path.write_bytes(_rewritten(episode, words, **arrays))
    with pytest.raises(ReplayError, match=re.escape(message)):
        load(path)


@pytest.mark.parametrize(
    ("array", "place", "value", "message"),
    [
        ("rewards", (6, 2), 1e-12, r"rewards of step 7 differ.*numpy 0\.1 \(now "),
        ("actions", (6, 2, 0), np.nan, r"step 7 is refused .*'agent_2' gave nan"),
    ],
)
def test_what_cannot_have_happened_stops_the_replay(
    episode, tmp_path, array, place, value, message
):
    changed = getattr(episode, array).copy()
    changed[place] += value
    path = tmp_path / "other.npz"
    path.write_bytes(_rewritten(episode, {"versions": {"numpy": "0.1"}}, **{array: changed}))
    with pytest.raises(ReplayError, match=message):
        coopbench.find_episode(path).to_html(tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_an_episode_longer_than_its_game_is_refused(tmp_path):
    made = coopbench.play_episode(
        "Routing-v0", "greedy", seed=1, num_agents=1, map_params={"num_rows": 3}
    )
    twice = {n: np.concatenate([getattr(made, n)] * 2) for n in ("actions", "rewards")}
    (tmp_path / "long.npz").write_bytes(_rewritten(made, **twice))
    with pytest.raises(ReplayError, match=f"over before step {len(made) + 1}"):
        list(load(tmp_path / "long.npz").play())


# --- the page -------------------------------------------------------------------------------------


def test_the_page_of_discs_holds_the_whole_episode(episode, tmp_path):
    text, data = _page(episode, tmp_path)
    states = [(e.lane_state(), e.control.measures[0].copy()) for e in episode.play()]
    stage, shape = data["stage"], (len(states), 5)
    assert data["steps"] == list(range(len(episode) + 1))
    _lie(stage, stage["positions"], np.array([fields["agent_pos"] for fields, _ in states]))
    flags = _numbers(stage["flags"], "u1").reshape(shape)
    assert np.array_equal(flags & 1, [fields["on_goal"] for fields, _ in states])
    assert np.array_equal(flags & 2 > 0, [fields["collided"] for fields, _ in states])
    assert flags.max() > 1
    assert stage["goalsFrom"] == [0]
    assert stage["headings"] is None
    rates = _numbers(data["series"]["success_rate"], "<f4")
    assert np.array_equal(rates, np.array([m[0] for _, m in states], np.float32))
    returns = _numbers(data["series"]["return"], "<f4")
    assert returns[-1] == pytest.approx(episode.rewards.sum(), rel=1e-6)
    assert not re.search(r"https?:|//cdn|src=\"(?!data:)", text)


def test_headings_and_moving_goals_are_shown(tmp_path):
    world = WORLD | {"map_params": {"num_rows": 4, "num_cols": 4, "obstacle_density": 0.0}}
    made = coopbench.play_episode(
        "Routing-v1", "greedy", seed=2, horizon=120, on_goal="lifelong", **world
    )
    stage = _page(made, tmp_path)[1]["stage"]
    true = np.array([engine.lane_state()["goal_pos"] for engine in made.play()])
    assert len(stage["goalsFrom"]) > 1
    rows = np.searchsorted(stage["goalsFrom"], np.arange(len(true)), side="right") - 1
    ticks = _numbers(stage["goals"], "<u2").reshape(-1, 5, 2)[rows]
    shown = np.array(stage["low"]) + ticks / 65535 * np.array(stage["span"])
    assert np.abs(shown - true).max() <= 0.51 * max(stage["span"]) / 65535
    assert stage["headings"] is None
    driven = coopbench.play_episode(
        "Routing-v0", "random", seed=2, horizon=20, dynamics="diffdrive", **WORLD
    )
    turns = _numbers(_page(driven, tmp_path)[1]["stage"]["headings"], "<u2").reshape(21, 5)
    angles = np.array([engine.lane_state()["agent_angle"] for engine in driven.play()])
    np.testing.assert_allclose(np.cos(turns / 65536 * 2 * np.pi), np.cos(angles), atol=1e-4)
    np.testing.assert_allclose(np.sin(turns / 65536 * 2 * np.pi), np.sin(angles), atol=1e-4)


def test_a_long_episode_keeps_its_contacts(episode, tmp_path, monkeypatch):
    """Fewer steps are kept, but what happened between them is not lost."""
    whole = _page(episode, tmp_path)[1]
    rows = len(episode) + 1
    monkeypatch.setattr(scenes, "MOST_BYTES", AGENT_BYTES * rows * 5 // 4)
    text, data = _page(episode, tmp_path)
    steps = data["steps"]
    assert steps == player.kept_steps(len(episode), steps[1])
    assert 4 <= steps[1] <= 6
    assert f"one in {steps[1]} is shown" in text
    every = _numbers(whole["stage"]["flags"], "u1").reshape(rows, 5) & 2
    some = _numbers(data["stage"]["flags"], "u1").reshape(-1, 5) & 2
    parts = [every[:1], *(every[a + 1 : b + 1] for a, b in pairwise(steps))]
    assert np.array_equal(some, [part.max(axis=0) for part in parts])


def test_other_games_are_shown_by_their_pictures(tmp_path, monkeypatch):
    made = coopbench.play_episode("test/Pennies-v0", "random", seed=0, horizon=7)
    _, data = _page(made, tmp_path)
    assert data["steps"] == list(range(8))
    drawn = [Image.open(io.BytesIO(_png(text))) for text in data["stage"]["pictures"]]
    engines = made.play()
    for picture, engine in zip(drawn, engines, strict=True):
        true = drawn_picture(engine)
        assert np.abs(np.asarray(picture.convert("RGB")).astype(int) - true).mean() < 3
    kept = [_png(data["stage"]["pictures"][k]) for k in (0, 4, 7)]
    monkeypatch.setattr(pictures, "MOST_BYTES", sum(map(len, kept)))
    _, fewer = _page(made, tmp_path)
    assert fewer["steps"] == [0, 4, 7]
    assert len(fewer["stage"]["pictures"]) == 3
    assert len(_numbers(fewer["series"]["return"], "<f4")) == 3


def _png(text):
    return base64.b64decode(text.removeprefix("data:image/png;base64,"))


@pytest.mark.parametrize("name", SCENES)
def test_every_scene_holds_all_steps(name, tmp_path):
    """Arrays over steps have as many rows as there are steps, and the page has its own script."""
    made = coopbench.play_episode(name, "random", seed=2, horizon=6)
    text, data = _page(made, tmp_path)
    assert data["steps"] == list(range(len(made) + 1))
    places = _numbers(data["stage"]["positions"], "<u2")
    assert len(places) % (2 * len(data["steps"])) == 0
    assert len(places) >= 2 * len(made.agents) * len(data["steps"])
    assert "pictures" not in data["stage"]
    assert len(text) < 100_000


@pytest.mark.parametrize("version", [0, 1])
def test_panels_hold_the_numbers_of_all_steps(version, tmp_path):
    made = coopbench.play_episode(f"TrustDilemma-v{version}", "random", seed=2, horizon=6)
    text, data = _page(made, tmp_path)
    stage, scenes = data["stage"], []
    for engine in made.play():
        scenes.append(deepcopy(engine.spec.scene(engine.constants, engine.state, 0)))
    assert [[list(line) for line in scene.facts] for scene in scenes] == stage["facts"]
    assert len({str(facts) for facts in stage["facts"]}) > 1
    for n, panel in enumerate(stage["panels"]):
        course = [scene.panels[n] for scene in scenes]
        if "values" in panel:
            held, true = panel["values"], [step.values for step in course]
        else:
            held, true = panel["shares"], [step.shares for step in course]
            assert [list(step.words) for step in course] == panel["words"]
        assert _numbers(held, "<f4") == pytest.approx(np.ravel(true), abs=1e-6)
    assert len(text) < 60_000


def test_panels_of_many_agents_have_no_words(tmp_path):
    size = {"horizon": 2, "num_agents": 20}
    made = coopbench.play_episode("DynamicPartnerSelection-v1", "random", seed=2, **size)
    panels = _page(made, tmp_path)[1]["stage"]["panels"]
    assert [panel["words"] for panel in panels] == [None] * 3


# --- worlds of cells, and scenes with a script of their own ---------------------------------------

FIREFLIES = ROOT / "examples" / "scenes" / "fireflies.py"


def _rows(field, steps):
    """The numbers of a packed array at every step."""
    numbers = _numbers(field["values"], field["kind"]).reshape(-1, field["size"])
    return numbers if field["changes"] else np.repeat(numbers, steps, axis=0)


def test_a_scene_brings_its_script_and_arrays(tmp_path):
    made = coopbench.play_episode(f"{FIREFLIES}:SPEC", "random", seed=2, horizon=12, num_agents=5)
    text, data = _page(made, tmp_path)
    assert FIREFLIES.with_suffix(".js").read_text(encoding="utf-8") in text
    assert "a bright disc flashes" in text
    fields, states = data["stage"]["fields"], _fields(made)
    assert set(fields) == {"places", "charge", "lit"}
    assert not fields["places"]["changes"]
    steps = len(made) + 1
    np.testing.assert_allclose(_rows(fields["charge"], steps), states["charge"] / 4)
    assert np.array_equal(_rows(fields["lit"], steps), states["lit"])
    assert states["lit"].any()


class Counted(Course):
    """A kind of scene of this file: it adds up what the page does not show."""

    followed = "a number"

    def __init__(self, engine):
        super().__init__(engine)
        self.seen = []

    def row_bytes(self):
        return 1000

    def note(self, shown):
        super().note(shown)
        self.seen.append(self.drawn().step)

    def stage(self):
        return {"seen": self.seen}

    def script(self):
        return "function Scene(model) { this.facts = model.seen; }"

    def beside(self):
        return "<p>{{ legend }}</p>"

    def legend(self):
        return "<all> steps"


class Count(NamedTuple):
    step: int

    @staticmethod
    def course(engine):
        return Counted(engine)


@pytest.mark.usefixtures("team_toy")
def test_a_scene_brings_the_class_that_notes_it(tmp_path, monkeypatch):
    spec = replace(
        toy_team.SPEC, id="test/Counted-v0", scene=lambda c, s, lane: Count(int(s.time[lane]))
    )
    coopbench_envs.registration.register(spec)
    monkeypatch.setattr(scenes, "MOST_BYTES", 4000)
    made = coopbench.play_episode(spec.id, "random", seed=1, rule=toy_team.PAY)
    text, data = _page(made, tmp_path)
    assert data["steps"] == [0, 3, 6, 8]
    assert data["stage"]["seen"] == list(range(len(made) + 1))
    assert "function Scene(model) { this.facts = model.seen; }" in text
    assert "<p>&lt;all&gt; steps</p>" in text
    assert "click a number to follow it" in text


def test_a_grid_holds_places_and_what_is_not_there(tmp_path):
    made = coopbench.play_episode(
        f"{Path(__file__).parent / 'toy_meeting.py'}:SPEC", "random", seed=2
    )
    stage, states = _page(made, tmp_path)[1]["stage"], _fields(made)
    steps, fields = len(made) + 1, stage["fields"]
    assert (stage["size"], stage["ground"]) == ([3, 2], [1, 1, 1, 0, 0, 0])
    places = _rows(fields["places"], steps).reshape(steps, 2, 2)
    assert np.array_equal(places[..., 1], np.maximum(states["places"], 0))
    assert (places[..., 0] == 1).all()
    there = _rows(fields["things"], steps)[:, 0] >= 0
    assert np.array_equal(there, states["time"] < 2)
    assert np.array_equal(_rows(fields["marked"], steps), states["places"] == 2)
    assert (_rows(fields["headings"], steps) == -1).all()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda scene: {"script": scene.script.with_suffix(".txt")}, "</script"),
        (lambda scene: {"arrays": {"words": np.array(["a"])}}, "'words' .* holds <U1"),
        (lambda scene: {"arrays": {"grows": np.zeros(int(scene.arrays["time"]))}}, "other names"),
    ],
)
def test_a_scene_that_no_page_can_hold_is_refused(change, told, tmp_path):
    script = tmp_path / "scene.js"
    script.write_text("function Scene(model) {}", encoding="utf-8")
    script.with_suffix(".txt").write_text("'</script>'", encoding="utf-8")

    def scene(c, s, lane):
        plain = Scripted(script, {"time": s.time[lane]})
        return plain._replace(**change(plain))

    engine = SimpleNamespace(
        spec=replace(toy_team.SPEC, scene=scene),
        agents=("a", "b"),
        constants=None,
        state=SimpleNamespace(time=np.array([0])),
        control=SimpleNamespace(returns=np.zeros((1, 2)), measures=np.zeros((1, 1))),
    )
    shown = ScriptedCourse(engine)
    for step in range(3):
        engine.state.time[0] = step
        shown.note(True)
    with pytest.raises(ValueError, match=told):
        _ = shown.script(), shown.stage()


# --- battles --------------------------------------------------------------------------------------


def _fields(recording):
    """State fields of the only lane, of all steps, by name."""
    states = [engine.lane_state() for engine in recording.play()]
    return {name: np.array([state[name] for state in states]) for name in states[0]}


@pytest.mark.parametrize("where", ["MMM2", "2s3z"])
def test_the_page_of_a_battle_holds_its_units(where, tmp_path):
    made = coopbench.play_episode("Skirmish-v1", "attack_nearest", seed=3, map=where)
    stage, fields = _page(made, tmp_path)[1]["stage"], _fields(made)
    shape = (len(made) + 1, len(stage["kinds"]))
    _lie(stage, stage["positions"], np.stack([fields["x"], fields["y"]], axis=-1))
    living = _numbers(stage["living"], "u1").reshape(shape)
    assert np.array_equal(living, fields["living"])
    assert living[0].all()
    assert not living[-1].all()  # somebody falls
    assert np.array_equal(_numbers(stage["targets"], "<i2").reshape(shape), fields["target"])
    *_, engine = made.play()
    army = engine.constants.army
    assert [f"{kind}_{a}" for a, kind in enumerate(stage["kinds"])][: army.num_agents] == list(
        made.agents
    )
    most = np.array([army.stats[stage["kinds"].index(kind)][:3] for kind in stage["kinds"]])
    for key, field, column in (("health", "hp", 0), ("reserve", "shield", 1)):
        share = _numbers(stage[key], "u1").reshape(shape) / 255
        some = (most[:, column] > 0) & (living > 0)
        error = share - fields[field] / np.maximum(most[:, column], 1)
        assert np.abs(error[some]).max(initial=0) <= 1 / 255
    words = {"MMM2": {"", "energy"}, "2s3z": {"shield"}}
    assert set(stage["reserves"]) == words[where]
    assert np.array_equal(_numbers(stage["ground"], "u1"), army.terrain.ravel())


def test_the_page_of_a_battle_holds_what_agents_see(tmp_path):
    whole = _page(coopbench.play_episode("Skirmish-v0", "random", seed=1, map="3m"), tmp_path)[1][
        "stage"
    ]
    assert _numbers(whole["sight"], "<f4").tolist() == [9.0] * 3
    assert whole["headings"] is None
    made = coopbench.play_episode(
        "Skirmish-v1", "attack_nearest", seed=1, map="2s3z", field_of_view=90.0, horizon=20
    )
    stage, fields = _page(made, tmp_path)[1]["stage"], _fields(made)
    sights = dict(zip(stage["kinds"], _numbers(stage["sight"], "<f4").tolist(), strict=False))
    assert sights == {"stalker": 10.0, "zealot": 9.0}
    assert stage["view"] == pytest.approx(np.pi / 2)
    turns = _numbers(stage["headings"], "<u2").reshape(fields["face_x"].shape) / 65536 * 2 * np.pi
    np.testing.assert_allclose(np.cos(turns), fields["face_x"], atol=1e-4)
    np.testing.assert_allclose(np.sin(turns), fields["face_y"], atol=1e-4)


@pytest.mark.parametrize("angle", [360.0, 90.0])
def test_pictures_show_sight_on_request(angle):
    """What no agent sees is darker, and nothing else changes."""
    engine = builders.begun("Skirmish-v1", map="3m", field_of_view=angle, start="fixed")
    engine.state.living[0, 1:3] = False
    engine.state.face_x[0, 0], engine.state.face_y[0, 0] = 1.0, 0.0
    plain = drawn_picture(engine).astype(int)
    shown = drawn_picture(engine, sight=True).astype(int)
    map_rows = plain[48:-14, 14:-14].sum(axis=2), shown[48:-14, 14:-14].sum(axis=2)
    seen = map_rows[0] == map_rows[1]
    ground = engine.constants.army.terrain
    cells = (~(~ground).all(axis=0)).sum() + 2  # columns with ground and a margin
    scale = seen.shape[1] / cells
    x, y = engine.state.x[0, 0], engine.state.y[0, 0]
    left = np.flatnonzero(ground.any(axis=0))[0] - 1
    top = np.flatnonzero(ground.any(axis=1))[-1] + 2
    column, row = int((x - left) * scale), int((top - y) * scale)
    near, far = int(5 * scale), int(9.2 * scale)
    assert seen[row, column + near]
    assert not seen[row, column + far]
    assert seen[row, column - near] == (angle == 360.0)
    assert (map_rows[1] <= map_rows[0]).all()


# --- railways -------------------------------------------------------------------------------------

RAILWAY = {"num_agents": 8, "malfunction_rate": 0.03, "malfunction_duration": (3, 6)}


@pytest.mark.parametrize("size", [None, 600])
def test_the_page_of_a_railway_holds_its_timetable(size, tmp_path, monkeypatch):
    """Delays, malfunctions and arrivals are exact, also where only some steps are kept."""
    if size is not None:
        monkeypatch.setattr(scenes, "MOST_BYTES", size)
    made = coopbench.play_episode("Rail-v1", "shortest_path", seed=4, **RAILWAY)
    data, fields = _page(made, tmp_path)[1], _fields(made)
    stage, steps, status = data["stage"], data["steps"], fields["status"]
    assert (len(steps) < len(made) / 4) == (size is not None)
    on_map = (status >= MOVING) & (status < ARRIVED)
    assert stage["due"] == fields["due"][0].tolist()
    assert stage["departures"] == fields["departure"][0].tolist()
    assert stage["arrivals"] == fields["arrival"][-1].tolist()
    assert max(stage["arrivals"]) > 0
    first = np.where(on_map.any(axis=0), on_map.argmax(axis=0), -1)
    assert stage["entered"] == first.tolist()
    broken = np.zeros(status.shape, bool)
    for train, before, last in stage["failures"]:
        broken[before + 1 : last + 1, train] = True
    assert np.array_equal(broken, (status == BROKEN) | (status == BROKEN_OFF_MAP))
    assert len(stage["failures"]) > 3
    flags = _numbers(stage["flags"], "u1").reshape(len(steps), 8)
    assert np.array_equal(flags & 1, on_map[steps])
    assert np.array_equal(flags & 2 > 0, broken[steps])


def test_a_railway_shows_who_can_never_move_again(tmp_path):
    made = coopbench.play_episode("Rail-v1", "forward", seed=3, num_agents=5)
    stage = _page(made, tmp_path)[1]["stage"]
    flags = _numbers(stage["flags"], "u1").reshape(-1, 5)
    stuck = [stuck_trains(engine.constants, engine.lane_state()) for engine in made.play()]
    assert np.array_equal(flags & 4 > 0, stuck)
    assert np.sum(stuck) > 0
    rails = _numbers(stage["rails"], "<u2").reshape(stage["size"][::-1])
    ticks = _numbers(stage["positions"], "<u2").reshape(*flags.shape, 2)
    places = np.array(stage["low"]) + ticks / 65535 * np.array(stage["span"])
    row, column = np.floor(places[flags & 1 > 0]).astype(int).T
    assert (rails[row, column] > 0).all()


# --- names ----------------------------------------------------------------------------------------


def test_names_cannot_break_out_of_the_page(episode, tmp_path):
    evil = "</script><script>alert(1)</script>"
    made = replace(episode, title=9 * evil, players=(evil,) * 5, about={evil: evil})
    text, data = _page(made, tmp_path)
    assert "<script>alert" not in text
    assert data["players"] == [evil] * 5
    assert re.fullmatch(r"[\w.=@-]{1,200}", made.name)


# --- the GIF --------------------------------------------------------------------------------------


def test_the_gif_shows_every_kth_step_and_the_last(episode):
    made = as_gif(episode, stride=25, fps=10, side=300)
    image = Image.open(io.BytesIO(made.content))
    assert (image.format, image.n_frames, made.pictures) == ("GIF", 4, 4)  # 0, 25, 50, last
    assert max(image.size) == 300
    assert image.info["loop"] == 0
    assert image.info["duration"] == 100
    *_, engine = episode.play()
    true = engine.spec.picture(engine.constants, engine.lane_state(), engine.agents)
    image.seek(3)
    shown = np.asarray(image.convert("RGB")).astype(int)
    reduced = np.asarray(Image.fromarray(true).resize(image.size)).astype(int)
    assert np.abs(shown - reduced).mean() < 4
    assert image.info["duration"] == 1500


def test_the_default_stride_of_a_gif_keeps_it_small(episode, monkeypatch):
    monkeypatch.setattr(gif, "_PICTURES", 8)
    made = as_gif(episode, side=100)
    assert made.stride == -(-len(episode) // 8) > 1
    assert made.pictures == len(player.kept_steps(len(episode), made.stride))
    monkeypatch.setattr(gif, "_MOST_BYTES", len(made.content) - 1)
    less = as_gif(episode, side=100)
    assert less.stride == 2 * made.stride
    assert less.pictures == len(player.kept_steps(len(episode), less.stride))


def test_wrong_options_of_a_gif_are_refused(episode):
    for options in ({"fps": 0}, {"fps": 51}, {"side": 8}, {"stride": 0}):
        with pytest.raises(ValueError, match="allowed"):
            as_gif(episode, **options)


# --- command line and pages -----------------------------------------------------------------------


def test_the_command_writes_what_is_asked_for(results, tmp_path, command):
    address = f"{results}/routes/routes/greedy/3"
    options = ("--out", "e.gif", "--stride", "50")
    assert "stride 50" in command("replay", address, "--out", "e.npz", *options).out
    assert {file.name for file in tmp_path.iterdir()} == {"e.npz", "e.gif"}
    unused = ("--out", "e.html", "--stride", "5")
    assert "--stride is of animations" in command("replay", "e.npz", *unused, status=2).message
    command("replay", "e.npz")
    assert (tmp_path / "routes-greedy-episode-3.html").stat().st_size > 30_000


def test_a_page_without_a_name_lies_in_the_results_folder(results, tmp_path, command):
    page = results / "routes" / "routes-greedy-episode-2.html"
    assert f"Page: {page}" in command("replay", f"{results}/routes/routes/greedy/2").out
    assert page.stat().st_size > 30_000
    assert not any(tmp_path.iterdir())
    page.unlink()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.npz"], "There is no recording"),
        (["nothing.npz", "--out", "no/where.html"], "There is no folder no"),
        (["nothing.npz", "--out", "."], "is a folder"),
        (["nothing.npz", "--out", "a"], "a is to end in .html, .gif or .npz"),
    ],
)
def test_wrong_calls_say_what_to_do(arguments, message, tmp_path, command):
    assert message in command("replay", *arguments, status=2).message
    assert not list(tmp_path.iterdir())
