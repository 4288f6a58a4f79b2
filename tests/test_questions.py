"""The page's answers from results folders of two tracks: ``benchmarks/questions.py``."""

import runpy
import sys
from pathlib import Path

import builders
import numpy as np
import pytest

import coopbench
from coopbench.episodes.table import Cell
from coopbench.results import store

pytestmark = pytest.mark.slow("trains learners for a study")
SCRIPT = Path(__file__).resolve().parent.parent / "benchmarks" / "questions.py"
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


def test_answers_are_printed_with_intervals(tracks, monkeypatch, capsys):
    (protocol, own), (_, team) = tracks
    monkeypatch.setattr(sys, "argv", ["questions", "--own", str(own), "--team", str(team)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    sections = capsys.readouterr().out.split("## ")[1:]
    titles = [section.partition("\n")[0] for section in sections]
    assert titles[0] == "Own return with team reward minus with own reward"
    assert titles[-1] == "Rise over the last quarter of the training"
    lines = sections[-1].splitlines()
    assert "ippo own" in lines[2]
    assert "ippo team" in lines[2]
    played = {line.split("|")[1].strip(): line for line in lines[4:] if line}
    assert set(played) == {"`alone`", "`met`"}
    for name, metric in (("alone", "own_return"), ("met", "own_return.focal")):
        cells = [Cell("alone", "ippo", seed) for seed in SEEDS]
        means = [store.read(own, protocol, c).progress.metrics[metric].mean(axis=1) for c in cells]
        bounds = protocol.task_of(name).bounds
        rises = [(m[3] - m[2]) / (bounds.high - bounds.low) for m in means]
        assert f"{np.mean(rises):+z.2f} [" in played[f"`{name}`"].split("|")[2]
