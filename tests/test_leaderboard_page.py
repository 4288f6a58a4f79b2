"""The leaderboard of the documentation: what is placed there, and what is refused."""

import shutil
from importlib import import_module
from pathlib import Path

import pytest
from builders import make_task, small_protocol
from results_folder import add, edit_row

import coopbench
from studies.leaderboard import place

DOCS = Path(__file__).resolve().parent.parent / "docs"
PROTOCOL = "coopetition-published"


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Results of a whole protocol of this package."""
    folder = tmp_path_factory.mktemp("leaderboard") / "results"
    coopbench.evaluate(PROTOCOL, ["constant:0.6"], folder, only=True)
    return folder


def test_a_verified_folder_is_placed_between_the_own_results(played, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    page = import_module("leaderboard_page")
    before = page.standings(PROTOCOL, tmp_path).splitlines()
    file = place(played, "six-tenths", tmp_path)
    assert file == tmp_path / PROTOCOL / "six-tenths.json"
    after = page.standings(PROTOCOL, tmp_path).splitlines()
    (row,) = set(after) - set(before)
    assert row.startswith("| `constant:0.6` | 0.9")
    assert row.endswith("| `six-tenths` |")
    assert [line for line in after if line != row] == before
    scores = [float(line.split("|")[2].split()[0]) for line in after if line.startswith("| `")]
    assert scores == sorted(scores, reverse=True)
    assert row in page.parts(tmp_path)["standings"]


def test_what_does_not_verify_is_not_placed(played, tmp_path):
    changed = tmp_path / "changed"
    shutil.copytree(played, changed)
    edit_row("trust-dilemma/constant@0.6", 0, add("returns", 0, 1.0))(changed)
    with pytest.raises(ValueError, match="has to verify"):
        place(changed, "more", tmp_path / "placed")
    own = small_protocol(tmp_path, tasks=[make_task()], count=4)
    coopbench.evaluate(own, ["random"], tmp_path / "own")
    with pytest.raises(ValueError, match="which this package has not in this form"):
        place(tmp_path / "own", "own", tmp_path / "placed")
    with pytest.raises(ValueError, match="lower-case letters, digits, hyphens"):
        place(played, "../more", tmp_path / "placed")
    assert not (tmp_path / "placed").exists()
