"""What all tests share: the registry, with discrete toys among the shipped environments."""

import re
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import coopbench_envs
from coopbench.cli.main import main
from coopbench_envs import registration, threads

sys.path.insert(0, str(Path(__file__).parent))
import toy_pennies
import toy_squad
import toy_team

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # So it is behind a shell's "&", and in all processes from there on; tests send that signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)

GOLDEN = Path(__file__).parent / "golden"

for spec in (toy_pennies.SPEC, toy_squad.SPEC, toy_squad.SPEC_FREELANCERS):
    coopbench_envs.register(spec)
IDS = coopbench_envs.ids()


@pytest.fixture(params=IDS, ids=lambda env_id: env_id.split("/")[1])
def env_id(request):
    return request.param


@pytest.fixture(scope="module")
def team_toy():
    """Register the toy of teams for the tests of one file alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registration._modules, toy_team.SPEC.id, toy_team.__name__)
        patch.setitem(registration._specs, toy_team.SPEC.id, toy_team.SPEC)
        yield


@pytest.fixture
def sharing(monkeypatch):
    """Threads share all calls but the first of each kind, however short they are."""
    monkeypatch.setattr(threads, "gains", lambda alone, shared: True)
    monkeypatch.setattr(threads, "TRIALS", 1)


class Printed(NamedTuple):
    """What a command wrote to its two streams."""

    out: str
    err: str

    @property
    def message(self):
        """The error as one line, however it was wrapped."""
        return " ".join(self.err.split())


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keep the tests of one environment in one process: it compiles once, not in each of them.

    All others stay with those of their file.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByEnvironment(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file, _, test = nodeid.partition("::")
            environment = re.search(r"\[.*?(\w+-v\d+)\b", test)
            return environment[1] if environment else _environment_of(file)

    return ByEnvironment(config, log)


def _environment_of(file):
    """Return the environment whose name a file of tests begins with, or the file if there is none.

    "test_rail_planners.py" is of Rail-v0, "test_rail_v1.py" of Rail-v1.
    """
    stem = Path(file).stem.removeprefix("test_") + "_"
    names = [env_id.split("/")[1] for env_id in IDS]
    words = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", n.removesuffix("-v0")): n for n in names}
    words = {w.lower().replace("-", "_"): n for w, n in words.items()}
    fitting = [word for word in words if stem.startswith(f"{word}_")]
    return words[max(fitting, key=len)] if fitting else file
