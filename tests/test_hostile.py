"""Files of strangers: a folder can neither say who has played, nor read, nor hang, nor pretend."""

import io
import json
import os
import resource
import shutil
import subprocess
import sys
import warnings
import zipfile
from dataclasses import replace
from importlib import resources
from pathlib import Path

import builders
import gymnasium as gym
import numpy as np
import pytest
from hostile_folders import ATTACKS
from results_folder import FIXED, LEARNED, Learner, failing, meta_of, sign

import coopbench
import coopbench_envs
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.networks.network import NetworkPolicy, perceptron
from coopbench.cli import main as command_line
from coopbench.cli.console import say
from coopbench.episodes.names import check_name
from coopbench.episodes.table import Cell
from coopbench.errors import DamagedResultError, ProtocolError
from coopbench.files import parsed, read_bounded, write_bytes, write_file
from coopbench.playing.contestants import TrainedRuns
from coopbench.playing.plan import game_of, plan
from coopbench.protocol.loading import ad_hoc, load_protocol
from coopbench.protocol.registration import registration
from coopbench.protocol.schema import Protocol
from coopbench.report.serialise import columns_as_csv
from coopbench.results import store
from coopbench.results.manifest import cell_folders
from coopbench.results.protocol_file import read_protocol
from coopbench.workflows.consistency import episode_discrepancies
from coopbench.workflows.merging import merge
from coopbench.workflows.replay import find_episode
from coopbench.workflows.run_folder import RunFolder
from coopbench.workflows.verdicts import MISSING
from coopbench.workflows.verification import verify
from coopbench_envs.arrays import of_weights, pack, proportional, unpack
from coopbench_envs.engine import DISABLED
from coopbench_envs.parameters import describe
from coopbench_envs.pathfinding.maps import movingai
from coopbench_envs.reading import read_regular

MAZES = {"num_maps": 1000, "height": 501, "width": 501}
ROADMAP = {
    "env": "coopbench/Routing-v1",
    "parameters": {"num_agents": 2},
    "partners": ["prioritised_rrt_star:1000000"],
}
CROWD = [f"constant:{k / 1000}" for k in range(200)]


def call(root, cell, name, **changes):
    """Give a cell to another policy, with all digests repaired."""
    run = root / cell
    target = root / "dilemma" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(run, target)
    meta_of(root, f"dilemma/{name}", **changes)
    sign(root)
    return f"dilemma/{name}"


# --- who has played -------------------------------------------------------------------------------


@pytest.mark.parametrize("plays", [None, "ippo"])
def test_a_run_of_a_learner_is_played_by_what_it_has_trained(root, plays):
    place = call(root, FIXED, "ippo/run-50", policy="ippo", run=50, plays=plays)
    checks = {check.what: check for check in verify(root).checks}
    assert "has to hold policy.npz" in " ".join(checks[place].reasons)
    assert not checks[place].holds


def test_a_run_named_after_a_fixed_policy_has_no_checkpoints(root):
    place = call(root, LEARNED, "tit_for_tat/run-50", policy="tit_for_tat")
    assert place in failing(root)


@pytest.mark.parametrize("model", ["random", Learner(0.5)])
def test_no_run_takes_the_name_of_a_registered_policy(source, model):
    protocol = coopbench.load_report(source).protocol
    for name in ("ippo", "tit_for_tat"):
        with pytest.raises(ValueError, match="Give TrainedRuns another name"):
            plan(protocol, [TrainedRuns(name, {50: model})])


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("", "=cmd", "@SUM(A1)", "+1", "-2", "a\x1b[31m", "a\u202eb", "a ", "a\u00a0", "x" * 1001),
        *("ippo (shipped)", "ippo (Shipped)", "mi\u200bne"),
    ],
)
def test_names_that_cannot_be_shown(name):
    with pytest.raises(ValueError, match="of a policy"):
        check_name(name)


def test_texts_of_a_folder_do_not_steer_a_terminal(root):
    meta_of(root, "dilemma/learner/run-51", reason="\x1b[31mred\u202e")
    report = coopbench.load_report(root)
    assert "\x1b" not in str(report) + report.latex()
    file = root / "protocol.json"
    content = json.loads(file.read_text())
    content["protocol"]["description"] = "\x1b[31mred"
    file.write_text(json.dumps(content))
    with pytest.raises(ProtocolError, match="control characters"):
        coopbench.load_report(root)


def test_texts_of_a_registration_do_not_steer_a_page(root):
    protocol = coopbench.load_report(root).protocol
    date = "2020-01-01T00:00:00+00:00"
    study = registration(protocol, ["random"], [], date)
    for name in ("\x1b[31mred", "a\u202eb"):
        text = json.dumps(study.model_dump(mode="json", by_alias=True) | {"contestants": [name]})
        (root / "registration.json").write_text(text)
        with pytest.raises(DamagedResultError, match="holds control characters") as error:
            coopbench.load_report(root)
        assert str(error.value).replace("\n", "").isprintable()
        assert "pydantic" not in str(error.value)


def test_tables_hold_no_formulas():
    columns = {"a;=1": ["b;@c"], "d": ["\uff1d1"], "e": ["f;g"], "=cmd": ["=1+1"], "mean": [-2.0]}
    assert columns_as_csv([columns]).splitlines() == [
        "a;'=1,d,e,'=cmd,mean",
        "b;'@c,'\uff1d1,f;g,'=1+1,-2.0",
    ]


def test_nothing_that_is_printed_steers_a_terminal(capsys):
    say("a\x1b[31mred\u202e\x07\nnext \u00e4\udcff")
    assert capsys.readouterr().out == "a\\x1b[31mred\\u202e\\x07\nnext \u00e4\\udcff\n"


# --- files ----------------------------------------------------------------------------------------


def test_only_regular_bounded_files_are_read(tmp_path):
    file, link, pipe = (tmp_path / name for name in ("a.json", "b.json", "c.json"))
    file.write_text("{}")
    link.symlink_to(file)
    os.mkfifo(pipe)
    assert read_bounded(file) == b"{}"
    for path, words in (
        (link, "is a link"),
        (pipe, "is not a file"),
        (tmp_path / "d.json", "miss"),
    ):
        with pytest.raises(DamagedResultError, match=words):
            read_bounded(path)
    with pytest.raises(ValueError, match="larger than 1 bytes"):
        read_regular(file, 1)
    with pytest.raises(ValueError, match="not a file"):
        read_regular(Path("/dev/zero"), 10)


@pytest.mark.parametrize("exchanged", ["pipe", "large file"])
def test_a_file_that_is_exchanged_before_it_is_opened_is_refused(tmp_path, monkeypatch, exchanged):
    file, other = tmp_path / "a.json", tmp_path / "b.json"
    file.write_text("{}")
    if exchanged == "pipe":
        os.mkfifo(other)
    else:
        other.write_bytes(bytes(101))
    opened = os.open

    def exchange_and_open(path, *arguments, **options):
        if path == file:
            other.replace(file)
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", exchange_and_open)
    with pytest.raises(ValueError, match=r"not a file|larger than 100 bytes"):
        read_regular(file, 100)


def test_a_file_has_each_key_once_and_an_archive_begins_with_itself(root):
    with pytest.raises(ValueError, match="a key twice"):
        parsed(b'{"a": {"b": 1, "b": 2}}')
    assert parsed(b"[" * 50 + b"]" * 50)
    with pytest.raises(ValueError, match="nested too deep; allowed: 50 levels"):
        parsed(b'{"a":' * 51 + b"1" + b"}" * 51)
    file = root / "protocol.json"
    file.write_text(file.read_text().replace('"ad_hoc":', '"ad_hoc": true, "ad_hoc":'))
    with pytest.raises(ProtocolError, match="a key twice"):
        read_protocol(root)
    content = pack({"a": np.zeros(2)})
    assert unpack(content)["a"].size == 2
    with pytest.raises(ValueError, match="something stands before its begin"):
        unpack(b"#!/bin/sh\n" + content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        member = archive.read("a.npy")
    twice = io.BytesIO()
    with zipfile.ZipFile(twice, "w") as archive, warnings.catch_warnings(action="ignore"):
        archive.writestr("a.npy", member)
        archive.writestr("a.npy", member)
    with pytest.raises(ValueError, match="it has a name twice"):
        unpack(twice.getvalue())


@pytest.mark.parametrize("cell", [FIXED, "dilemma/learner/run-51"])
def test_what_no_checksum_covers_is_found(root, cell):
    (root / cell / "training").mkdir()
    (root / cell / ".meta.json.0.tmp").touch()
    assert verify(root).holds
    (root / cell / "notes.txt").touch()
    assert failing(root) == [cell]


@pytest.mark.parametrize("place", ["plots", "dilemma", f"{FIXED}"])
def test_nothing_is_written_through_a_link(root, tmp_path, place):
    """A report, and an evaluation that plays cells again, go where their folder is."""
    protocol, elsewhere = coopbench.load_report(root).protocol, tmp_path / "elsewhere"
    elsewhere.mkdir()
    if place != "plots":
        shutil.rmtree(root / place)
    (root / place).symlink_to(elsewhere, target_is_directory=True)
    with pytest.raises(ValueError, match="is a link, through which nothing is written"):
        coopbench.evaluate(protocol, ["random"], root).save(root)
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("place", ["dilemma", FIXED])
def test_nothing_is_read_through_a_link(root, tmp_path, place):
    shutil.move(root / place, tmp_path / "elsewhere")
    (root / place).symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    protocol = read_protocol(root)
    with pytest.raises(DamagedResultError, match="is a link, through which nothing is read"):
        store.read(root, protocol, Cell("dilemma", "random"))
    with pytest.raises(ValueError, match="Unknown policy 'random'"):
        find_episode(f"{root}/{FIXED}/0")


def test_a_folder_of_cells_that_is_a_link_is_named(root, tmp_path):
    """In reports, merged folders, evaluations and verifications: it is not just missing there."""
    (root / "latest").symlink_to(root / "partners", target_is_directory=True)  # of no task
    whole = coopbench.load_report(root)
    assert not whole.notes
    shutil.move(root / FIXED, tmp_path / "elsewhere")
    (root / FIXED).symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (check,) = [check for check in verify(root).checks if check.what == FIXED]
    assert (check.verdict, "is a link" in check.reasons[0]) == (MISSING, True)
    merged = merge([root], tmp_path / "merged")
    beside = coopbench.evaluate(whole.protocol, "constant:0.5", root, only=True)
    for report in (coopbench.load_report(root), merged, beside):
        (note,) = [note for note in report.notes if "link" in note]
        assert f"left out: {root / FIXED} is a link, through which nothing is read. Put a" in note
        assert report.episodes.of("dilemma", "random") is None
    shutil.move(root / "protocol.json", tmp_path)
    (root / "protocol.json").symlink_to(tmp_path / "protocol.json")
    with pytest.raises(ProtocolError, match=r"what its links name\.$"):
        coopbench.load_report(root)


def test_folders_in_folders_are_no_recursion(root):
    place = os.open(root / "dilemma", os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("a", dir_fd=place)
        outer, place = place, os.open("a", os.O_RDONLY, dir_fd=place)
        os.close(outer)
    os.close(place)
    places = cell_folders(root)
    subprocess.run(["rm", "-r", root / "dilemma/a"], check=True, timeout=60)
    assert places == cell_folders(root)


@pytest.mark.parametrize("name", ["training", "training/lock"])
def test_no_training_is_kept_through_a_link(tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).symlink_to(elsewhere, target_is_directory=name == "training")
    with (
        pytest.raises(ValueError, match="is a link, through which nothing is written"),
        RunFolder(tmp_path, "training").lock(),
    ):
        pass
    assert not elsewhere.exists()


def test_maps_are_regular_and_not_quoted(tmp_path):
    secret = tmp_path / "token"
    for head in ("SECRET", "type SECRET\nheight 3SECRET", "type o\nheight 1\nwidth 6\nmap\nSECRET"):
        secret.write_text(head + "\n")
        with pytest.raises(ValueError, match="map") as error:
            movingai.read_octile(secret, "map")
        assert "SECRET" not in str(error.value)
    (tmp_path / "a.map").write_text("type octile\nheight 1\nwidth 1\nmap\n.\n")
    for make in (lambda p: p.symlink_to("/dev/zero"), os.mkfifo, Path.mkdir):
        make(tmp_path / "b.map")
        with pytest.raises(ValueError, match="there is no map"):
            movingai.find_files(str(tmp_path))
        (tmp_path / "b.map").rmdir() if make is Path.mkdir else (tmp_path / "b.map").unlink()


def _refused(root, section, **changes):
    """Change the first task of a stored protocol or a section; return why it is refused."""
    file = root / "protocol.json"
    content = json.loads(file.read_text())
    part = {"task": content["task"][0], "": content}.get(section) or content[section]
    part.update(changes)
    file.write_text(json.dumps(content))
    (check,) = verify(root).checks
    assert (check.what, check.holds) == (file.name, False)
    return " ".join(check.reasons)


@pytest.mark.parametrize(
    "written", ["rule:{}", "rule:{},", "rule:{} ", "rule:rule={} ,", "ippo:{}"]
)
def test_a_partner_of_a_stranger_reads_no_file(written, root, tmp_path):
    (tmp_path / "key.json").write_text('{"SECRET": 1}')
    name = written.format(tmp_path / "key.json")
    against = {"env": "coopbench/Skirmish-v1", "parameters": {"opponent": f"policy:{name}"}}
    for changes in ({"partners": [name]}, against):
        copy = Path(shutil.copytree(root, tmp_path / next(iter(changes))))
        reason = _refused(copy, "task", **changes)
        assert "is read from a file" in reason
        assert "SECRET" not in reason


def _free_texts():
    """Yield every parameter of a registered environment that takes any text, or a mapping."""
    for env in coopbench_envs.ids():
        for name, (kind, _, allowed) in describe(coopbench_envs.spec(env).params).items():
            if ("str" in kind or kind == "dict") and not allowed.choices:
                yield env, name, kind


@pytest.mark.parametrize("stated", [None, 64 * "0"])
@pytest.mark.parametrize(("env", "name", "kind"), list(_free_texts()))
def test_no_parameter_of_a_stranger_reads_a_file(env, name, kind, stated, root, tmp_path):
    """Whatever takes a text could name a file, whose content no message may tell."""
    secret = tmp_path / "key.json"
    secret.write_text('{"SECRET": 1}')
    parameters = {name: {"path": str(secret)} if kind == "dict" else str(secret)}
    if name == "map_params":
        parameters["map"] = "movingai"
    reason = _refused(root, "task", env=env, parameters=parameters, maps=stated)
    assert "SECRET" not in reason
    files = coopbench_envs.spec(env).files
    assert ("names files at" in reason) == (files is not None and bool(files.place(parameters)))


def test_a_map_of_a_user_is_read_where_its_checksum_is_stated(tmp_path):
    """Anybody else would only be told that it is not that file, whatever is wrong with it."""
    bundled = Path(str(resources.files("coopbench_envs.skirmish"))) / "data/maps.json"
    content, file = json.dumps(json.loads(bundled.read_text())["3m"]), tmp_path / "mine.json"
    file.write_text(content)
    protocol = ad_hoc("Skirmish-v1", 2, map_file=str(file), horizon=5)
    (tmp_path / "r").mkdir()
    stored = tmp_path / "r" / "protocol.json"
    stored.write_text(protocol.model_dump_json())
    assert read_protocol(stored.parent).digest == protocol.digest
    file.write_text('{"SECRET": 1}')
    with pytest.raises(ProtocolError, match="put them back") as error:
        read_protocol(stored.parent)
    assert "SECRET" not in str(error.value)
    file.write_text(content)
    stated = protocol.model_dump(mode="json")
    stated["task"][0]["maps"] = None
    with pytest.raises(ValueError, match=r"add their checksum, maps = '[0-9a-f]{64}'"):
        Protocol.model_validate(stated)


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "changes", "message"),
    [
        ("report", {"resamples": 10**12}, "report.resamples"),
        ("seeds", {"evaluation": {"first": 0, "count": 10**12}}, "seeds.evaluation"),
        ("seeds", {"evaluation": {"first": 2**64, "count": 1}}, "seeds.evaluation"),
        ("seeds", {"training": [-1]}, "seeds.training"),
        ("", {"training": builders.make_training(steps=10**9, interval=1)}, "intervals"),
        ("task", {"bounds": {"low": 0.0, "high": 5e-324}}, "low must lie below high, by 1e-100"),
        *[("task", {"id": name}, "name of a file") for name in ("report.html", "plots")],
        *[
            ("task", {"env": "coopbench/Routing-v1", "parameters": {"num_agents": 2} | p}, text)
            for p, text in (
                ({"map": "labmaze_grid", "map_params": MAZES}, "251,001,000 cells; allowed"),
                ({"opponent": "none"}, "Unknown parameter"),
            )
        ],
        ("task", ROADMAP, "'samples'"),
        (
            "",
            {"task": [builders.make_task(f"t{k}", partners=CROWD) for k in range(100)]},
            "20,000 partners; allowed: up to 2,000",
        ),
    ],
)
def test_numbers_of_a_protocol_have_bounds(root, section, changes, message):
    assert message in _refused(root, section, **changes)


def test_maps_of_a_stranger_are_not_made_for_hours(root, monkeypatch):
    monkeypatch.setattr("coopbench.results.protocol_file._SECONDS", -1.0)
    assert "took too much time" in _refused(root, "task", parameters={"horizon": 5})
    assert load_protocol("routing-easy").task  # one's own may take as long as they like


@pytest.mark.parametrize(
    ("count", "changes", "finding"),
    [
        (6, {}, None),
        (7, {}, "7 episodes; the protocol has 6"),
        (6, {"agents": ("a", "b")}, "the agents are"),
        (6, {"seeds": np.arange(1, 7, dtype=np.uint64)}, "seeds["),
        (6, {"seats": np.eye(6, 2, dtype=bool)}, "seats["),
        (6, {"lengths": np.full(6, 5)}, "episode 0 has 5 steps and was not terminated"),
        (6, {"lengths": np.full(6, 7)}, "episode 0 has 7 steps and was terminated"),
        (6, {"lengths": np.ones(6, int)}, None),
    ],
)
def test_episodes_are_those_of_the_protocol(source, count, changes, finding):
    """Before they are played again, which would find it out, too."""
    protocol = coopbench.load_report(source).protocol
    ended = np.full(count, finding is None or "was terminated" in finding)
    fields = {"agents": game_of(protocol.task[0]).agents, "lengths": np.full(count, 6)}
    fields |= {"terminated": ended} | changes
    block = builders.make_block(Cell("dilemma", "mine"), np.zeros((count, 2)), **fields)
    first = next(episode_discrepancies(protocol, protocol.task[0], block)).text
    assert first.startswith(finding or "the metrics are []")  # is what is checked next


def test_zeros_are_packed_no_further_than_they_are_unpacked():
    zeros = {"a": np.zeros((1000, 1000))}
    for limit in (of_weights, proportional):
        content = pack(zeros, limit=limit)
        assert unpack(content, limit(content))["a"].shape == (1000, 1000)
    assert len(pack(zeros)) < 100_000 < len(pack(zeros, limit=of_weights))


def test_a_small_file_is_no_wide_network():
    policy = builders.trained_to_invest(0.5, 50)
    wide = [np.zeros((1, *s), np.float32) for s in ((policy.network.centre.size, 2080), (2080, 1))]
    biases = [np.zeros((1, layer.shape[2]), np.float32) for layer in wide]
    wider = replace(policy.network, layers=perceptron(wide, biases))
    content = NetworkPolicy(wider, policy.facts).pack()
    assert read_policy(content).network.layers[0].outputs == 2080
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **unpack(content), more=np.zeros(1 << 17))
    with pytest.raises(ValueError, match="unpacks to more than"):
        read_policy(buffer.getvalue())


def test_files_hold_few_arrays():
    """Counted before they are listed, which takes memory for each."""
    with pytest.raises(ValueError, match="it has more than 10,000 arrays"):
        unpack(b"PK\x01\x02" * 10_001)
    with pytest.raises(ValueError, match="zip file"):
        unpack(b"PK\x01\x02" * 10_000)


@pytest.mark.parametrize("content", [b"a = " + b"[" * 100_000, b"\xff\xfe\x00"])
def test_a_protocol_file_that_is_none_is_named(tmp_path, content):
    (tmp_path / "p.toml").write_bytes(content)
    with pytest.raises(ProtocolError, match=r"p\.toml"):
        load_protocol(tmp_path / "p.toml")


# --- the command line -----------------------------------------------------------------------------


class ArrayMemoryError(MemoryError):
    """Like the error of NumPy."""


@pytest.mark.parametrize("error", [ArrayMemoryError(), OverflowError("big"), RecursionError()])
def test_numbers_too_large_are_one_line(error, capsys):
    with pytest.raises(SystemExit) as stop:
        command_line._end(error)
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("Error: ")


@pytest.mark.parametrize("options", [[], "x", {"state": {"time": 10**30}}])
def test_options_are_a_mapping_of_fields_that_fit(options):
    env = gym.make("coopbench/TrustDilemma-v1")
    with pytest.raises(ValueError, match=r"options must be|State field 'time'"):
        env.unwrapped.reset(options=options)


@pytest.mark.parametrize("env", ["Routing-v0", "Routing-v1"])
@pytest.mark.parametrize("dynamics", ["holonomic", "diffdrive"])
@pytest.mark.parametrize("strength", [1e154, -1.7e308])
def test_the_strongest_action_leaves_all_numbers_finite(env, dynamics, strength):
    size = {"num_rows": 6, "num_cols": 6}
    engine = builders.begun(env, 2, num_agents=2, horizon=20, dynamics=dynamics, map_params=size)
    for step in range(5):
        actions = np.full((2, 2, 2), strength)
        actions[0, 0] = (-1) ** step
        engine.step(actions, DISABLED)
        assert np.isfinite(engine.control.obs).all()
        assert np.isfinite(engine.control.rewards).all()
        assert np.isfinite(engine.state.agent_pos).all()


# --- disks ----------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(30, "Read-only file system", "another")

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(OSError, match="Read-only") as error:
        write_bytes(tmp_path / "a.json", b"{}")
    assert error.value.filename == str(tmp_path / "a.json")


def test_a_write_that_fails_leaves_nothing(tmp_path):
    def fill(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left") as error:
        write_file(tmp_path / "some.json", fill)
    assert error.value.filename == str(tmp_path / "some.json")
    assert not list(tmp_path.iterdir())
    write_file(tmp_path / ("x" * 255), lambda file: None)  # as long as the system allows


# --- whole folders --------------------------------------------------------------------------------


def _limited():
    """Allow 2 GB of addresses, and 60 seconds of the processor."""
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(len(ATTACKS), id="each attack once"),
        pytest.param(200, id="200", marks=pytest.mark.slow("each attack at several places")),
    ],
)
def test_hostile_folders_end_in_time_and_memory(source, tmp_path, count):
    """Each is refused, within the time and memory that a folder of its size may take."""
    script = Path(__file__).with_name("hostile_folders.py")
    done = subprocess.run(
        [sys.executable, script, source, tmp_path, str(count)],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
        preexec_fn=_limited,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["held"] == []
