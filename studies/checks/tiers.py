"""Tiers of the tests, their processor time, and the order in which the workers get them.

``slow`` marks the tests that the default tier leaves out (``-m "not slow"``), with the reason as
its argument. ``--processor-times`` lists what the tests cost, with the processes that they start
and without what numba compiles meanwhile; ``--store-scopes`` writes the seconds of every scope, the
group of tests that stays in one worker, into ``scopes.json``: the longest scopes go first, so that
no worker idles at the end.
"""

import importlib.util
import json
import re
import resource
import sys
import time
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import coopbench_envs

SLOW_SECONDS = 5.0  # of processor time; a test above it should be marked
_STORED = Path(__file__).with_name("scopes.json")
_TRAIN = ("torch", "stable_baselines3", "tensorboard")  # libraries of the extra


def pytest_addoption(parser):
    parser.addoption(
        "--processor-times",
        action="store_true",
        help="list the tests that take most processor time",
    )
    parser.addoption(
        "--store-scopes",
        action="store_true",
        help="store the processor time of every scope, by which the next runs order them",
    )


def pytest_configure(config):
    line = "slow(reason): left out of the default tier, because of its processor time"
    config.addinivalue_line("markers", line)
    config.pluginmanager.register(_Clock(config), "processor clock")
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # of xdist, by the number of tests in a scope


def pytest_terminal_summary(terminalreporter, config):
    chosen = config.option.markexpr  # at the end: with -q there is no header
    names = {"": "all tests", "not slow": "default, without tests that are marked slow"}
    terminalreporter.write_line(f"tier: {names.get(chosen, chosen)}")


def pytest_collection_modifyitems(items):
    seconds = json.loads(_STORED.read_text(encoding="utf-8")) if _STORED.exists() else {}
    items.sort(key=lambda item: -seconds.get(scope_of(item.nodeid), 0))
    for item in items:
        for marker in item.iter_markers("slow"):
            if len(marker.args) != 1 or marker.kwargs:
                raise pytest.UsageError(f"{item.nodeid}: slow takes one argument, the reason.")


class _Clock:
    """Measures processor time where tests run, and prints it where they are reported."""

    def __init__(self, config):
        self.config = config
        self.compiled = _Compiling()
        self.costs = {}  # node id -> (seconds with those of children, of these compiling, is slow)

    def pytest_runtest_logstart(self, nodeid, location):
        self.compiled.listen()
        self.start = (_processor_time(), self.compiled.seconds)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = (yield).get_result()
        if report.failed and call.excinfo is not None and _lacks_learners(call.excinfo.value):
            report.outcome = "skipped"
            report.longrepr = (str(item.path), item.location[1] or 0, "Skipped: no extra 'train'")
        if call.when == "teardown":
            seconds = _processor_time() - self.start[0]
            compiling = self.compiled.seconds - self.start[1]
            cost = (seconds, compiling, item.get_closest_marker("slow") is not None)
            report.user_properties.append(("cost", cost))

    def pytest_runtest_logreport(self, report):
        costs = dict(report.user_properties)
        if report.when == "teardown" and "cost" in costs:
            self.costs[report.nodeid] = costs["cost"]

    def pytest_terminal_summary(self, terminalreporter):
        if self.config.option.store_scopes:
            _store(self.costs)
        if not self.config.option.processor_times:
            return
        own = {test: cost - compiling for test, (cost, compiling, _) in self.costs.items()}
        total, compiling = (sum(c[k] for c in self.costs.values()) for k in (0, 1))
        write = terminalreporter.write_line
        terminalreporter.section("processor time")
        write(f"{total:.0f} s, of these {compiling:.0f} s compiling, in {len(own)} tests")
        ranked = sorted(own, key=own.get, reverse=True)
        marked = {test for test, (_, _, is_slow) in self.costs.items() if is_slow}
        write(f"{sum(own[test] for test in marked):.0f} s in {len(marked)} tests marked slow")
        above = [test for test in ranked if test not in marked and own[test] > SLOW_SECONDS]
        write(f"{len(above)} tests above {SLOW_SECONDS:g} s that are not marked slow")
        for test in above:
            write(f"{own[test]:8.1f} s  {test}")


class _Compiling:
    """Processor time that numba spends on compiling in this process."""

    def __init__(self):
        self.seconds = 0.0
        self._depth = 0
        self._start = 0.0
        self._listens = False

    def listen(self):
        """Listen from the first test on that finds numba imported."""
        if not self._listens and "numba" in sys.modules:
            from numba.core import event

            event.Listener.register(type(self))  # a virtual base: numba asks for its class
            event.register("numba:compile", self)
            self._listens = True

    def notify(self, event):
        """Take an event of numba's; compilations start others."""
        if event.is_start:
            if self._depth == 0:
                self._start = time.process_time()
            self._depth += 1
        else:
            self._depth -= 1
            if self._depth == 0:
                self.seconds += time.process_time() - self._start


def _lacks_learners(error):
    """Whether a test met an error because the extra ``train`` is not installed here."""
    if importlib.util.find_spec("torch") is not None:
        return False
    missing = isinstance(error, ModuleNotFoundError) and error.name in _TRAIN
    return missing or 'the extra "train" brings them' in str(error)


def _processor_time():
    """Processor seconds of this process and of those that it has waited for."""
    usages = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _store(costs):
    seconds = defaultdict(float)
    for test, (cost, *_) in costs.items():
        seconds[scope_of(test)] += cost
    rounded = {scope: round(value) for scope, value in seconds.items() if value >= 1.0}
    ranked = dict(sorted(rounded.items(), key=lambda pair: (-pair[1], pair[0])))
    _STORED.write_text(json.dumps(ranked, indent=1) + "\n", encoding="utf-8")


def scope_of(nodeid):
    """Return the group of tests that stays in one worker: those of an environment or of a file.

    An environment is compiled once then, not in each worker.
    """
    file, _, test = nodeid.partition("::")
    environment = re.search(r"\[.*?(\w+-v\d+)\b", test)
    return environment[1] if environment else _environment_of(file)


def _environment_of(file):
    """Return the environment whose name a file of tests begins with, or the file if there is none.

    "test_rail_planners.py" is of Rail-v0, "test_rail_v1.py" of Rail-v1.
    """
    stem = Path(file).stem.removeprefix("test_") + "_"
    fitting = [word for word in _words() if stem.startswith(f"{word}_")]
    return _words()[max(fitting, key=len)] if fitting else file


@cache
def _words():
    """Names of environments as files of tests spell them: {"rail_v1": "Rail-v1"}."""
    names = [env_id.split("/")[1] for env_id in coopbench_envs.ids()]
    words = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", n.removesuffix("-v0")): n for n in names}
    return {word.lower().replace("-", "_"): name for word, name in words.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class ByScope(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return scope_of(nodeid)

    return ByScope(config, log)
