"""Properties of results folders with random edits: every command answers, and none is misled."""

import json
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from results_folder import FIXED, LEARNED, sign

import coopbench
from coopbench.errors import CoopbenchError
from coopbench.workflows.verification import verify
from coopbench_envs.arrays import unpack

CELLS = [f"{cell}/{name}" for cell in (FIXED, LEARNED) for name in ("meta.json", "episodes.npz")]
EPISODES = [f"{cell}/episodes.npz" for cell in (FIXED, LEARNED)]
FILES = [*CELLS, f"{LEARNED}/actions.npz"]
# Numbers of episodes, of which verification plays each again.
PLAYED = ("seeds", "lengths", "terminated", "seats", "trajectories", "returns", "metrics")
WORDS = ["protocol.json", "manifest.json", "report.json"]
NAMES = [*FILES, *WORDS]
# What nobody expects in place of a number, a text or a list.
ODD = [None, True, -1, 0, 2**70, 1e308, -0.0, float("nan"), "", "x", "\x1b[2J", "\u202e"]
ODD += ["a" * 5000, "../../up", "=1+1", [], {}, [[]], {"a": {"a": {}}}]


def altered(root, name, source):
    """Return whether a file of episodes holds other numbers of them, or cannot be read."""
    try:
        arrays, genuine = (unpack((folder / name).read_bytes()) for folder in (root, source))
        return any(arrays[n].tobytes() != genuine[n].tobytes() for n in PLAYED)
    except (KeyError, OSError, ValueError):
        return True


bytes_edits = st.tuples(
    st.just("bytes"),
    st.sampled_from(NAMES),
    st.floats(0, 1, exclude_max=True),
    st.tuples(st.integers(0, 40), st.binary(max_size=12)),
)
value_edits = st.tuples(
    st.just("value"),
    st.sampled_from([name for name in NAMES if name.endswith(".json")]),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from(range(len(ODD))),
)
file_edits = st.tuples(
    st.sampled_from(["remove", "empty", "folder", "link", "other"]),
    st.sampled_from(NAMES),
    st.just(0.0),
    st.sampled_from(NAMES),
)
edits = st.lists(st.one_of(bytes_edits, value_edits, file_edits), min_size=1, max_size=3)
checked = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def places(value, path=()):
    """Yield the paths of all values in a content of JSON, but the whole."""
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        inside = enumerate(value)
    for key, part in inside:
        yield from places(part, (*path, key))


def edit_bytes(file, share, removed, added):
    content = file.read_bytes()
    start = int(share * len(content))
    file.write_bytes(content[:start] + added + content[start + removed :])


def edit_value(file, share, value):
    try:
        whole = json.loads(file.read_bytes())
        paths = list(places(whole))
    except (ValueError, RecursionError):
        return
    if paths:
        *path, last = paths[int(share * len(paths))]
        inner = whole
        for key in path:
            inner = inner[key]
        inner[last] = value
        file.write_text(json.dumps(whole))


def edit_file(file, kind, other):
    content = b""
    if kind == "other" and other.is_file():
        content = other.read_bytes()
    file.unlink()
    if kind in ("empty", "other"):
        file.write_bytes(content)
    elif kind == "folder":
        file.mkdir()
    elif kind == "link":
        file.symlink_to("/etc/passwd")


def edit(root, kind, name, share, what):
    """Make one edit of a file, if it is still there."""
    file = root / name
    if not file.is_file() or file.is_symlink():
        return
    if kind == "bytes":
        edit_bytes(file, share, *what)
    elif kind == "value":
        edit_value(file, share, ODD[what])
    else:
        edit_file(file, kind, root / what)


def contents(root):
    """Return all files below a folder with their contents; links by where they lead."""
    files = sorted(path for path in root.rglob("*") if path.is_symlink() or path.is_file())
    return {f: f.readlink() if f.is_symlink() else f.read_bytes() for f in files}


def check(source, changes, signed):
    """Edit a copy of a results folder, sign it as a forger would, and ask every command."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(shutil.copytree(source, Path(place) / "r"))
        genuine = contents(root)
        for change in changes:
            edit(root, *change)
        if signed:  # a forger who cannot gives up, and what lies there is verified as it is
            with suppress(OSError, ValueError, TypeError, AttributeError, CoopbenchError):
                sign(root)
        before = contents(root)
        if (root / "protocol.json").is_file():
            result = verify(root)
            json.loads(result.to_json())
            edited = {name for name in FILES if before.get(root / name) != genuine[root / name]}
            forged = {
                n for n in edited if not signed or (n in EPISODES and altered(root, n, source))
            }
            assert not (forged and result.holds), forged
            assert all(text.isprintable() for part in result.checks for text in part.reasons)
        for ask in (coopbench.load_report, lambda folder: coopbench.leaderboard([folder])):
            with suppress(CoopbenchError, ValueError, FileNotFoundError):
                ask(root)
        assert contents(root) == before
        assert {path.name for path in Path(place).iterdir()} == {"r"}


@settings(checked, max_examples=20)
@given(changes=edits, signed=st.booleans())
def test_edited_folders_get_an_answer_and_mislead_nobody(source, changes, signed):
    check(source, changes, signed)


@pytest.mark.slow("2,000 folders")
@settings(checked, max_examples=2000)
@given(changes=edits, signed=st.booleans())
def test_many_edited_folders_get_an_answer_and_mislead_nobody(source, changes, signed):
    check(source, changes, signed)
