"""The command line as a stranger would use it, right and wrong; and the README as written."""

import errno
import json
import os
import re
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple
from unittest import mock

import builders
import pytest

import coopbench
from coopbench import catalogue, doctor
from coopbench.cli.main import PANELS
from coopbench.cli.options import assignment
from coopbench.protocol import loading
from coopbench_envs.engine import Engine
from coopbench_envs.parameters import Allowed
from studies.certificates import replay

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SMALL = ["TrustDilemma-v0", "--episodes", "5", "--param", "horizon=6"]
WHOLE_AND_KEY = ["--param=map_params.num_rows=3", "--param=map_params={num_cols = 2}"]


@pytest.fixture
def shorter_work(tmp_path_factory, monkeypatch):
    """Shorten what is evaluated whole elsewhere: by ``make wheel`` and in test_certificates."""
    name = "coopetition-standard"
    whole = loading.load_protocol(name)
    monkeypatch.setattr(replay, "load_protocol", lambda _: whole)
    files = loading.protocol_files()
    content = tomllib.loads(files[name].read_text(encoding="utf-8"))
    games = ("trust-dilemma", "partner-hold-up")  # whose actions have one number, and two
    chosen = {*games, *(f"{game}.focal" for game in games)}
    tasks = [task for task in content["task"] if task["id"] in chosen]
    content["task"] = [task | {"parameters": {"horizon": 20}} for task in tasks]
    content["seeds"]["evaluation"]["count"] = 6
    short = tmp_path_factory.mktemp("standard") / f"{name}.toml"
    short.write_text(builders.toml_text(content), encoding="utf-8")
    monkeypatch.setattr(loading, "protocol_files", lambda: files | {name: short})


def _run(words, folder, **options):
    """Run a program in a folder; return its exit status and what it prints."""
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=builders.PATIENCE, **options
    )


def test_a_module_is_a_command(tmp_path):
    """Piped, a message is one line, however long."""
    words = [sys.executable, "-m", "coopbench", "evaluate", "coopetition-standart"]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = _run(words, tmp_path, env=environment)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "Did you mean 'coopetition-standard'" in line


def test_help_names_every_command_under_its_heading(command):
    listed, place = command("--help").out, 0
    for heading, panel in PANELS.items():
        for name in (heading, *panel):
            found = re.compile(rf"^\W*{name}\b", re.MULTILINE).search(listed, place)
            assert found, name
            place = found.end()
        for name in panel:
            assert command(name, "--help").out


def test_help_is_the_same_where_python_has_no_docstrings():
    code = "from coopbench.cli.main import app; from typer.main import get_command as get\n"
    code += "groups = get(app), get(app).commands['plan'], get(app).commands['rail']\n"
    code += "print([[c.help for c in g.commands.values()] for g in groups])"
    assert builders.run_python("-OO", "-c", code) == builders.run_python("-c", code)


def test_a_warning_is_one_line(tmp_path):
    (tmp_path / "mine.py").write_text("def far(o):\n    return 0 * o[:, :, :1] + 500\n")
    words = [sys.executable, "-m", "coopbench", "evaluate", *SMALL, "-p", "mine.py:far", "--only"]
    done = _run([*words, "--out", "r"], tmp_path)
    (line,) = (line for line in done.stderr.splitlines() if "outside" in line)
    assert line.startswith("Warning: mine.py:far takes actions outside of the action space")
    assert "rollout.py" not in done.stderr


def test_everything_is_listed_shown_and_planned(command):
    listed = command("list").out
    for name in (*coopbench.environments(), *coopbench.policies(), *coopbench.protocol_names()):
        if not name.startswith("test/"):
            assert name in listed
    assert "`horizon`" in command("show", "Routing-v0").out
    assert "fraction" in command("show", "constant").out
    assert "Digest" in command("show", "routing-easy").out
    planned = command("evaluate", "coopetition-standard", "-p", "random", "--only", "--dry-run").out
    assert planned.count("random") == len(coopbench.load_protocol("coopetition-standard").task)
    given = (["--episodes", "5"], ["--seed", "0"], ["--backend", "serial"], ["--workers", "0"])
    for words in (["TrustDilemma-v1"], *(["coopetition-standard", *option] for option in given)):
        refused = command("evaluate", *words, "--dry-run", status=2)
        assert "--dry-run lists the cells of a protocol" in refused.err


def test_a_report_is_written_anew_or_else_printed(command, tmp_path, monkeypatch):
    arguments = ("evaluate", *SMALL, "-p", "random", "-p", "constant:0.35", "--out", "r")
    printed = command(*arguments).out
    assert "Report of one environment" in printed
    assert "constant:0.35" in printed
    root = tmp_path / "r"
    assert not (root / "episodes.csv").exists()  # its cells hold the episodes
    names = ("report.html", "report.md", "report.json", "estimates.csv")
    before = {name: (root / name).read_bytes() for name in names}
    (root / "estimates.csv").write_text("changed")
    command(*arguments)
    assert {name: (root / name).read_bytes() for name in before} == before
    command(*arguments, "-p", "constant:0.5")
    assert (root / "estimates.csv").read_bytes() != before["estimates.csv"]
    refusal = PermissionError(errno.EACCES, "Permission denied", "r/report.html")
    monkeypatch.setattr(coopbench.Report, "save", mock.Mock(side_effect=refusal))
    refused = command("report", "r", status=1)
    assert "constant:0.5" in refused.out
    assert "Make the folder writable, or name a copy" in refused.message


def test_without_a_folder_nothing_is_written(command, tmp_path):
    assert "Nothing was written" in command("evaluate", *SMALL, "-p", "random").out
    assert not list(tmp_path.iterdir())


def test_cross_play_is_printed_written_and_drawn(command, tmp_path):
    chosen = ("-p", "constant:0.5", "-p", "tit_for_tat", "--task", "slcd", "--out", "x")
    done = command("crossplay", "coopetition-published", *chosen)
    assert "tit_for_tat" in done.out
    assert "self-play" in done.out
    for name in ("crossplay.md", "crossplay.csv", "crossplay.json"):
        assert (tmp_path / "x" / name).stat().st_size > 0
    assert (tmp_path / "x" / "plots" / "crossplay-slcd.svg").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate"], "Missing argument 'PROTOCOL|ENV'"),
        (["evaluate", "--env", "TrustDilemma-v1"], "is the first argument of evaluate"),
        (["train", "coopetition-standard", "ippo", "--seed", "5"], "--run SEED"),
        (["train", "TrustDilemma-v1", "ippo"], "evaluate TrustDilemma-v1' plays it"),
        (["evaluate", "coopetition-standard", "--episodes", "3"], "go with the id of an env"),
        (["evaluate", "coopetition-standard", "--param", "a=1"], "--param goes with an env"),
        (["evaluate", *SMALL, "--param", "horizon"], "--param takes NAME=VALUE"),
        (["evaluate", *SMALL, "--param", "horizon=4"], "--param gives horizon twice"),
        (["evaluate", *SMALL, "-p", "constant:0.2,fraction=0.9"], "it gives fraction twice"),
        (["evaluate", "Routing-v0", *WHOLE_AND_KEY], "map_params as a whole and by key"),
        (["evaluate", "Routing-v0", *reversed(WHOLE_AND_KEY)], "map_params as a whole and by key"),
        (["evaluate", *SMALL, "--play-shipped"], "none do for an environment; leave it out"),
        (["evaluate", *SMALL, "--shard", "1/2"], "A shard needs a folder"),
        (["evaluate", *SMALL, "--out", "r", "--shard", "2"], "--shard takes I/N"),
        (["timed", "rail-standard", "-p", "random"], "rail-standard-v1 has no [limits]"),
        (["timed", "rail-published-1", "-p", "random", "-p", "forward"], "plays one policy"),
        (["merge", "nowhere", "--out", "r"], "nowhere does not exist"),
        (["leaderboard", "nowhere", "--out", "lb.txt"], "has to end in .html; given lb.txt"),
        (["evaluate", "--polcy", "random"], "--polcy"),
        (["plan", "power", "routing-easy", "--sd", "-1"], "--sd takes RUNS,EPISODES"),
        (["evaluat"], "evaluat"),
        (["plan", "cells", "routing-easy"], "evaluate PROTOCOL --dry-run"),
        (["replay", "e.npz", "--gif", "e.gif"], "--out FILE.gif"),
        (["show", "routing-easy", "--env", "f.py:SPEC"], "--register FILE.py:SPEC"),
        (["evaluate", *SMALL, "--sed", "1"], "No such option"),
    ],
)
def test_wrong_calls_say_what_to_do(command, arguments, message, tmp_path):
    assert message in command(*arguments, status=2).message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "work", "left"),
    [
        ("verify", "workflows.verification.verify", "Nothing was written."),
        ("report", "report.loading.load_report", "Files of the report may be missing;"),
        ("evaluate", "workflows.evaluation.play_cells", "Finished cells are kept;"),
    ],
)
def test_an_interruption_tells_what_is_left(command, name, work, left, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"coopbench.{work}", stop)
    assert f"Interrupted. {left}" in command(name, "routing-easy", status=130).message


def test_an_unwritable_folder_is_named(command, tmp_path):
    (tmp_path / "taken").write_text("a file")
    for place, message in (
        ("taken", "--out takes a folder, and taken is a file or is named like one"),
        ("taken/r", "The folder taken/r cannot be made (Not a directory); name another one."),
    ):
        assert message in command("evaluate", *SMALL, "--out", place, status=2).message
    two_way = command("crossplay", "coopetition-published", "--out", "taken/r", status=2)
    assert "cannot be made" in two_way.message


# Commands that write, with all that they need besides --out, and what this names.
WRITERS = {
    "evaluate": (SMALL, "FOLDER"),
    "train": (["coopetition-standard", "ippo"], "FOLDER"),
    "crossplay": (["coopetition-published"], "FOLDER"),
    "merge": (["r"], "FOLDER"),
    "import": (["r.csv"], "FOLDER"),
    "plan register": (["coopetition-standard"], "FOLDER"),
    "replay": (["r/t/p/0"], "FILE"),
    "verify": (["r"], "FILE"),
    "leaderboard": (["r"], "FILE"),
    "timed": (["rail-published-1", "-p", "random"], "FILE"),
    "rail import": (["r.pkl"], "FILE"),
    "export": (["r"], "FILE"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_wrong_kind_of_place_is_refused_with_one_that_is_right(command, name, tmp_path):
    """Help names the kind; nothing is read, played or written before a wrong one is refused."""
    rest, kind = WRITERS[name]
    option = "--to" if name == "export" else "--out"
    words = name.split()
    assert f"{option} {kind} " in " ".join(command(*words, "--help").out.split())
    (tmp_path / "made").mkdir()
    (tmp_path / "file").touch()
    wrong = {
        "FILE": {"made": "made is a folder; name a file to write."},
        "FOLDER": {
            "file": "--out takes a folder, and file is a file or is named like one; name a folder, "
            "for instance file-results",
            "page.html": "page.html is a file or is named like one; name a folder, for instance "
            "page",
        },
    }
    for place, right in wrong[kind].items():
        assert right in command(*words, *rest, option, place, status=2).message
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "made"]


@pytest.mark.slow("runs the README as it is written")
@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_python_code_of_the_readme_runs(code, tmp_path):
    done = _run([sys.executable, "-c", code], tmp_path)
    assert done.returncode == 0, done.stderr


def test_readme_policy_looks_at_the_productivity():
    part = Engine("TrustDilemma-v1", 1).layout["productivity"]
    assert f"observations[:, :, {part.start}:{part.stop}]" in README


def _chains():
    """Commands of the README that use one results folder, in their order; others stand alone."""
    chains = {}
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL):
        for line in block.splitlines():
            words = line.split("#")[0].split()
            named = re.search(r"results/(\w+)", line.split("#")[0])
            chains.setdefault(named[1] if named else line, []).append(words)
    return list(chains.values())


@pytest.mark.slow("runs the README as it is written")
@pytest.mark.parametrize("commands", _chains(), ids=lambda commands: "-".join(commands[0][:3]))
def test_commands_of_the_readme_run(command, shorter_work, commands, tmp_path):
    code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    policy = next(block for block in code if "def fair_weather" in block).partition("\nreport =")[0]
    (tmp_path / "policy.py").write_text(policy, encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for program, *arguments in commands:
        if program == "make":
            assert f"\n{arguments[0]}:" in targets
        elif program == "coopbench":
            command(*arguments)
        else:  # the installation
            assert program in ("python3", "pip")


# --- the first minutes ----------------------------------------------------------------------------


def test_the_version_is_printed(command):
    assert command("--version").out == f"coopbench {coopbench.__version__}\n"


def test_shells_complete_names(tmp_path):
    words = {"_COOPBENCH_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    code = "import sys; sys.argv[0] = 'coopbench'; from coopbench.__main__ import main; main()"
    for typed, completed in (
        ("coopbench evaluate coopetition-s", "coopetition-standard"),
        ("coopbench evaluate TrustD", "TrustDilemma-v1"),
        (
            "coopbench evaluate Routing-v0 --param map=movingai --param map_params.p",
            "map_params.path=",
        ),
    ):
        place = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
        done = _run([sys.executable, "-c", code], tmp_path, env=os.environ | words | place)
        assert completed in done.stdout.split(), done


def test_parameters_of_a_map_are_named_with_a_dot(command):
    refused = command(
        *("evaluate", "Routing-v0", "--param", "map=movingai", "--episodes", "1"),
        *("--param", "map_params.path=none.map", "--param", "map_params.size=0.1"),
        status=2,
    )
    assert "none.map" in refused.message
    words = ("evaluate", "Routing-v0", "--param", "map_params.pth=x", "--episodes", "1")
    assert "pth" in command(*words, status=2).message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("rate=1e-3", 1e-3),
        ("name=a=b", "a=b"),
        ("layers=64,64", [64, 64]),
        ("layers=64", [64]),
        ("shared=True", True),
        ("partners=random,tit_for_tat", "random,tit_for_tat"),
        ("name=0.5", "0.5"),
        ('name="0.5"', "0.5"),
    ],
)
def test_values_of_options_are_read(text, value):
    class Params(NamedTuple):
        layers: Annotated[tuple[int, ...], Allowed("")] = (64, 64)
        name: Annotated[str, Allowed("")] = ""

    assert assignment(text, "--set", Params) == (text.partition("=")[0], value)


def test_some_tasks_are_evaluated(command, shorter_work, tmp_path):
    words = ("evaluate", "coopetition-standard", "--task", "trust-dilemma", "-p", "random")
    done = command(*words, "--only")
    assert "it has 1 of the 4 tasks of coopetition-standard-v1" in done.out
    assert "the other 3 are left out" in " ".join(done.out.split())
    folder = tmp_path / "results" / "coopetition-standard-trust-dilemma"
    protocol = json.loads((folder / "protocol.json").read_text())
    assert [task["id"] for task in protocol["task"]] == ["trust-dilemma"]
    wrong = command("evaluate", "coopetition-standard", "--task", "trust-dilema", status=2)
    assert "Did you mean 'trust-dilemma'" in wrong.err
    both = command("evaluate", *SMALL, "--task", "trust-dilemma", status=2)
    assert "tasks go with a protocol" in both.err


def test_own_code_plays_before_the_required_baselines(command, tmp_path):
    code = "def half(observations):\n    return 0.5 + 0.0 * observations[:, :, :1]\n"
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    protocol = builders.protocol_file(tmp_path, tasks=[builders.make_task("trust")], train=None)
    required = list(coopbench.load_protocol(protocol).report.baselines)
    words = ("evaluate", protocol, "-p", "mine=mine.py:half", "-p", required[0], "--out", "r")
    command(*words)
    folder = tmp_path / "r"
    assert _policies(folder) == ["mine", *required]
    command(*words[:4], "--only", "--out", "alone")
    assert _policies(tmp_path / "alone") == ["mine"]
    # Everything in the folder is in the report.
    command("evaluate", protocol, "-p", "cooperator", "--only", "--out", "alone")
    assert _policies(tmp_path / "alone") == ["cooperator", "mine"]
    for text, reason in (("random=mine.py:half", "'random' is a policy"), ("a=b", "is called 'a'")):
        assert reason in command("evaluate", protocol, "-p", text, status=2).message


def test_python_writes_the_page_into_the_results_folder(tmp_path):
    code = "import coopbench; coopbench.evaluate('TrustDilemma-v0', 'random', 'r', episodes=2)"
    assert _run([sys.executable, "-c", code], tmp_path).returncode == 0
    assert (tmp_path / "r" / "report.html").is_file()


def _policies(folder):
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return list(dict.fromkeys(row["policy"] for row in report["estimates"]))


def test_the_report_is_written_before_it_is_printed(tmp_path):
    words = [sys.executable, "-m", "coopbench", "evaluate", *SMALL, "-p", "random", "--out", "r"]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        child.stdout.close()
        child.wait(120)
    assert (tmp_path / "r" / "report.html").stat().st_size > 0


LOADING = """
import os, signal, sys

MODULE = sys.argv[1]

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from coopbench.__main__ import main
sys.argv[1:] = ["list"]
main()
"""


@pytest.mark.parametrize("module", ["typer", "coopbench.catalogue"])  # of all and of one command
def test_an_interruption_while_loading_leaves_no_traceback(module, tmp_path):
    done = _run([sys.executable, "-c", LOADING, module], tmp_path)
    assert done.returncode == 130
    assert done.stderr.strip() == "Interrupted."


def test_interruptions_that_are_ignored_stay_so(tmp_path):
    """As of a command that a shell has put behind "&"."""
    ignoring = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{LOADING}"
    done = _run([sys.executable, "-c", ignoring, "typer"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_errors(closed, tmp_path):
    done = _run(f'"{sys.executable}" -m coopbench list {closed}', tmp_path, shell=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_doctor_examines_everything(command, monkeypatch):
    seen = command("doctor").out
    for what in ("numba", "processor", "GPU", "compiler", "cache", "kernels"):
        assert re.search(rf"^{what}\s+\S", seen, re.MULTILINE), what
    assert "All checks passed." in seen

    def broken():
        raise OSError("no disk")

    monkeypatch.setattr(doctor, "_cache", broken)
    assert "FAILED: OSError: no disk" in command("doctor", status=1).out


def test_doctor_finds_code_that_is_damaged_or_that_others_may_change(monkeypatch, tmp_path):
    folder = tmp_path / "kernels"
    monkeypatch.setenv("COOPBENCH_KERNELS", str(folder))
    assert doctor._cache() == f"0 functions, 0.0 MiB, in {folder}"
    assert doctor._kernels() == f"{len(catalogue.environments())} environments to be compiled"
    (folder / "drive-0123.x86-64-v3.kernel").write_bytes(b"half")
    with pytest.raises(OSError, match=r"drive-0123.x86-64-v3.kernel is damaged"):
        doctor._cache()
    folder.chmod(0o777)
    with pytest.raises(OSError, match="others may write to"):
        doctor._cache()


def test_policies_that_need_training_are_listed_as_learners():
    assert "random" in catalogue.policies()
    assert not set(catalogue.policies()) & set(catalogue.learners())


def test_warmup_compiles_every_part_once(monkeypatch, command):
    played = []
    parts = {"env": lambda: played.append("env"), "planner": lambda: played.append("planner")}
    monkeypatch.setattr(catalogue, "compilations", lambda: parts)
    printed = command("warmup")
    assert played == ["env", "planner"]
    assert "planner" in printed.err + printed.out


def test_processes_that_warm_up_take_no_module_from_the_folder_they_start_in(monkeypatch, tmp_path):
    for name in ("multiprocessing", "pickle", "coopbench"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('hostile')")
    monkeypatch.chdir(tmp_path)
    parts = {name: partial(Path(name).touch) for name in ("one", "two")}
    monkeypatch.setattr(catalogue, "compilations", lambda: parts)
    catalogue.warmup(workers=2)
    assert (tmp_path / "one").exists()
    assert (tmp_path / "two").exists()


def test_what_warms_up_are_environments_planners_and_rules():
    names = list(catalogue.compilations())
    environments = set(catalogue.environments())
    assert environments == set(names[: len(environments)])
    sizes = [catalogue._source_length(name) for name in names[: len(environments)]]
    assert sizes == sorted(sizes, reverse=True)
    planners = {name for name, text in catalogue.policies().items() if name in catalogue._PLANNERS}
    assert len(planners) == 5
    assert any(name.startswith("rule on") for name in names)
