"""Shards and merge: parts of an evaluation, put together, are the whole one."""

import itertools
import json
import re
import shutil

import pytest
from builders import Invests, make_task, protocol_file
from hypothesis import example, given
from hypothesis import strategies as st

import coopbench
from coopbench.episodes.table import Cell
from coopbench.errors import DamagedResultError, OtherProtocolError
from coopbench.playing.contestants import Failed, TrainedRuns
from coopbench.playing.plan import plan
from coopbench.playing.rollout import PlayJob
from coopbench.playing.shards import part
from coopbench.protocol.loading import ad_hoc, load_protocol
from coopbench.protocol.registration import read_registration, registration, write_registration
from coopbench.results import manifest, store
from coopbench.results.protocol_file import read_protocol

TASKS = {"short": 4, "long": 9, "longest": 20}
POLICIES = ["random", "tit_for_tat", "constant:0.5"]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return protocol_file(
        tmp_path_factory.mktemp("protocol"),
        tasks=[
            make_task(name, "coopbench/TrustDilemma-v0", horizon=steps, high=10_000)
            for name, steps in TASKS.items()
        ],
        train=[50],
        baselines=["random", "tit_for_tat"],
    )


@pytest.fixture(scope="module")
def played(file):
    """Results of a serial evaluation and of three shards; read only."""
    folders = [file.parent / name for name in ("serial", "one", "two", "three")]
    report = coopbench.evaluate(file, POLICIES, folders[0])
    shards = [
        coopbench.evaluate(file, POLICIES, folder, shard=(k, 3))
        for k, folder in enumerate(folders)
        if k > 0
    ]
    return report, shards, folders


def _contents(folder):
    """All files; of metadata and manifest all but what depends on times."""
    contents = {}
    for file in folder.rglob("*"):
        if file.name == "meta.json":
            meta = json.loads(file.read_bytes())
            contents[str(file.relative_to(folder))] = {
                key: value for key, value in meta.items() if key not in ("seconds", "created")
            }
        elif file.name == "manifest.json":  # has the checksums of metadata with times
            contents["cells"] = [each["cell"] for each in json.loads(file.read_bytes())["cells"]]
        elif file.is_file():
            contents[str(file.relative_to(folder))] = file.read_bytes()
    return contents


def test_shards_and_merge_make_the_serial_report(played, tmp_path):
    serial, shards, folders = played
    cells = [[block.cell for block in shard.episodes] for shard in shards]
    for k, shard in enumerate(shards, 1):
        state = f"Shard {k} of 3: its {len(cells[k - 1])} of 9 cells are finished."
        assert shard.notes[:2] == (state, f"{folders[k]} holds {len(cells[k - 1])} of 9 cells.")
        assert not (folders[k] / "report.html").exists()
    assert sorted(map(str, itertools.chain(*cells))) == sorted(
        str(block.cell) for block in serial.episodes
    )
    merged = coopbench.merge(folders[1:], tmp_path / "m")
    assert coopbench.merge(str(folders[1]), tmp_path / "alone").episodes
    assert _contents(tmp_path / "m") == _contents(folders[0])
    again = coopbench.load_report(folders[0])
    assert (merged.estimates, merged.aggregates) == (again.estimates, again.aggregates)
    assert merged.notes == ()
    with pytest.raises(ValueError, match=r"m holds other results .* than this report"):
        again.save(tmp_path / "m")


def test_parts_are_fixed_balanced_and_do_not_depend_on_the_order(file):
    protocol = load_protocol(file)
    jobs, turned = (
        [PlayJob(protocol, cell, who.model) for cell, who in plan(protocol, names)]
        for names in (POLICIES, POLICIES[::-1])
    )
    for count in (1, 2, 4, 9):
        parts = [part(jobs, (k, count)) for k in range(1, count + 1)]
        chosen = [cell for each in parts for cell in each]
        assert sorted(map(str, chosen)) == sorted(str(job.cell) for job in jobs)
        costs = [[job.cost for job in jobs if job.cell in each] for each in parts]
        largest = max(cost for each in costs for cost in each)
        assert max(map(sum, costs)) - min(map(sum, costs)) <= largest
        for k, each in enumerate(parts):
            assert part(turned, (k + 1, count)) == each
    assert part(jobs, (10, 10)) == set()


@pytest.mark.parametrize("shard", [(0, 2), (3, 2), (1, 0)])
def test_numbers_of_shards(file, tmp_path, shard):
    with pytest.raises(ValueError, match=rf"'shard' was {shard[0]} of {shard[1]}; allowed: i of n"):
        coopbench.evaluate(file, POLICIES, tmp_path / "r", shard=shard)
    assert not (tmp_path / "r").exists()


def test_shards_in_one_folder_go_on_and_are_merged_in_place(file, played, tmp_path):
    events = []
    for k in (1, 2, 2):
        shard = coopbench.evaluate(
            file,
            POLICIES,
            tmp_path / "r",
            progress=lambda *event: events.append(event),
            shard=(k, 2),
        )
    assert f"{tmp_path / 'r'} holds 9 of 9 cells." in shard.notes
    assert f"Next: coopbench merge {tmp_path / 'r'} --out {tmp_path / 'r'}" in shard.notes
    whats = [what for *_, what in events if what != "plays"]
    assert whats.count("done") == 9
    assert whats[9:] == ["kept"] * len(shard.episodes.blocks)
    merged = coopbench.merge([tmp_path / "r"], tmp_path / "r" / ".." / "r")
    assert merged.results == manifest.read_manifest(tmp_path / "r", merged.protocol.digest).results
    assert _contents(tmp_path / "r") == _contents(played[2][0])


def test_damaged_cells_are_named_and_intact_copies_of_them_taken(played, tmp_path):
    _, shards, folders = played
    coopbench.merge(folders[1:2], tmp_path / "m")
    cell = shards[0].episodes.blocks[0].cell
    damaged = tmp_path / "m" / cell.folder / "episodes.npz"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    rest = coopbench.merge([tmp_path / "m", folders[2]], tmp_path / "rest")
    assert len(rest.episodes.blocks) == sum(len(shard.episodes.blocks) for shard in shards[:2]) - 1
    assert [note for note in rest.notes if str(damaged) in note] == list(rest.notes) != []
    mended = coopbench.merge(folders[1:], tmp_path / "m")
    assert len(mended.notes) == 1
    assert "was changed after it was written" in mended.notes[0]
    assert _contents(tmp_path / "m") == _contents(folders[0])


def test_the_same_results_count_once_and_other_ones_are_refused(file, played, tmp_path):
    folders = played[2]
    merged = coopbench.merge([*folders, folders[1]], tmp_path / "m")
    assert len(merged.episodes.blocks) == 9
    for name, amount in (("old", 10.0), ("new", 20.0)):
        coopbench.evaluate(file, [Invests(amount)], tmp_path / name)
    message = r"/old/long/invests and .*/new/long/invests hold different results"
    with pytest.raises(ValueError, match=message):
        coopbench.merge([tmp_path / "old", tmp_path / "new"], tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_names_that_differ_by_case_are_in_no_folder_together(file, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for name, folder in (("one", one), ("One", two)):
        coopbench.evaluate(file, [Invests(0.5, name)], folder)
    with pytest.raises(ValueError, match=r"'one' and 'One' differ in .* only; evaluate"):
        coopbench.merge([one, two], tmp_path / "both")
    with pytest.raises(ValueError, match=r"'[oO]ne' and '[oO]ne' differ in .* only; use"):
        coopbench.evaluate(file, [Invests(0.5, "One")], one)


def test_failed_runs_are_merged(tmp_path):
    protocol = ad_hoc("TrustDilemma-v0", 3)
    task = protocol.task[0].id
    runs = TrainedRuns("mine", {0: "constant:0.5", 1: Failed("diverged")})
    for k in (1, 2):
        coopbench.evaluate(protocol, [runs], tmp_path / str(k), shard=(k, 2))
    merged = coopbench.merge([tmp_path / "1", tmp_path / "2"], tmp_path / "m")
    assert [block.cell for block in merged.episodes] == [Cell(task, "mine", 0)]
    assert [failure.reason for failure in merged.episodes.failures] == ["diverged"]
    coopbench.evaluate(
        protocol, [TrainedRuns("mine", {1: Failed("no memory")})], tmp_path / "other"
    )
    with pytest.raises(ValueError, match=r"run-1 and .*run-1 hold different results"):
        coopbench.merge([tmp_path / "m", tmp_path / "other"], tmp_path / "m")


@given(st.text(min_size=1, max_size=300).map(lambda name: name.replace("/", ":")))
@example("mine!")
@example("mine:a,b=1.5")
@example("x" * 300)
@example("m\u00efne")
def test_different_policies_never_share_a_folder(name):
    """Nor does a policy that is called like the folder of another one."""
    folder = Cell("task", name).folder
    assert folder.isascii()
    assert re.fullmatch(r"task/[\w.,=@-]{1,255}", folder)
    assert not folder.startswith("task/.")
    alike = folder.removeprefix("task/")
    forged = {alike, alike.replace("@", ":"), alike.replace("@@", ":", 1), alike.replace("@", "!")}
    for other in forged - {name, ""}:
        assert Cell("task", other).folder != folder


def test_folders_of_other_protocols_are_refused(root, played, tmp_path):
    folders = played[2]
    with pytest.raises(OtherProtocolError, match="Merge folders of one protocol only"):
        coopbench.merge([folders[1], root], tmp_path / "m")
    with pytest.raises(OtherProtocolError, match="Merge folders of one protocol only"):
        coopbench.merge(folders[1:], root)  # what is there takes part
    with pytest.raises(FileNotFoundError, match="does not exist"):
        coopbench.merge([folders[1], tmp_path / "nowhere"], tmp_path / "m")
    (tmp_path / "empty").mkdir()
    shutil.copy(folders[1] / "protocol.json", tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="no finished cells to merge"):
        coopbench.merge([tmp_path / "empty"], tmp_path / "m")
    with pytest.raises(ValueError, match="No folders to merge"):
        coopbench.merge([], tmp_path / "m")
    other = shutil.copytree(folders[1], tmp_path / "other")
    (other / "shipped.json").write_text('{"schema": 1, "scores": {"ippo": "00"}}')
    with pytest.raises(DamagedResultError, match="this version of coopbench does not have"):
        coopbench.merge([other], tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_the_first_folder_decides_what_the_digest_leaves_out(tmp_path):
    for name, high in (("a", 100), ("b", 20)):
        file = protocol_file(tmp_path, tasks=[make_task("one", high=high)])
        coopbench.evaluate(file, [POLICIES[name == "b"]], tmp_path / name)
    a, b = tmp_path / "a", tmp_path / "b"
    for first, second, high in ((a, b, 100), (b, a, 20)):
        merged = coopbench.merge([first, second], tmp_path / f"first-{first.name}")
        (task,) = merged.protocol.task
        assert task.bounds.high == high
        assert merged.notes == (
            f"The protocol of {second} differs in task.one.bounds; that of {first} is used.",
        )


def test_the_registration_of_a_study_is_merged_with_its_results(played, tmp_path):
    folders = [shutil.copytree(folder, tmp_path / folder.name) for folder in played[2][1:3]]
    protocol = read_protocol(folders[0])
    study = registration(protocol, ["random"], [], "2020-01-01T00:00:00+00:00")
    write_registration(folders[0], study)
    coopbench.merge(folders, tmp_path / "m")
    coopbench.merge(folders, tmp_path / "m")
    assert read_registration(tmp_path / "m") == study
    write_registration(folders[1], study.model_copy(update={"contestants": ("other",)}))
    with pytest.raises(ValueError, match="different registrations"):
        coopbench.merge(folders, tmp_path / "n")
    assert not (tmp_path / "n").exists()


def test_command_line(file, played, tmp_path, command):
    folders = played[2]
    words = ("--shard", "3/3", "--out", tmp_path / "p3")
    chosen = [word for name in POLICIES for word in ("-p", name)]
    said = command("evaluate", file, *chosen, *words).out
    assert "Shard 3 of 3: its 3 of 9 cells are finished." in said
    assert "p3 holds 3 of 9 cells." in said
    assert "coopbench merge FOLDER... --out DIR" in said
    said = command("merge", folders[1], folders[2], "p3", "--out", "all").out
    assert "Report: all/report.html" in said
    assert "No episode was played again; to find forged results: coopbench verify all" in said
    assert len(coopbench.load_report(tmp_path / "all").episodes.blocks) == 9
    assert (tmp_path / "all" / "report.html").is_file()


def test_merging_in_python_writes_the_page(played, tmp_path, written_reports):
    merged = coopbench.merge(played[2][:1], tmp_path / "m")
    page = (tmp_path / "m" / "report.html").read_text(encoding="utf-8")
    assert f"<title>{merged.protocol.name}" in page


def test_damage_between_reading_and_copying_is_not_merged(played, tmp_path):
    _, _, folders = played
    protocol, source = read_protocol(folders[0]), tmp_path / "source"
    shutil.copytree(folders[0], source)
    cell = Cell("short", "random")
    assert store.read(source, protocol, cell) is not None
    file = source / cell.folder / "episodes.npz"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(DamagedResultError, match=r"episodes\.npz"):
        store.copy(source, tmp_path / "merged", cell)
    assert not (tmp_path / "merged" / cell.folder / "meta.json").exists()
