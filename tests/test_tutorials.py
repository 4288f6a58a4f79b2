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


def test_the_files_of_the_tutorial_are_those_of_the_example():
    page = (ROOT / "docs" / "tutorials" / "own-environment.md").read_text(encoding="utf-8")
    files = {title: code for _, title, code in _BLOCK.findall(page) if title}
    example = ROOT / "examples" / "foraging"
    code = (example / "src" / "foraging" / "environment.py").read_text(encoding="utf-8")
    protocol = (example / "foraging.toml").read_text(encoding="utf-8")
    protocol = protocol.replace('"example/Foraging-v0"', '"foraging.py:SPEC"')
    assert files == {"foraging.py": code, "foraging.toml": protocol}
