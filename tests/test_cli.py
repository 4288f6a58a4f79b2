"""The command line as a stranger would use it, right and wrong; and the README as written."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coopbench.cli.main import app
from coopbench_envs.engine import Engine

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SMALL = ["--env", "TrustDilemma-v0", "--episodes", "5", "--param", "horizon=6"]


def _coopbench(*arguments, cwd):
    environment = os.environ | {"COLUMNS": "120", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "coopbench", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_help_names_every_command(tmp_path):
    done = _coopbench("--help", cwd=tmp_path)
    assert done.returncode == 0
    for command in (
        *("list", "show", "plan", "evaluate", "merge"),
        *("report", "crossplay", "bench", "warmup"),
    ):
        assert re.search(rf"^\W*{command}\b", done.stdout, re.MULTILINE), command
        assert _coopbench(command, "--help", cwd=tmp_path).returncode == 0


def test_list_show_plan(tmp_path):
    import coopbench

    listed = _coopbench("list", cwd=tmp_path).stdout
    for name in (*coopbench.environments(), *coopbench.policies(), *coopbench.protocols()):
        if not name.startswith("test/"):
            assert name in listed
    assert "`horizon`" in _coopbench("show", "Routing-v0", cwd=tmp_path).stdout
    assert "fraction" in _coopbench("show", "constant", cwd=tmp_path).stdout
    assert "Digest" in _coopbench("show", "routing-easy", cwd=tmp_path).stdout
    planned = _coopbench("plan", "coopetition-standard", "-p", "random", cwd=tmp_path).stdout
    assert planned.count("random") == len(coopbench.load_protocol("coopetition-standard").task)


def test_evaluate_and_report(tmp_path):
    done = _coopbench(
        "evaluate", *SMALL, "-p", "random", "-p", "constant:0.35", "--out", "r", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "not a standard report" in done.stdout.lower()
    assert "constant:0.35" in done.stdout
    for name in ("report.html", "report.md", "report.json", "estimates.csv", "episodes.csv"):
        assert (tmp_path / "r" / name).stat().st_size > 0
    first = json.loads((tmp_path / "r" / "report.json").read_text())
    again = _coopbench("report", "r", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    second = json.loads((tmp_path / "r" / "report.json").read_text())
    assert {str(e) for e in first["estimates"]} == {str(e) for e in second["estimates"]}
    nothing = _coopbench("evaluate", *SMALL, cwd=tmp_path)
    assert nothing.returncode == 0
    assert "Nothing was written" in nothing.stdout
    assert not (tmp_path / "results").exists()


def test_crossplay(tmp_path):
    chosen = ("-p", "constant:0.5", "-p", "tit_for_tat", "--task", "slcd", "--out", "x")
    done = _coopbench("crossplay", "coopetition-published", *chosen, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tit_for_tat" in done.stdout
    assert "self-play" in done.stdout
    for name in ("crossplay.md", "crossplay.csv", "crossplay.json"):
        assert (tmp_path / "x" / name).stat().st_size > 0
    assert (tmp_path / "x" / "plots" / "crossplay-slcd.svg").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate"], "PROTOCOL or an environment with --env"),
        (["evaluate", "coopetition-standart"], "Did you mean 'coopetition-standard'"),
        (["evaluate", "coopetition-standard", "-p", "randm"], "Did you mean 'random'"),
        (["evaluate", "coopetition-standard", "--episodes", "3"], "go with --env"),
        (["evaluate", *SMALL, "-p", "constant:7"], "'fraction' of policy 'constant' was 7"),
        (["evaluate", *SMALL, "--param", "horizn=3"], "Did you mean 'horizon'"),
        (["evaluate", *SMALL, "--param", "horizon"], "--param takes NAME=VALUE"),
        (["evaluate", *SMALL, "--backend", "rays"], "Did you mean 'ray'"),
        (["evaluate", *SMALL, "--shard", "1/2"], "--shard needs a folder"),
        (["evaluate", *SMALL, "--out", "r", "--shard", "2"], "--shard takes I/N"),
        (["evaluate", *SMALL, "--out", "r", "--shard", "3/2"], "'shard' was 3 of 2; allowed"),
        (["merge", "nowhere", "--out", "r"], "nowhere holds no results"),
        (["evaluate", "--env", "TrustDilema-v0"], "Did you mean 'coopbench/TrustDilemma-v0'"),
        (["evaluate", "--polcy", "random"], "--polcy"),
        (["crossplay", "coopetition-published", "--task", "slcdd"], "Did you mean 'slcd'"),
        (["crossplay", "coopetition-published", "-p", "randm"], "Did you mean 'random'"),
        (["report", "nowhere"], "nowhere holds no results"),
        (["show", "Routng-v0"], "Did you mean"),
        (["evaluat"], "evaluat"),
    ],
)
def test_wrong_calls_say_what_to_do(arguments, message, tmp_path):
    done = _coopbench(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_interrupt_keeps_what_is_finished(tmp_path):
    """Ctrl-C in the middle: exit status 130, one sentence, and a second run goes on."""
    command = [sys.executable, "-m", "coopbench", "evaluate", "routing-easy", "--out", "r"]
    process = subprocess.Popen(
        [*command, "-p", "random"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    for _ in range(600):  # until it has begun to play
        if (tmp_path / "r" / "protocol.json").exists():
            break
        time.sleep(0.1)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Finished cells are kept" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize(
    ("command", "work", "left"),
    [
        ("verify", "coopbench.workflows.verification.verify", "Nothing was written."),
        (
            "report",
            "coopbench.report.loading.load_report",
            "Files of the report may be missing;",
        ),
        ("evaluate", "coopbench.workflows.evaluation.evaluate_cells", "Finished cells are kept;"),
    ],
)
def test_an_interruption_tells_what_is_left(command, work, left, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(work, stop)
    run = CliRunner().invoke(app, [command, "routing-easy"])
    assert run.exit_code == 130
    assert f"Interrupted. {left}" in run.output


def test_an_unwritable_folder_is_told(tmp_path):
    (tmp_path / "taken").write_text("a file")
    for place, status, message in (
        ("taken", 2, "taken is not a folder; name one"),
        ("taken/r", 1, "Could not read or write taken/r: Not a directory. Finished cells are kept"),
    ):
        done = _coopbench("evaluate", *SMALL, "--out", place, cwd=tmp_path)
        assert done.returncode == status
        assert message in done.stderr.replace("\n", " ")
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_readme_python(code, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_readme_policy_looks_at_the_productivity():
    part = Engine("TrustDilemma-v1", 1).layout["productivity"]
    assert f"observations[:, :, {part.start}:{part.stop}]" in README


def _chains():
    """Commands of the README that use one results folder, in their order; others stand alone."""
    chains = {}
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL):
        for line in block.splitlines():
            command = line.split("#")[0].split()
            named = re.search(r"results/(\w+)", line.split("#")[0])
            chains.setdefault(named[1] if named else line, []).append(command)
    return list(chains.values())


@pytest.mark.parametrize("commands", _chains(), ids=lambda commands: "-".join(commands[0][:3]))
def test_readme_commands(commands, tmp_path):
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for program, *arguments in commands:
        if program == "make":
            assert f"\n{arguments[0]}:" in targets
            continue
        assert program == "coopbench"
        done = _coopbench(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
