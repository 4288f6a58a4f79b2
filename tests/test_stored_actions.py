"""Stored actions: what a policy did is packed without loss, and its episodes are played from it."""

import builders
import numpy as np
import pytest
from results_folder import FIXED, LEARNED, add, edit_row, sign

import coopbench
from coopbench.episodes import actions, fingerprints
from coopbench.episodes.actions import Actions, packed, unpacked
from coopbench.playing.contestants import contestant_of
from coopbench.protocol.loading import ad_hoc, load_protocol
from coopbench.report.sections.checklist import checklist
from coopbench.workflows.verdicts import DIFFERENT, IDENTICAL, REPLAYED
from coopbench.workflows.verification import verify

pytestmark = pytest.mark.filterwarnings("ignore:mine takes actions outside")  # up to 99 of 1

CELL = "dilemma/mine"


def mine(observations):
    """Invest a share that differs from step to step."""
    return 100 * np.abs(np.sin(observations.sum(axis=2, keepdims=True)))


@pytest.fixture
def protocol(tmp_path):
    return load_protocol(builders.protocol_file(tmp_path, tasks=[builders.make_task(high=1000)]))


def _signed(root):
    """The check of the cell, with all digests made to fit."""
    sign(root)
    return next(check for check in verify(root).checks if check.what == CELL)


def _replaced(root, name, content):
    (root / CELL / name).write_bytes(content)
    return _signed(root)


@pytest.mark.parametrize(
    "joint",
    [
        np.random.default_rng(1).normal(size=(3, 5, 2, 2)),
        np.array([-0.0, 0.0, 1e308, 5e-324]).reshape(1, 2, 2, 1),
        np.full((2, 9, 3, 1), 0.1),
        np.arange(12).reshape(2, 3, 2),
        np.array([[[-1], [2**62]]]),
    ],
)
def test_actions_are_packed_without_loss(joint):
    stored = Actions(np.arange(len(joint)), joint)
    content = packed(stored)
    again = unpacked(content, len(content) + 2 * joint.nbytes)
    assert again.joint.dtype == joint.dtype
    assert np.array_equal(again.joint, joint)
    assert np.array_equal(np.signbit(again.joint), np.signbit(joint))
    assert np.array_equal(again.episodes, stored.episodes)


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("tit_for_tat", "fixed"),
        ("constant:0.5", "fixed"),
        ("ippo", "trained"),
        ("mine", "foreign"),
        ("rule:any.json", "foreign"),
    ],
)
def test_the_name_says_where_a_policy_comes_from(protocol, name, origin):
    assert contestant_of(protocol, name).origin == origin


def test_only_actions_of_others_are_stored(source):
    report = coopbench.load_report(source)
    assert not (source / FIXED / "actions.npz").exists()
    assert not any("sample of" in item.known for item in checklist(report))
    assert all(block.trace.actions is None for block in report.episodes)
    stored = unpacked((source / LEARNED / "actions.npz").read_bytes(), 1 << 20)
    block = report.episodes.of("dilemma", "learner", 50)
    for k, (course, _) in block.trace.recorded.items():
        assert np.array_equal(stored.joint[k, : block.lengths[k]], course)


def test_discrete_actions_are_played_again(tmp_path):
    def gives(observations):
        return np.full(observations.shape[:2], 1)

    coopbench.evaluate(ad_hoc("test/Pennies-v0", 9, horizon=6), [gives], tmp_path)
    (check,) = verify(tmp_path).cells
    assert (check.verdict, check.how, check.played) == (IDENTICAL, REPLAYED, 9)


def test_actions_that_do_not_fit_into_memory_are_the_same(protocol, tmp_path, monkeypatch):
    coopbench.evaluate(protocol, [mine], tmp_path / "a")
    monkeypatch.setattr(fingerprints, "_COURSE", 1)
    coopbench.evaluate(protocol, [mine], tmp_path / "b")
    one, two = ((tmp_path / side / CELL / "actions.npz").read_bytes() for side in "ab")
    assert one == two
    assert verify(tmp_path / "b").identical


def test_a_sample_is_chosen_by_the_results(protocol, tmp_path, monkeypatch):
    """Too many actions are a sample: nobody can choose which, and it is compared."""
    monkeypatch.setattr(actions, "_STORED", 1)
    coopbench.evaluate(protocol, [mine], tmp_path, only=True)
    (check,) = verify(tmp_path).cells
    assert check.verdict == IDENTICAL
    assert 2 <= check.played < check.episodes
    words = [item.known for item in checklist(coopbench.load_report(tmp_path))]
    assert any(f"a sample of {check.played} of {check.episodes}" in text for text in words)
    stored = unpacked((tmp_path / CELL / "actions.npz").read_bytes(), 1 << 20)
    block = coopbench.load_report(tmp_path).episodes.of("dilemma", "mine")
    assert set(block.trace.recorded) <= set(stored.episodes.tolist())
    fewer = packed(Actions(stored.episodes[1:], stored.joint[1:]))
    check = _replaced(tmp_path, "actions.npz", fewer)
    assert check.verdict == DIFFERENT
    assert "those that the results choose" in " ".join(check.reasons)
    _replaced(tmp_path, "actions.npz", packed(stored))
    edit_row(CELL, int(stored.episodes[0]), add("returns", 0, 1.0))(tmp_path)
    assert _signed(tmp_path).verdict == DIFFERENT


def test_merged_results_hold_the_actions(source, tmp_path):
    coopbench.merge([source], tmp_path / "whole")
    check = next(c for c in verify(tmp_path / "whole").cells if c.what == LEARNED)
    assert (check.verdict, check.played) == (IDENTICAL, check.episodes)
