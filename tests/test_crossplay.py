"""Cross-play: every entry is the mean return of one seat, whoever has the others."""

import csv
import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from builders import make_task, protocol_of
from scipy import stats
from test_focal import make_protocol

import coopbench
from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.episodes.table import Cell
from coopbench.playing.rollout import play
from coopbench.report.crossplay import heat_map
from coopbench.workflows.crossplay import ALIKE, _games
from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED

NAMES = ["random", "constant:0.5", "tit_for_tat"]
ENV = "coopbench/PlatformEcosystem-v0"


def one_task():
    """One game of four agents, in which the policy takes the seats in turn."""
    return make_protocol(ENV, partners=(), count=8)


@pytest.fixture(scope="module")
def protocol():
    """Three tasks, two of which are the same game."""
    small = one_task()
    one = small.task[0]
    twin = one.model_copy(update={"id": "twin", "partners": ("random",), "group": "focal"})
    other = one.model_copy(
        update={"id": "pair", "env": "coopbench/TrustDilemma-v0", "parameters": {"horizon": 9}}
    )
    return small.model_copy(update={"task": (one, twin, other)})


@pytest.fixture(scope="module")
def result(protocol):
    return coopbench.crossplay(protocol, NAMES)


def test_a_game_is_played_once(protocol, result):
    assert result.tasks == ("one", "pair")
    assert len(result.meetings) == 2 * 9
    assert coopbench.crossplay(protocol, ["constant:0.5"], tasks=["twin"]).tasks == ("twin",)


def test_tasks_that_differ_in_what_is_played_are_no_twins(protocol):
    one = protocol.task[0]
    shorter = {"parameters": {**one.parameters, "horizon": 3}}
    for changes in ({"instances": "others"}, {"episodes": 5}, shorter):
        changed = one.model_copy(update={"id": "changed", **changes})
        assert _games(protocol, (one, changed)) == (one, changed)
        assert _games(protocol, (changed, changed)) == (changed,)


def test_the_diagonal_is_self_play(result):
    for k, name in enumerate(NAMES):
        block = play(one_task(), Cell("one", name), name)
        own = block.returns[np.arange(8), np.arange(8) % 4]
        assert result.matrix("one")[k, k] == own.mean()


def test_an_entry_by_other_means(result):
    """Constant in one seat, mirrors in the others; and the interval around their mean."""
    own = []
    for k in range(8):
        engine = Engine(ENV, 1, horizon=9, num_developers=3)
        engine.reset(np.array([3 + k]))
        control, game = engine.control, Game.of(engine)
        one, others = Player("constant:0.5", game), Player("tit_for_tat", game)
        for player in (one, others):
            player.begin(control.seed, control.episode, np.ones(1, bool))
        while not control.done.all():
            actions = others.act(control.obs)
            actions[:, k % 4] = one.act(control.obs)[:, k % 4]
            engine.step(actions, DISABLED)
        own.append(control.returns[0, k % 4])
    meeting = result.of("one")[1][2]
    assert (meeting.policy, meeting.partner, meeting.count) == ("constant:0.5", "tit_for_tat", 8)
    assert meeting.mean == pytest.approx(np.mean(own))
    assert own[:4] == pytest.approx(own[4:])  # a seat always earns the same
    assert (meeting.low, meeting.high) == pytest.approx((np.mean(own),) * 2)
    assert meeting.flag == ALIKE


def test_intervals_are_of_the_variation_within_seats(result):
    """Two episodes of each of four seats: half of their difference is their deviation."""
    block = play(one_task(), Cell("one", "random"), "random")
    own = block.returns[np.arange(8), np.arange(8) % 4]
    meeting = result.of("one")[0][0]
    error = np.sqrt(np.sum((own[:4] - own[4:]) ** 2)) / 8
    half = stats.t.ppf(0.975, 4) * error
    assert (meeting.low, meeting.high) == pytest.approx((own.mean() - half, own.mean() + half))


def test_what_cannot_be_played_is_told(protocol):
    with pytest.raises(ValueError, match=r"Unknown task 'pairs'.*Did you mean 'pair'"):
        coopbench.crossplay(protocol, NAMES, tasks=["pairs"])
    with pytest.raises(ValueError, match="cannot play"):
        coopbench.crossplay(protocol, ["random", "greedy"])
    with pytest.raises(ValueError, match="No policies"):
        coopbench.crossplay(protocol)  # this one has no baselines


def test_files(result, tmp_path):
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "crossplay-earlier.svg").write_text("a task of an earlier run")
    files = result.save(tmp_path)
    assert not (tmp_path / "plots" / "crossplay-earlier.svg").exists()
    assert {"md", "csv", "json"} < set(files)
    read = list(csv.DictReader(files["csv"].open(encoding="utf-8")))
    content = json.loads(files["json"].read_text(encoding="utf-8"))
    for line, kept, meeting in zip(read, content["meetings"], result.meetings, strict=True):
        assert (line["policy"], line["partner"]) == (meeting.policy, meeting.partner)
        assert float(line["mean"]) == kept["mean"] == meeting.mean
    text = files["md"].read_text(encoding="utf-8")
    assert "self-play" in str(result)
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()} == {5}
    for task in result.tasks:
        picture = files[f"plots/crossplay-{task}.svg"]
        assert f"plots/{picture.name}" in text
        ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(files.values())


def test_heat_maps_have_a_number_in_every_cell(result):
    drawn = heat_map(result, "one")
    shown = [float(text.replace(",", "")) for text in drawn.texts]
    np.testing.assert_allclose(shown, result.matrix("one").ravel(), rtol=2e-3)
    assert list(drawn.names) == NAMES
    texts = [e for e in ElementTree.fromstring(drawn.svg).iter() if e.text in drawn.texts]
    assert len(texts) == len(NAMES) ** 2
    heights = [float(text.get("y")) for text in texts]
    assert heights == sorted(heights)  # the first policy on top


def battles():
    task = make_task("duel", "coopbench/Skirmish-v1", parameters={"horizon": 40}, high=20)
    settings = {"score": "win", "metrics": ["win", "return"], "curve": "win", "baselines": None}
    return protocol_of("battles", tasks=[task], train=None, first=5, count=30, **settings)


def test_teams_meet_as_opponents(tmp_path):
    names = ["focus_fire", "kite", "random"]
    result = coopbench.crossplay(battles(), names, against=True)
    engine = Engine("coopbench/Skirmish-v1", 30, horizon=40, opponent="policy:kite")
    Match(engine, [Player("focus_fire", Game.of(engine))]).play(np.arange(5, 35))
    assert result.matrix("duel")[0, 1] == engine.control.measures[:, 0].mean()
    assert result.matrix("duel")[0, 2] == 1.0
    assert result.matrix("duel")[2, 0] == 0.0
    text = result.save(tmp_path)["md"].read_text(encoding="utf-8")
    assert "as the enemies" in text
    assert "one seat" not in text


def test_who_cannot_be_an_opponent_is_told(protocol):
    with pytest.raises(ValueError, match=r"Task 'one' .* no policy plays against the agents"):
        coopbench.crossplay(protocol, NAMES, against=True)

    def idle(observations):
        return np.ones(observations.shape[:2], np.int64)

    with pytest.raises(ValueError, match="idle is no name of a policy"):
        coopbench.crossplay(battles(), [idle, "kite"], against=True)
