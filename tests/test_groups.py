"""Groups: cells of one task that are played side by side give the numbers of each alone."""

from dataclasses import replace

import numpy as np
import pytest
from builders import make_task, random_network, small_protocol, stored_files

import coopbench
from coopbench.baselines.strategies.tit_for_tat import TitForTat
from coopbench.episodes.table import Cell, Played
from coopbench.episodes.trained import Trained
from coopbench.playing import groups
from coopbench.playing.groups import PlayGroup, groups_of, largest_group
from coopbench.playing.plan import plan
from coopbench.playing.rollout import PlayJob, play_together
from coopbench.results import store
from coopbench.workflows import resimulation

PARTNERS = ["random", "tit_for_tat", "always_defect"]
FIXED = ["random", "cooperator:0.4", "tit_for_tat", "always_defect"]


@pytest.fixture
def protocol(tmp_path):
    """One task with partners, whose episodes end at different steps, and one without."""
    focal = make_task("focal", partners=PARTNERS, horizon=9)
    training = [50, 51, 52]
    return small_protocol(tmp_path, tasks=[focal, make_task("own")], train=training)


def models():
    runs = {seed: Trained(random_network(seed), None, {}) for seed in (50, 51, 52)}
    return coopbench.TrainedRuns("ippo", runs)


def jobs_of(protocol, task="focal"):
    cells = plan(protocol, [*FIXED, models()])
    return [PlayJob(protocol, cell, who.model) for cell, who in cells if cell.task == task]


@pytest.mark.parametrize("most", [1, 2, 100])
def test_files_of_cells_do_not_depend_on_who_plays_beside_them(
    protocol, tmp_path, monkeypatch, most
):
    coopbench.evaluate(protocol, [*FIXED, models()], tmp_path / "usual")
    sizes = []

    def counted(*arguments, **options):
        sizes.append(len(arguments[1]))
        return play_together(*arguments, **options)

    monkeypatch.setattr(groups, "play_together", counted)
    monkeypatch.setattr(groups, "largest_group", lambda protocol, task: min(most, 7))
    coopbench.evaluate(protocol, [*FIXED, models()], tmp_path / "other")
    assert max(sizes, default=1) == min(most, 7)
    assert stored_files(tmp_path / "other") == stored_files(tmp_path / "usual")
    assert len(stored_files(tmp_path / "usual")) == 2 * (4 + 3 * 2)


def test_a_group_plays_policies_of_this_package_beside_partners(protocol):
    jobs = [*jobs_of(protocol), *jobs_of(protocol, "own")]
    policies = [job.policy for job in jobs]
    sizes = [len(group) for group in groups_of(jobs, policies, 1)]
    assert sizes == [7, *[1] * 7]
    assert [len(group) for group in groups_of(jobs[:7], policies[:7], 3)] == [3, 3, 1]
    foreign = [PlayJob(protocol, Cell("focal", name), lambda seen: seen) for name in "ab"]
    alone = groups_of([*foreign, *jobs[:2]], [job.policy for job in [*foreign, *jobs[:2]]], 1)
    assert [len(group) for group in alone] == [1, 1, 2]


def test_groups_are_limited_in_memory(protocol, monkeypatch):
    task = protocol.task_of("focal")
    assert largest_group(protocol, task) > 100
    assert largest_group(protocol, protocol.task_of("own")) == 1
    monkeypatch.setattr(groups, "_BYTES", 1)
    assert largest_group(protocol, task) == 1


def test_an_error_fails_the_cells_of_its_policy_alone(protocol, tmp_path, monkeypatch):
    act = TitForTat.act

    def fails(self, observations, memory):
        if len(observations) == protocol.episodes(protocol.task_of("focal")):
            raise RuntimeError("It is broken.")
        return act(self, observations, memory)

    monkeypatch.setattr(TitForTat, "act", fails)
    with pytest.raises(RuntimeError, match=r"It is broken\.") as caught:
        coopbench.evaluate(protocol, ["random", "tit_for_tat"], tmp_path, tasks="focal")
    assert "policy 'tit_for_tat' on task 'focal'" in str(caught.value.__notes__)
    assert list(tmp_path.rglob("random/meta.json"))
    assert not list(tmp_path.rglob("tit_for_tat/meta.json"))


def test_finished_groups_are_kept_when_interrupted(protocol, tmp_path, monkeypatch):
    monkeypatch.setattr(groups, "largest_group", lambda protocol, task: 2)

    def interrupt(cell, share, event):
        if cell.policy == "tit_for_tat":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        coopbench.evaluate(protocol, FIXED, tmp_path, progress=interrupt, tasks="focal")
    assert len(list(tmp_path.rglob("meta.json"))) == 2


def test_all_cells_of_a_group_tell_their_progress_and_share_its_time(protocol):
    shares = []
    group = PlayGroup(tuple(jobs_of(protocol)[:3]))
    played = group(shares.append)
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
    assert [one.episodes.cell for one in played] == list(group.cells)
    assert len({one.seconds for one in played}) == 1


def test_verification_plays_cells_together(protocol, tmp_path, monkeypatch):
    coopbench.evaluate(protocol, [*FIXED, models()], tmp_path)
    sizes = []

    def counted(*arguments, **options):
        sizes.append(len(arguments[1]))
        return play_together(*arguments, **options)

    monkeypatch.setattr(resimulation, "play_together", counted)
    together = coopbench.verify(tmp_path)
    assert sizes == [7]
    monkeypatch.setattr(groups, "largest_group", lambda protocol, task: 1)
    assert coopbench.verify(tmp_path) == together
    assert sizes == [7]
    fixed = [check for check in together.cells if "/ippo/" not in check.what]
    assert [check.verdict for check in fixed] == ["identical"] * 8


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda block: {"drawn": False}, "'drawn' is false"),
        (lambda block: {"lengths": np.maximum(block.lengths - 1, 1)}, ""),
    ],
)
def test_verification_of_a_group_names_the_changed_cell_alone(protocol, tmp_path, change, reason):
    coopbench.evaluate(protocol, FIXED, tmp_path)
    one = store.read(tmp_path, protocol, Cell("focal", "random"))
    assert one.episodes.drawn
    forged = replace(one.episodes, **change(one.episodes))
    store.write(tmp_path, Played(forged, None, 1.0), one.meta | {"drawn": forged.drawn})
    checks = {check.what: check for check in coopbench.verify(tmp_path).cells}
    changed = checks.pop("focal/random")
    assert changed.verdict == "different"
    assert reason in " ".join(changed.reasons)
    assert {check.verdict for check in checks.values()} == {"identical"}


def test_a_network_leaves_out_seats_that_it_does_not_have():
    network, rng = random_network().network, np.random.default_rng(0)
    seen = rng.random((4, 2, 1, network.features), np.float32)
    inputs, hidden = network.inputs(seen, np.zeros((4, 2, 0))), np.zeros((4, 2, 0), np.float32)
    seated = rng.random((4, 2)) < 0.5
    whole, _ = network.step(inputs, hidden)
    part, _ = network.step(inputs, hidden, seated)
    assert np.array_equal(part, np.where(seated[:, :, None], whole, 0.0))
    assert whole[~seated].all()
