"""Tutorials: every block of code of a page is executed, in order, in one empty folder.

A block with a title is a file; ``sh`` and ``python`` blocks are run; every line of a ``text`` block
must occur in what the last block that was run printed.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_COMMANDS = {"sh": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}


def run(language, code, folder):
    """Run one block; return what it printed to both streams."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [*_COMMANDS[language], code],
        cwd=folder,
        env=os.environ | {"PATH": path, "PYTHONPATH": ".", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.slow("runs every block of a page")
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_every_block_of_a_tutorial_runs(page, tmp_path):
    printed = ""
    for language, title, code in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if title:
            (tmp_path / title).write_text(code, encoding="utf-8")
        elif language == "text":
            for line in code.splitlines():
                assert line in printed, f"{line}\nis not in\n{printed}"
        else:
            printed = run(language, code, tmp_path)


SAVED = """
import coopbench_envs
from stable_baselines3 import PPO

games = coopbench_envs.sb3_vec_env("coopbench/TrustDilemma-v1", 8)
PPO("MlpPolicy", games, n_steps=10, seed=1, device="cpu").learn(80).save("model.zip")
"""


@pytest.mark.slow("trains four models, and plays a task with each")
def test_a_saved_model_and_models_of_a_script_are_reported_as_the_page_says(tmp_path):
    page = (ROOT / "docs" / "training-elsewhere.md").read_text(encoding="utf-8")
    beginning = page[: page.index("| Example |")]
    blocks = [(kind, code) for kind, _, code in _BLOCK.findall(beginning) if kind in _COMMANDS]
    command, saved, example, script = blocks
    assert "examples/sb3_parameter_sharing.py" in example[1]  # which test_examples runs
    run("python", SAVED, tmp_path)
    for language, code in (command, saved):
        assert "mine *" in run(language, code, tmp_path)
    assert "sb3_ppo" in run(*script, tmp_path)


def test_the_files_of_the_tutorial_are_those_of_the_example():
    page = (ROOT / "docs" / "tutorials" / "own-environment.md").read_text(encoding="utf-8")
    files = {title: code for _, title, code in _BLOCK.findall(page) if title}
    example = ROOT / "examples" / "foraging"
    code = (example / "src" / "foraging" / "environment.py").read_text(encoding="utf-8")
    protocol = (example / "foraging.toml").read_text(encoding="utf-8")
    protocol = protocol.replace('"example/Foraging-v0"', '"foraging.py:SPEC"')
    assert files == {"foraging.py": code, "foraging.toml": protocol}
