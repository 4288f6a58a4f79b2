"""What all tests share: the registry, with discrete toys among the shipped environments."""

import re
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from coopbench.cli.main import main
from coopbench.workflows.evaluation import write_report
from coopbench_envs import registration, threads

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parent.parent))  # for studies
import toy_team
from kinds import IDS, KINDS

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # So it is behind a shell's "&", and in all processes from there on; tests send that signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ("results_folder", "stored_tables", "studies.checks.tiers")

GOLDEN = Path(__file__).parent / "golden"

# Without torch neither a learner nor what describes one can be imported.
_NEEDS_TORCH = re.compile(r"^from coopbench\.baselines\.learners|^from team_training", re.MULTILINE)
collect_ignore = [
    file.name
    for file in Path(__file__).parent.glob("test_*.py")
    if find_spec("torch") is None and _NEEDS_TORCH.search(file.read_text(encoding="utf-8"))
]


# The functions of Python that end with writing a report.
_WRITERS = [
    f"coopbench.workflows.{name}.write_report" for name in ("evaluation", "merging", "training")
]


@pytest.fixture(scope="session", autouse=True)
def unwritten_reports():
    """Leave the files of a report to the commands and to ``save``: writing them takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        for name in _WRITERS:
            patch.setattr(name, lambda report, out: report)
        yield


@pytest.fixture
def written_reports(monkeypatch):
    """Write the files of a report as users find them."""
    for name in _WRITERS:
        monkeypatch.setattr(name, write_report)


@pytest.fixture(params=IDS, ids=lambda env_id: env_id.split("/")[1])
def env_id(request):
    """Every registered environment."""
    return request.param


@pytest.fixture(params=KINDS, ids=lambda env_id: env_id.split("/")[1])
def kind_id(request):
    """One environment of each kind."""
    return request.param


@pytest.fixture(scope="module")
def team_toy():
    """Register the toy of teams for the tests of one file alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registration._modules, toy_team.SPEC.id, toy_team.__name__)
        patch.setitem(registration._specs, toy_team.SPEC.id, toy_team.SPEC)
        yield


@pytest.fixture(scope="session")
def torch():
    """PyTorch, which only tests of learners need: imported when the first of them runs."""
    return pytest.importorskip("torch")


@pytest.fixture
def sharing(monkeypatch):
    """Threads share all calls, however short they are."""
    monkeypatch.setattr(threads, "WORTH_SHARING", 0)


class Printed(NamedTuple):
    """What a command wrote to its two streams."""

    out: str
    err: str

    @property
    def message(self):
        """The error as one line, however it was wrapped."""
        return " ".join(self.err.split())


@pytest.fixture
def command(tmp_path, monkeypatch, capsys, written_reports):
    """Run a command in ``tmp_path``: all of the entry point, but in this process.

    The command must end with the exit status ``status``.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*words, status=0):
        monkeypatch.setattr(sys, "argv", ["coopbench", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = Printed(*capsys.readouterr())
        assert (stop.value.code or 0) == status, printed.err
        return printed

    return run


@pytest.fixture(scope="session")
def golden():
    return GOLDEN
