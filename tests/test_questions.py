"""What spans two tracks: ``studies/questions.py``, on results folders of both."""

import csv
import runpy
import sys
from pathlib import Path

import builders
import numpy as np
import pytest

import coopbench
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell
from coopbench.results import store

pytestmark = pytest.mark.slow("trains learners for a study")
SCRIPT = Path(__file__).resolve().parent.parent / "studies" / "questions.py"
SEEDS = (50, 51, 52)
SETTINGS = {"rollout": 32, "batch_size": 16, "epochs": 1, "layers": "8", "lanes": 4}


@pytest.fixture(scope="module")
def tracks(tmp_path_factory):
    """Results folders of both tracks, with three runs of one learner."""
    folders = []
    for reward in ("own", "team"):
        folder = tmp_path_factory.mktemp(reward)
        tasks = [
            builders.make_task("alone", group="self-play"),
            builders.make_task("met", partners=["bully"], trained_on="alone", group="focal"),
        ]
        training = {"runs": 3, "steps": 160, "interval": 40, "reward": reward}
        protocol = builders.small_protocol(
            folder,
            reward,
            tasks=tasks,
            train=SEEDS,
            selection=(900, 2),
            training=builders.make_training(**training, partners="focal", share=0.5),
            score="own_return",
            metrics=["own_return"],
            learned=["ippo"],
        )
        coopbench.train(protocol, "ippo", folder / "out", **SETTINGS)
        folders.append((protocol, folder / "out"))
    return folders


def test_tracks_and_rises_are_stored(tracks, tmp_path, monkeypatch):
    (protocol, own), (other, team) = tracks
    arguments = ["questions", "--own", own, "--team", team, "--out", tmp_path]
    monkeypatch.setattr(sys, "argv", list(map(str, arguments)))
    runpy.run_path(str(SCRIPT), run_name="__main__")
    rows = {}
    for name in ("tracks", "rises"):
        with (tmp_path / f"{name}.csv").open(encoding="utf-8") as file:
            rows[name] = list(csv.DictReader(file))
    assert [(row["task"], row["policy"]) for row in rows["tracks"]] == [
        ("alone", "ippo"),
        ("met", "ippo"),
    ]
    for row in rows["tracks"]:
        means = [
            np.mean(
                [
                    values(
                        store.read(root, p, Cell(row["task"], "ippo", seed)).episodes, "own_return"
                    ).mean()
                    for seed in SEEDS
                ]
            )
            for p, root in ((protocol, own), (other, team))
        ]
        assert float(row["difference"]) == pytest.approx(means[1] - means[0])
        assert float(row["low"]) <= float(row["difference"]) <= float(row["high"])
    rises = {(row["task"], row["reward"]): row for row in rows["rises"]}
    assert len(rises) == 4
    for name, metric in (("alone", "own_return"), ("met", "own_return.focal")):
        cells = [Cell("alone", "ippo", seed) for seed in SEEDS]
        courses = [store.read(own, protocol, cell).progress.metrics[metric] for cell in cells]
        bounds = protocol.task_of(name).bounds
        expected = [(m[3] - m[2]).mean() / (bounds.high - bounds.low) for m in courses]
        assert float(rises[name, "own"]["rise"]) == pytest.approx(np.mean(expected))
