"""Verification: every change in a results folder is detected, and nothing in it is trusted."""

import hashlib
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from results_folder import (
    BESIDE,
    FIXED,
    LEARNED,
    add,
    edit_arrays,
    edit_row,
    failing,
    meta_of,
    remove_actions,
    sign,
)

import coopbench
from coopbench.episodes.actions import Actions, packed, unpacked
from coopbench.errors import DamagedResultError
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.registration import registration, write_registration
from coopbench.protocol.task import instance_file
from coopbench.protocol.variants import with_tasks
from coopbench.report.loading import report_of
from coopbench.report.serialise import as_json
from coopbench.results import manifest
from coopbench.results.folder import numbers_digest, stored_cells
from coopbench.results.manifest import (
    NAME,
    cell_folders,
    read_manifest,
    results_digest,
    write_manifest,
)
from coopbench.results.protocol_file import read_protocol
from coopbench.workflows.episode_diff import agreement
from coopbench.workflows.verdicts import (
    CLOSE,
    DIFFERENT,
    FAILED,
    IDENTICAL,
    MISSING,
    REPLAYED,
    RERUN,
    UNVERIFIABLE,
)
from coopbench.workflows.verification import verify
from studies.checks.folders import ROOT


def edit_array(cell, key, change):
    """Return an edit of one array of a cell; ``key`` may end in * for the first of several."""

    def edited(views):
        which = next(k for k in views if k == key or (key[-1] == "*" and k.startswith(key[:-1])))
        change(views[which])

    return edit_arrays(cell, edited)


def edit_json(file, change):
    """Let ``change`` edit the content of a JSON file in place; a dictionary is merged into it."""
    content = json.loads(file.read_text())
    if callable(change):
        change(content)
    else:
        content |= change
    file.write_text(json.dumps(content))


def put(key, value):
    def change(row):
        row[key] = value

    return change


def bump(index, amount):
    def change(array):
        array[index] += array.dtype.type(amount)

    return change


def delete_episode(root, cell=FIXED):
    per_episode = ("seeds", "lengths", "terminated", "seats", "returns", "trajectories")

    def last(views):
        for name in per_episode:
            views[name] = views[name][:-1]
        for name in ("metrics", "agent_metrics"):
            views[name] = views[name][:, :-1]

    edit_arrays(cell, last)(root)
    meta_of(root, cell, episodes=meta_of(root, cell)["episodes"] - 1)


def swap_folders(root):
    one, two, spare = root / FIXED, root / "partners" / "random", root / "spare"
    one.rename(spare)
    two.rename(one)
    spare.rename(two)
    for cell in (FIXED, "partners/random"):
        meta_of(root, cell, task=cell.split("/")[0])


def rename_policy(root):
    (root / FIXED).rename(root / "dilemma" / "tit_for_tat")
    meta_of(root, "dilemma/tit_for_tat", policy="tit_for_tat", plays="tit_for_tat")


def deny_the_name(root):
    """Pretend that a policy of this package was an object, and forge what is not recorded."""
    meta_of(root, FIXED, plays=None)
    row_of(FIXED, add("returns", 0, 1.0))(root)


def unrecord(root):
    """Leave the actions of the best or the worst episode out."""
    first, *others = meta_of(root, LEARNED)["recorded"]

    def left_out(views):
        for part in ("actions", "rewards"):
            del views[f"{part}.{first}"]

    edit_arrays(LEARNED, left_out)(root)
    meta_of(root, LEARNED, recorded=others)


def row_of(cell, change, recorded=False):
    """Return an edit of the line of an episode that is recorded, or of one that is not."""

    def edit(root):
        stored = meta_of(root, cell)["recorded"]
        edit_row(cell, next(k for k in range(6) if (k in stored) == recorded), change)(root)

    return edit


def help_the_learner(root):
    """Let the partner invest more in a recorded episode than it would."""
    number = meta_of(root, BESIDE)["recorded"][0]
    seat = (number % 2) ^ 1  # the learner sits in seat k mod 2 of episode k
    edit_array(BESIDE, f"actions.{number}", bump((2, seat, 0), 0.05))(root)


def edit_actions(cell, change):
    """Return an edit of the stored actions of all episodes of a cell."""

    def edit(root):
        file = root / cell / "actions.npz"
        actions = unpacked(file.read_bytes(), 1 << 20)
        changed = change(actions)
        file.write_bytes(packed(actions if changed is None else changed))

    return edit


def help_in_the_actions(actions):
    """Let the partner of every episode act as well."""
    actions.joint[actions.joint == 0] = 0.05


def act_otherwise(actions):
    actions.joint[4, 2, 0, 0] += 1e-9


def some_actions(actions):
    return Actions(actions.episodes[1:], actions.joint[1:])


def choose_another(root):
    meta = meta_of(root, LEARNED)
    meta_of(root, LEARNED, chosen_step=30 - meta["chosen_step"])


ATTACKS = {  # name: cell that is to be found different, edit, first step that differs
    "last bits": (FIXED, edit_row(FIXED, 2, add("returns", 1, 1e-13)), None),
    "metric": (FIXED, edit_row(FIXED, 3, add("metrics", "final_trust", 0.01)), None),
    "length": (FIXED, edit_row(FIXED, 0, put("length", 5)), None),
    "seed": (FIXED, edit_row(FIXED, 1, put("seed", 40)), None),
    "trajectory": (FIXED, edit_row(FIXED, 4, put("trajectory", 64 * "0")), None),
    "curve": (FIXED, edit_array(FIXED, "curves/mean_trust", bump(2, 1e-3)), None),
    "step": (FIXED, edit_array(FIXED, "steps", bump(3, 1)), 4),
    "action": (FIXED, edit_array(FIXED, "actions.*", bump((1, 0, 0), 0.5)), 2),
    "reward": (FIXED, edit_array(FIXED, "rewards.*", bump((1, 0), 0.5)), 2),
    "fewer": (FIXED, delete_episode, None),
    "folders": (FIXED, swap_folders, None),
    "policy": ("dilemma/tit_for_tat", rename_policy, 1),
    "no name": (FIXED, deny_the_name, None),
    "outside": (FIXED, lambda root: meta_of(root, FIXED, outside=5), None),
    "rescaled": (FIXED, lambda root: meta_of(root, FIXED, rescaled="from 0 to 1"), None),
    "nearest": (FIXED, lambda root: meta_of(root, FIXED, nearest={"random": "5 choices"}), None),
    "run: action": (LEARNED, edit_array(LEARNED, "actions.*", bump((3, 1, 0), -0.05)), 4),
    "run: reward": (LEARNED, edit_array(LEARNED, "rewards.*", bump((2, 0), 0.5)), 3),
    "run: return": (LEARNED, row_of(LEARNED, add("returns", 0, 1e-9), recorded=True), None),
    "run: seat": (BESIDE, edit_row(BESIDE, 1, put("seats", [True, False])), None),
    "run: better episode": (LEARNED, edit_row(LEARNED, 1, put("returns", [1e4, 1e4])), None),
    "run: quiet metric": (LEARNED, row_of(LEARNED, add("metrics", "mean_trust", 0.01)), None),
    "run: all actions": (LEARNED, edit_actions(LEARNED, act_otherwise), 3),
    "run: some actions": (LEARNED, edit_actions(LEARNED, some_actions), None),
    "run: no actions": (LEARNED, remove_actions(LEARNED), None),
    "run: actions beside": (BESIDE, edit_actions(BESIDE, help_in_the_actions), 1),
    "run: unrecorded": (LEARNED, unrecord, None),
    "run: partner": (BESIDE, help_the_learner, 3),
    "run: chosen": (LEARNED, choose_another, None),
    "run: checkpoint": (LEARNED, edit_array(LEARNED, "progress/return", bump(0, 1e5)), None),
    "run: curve": (LEARNED, edit_array(LEARNED, "curves/mean_trust", bump(-1, 0.1)), None),
}


def test_an_untouched_folder_is_identical(source):
    before = {file: file.stat().st_mtime_ns for file in source.rglob("*")}
    result = verify(source)
    assert result.identical
    assert result.holds
    assert {c.what: (c.verdict, c.how, c.episodes, c.played) for c in result.cells} == {
        FIXED: (IDENTICAL, RERUN, 6, 6),
        "partners/random": (IDENTICAL, RERUN, 6, 6),
        LEARNED: (IDENTICAL, REPLAYED, 6, 6),
        BESIDE: (IDENTICAL, REPLAYED, 6, 6),
        "dilemma/learner/run-51": (FAILED, "", 0, 0),
        "partners/learner/run-51": (FAILED, "", 0, 0),
    }
    assert [c.what for c in result.checks if "/" not in c.what] == [
        "protocol.json",
        NAME,
        "report.json",
    ]
    assert any("run 51 of learner" in reason for reason in result.deviations)
    assert result.results == coopbench.load_report(source).results
    assert before == {file: file.stat().st_mtime_ns for file in source.rglob("*")}


@pytest.mark.parametrize(
    ("cell", "names"),
    [(FIXED, ("episodes.npz",)), (LEARNED, ("actions.npz", "episodes.npz", "meta.json"))],
)
def test_every_file_has_its_checksum(root, cell, names):
    for name in names:
        file = root / cell / name
        content = file.read_bytes()
        file.write_bytes(content + b"\n")
        assert failing(root) == [NAME if name == "meta.json" else cell]
        file.write_bytes(content)
    assert verify(root).identical


def test_what_file_managers_leave_is_named_and_changes_nothing(root):
    left = [f"{cell}/{name}" for cell in (FIXED, LEARNED) for name in (".DS_Store", "._meta.json")]
    for place in left:
        (root / place).write_bytes(b"\0Bud1")
    for name in ("@eaDir", ".Trashes", ".ipynb_checkpoints"):
        (root / FIXED / name).mkdir()
    for name in ("Desktop.ini", ".nfs0000a1"):
        (root / FIXED / name).write_bytes(b"")
    result = verify(root)
    assert result.identical
    (reason,) = next(check.reasons for check in result.checks if check.what == NAME)
    assert reason.startswith(f"left by a file manager and not read: {left[2]}, {left[3]}, ")
    assert reason.endswith(" and 6 more")
    (root / FIXED / ".secret").write_bytes(b"")
    assert failing(root) == [FIXED]
    (check,) = [check for check in verify(root).checks if check.what == FIXED]
    assert "holds '.secret', which is no file of its cell; remove it" in check.reasons[0]


def test_a_manifest_lists_its_cells_in_one_order(root):
    """Or one set of results would have many digests."""
    protocol = read_protocol(root)
    edit_json(root / NAME, lambda content: content["cells"].reverse())
    cells = json.loads((root / NAME).read_text())["cells"]
    links = manifest.links(protocol.digest, {one["cell"]: one["sha256"] for one in cells})
    cells = [one | {"link": link} for one, link in zip(cells, links[1:], strict=True)]
    edit_json(root / NAME, {"cells": cells, "results": links[-1]})
    with pytest.raises(DamagedResultError, match="its chain of digests does not hold"):
        read_manifest(root, protocol.digest)


def test_a_link_leaves_one_cell_out_and_names_the_cure(root, tmp_path):
    moved = shutil.move(root / FIXED / "episodes.npz", tmp_path / "cached")
    (root / FIXED / "episodes.npz").symlink_to(moved)
    (note,) = [note for note in coopbench.load_report(root).notes if "left out" in note]
    assert "episodes.npz is a link" in note
    assert "cp -rL" in note
    assert failing(root)[0] == FIXED
    subprocess.run(["cp", "-rL", root, tmp_path / "whole"], check=True, timeout=60)
    assert verify(tmp_path / "whole").identical


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_change_is_detected_even_with_all_digests_repaired(root, attack):
    cell, edit, step = ATTACKS[attack]
    edit(root)
    sign(root)
    checks = {check.what: check for check in verify(root).checks}
    assert checks[NAME].verdict == IDENTICAL
    assert checks[cell].verdict == DIFFERENT
    assert checks[cell].reasons
    assert checks[cell].step == step


def test_the_first_episode_and_step_that_differ_are_named(root):
    """From the third step on, the learner's best episode goes another way."""
    edit_row(FIXED, 4, add("returns", 0, 1.0))(root)
    edit_row(FIXED, 2, put("trajectory", 64 * "a"))(root)
    edit_array(LEARNED, "actions.*", bump((2, 0, 0), -0.05))(root)
    sign(root)
    checks = {check.what: check for check in verify(root).checks}
    assert checks[FIXED].differing == (2, 4)
    assert checks[LEARNED].step == 3
    assert checks[LEARNED].differing == (meta_of(root, LEARNED)["recorded"][0],)


def test_other_bounds_leave_the_cells_but_not_the_report(root):
    edit_json(
        root / "protocol.json", lambda content: content["task"][0]["bounds"].update(high=500.0)
    )
    assert failing(root) == ["report.json"]


def test_another_protocol_does_not_verify(root):
    edit_json(
        root / "protocol.json", lambda content: content["seeds"]["evaluation"].update(count=5)
    )
    result = verify(root)
    assert {c.verdict for c in result.cells} == {DIFFERENT}
    reason = "it was played with another protocol than protocol.json"
    assert {r for c in result.cells for r in c.reasons} == {reason}
    assert reason in str(result)
    assert "\nNOT VERIFIED: " in str(result)
    sign(root)
    assert not verify(root).holds  # other episodes


def test_a_part_of_a_known_protocol_verifies_as_such_and_a_changed_one_does_not(tmp_path):
    """Bounds say nothing about episodes, yet a known name stands for known bounds."""
    whole = load_protocol("coopetition-standard")
    part = with_tasks(whole, [whole.task[0].id])
    report = coopbench.evaluate(part, ["constant:0.5"], tmp_path / "r", only=True)
    assert report.deviations
    result = verify(tmp_path / "r")
    assert result.identical, result.checks
    assert f"it has 1 of the {len(whole.task)} tasks" in " ".join(result.checks[0].reasons)
    task = part.task[0].model_copy(update={"episodes": 3})
    forged = part.model_copy(update={"task": (task,)})
    coopbench.evaluate(forged, ["constant:0.5"], tmp_path / "s")
    assert failing(tmp_path / "s") == ["protocol.json"]


def test_a_changed_report_does_not_verify(root):
    file = root / "report.json"

    def better(content):
        content["estimates"][0]["mean"] += 0.001

    edit_json(file, better)
    result = verify(root)
    assert [check.what for check in result.checks if not check.holds] == [file.name]
    assert "estimates.0.mean" in result.checks[-1].reasons[0]
    coopbench.load_report(root)  # the episodes are what counts
    file.unlink()
    assert verify(root).identical


@pytest.mark.parametrize(
    "facts",
    [{}, {"versions": {"coopbench": "0.0.9"}}, {"schema": 2}, {"registration": {"schema": 1}}],
    ids=str,
)
def test_nothing_that_a_report_says_of_itself_excuses_its_words(root, facts):
    def praise(content):
        content["checklist"][0]["detail"] = "Independently audited."
        content |= facts

    edit_json(root / "report.json", praise)
    assert failing(root) == ["report.json"]


def test_a_report_of_another_schema_is_not_verifiable(root):
    edit_json(root / "report.json", lambda content: content.update(schema=2))
    check = verify(root).checks[-1]
    assert (check.what, check.verdict) == ("report.json", UNVERIFIABLE)
    assert "'coopbench report' writes one" in check.reasons[0]


def test_a_report_that_leaves_out_a_policy_is_named(root):
    """What it states follows from the episodes of the others; nothing else tells of them."""
    protocol = read_protocol(root)
    cells = [pair for pair in stored_cells(root, protocol, []) if pair[0].policy != "random"]
    names = list(dict.fromkeys(cell.policy for cell, _ in cells))
    (root / "report.json").write_text(as_json(report_of(protocol, cells, names)))
    result = verify(root)
    assert result.identical
    assert result.checks[-1].reasons == (
        "it leaves out random, played here; 'coopbench report' writes one with all",
    )
    assert "it leaves out random" in str(result)


def test_a_report_states_the_registration_of_its_folder(root):
    protocol = read_protocol(root)
    study = registration(protocol, ["random", "learner"], [], "2020-01-01T00:00:00+00:00")
    write_registration(root, study)
    assert failing(root) == ["report.json"]
    file = root / "report.json"
    file.write_text(as_json(coopbench.load_report(root)))
    assert verify(root).identical
    edit_json(file, lambda c: c["registration"].update(date="2019-01-01T00:00:00+00:00"))
    assert failing(root) == ["report.json"]


def test_missing_and_added_cells_do_not_verify(root):
    shutil.copytree(root / FIXED, root / "spare")
    shutil.rmtree(root / FIXED)
    result = verify(root)
    assert {c.what: c.verdict for c in result.checks if not c.holds}[FIXED] == MISSING
    shutil.copytree(root / "spare", root / FIXED)
    shutil.rmtree(root / "spare")
    assert verify(root).identical
    (root / NAME).unlink()
    assert {c.what: c.verdict for c in verify(root).checks if not c.holds} == {NAME: MISSING}
    protocol = read_protocol(root)
    coopbench.evaluate(protocol, ["tit_for_tat"], root)
    assert verify(root).identical  # the manifest is written anew, over all cells
    shutil.rmtree(root / "dilemma" / "tit_for_tat")
    write_manifest(root, protocol)
    stale = (root / NAME).read_bytes()
    coopbench.evaluate(protocol, ["tit_for_tat"], root)
    (root / NAME).write_bytes(stale)
    wrong = [check for check in verify(root).checks if not check.holds]
    assert [check.what for check in wrong] == [NAME]
    assert wrong[0].reasons == ("dilemma/tit_for_tat is not listed",)


def test_a_cell_lies_in_its_own_folder(root):
    meta_of(root, FIXED, policy="tit_for_tat", plays="tit_for_tat")
    sign(root)
    checks = {check.what: check for check in verify(root).checks}
    assert "describes another cell than its folder" in checks[FIXED].reasons[0]


def test_the_manifest_chains_the_digests_of_all_cells(root):
    digest = read_protocol(root).digest
    content = json.loads((root / NAME).read_text())
    links = [digest]
    for each in content["cells"]:
        assert (
            each["sha256"]
            == hashlib.sha256((root / each["cell"] / "meta.json").read_bytes()).hexdigest()
        )
        text = f"{links[-1]}\n{each['cell']}\n{each['sha256']}\n"
        links.append(hashlib.sha256(text.encode()).hexdigest())
    assert [each["link"] for each in content["cells"]] == links[1:]
    assert read_manifest(root, digest).results == content["results"] == links[-1]
    for key in ("link", "sha256"):
        first, *others = content["cells"]
        forged = content | {"cells": [first | {key: 64 * "0"}, *others]}
        (root / NAME).write_text(json.dumps(forged))
        with pytest.raises(DamagedResultError, match="chain of digests"):
            read_manifest(root, digest)
    assert failing(root) == [NAME]


def test_the_digest_of_the_numbers_leaves_times_and_machines_out(root):
    protocol = read_protocol(root)
    before, results = numbers_digest(root, protocol), results_digest(root, protocol)
    links = [protocol.digest]
    for cell in cell_folders(root):
        file = root / cell / "episodes.npz"
        content = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
        links.append(hashlib.sha256(f"{links[-1]}\n{cell}\n{content}\n".encode()).hexdigest())
    assert before == links[-1]
    place = root / FIXED / "meta.json"
    meta = json.loads(place.read_text())
    place.write_text(json.dumps(meta | {"created": "later", "seconds": 9.0}))
    assert numbers_digest(root, protocol) == before
    assert results_digest(root, protocol) != results
    edit_row(FIXED, 2, add("returns", 1, 1.0))(root)
    sign(root)
    assert numbers_digest(root, protocol) != before
    place.write_text(json.dumps(meta | {"sha256": [1]}))  # no structure of ours
    assert len(numbers_digest(root, protocol)) == 64


def test_bits_agree_and_numbers_within_tolerance():
    one = np.array([0.0, 1.0, np.nan, np.inf, 1.0, 1.0, np.nan])
    two = np.array([-0.0, 1.0, np.nan, np.inf, 1.0 + 1e-12, 1.1, 0.0])
    same, near = agreement(one, two)
    assert same.tolist() == [False, True, True, True, False, False, False]
    assert near.tolist() == [True, True, True, True, True, False, False]


def test_another_platform_may_round_otherwise(root):
    """There only, differences in the last digits and other hashes are equal within tolerance."""
    edit_row(FIXED, 2, add("returns", 1, 1e-12))(root)
    edit_row(FIXED, 2, put("trajectory", 64 * "0"))(root)
    meta = meta_of(root, FIXED)
    meta_of(root, FIXED, versions=meta["versions"] | {"numpy": "1.0"})
    sign(root)
    (root / "report.json").unlink()
    result = verify(root)
    check = next(check for check in result.cells if check.what == FIXED)
    assert (check.verdict, result.holds, result.identical) == (CLOSE, True, False)
    assert "numpy 1.0 (here " in check.reasons[-1]
    edit_row(FIXED, 2, add("returns", 1, 0.01))(root)
    sign(root)
    assert not verify(root).holds


# --- hostile files --------------------------------------------------------------------------------


STRANGE = {
    "episodes": -1,
    "agents": "ab",
    "recorded": [[0]],
    "versions": [],
    "sha256": ["episodes.npz"],
    "arrays": {"metrics": [], "agent_metrics": [], "curves": [], "progress": []},
    "chosen_step": {},
    "task": "../../etc",
    "policy": "\ud800",
}


@pytest.mark.parametrize("key", STRANGE)
def test_strange_metadata_make_a_cell_differ(root, key):
    sign(root)
    meta_of(root, FIXED, **{key: STRANGE[key]})
    write_manifest(root, read_protocol(root))
    assert failing(root) == [FIXED]


NOWHERE = {"map": "movingai", "map_params": {"path": "/dev/zero"}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"env": "antigravity:x/Y-v0"}, "names a module to import"),
        ({"instances": {"file": "../../etc/passwd", "sha256": 64 * "0"}}, "names instances at"),
        ({"env": "coopbench/Routing-v0", "parameters": NOWHERE}, "names files at '/dev/zero'"),
        ({"env": 3}, "its environment is 3; allowed: an id"),
        ({"parameters": []}, "cannot be used|damaged"),
    ],
)
def test_a_protocol_that_points_outside_its_folder_is_refused(root, change, message):
    file = root / "protocol.json"
    edit_json(file, lambda content: content["task"][0].update(change))
    (check,) = verify(root).checks
    assert (check.what, check.verdict) == ("protocol.json", DIFFERENT)
    assert re.search(message, " ".join(check.reasons))


def test_results_on_instances_of_a_users_folder_are_read_while_these_are_the_same(tmp_path):
    protocol = with_tasks(load_protocol("routing-easy"), ["random_grid_a8_o0"])
    (task,), own = protocol.task, tmp_path / "data" / "own.npz"
    own.parent.mkdir()
    own.write_bytes(instance_file(task.instances.file))
    changes = {
        "instances": task.instances.model_copy(update={"file": str(own)}),
        "parameters": task.parameters | {"horizon": 5},
        "episodes": 3,
    }
    protocol = protocol.model_copy(update={"task": (task.model_copy(update=changes),)})
    coopbench.evaluate(protocol, ["random"], tmp_path / "played", only=True)
    assert [check.holds for check in verify(tmp_path / "played").cells] == [True]
    own.write_bytes(b"others")
    (check,) = verify(tmp_path / "played").checks
    assert "names instances at" in " ".join(check.reasons)


# --- the command ----------------------------------------------------------------------------------


def test_the_command_prints_and_writes_its_answer(root, tmp_path, command):
    out = tmp_path / "answer.json"
    printed = command("verify", root, "--out", out).out
    assert "Verified: identical." in printed
    assert "24 of 24 episodes" in printed
    assert "First step" not in printed  # nothing differs
    answer = json.loads(out.read_text())
    assert (answer["holds"], answer["results"]) == (True, read_manifest(root, answer["digest"])[1])
    edit_row(FIXED, 2, add("returns", 1, 1.0))(root)
    printed = command("verify", root, status=1)
    assert "NOT VERIFIED: 2 of" not in printed.out
    assert "was changed after it was written" in " ".join(printed.out.split()), printed.out
    sign(root)
    assert "First step, Episodes: the first that differ." in command("verify", root, status=1).out
    with pytest.raises(FileNotFoundError, match="holds no results"):
        verify(tmp_path)


def test_the_page_is_one_page_and_names_what_exists():
    text = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 700
    tests = set(re.findall(r"`(test_\w+\.py)`", text))
    assert tests
    assert all((ROOT / "tests" / name).is_file() for name in tests)
    places = re.findall(r"`(\w+/[\w/]+\.py)`", text)
    assert all(
        any((folder / name).is_file() for folder in (ROOT, ROOT / "coopbench")) for name in places
    )


def test_results_are_not_replaced_by_what_is_made_of_them(root, command):
    before = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
    for words in (
        ("verify", root, "--out", root / "manifest.json"),
        ("export", root, "--to", root / "protocol.json"),
        ("replay", root / FIXED / "1", "--out", root / FIXED / "episodes.npz"),
        ("leaderboard", root, "--out", root / "report.html"),
    ):
        assert "is a place of results; choose another name" in command(*words, status=2).message
    assert {file: file.read_bytes() for file in root.rglob("*") if file.is_file()} == before
    command("verify", root, "--out", root / "answer.json")
    command("verify", root, "--out", root / "answer.json")
