"""Backends: the same results in several processes, whatever happens to them; nothing is lost."""

import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from contextlib import chdir, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from builders import PATIENCE, make_task, protocol_file, stored_files

import coopbench
from coopbench import provenance
from coopbench.cli.console import message
from coopbench.episodes.table import Cell
from coopbench.errors import WorkerError
from coopbench.playing import processes
from coopbench.playing.groups import PlayGroup
from coopbench.playing.jobs import Resources, in_turn, source_of_error
from coopbench.playing.plan import plan
from coopbench.playing.rollout import PlayJob
from coopbench.playing.runner import BACKENDS
from coopbench.protocol.loading import load_protocol
from coopbench.provenance import usable_cores

TASKS = (("one", "TrustDilemma-v0", 8), ("two", "TrustDilemma-v0", 20), ("slow", "SLCD-v0", 9))


@pytest.fixture
def file(tmp_path):
    """Three small tasks: two of one environment, the larger one second."""
    tasks = [make_task(name, f"coopbench/{env}", horizon=h, high=100_000) for name, env, h in TASKS]
    return protocol_file(tmp_path, tasks=tasks, train=[50], baselines=[])


class Steady:
    """Invests ten; in games of ``steps`` steps something happens to it, ``times`` times."""

    name = "steady"

    def __init__(self, folder=None, steps=None, times=0):
        self.folder, self.steps, self.times = folder, steps, times

    def initial(self, game, seeds):
        if game.parameters.horizon == self.steps:
            marks = Path(self.folder)
            count = len(list(marks.glob("happened-*")))
            if count < self.times:
                (marks / f"happened-{count}").touch()
                self.happens(marks)

    def act(self, observations, memory):
        return np.full((*observations.shape[:2], 1), 10.0), memory

    def happens(self, marks):
        raise NotImplementedError


class Killed(Steady):
    def happens(self, marks):
        os.kill(os.getpid(), signal.SIGKILL)


class OddError(Exception):
    """Can be pickled, but not unpickled."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class Raises(Steady):
    """Raises when another cell is at work."""

    def happens(self, marks):
        _wait_for((marks / "playing").exists)
        raise OddError("this", "that")

    def act(self, observations, memory):
        (Path(self.folder) / "playing").touch()
        _wait_for((Path(self.folder) / "happened-0").exists)
        time.sleep(0.02)
        return super().act(observations, memory)


class Undefined(Steady):
    def act(self, observations, memory):
        return np.full((*observations.shape[:2], 1), np.nan), memory


class Waits(Steady):
    """Plays until its process is ended."""

    name = "waits"

    def act(self, observations, memory):
        time.sleep(600)


@dataclass(frozen=True)
class Tells:
    """A job that returns what Ray has reserved for it."""

    resources: Resources
    cost: float = 1.0
    kind: str = "tells"

    def __call__(self, tell):
        import ray

        reserved = ray.get_runtime_context().get_assigned_resources()
        return os.environ["OMP_NUM_THREADS"], reserved


@dataclass(frozen=True)
class Finds:
    """A job that returns where its process stands, and where it looks for modules last."""

    cost: float = 1.0
    kind: str = "finds"

    @property
    def resources(self):
        return Resources()

    def __call__(self, tell):
        return str(Path.cwd()), sys.path[-1]


class Unloadable:
    """Can be pickled, but not loaded."""

    def __reduce__(self):
        return _refuse, ()


def _refuse():
    raise ValueError("refuses to be loaded")


@dataclass(frozen=True)
class Acts:
    """A job that does what ``how`` names."""

    how: str
    resources = Resources()
    cost: float = 1.0
    kind: str = "acts"

    def name_after(self, text):
        return str(self)

    def __call__(self, tell):
        if self.how == "SIGTERM":
            os.kill(os.getpid(), signal.SIGTERM)
        if self.how == "exit":
            sys.exit(3)
        if self.how == "unpicklable":
            return lambda: 1
        if self.how == "unloadable":
            return Unloadable()
        time.sleep(600)


def _wait_for(holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _jobs(protocol, policies):
    return [PlayJob(protocol, cell, who.model) for cell, who in plan(protocol, policies)]


def _finished(folder):
    return sorted(file.parent.relative_to(folder).as_posix() for file in folder.rglob("meta.json"))


def test_results_do_not_depend_on_the_backend(file, tmp_path):
    policies = ["random", "tit_for_tat", Steady()]
    events = []
    serial = coopbench.evaluate(file, policies, tmp_path / "serial")
    several = coopbench.evaluate(
        file,
        policies,
        tmp_path / "processes",
        "processes",
        lambda *event: events.append(event),
        workers=2,
    )
    expected = stored_files(tmp_path / "serial")
    assert len(expected) == 9 + 3  # the actions of the policy that is not registered, too
    assert stored_files(tmp_path / "processes") == expected
    assert several.estimates == serial.estimates
    assert [b.cell for b in several.episodes] == [b.cell for b in serial.episodes]
    for name in _finished(tmp_path / "serial"):
        one, two = (
            json.loads((tmp_path / backend / name / "meta.json").read_bytes())
            for backend in ("serial", "processes")
        )
        assert {key for key in one if one[key] != two[key]} <= {"seconds", "created"}
    assert sum(what == "done" for _, _, what in events) == 9
    for cell in (block.cell for block in several.episodes):
        shares = [done for about, done, what in events if about == cell and what == "plays"]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0


def test_a_worker_that_dies_between_two_jobs_is_named(file):
    jobs = _jobs(load_protocol(file), ["random"])
    with closing(BACKENDS["processes"](jobs, 1, None)) as results:
        assert next(results)[0] == 1
        (worker,) = (p for p in multiprocessing.active_children() if "coopbench" in p.name)
        worker.kill()
        worker.join(PATIENCE)
        with pytest.raises(WorkerError, match=r"signal 9.* at work on policy 'random' on task"):
            next(results)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_worker_that_is_ended_from_outside_is_named_with_that_signal():
    job = Acts("SIGTERM")
    with pytest.raises(WorkerError, match=r"signal 15.* at work on .*SIGTERM"):
        list(BACKENDS["processes"]([job, Acts("sleep")], 2, None))


@pytest.mark.parametrize(
    ("how", "message"),
    [("exit", "SystemExit: 3"), ("unpicklable", "lambda"), ("unloadable", "refuses to be loaded")],
)
def test_an_exit_or_a_result_that_cannot_be_sent_is_an_error_of_its_job(how, message):
    with pytest.raises(Exception, match=message) as caught:
        list(BACKENDS["processes"]([Acts(how)], 1, None))
    assert not isinstance(caught.value, WorkerError)
    assert caught.value.__notes__[-1] == f"It came from {Acts(how)}."


def test_the_error_of_a_process_that_cannot_be_started_is_kept(monkeypatch):
    def fail(worker):
        raise OSError("no more processes")

    monkeypatch.setattr(processes.WorkerProcess, "start", fail)
    with pytest.raises(OSError, match="no more processes"):
        list(BACKENDS["processes"]([Acts("sleep")], 1, None))


def test_cells_whose_worker_dies_are_named_and_the_finished_ones_kept(file, tmp_path):
    policies = ["random", Killed(str(tmp_path), steps=9, times=1)]
    call = file, policies, tmp_path / "r", "processes"
    with pytest.raises(WorkerError, match=r"signal 9.* at work on policy 'steady' on task 'slow'"):
        coopbench.evaluate(*call, workers=1)
    kept = _finished(tmp_path / "r")
    assert "two/random" in kept
    assert len(kept) < 6  # after the death no other cell begins
    assert len(coopbench.evaluate(*call, workers=1).episodes.blocks) == 6
    coopbench.evaluate(file, ["random", Steady()], tmp_path / "serial")
    assert stored_files(tmp_path / "r") == stored_files(tmp_path / "serial") != {}


def test_all_cells_at_work_are_named_when_a_worker_dies(file, tmp_path):
    policies = [Killed(str(tmp_path), steps=9, times=1), Waits(str(tmp_path))]
    jobs = [job for job in _jobs(load_protocol(file), policies) if job.cell.task == "slow"]
    named = r"at work on policy 'steady' on task 'slow' and policy 'waits' on task 'slow'\. "
    with pytest.raises(WorkerError, match=named):
        next(BACKENDS["processes"](jobs, 2, None))


def test_an_error_names_its_cell_and_the_running_ones_are_kept(file, tmp_path):
    policies = [Raises(str(tmp_path), steps=9, times=1)]
    with pytest.raises(RuntimeError, match="OddError: this and that") as caught:
        coopbench.evaluate(file, policies, tmp_path / "r", backend="processes", workers=2)
    line, job = caught.value.__notes__
    assert line.startswith("Your code: test_backends.py, line ")
    assert "in happens: raise OddError" in line
    assert job == "It came from policy 'steady' on task 'slow'."
    assert "in happens" in str(caught.value.__cause__)  # the traceback of the worker
    assert "two/steady" in _finished(tmp_path / "r")


def test_an_error_names_its_cell_in_this_process(file, tmp_path):
    (tmp_path / "playing").touch()
    with pytest.raises(OddError) as caught:
        coopbench.evaluate(file, [Raises(str(tmp_path), steps=8, times=1)])
    assert caught.value.__notes__[1:] == ["It came from policy 'steady' on task 'one'."]


def test_a_policy_that_the_message_names_is_not_named_again(file):
    with pytest.raises(ValueError, match="not finite") as caught:
        coopbench.evaluate(file, [Undefined()])
    line = message(caught.value)
    assert line.startswith("Policy 'steady' returned actions that are not finite: [nan] for")
    assert line.endswith("It came from task 'one'.")
    assert line.count("'steady'") == 1


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("Policy 'a' fails.", "run 5 on task 't' with partners 'b'"),
        ("Policy 'ab' fails.", "policy 'a', run 5, on task 't' with partners 'b'"),
    ],
)
def test_the_run_and_the_partners_of_a_cell_are_always_named(text, place):
    job = PlayJob(None, Cell("t", "a", 5), "a", partners=["b"])  # its name is all that is asked for
    assert source_of_error(job, ValueError(text)) == f"It came from {place}."
    group = PlayGroup((job, PlayJob(None, Cell("t", "c"), "c")))
    both = f"It came from {place} and policy 'c' on task 't'."
    assert source_of_error(group, ValueError(text)) == both


def test_what_cannot_be_pickled_is_refused_before_anything_starts(file, tmp_path):
    def local(observations):
        return np.full((*observations.shape[:2], 1), 10.0)

    message = r"Cannot send policy 'local' on task 'one'.*at the top level of a module.*'serial'"
    with pytest.raises(TypeError, match=message):
        coopbench.evaluate(file, ["random", local], tmp_path / "r", backend="processes")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("backend", "workers", "message"),
    [
        ("processes", 0, r"workers was 0; allowed: whole numbers >= 1"),
        ("processes", 1.5, r"workers was 1\.5; allowed"),
        ("processes", True, r"workers was True; allowed"),
        ("serial", 2, r"'workers' was 2 with backend 'serial'.*choose backend 'processes'"),
    ],
)
def test_a_wrong_number_of_workers_is_refused(file, tmp_path, backend, workers, message):
    with pytest.raises(ValueError, match=message):
        coopbench.evaluate(file, ["random"], tmp_path / "r", backend=backend, workers=workers)
    assert not (tmp_path / "r").exists()
    assert 1 <= usable_cores() <= os.cpu_count()


def test_one_job_of_each_kind_and_the_largest_come_first(file):
    """One of each kind first, the largest before the others in both parts."""
    protocol = load_protocol(file)
    jobs = _jobs(protocol, ["random", "tit_for_tat"])
    assert [job.cost for job in jobs] == [2 * steps * 6 for steps in (8, 8, 20, 20, 9, 9)]
    assert in_turn(jobs) == [2, 4, 3, 5, 0, 1]


def test_processes_are_taken_where_they_pay(file, monkeypatch):
    """By cost, cores, workers and whose code it is; a worker takes none of its own."""
    started = []

    def results(open_workers, jobs, tell):
        started.append((*open_workers.args, *open_workers.keywords.values()))
        yield from enumerate(["sent"] * len(jobs))

    monkeypatch.setattr(processes, "results_of", results)
    monkeypatch.setattr(processes, "usable_cores", lambda: 3)
    protocol = load_protocol(file)
    jobs, own = _jobs(protocol, ["random", "tit_for_tat"]), _jobs(protocol, ["random", Steady()])

    def sent(jobs, workers=None):
        with closing(BACKENDS["auto"](jobs, workers, None)) as results:
            return next(results)[1] == "sent"

    assert not sent(jobs)  # too little
    monkeypatch.setattr(processes, "_WORTHWHILE", sum(job.cost for job in jobs))
    assert sent(jobs)
    assert sent(jobs, workers=2)
    assert not sent(jobs, workers=1)
    assert not sent(own)
    assert not sent(_jobs(protocol, [lambda seen: np.full((*seen.shape[:2], 1), 1.0)])[:2])
    assert started == [(3, False), (2, False)]


def test_cores_are_counted_within_the_quota_of_a_control_group(tmp_path, monkeypatch):
    own = tmp_path / "own"
    own.write_text("0::/outer/inner\n")
    monkeypatch.setattr(provenance, "_GROUPS", tmp_path)
    monkeypatch.setattr(provenance, "_OWN_GROUPS", own)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    assert usable_cores() == 8
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    for text, expected in (("max 100000", 8), ("250000 100000", 3), ("1000 100000", 1)):
        (inner / "cpu.max").write_text(f"{text}\n")
        assert usable_cores() == expected
    (inner / "cpu.max").unlink()
    (inner.parent / "cpu.max").write_text("200000 100000\n")
    assert usable_cores() == 2
    (inner.parent / "cpu.max").unlink()
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("400000\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores() == 4
    for quota, period in (("-1", "100000"), ("400000", "0")):
        (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        (tmp_path / "cpu" / "cpu.cfs_period_us").write_text(f"{period}\n")
        assert usable_cores() == 8


HOSTILE = """
import os
import sys
import coopbench
from coopbench.playing import processes
from coopbench.playing.plan import plan
from coopbench.playing.rollout import PlayJob
from coopbench.playing.runner import BACKENDS

processes._WORTHWHILE = 0.0
protocol = coopbench.load_protocol({file!r})
jobs = [PlayJob(protocol, cell, who.model) for cell, who in plan(protocol, "random")]
os.chdir({folder!r})
print("loads")
for backend in ("processes", "auto")[{first}:]:
    for _, played in BACKENDS[backend](jobs, 2, None):
        print(len(played.episodes))
"""


@pytest.mark.parametrize("guarded", [True, False])
def test_workers_take_no_module_from_the_folder_they_start_in(file, tmp_path, guarded):
    """Nor do they load a script, if they need nothing of it."""
    hostile = tmp_path / "hostile"
    for name in ("multiprocessing", "pickle"):
        (hostile / name).mkdir(parents=True)
        (hostile / name / "__init__.py").write_text("raise SystemExit('hostile')")
    text = HOSTILE.format(file=str(file), folder=str(hostile), first=0 if guarded else 1)
    if guarded:
        head, _, work = text.partition("\nprocesses._WORTHWHILE")
        lines = f"processes._WORTHWHILE{work}".splitlines()
        text = f"{head}\nif __name__ == '__main__':\n" + "".join(f"    {x}\n" for x in lines)
    script = tmp_path / "script.py"
    script.write_text(text)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert "hostile" not in ended.stderr
    assert ended.stdout.split() == ["loads", *["6"] * (6 if guarded else 3)]


SCRIPT = """
import os, sys, time
from pathlib import Path
import numpy as np
import coopbench

class Stays:
    name = "stays"

    def initial(self, game, seeds):
        if game.parameters.horizon == 20:
            libraries = [os.environ[name] for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")]
            Path("worker").write_text(" ".join(libraries))
            Path("worker").rename("running")
            time.sleep(600)

    def act(self, observations, memory):
        return np.full((*observations.shape[:2], 1), 10.0), memory

GUARD
    coopbench.evaluate("small.toml", [Stays()], "r", backend="processes", workers=WORKERS)
"""
GUARD = "if __name__ == '__main__':"


def _script(file, guard, workers=2):
    script = file.with_name("script.py")
    text = SCRIPT.replace("GUARD", guard).replace("WORKERS", str(workers))
    script.write_text(text, encoding="utf-8")
    return [sys.executable, script.name]


@pytest.mark.skipif(os.name != "posix", reason="signals of a terminal")
@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow("a second killed run"))],
)
def test_no_process_outlives_the_one_that_started_it(file, number):
    """Also when a terminal sends Ctrl-C to all of them: no noise, and what is finished is kept."""
    folder = file.parent
    process = subprocess.Popen(
        _script(file, GUARD), cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    for name in ("running", "r/slow/stays/meta.json", "r/one/stays/meta.json"):
        while not (folder / name).exists():
            assert process.poll() is None
            time.sleep(0.01)
    assert (folder / "running").read_text() == "1 1"  # threads for the libraries
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, stderr = process.communicate(timeout=60)  # the stream ends when all who share it have ended
    assert process.returncode == -number
    assert stderr.count("Traceback") == (number == signal.SIGINT)
    assert len(coopbench.load_report(folder / "r").episodes.blocks) == 2


def test_a_script_that_a_worker_cannot_load_is_refused(file):
    script = _script(file, "if True:", workers=1)
    done = subprocess.run(script, cwd=file.parent, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert GUARD in done.stderr.splitlines()[-1]
    assert not list(file.parent.rglob("meta.json"))


# --- Ray ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ray(tmp_path_factory):
    """A cluster on this machine, whose workers find this module; no secret goes into home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        ray = pytest.importorskip("ray")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield ray
        ray.shutdown()


@pytest.mark.slow("it starts Ray, where it is installed")
class TestRay:
    """The real one: results, deaths, errors and the end of the iterator."""

    def test_results(self, file, tmp_path, ray):
        events = []
        policies = ["random", Steady()]
        coopbench.evaluate(file, policies, tmp_path / "serial")
        coopbench.evaluate(file, policies, tmp_path / "ray", "ray", lambda *e: events.append(e))
        assert stored_files(tmp_path / "ray") == stored_files(tmp_path / "serial") != {}
        assert sum(what == "done" for _, _, what in events) == 6
        assert ray.is_initialized()  # a cluster that ran before is left running

    def test_resources_and_threads(self, ray):
        job = Tells(Resources(cores=2))
        with closing(BACKENDS["ray"]([job], 1, None)) as results:
            number, (threads, resources) = next(results)
        assert (number, threads) == (0, "2")
        assert resources["CPU"] == 2

    def test_a_death_names_its_cell_and_the_finished_ones_are_kept(self, file, tmp_path, ray):
        policies = ["random", Killed(str(tmp_path), steps=20, times=1)]
        death = (
            r"(?s)A worker died \(WorkerCrashedError: .*\) at work on policy 'steady' on task 'two'"
        )
        with pytest.raises(WorkerError, match=death):
            coopbench.evaluate(file, policies, tmp_path / "r", "ray", workers=2)
        kept = {*_finished(tmp_path / "r")}
        assert kept >= {"two/random", "slow/random"}  # given out before, and finished
        assert "two/steady" not in kept
        assert len(coopbench.evaluate(file, policies, tmp_path / "r", "ray").episodes.blocks) == 6

    def test_an_error_names_its_cell(self, file, tmp_path, ray):
        (tmp_path / "playing").touch()
        policies = [Raises(str(tmp_path), steps=20, times=1)]
        with pytest.raises(RuntimeError, match="OddError: this and that") as caught:
            coopbench.evaluate(file, policies, tmp_path / "r", "ray", workers=1)
        line, job = caught.value.__notes__
        assert line.startswith("Your code: test_backends.py, line ")
        assert job == "It came from policy 'steady' on task 'two'."
        assert "in happens" in str(caught.value.__cause__)

    def test_tasks_end_with_their_iterator(self, file, tmp_path, ray):
        jobs = _jobs(load_protocol(file), ["random", Waits(str(tmp_path))])
        with closing(BACKENDS["ray"](jobs, 2, None)) as results:
            next(results)
        _wait_for(lambda: ray.available_resources().get("CPU") == 2)

    def test_machines_with_other_versions_are_refused(self, file, ray, monkeypatch):
        other = {"numpy": "1.0"}
        monkeypatch.setattr("coopbench.playing.ray_tasks.versions", lambda: other)
        results = BACKENDS["ray"](_jobs(load_protocol(file), ["random"])[:1], None, None)
        with pytest.raises(RuntimeError, match=r"lacks numpy 1\.0: results may differ"):
            next(results)


DEATHS = ("WorkerCrashedError", "NodeDiedError", "LocalRayletDiedError", "OutOfMemoryError")


def test_workers_of_ray_stand_where_modules_of_a_folder_replace_none(monkeypatch, tmp_path):
    """Ray puts the folder in which it is started before all others."""
    stood = []
    fake = SimpleNamespace(
        exceptions=SimpleNamespace(**dict.fromkeys(DEATHS, OSError)),
        is_initialized=lambda: False,
        init=lambda: stood.append(Path.cwd()) or fake,
        cluster_resources=lambda: {"CPU": 1},
        get=None,
        cloudpickle=pickle,
        remote=lambda **options: lambda task: SimpleNamespace(remote=partial(_done, task)),
        shutdown=lambda: stood.append("down"),
    )
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr(sys, "path", [*sys.path, "of the user"])
    monkeypatch.chdir(tmp_path)
    job = Finds()
    ((_, found),) = BACKENDS["ray"]([job], None, None)
    assert stood == [Path(os.sep), "down"]
    assert found == (str(tmp_path), "of the user")


def _done(task, *arguments):
    """What Ray returns of a task that was done in a process of its own path, in another folder."""
    path = sys.path[:]
    sys.path[:] = [place for place in path if place != "of the user"]
    with chdir(os.sep):
        content = task(*arguments)
    sys.path[:] = path
    future = Future()
    future.set_result(content)
    return SimpleNamespace(future=lambda: future)


def test_a_missing_ray_is_named(file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r'pip install "\.\[ray\]"'):
        coopbench.evaluate(file, ["random"], tmp_path / "r", backend="ray")
    assert not (tmp_path / "r").exists()
