"""Faults on purpose: each is put into a copy of the project, whose tests should then fail.

    python -m studies.checks.mutants [NAME ...] [--rooms-only] [--workers N] [--all-tiers]
    python -m studies.checks.mutants --report [NAME ...]

A mutant is an entry of ``mutants.toml``: a text of a source file, and what replaces it. It first
meets the tests of its room, then the others of the default tier, until one fails; a mutant that
none has caught also meets the slow tests with ``--all-tiers``. NAME is that of a mutant or of a
room; by default all are tried. Tests that fail without any fault catch nothing, and are named.

Results are kept in ``mutants.jsonl``, a line each, so that a later call goes on where one was
interrupted. A mutant is tried again when its entry, its file, or the test that caught it has
changed, and one that survived when any test has. It first meets the test that caught it before.
"""

import argparse
import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import tomllib
import venv
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from studies.checks.folders import FOLDERS, ROOT, module_name
from studies.checks.structure import place

ENTRIES = Path(__file__).with_name("mutants.toml")
RESULTS = ENTRIES.with_suffix(".jsonl")
COMPARES = "test_mutants.py"  # entries with sources: fails under every fault, so catches none
FEWEST, PER_ROOM = 100, 2
PATIENCE = 900.0  # seconds until tests that do not end count as failed
ROOM, REST, SLOW = "room", "rest", "slow"  # stages, in their order
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_NO_TESTS = 5  # exit status of pytest where all tests are left out
_CACHES = ("*.nbi", "*.nbc")  # of compiled code


class Mutant(NamedTuple):
    """One fault."""

    name: str
    fault: str  # what is wrong
    file: str
    text: str
    replacement: str

    @property
    def room(self) -> str:
        """The module or folder directly below a package that it is in."""
        return ".".join(filter(None, place(module_name(ROOT / self.file))))


class Outcome(NamedTuple):
    """What became of a mutant."""

    name: str
    digest: str  # of all that the outcome depends on
    stages: tuple[str, ...]  # those that have ended
    caught: str  # the test that failed; empty: none
    seconds: float  # of processor time

    @property
    def stage(self) -> str:
        """The stage in which it was caught; empty: in none."""
        return self.stages[-1] if self.caught else ""


# --- entries --------------------------------------------------------------------------------------


def content() -> dict[str, Any]:
    """Return the file of entries."""
    return tomllib.loads(ENTRIES.read_text(encoding="utf-8"))


def mutants() -> list[Mutant]:
    """Return all mutants; raise ``ValueError`` that names those which do not fit the sources."""
    entries = [Mutant(**entry) for entry in content()["mutant"]]
    problems = [problem for entry in entries if (problem := _problem(entry))]
    if len({entry.name for entry in entries}) < len(entries):
        problems.append("two mutants have one name")
    if problems:
        raise ValueError(f"Adapt {ENTRIES.relative_to(ROOT)}: {'; '.join(problems)}.")
    return entries


def _problem(mutant: Mutant) -> str:
    """Say why a mutant does not fit its file; empty if it does."""
    file = ROOT / mutant.file
    if not file.is_file():
        return f"{mutant.name}: there is no file {mutant.file}"
    count = file.read_text(encoding="utf-8").count(mutant.text)
    if count != 1:
        return f"{mutant.name}: its text stands {count} times in {mutant.file}; allowed: once"
    return f"{mutant.name} changes nothing" if mutant.text == mutant.replacement else ""


def files_of_rooms(tests: Path, *, notes: bool = False) -> dict[str, list[str]]:
    """Return the files of every room's tests in a folder of tests, as pytest names them."""
    rooms: dict[str, list[str]] = {}
    for room, patterns in content()["tests"].items():
        rooms[room] = []
        for pattern in patterns:
            files = sorted(tests.glob(pattern))
            rooms[room] += [f"tests/{file.relative_to(tests).as_posix()}" for file in files]
            if notes and not files:
                print(f"Note: there is no tests/{pattern}, of {room}.", flush=True)
    return rooms


# --- copies ---------------------------------------------------------------------------------------


class Copy:
    """A copy of the project with a virtual environment of its own, in which its packages are used.

    Every program that tests start as ``sys.executable`` or by name uses the copy's packages too,
    whatever it is told of paths.
    """

    def __init__(self, folder: Path) -> None:
        self.tree, self._venv = folder / "tree", folder / "venv"
        self.python = self._venv / "bin" / "python"

    def make(self) -> None:
        """Copy the files that git tracks or would track, and compiled code."""
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout.split(
            b"\0"
        )
        files = [ROOT / os.fsdecode(name) for name in sorted(set(names)) if name]
        for folder in (*FOLDERS.values(), "tests"):
            files += [file for kind in _CACHES for file in (ROOT / folder).rglob(kind)]
        for file in files:
            if file.is_file():  # others were deleted
                target = self.tree / file.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, target, follow_symlinks=False)  # caches know times of sources
        (self.tree / ENTRIES.parent.relative_to(ROOT) / "scopes.json").write_text(
            "{}\n"
        )  # tests run in the order of files
        self._install()

    def repeat(self, other: "Copy") -> None:
        """Copy another copy."""
        shutil.copytree(other.tree, self.tree, symlinks=True)
        self._install()

    def _install(self) -> None:
        """Make an environment of links to the present one, in which the packages are the copy's."""
        venv.EnvBuilder(symlinks=True).create(self._venv)
        bases = {"base": str(self._venv), "platbase": str(self._venv)}
        site, present = (
            Path(sysconfig.get_path("purelib", vars=bases)),
            sysconfig.get_path("purelib"),
        )
        editable = 0
        for entry in sorted(Path(present).iterdir()):
            if entry.name.startswith("__editable__") and entry.suffix in (".py", ".pth"):
                text = entry.read_text(encoding="utf-8")
                editable += text.count(str(ROOT))
                (site / entry.name).write_text(text.replace(str(ROOT), str(self.tree)))
            elif entry.name != "__pycache__" and not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry)
        if editable < len(FOLDERS):
            raise ValueError(f"{present} has no editable install of {ROOT}; make one: make test.")
        for script in Path(sys.prefix, "bin").iterdir():
            target, start = self._venv / "bin" / script.name, f"#!{sys.prefix}".encode()
            if not target.exists() and script.is_file() and script.read_bytes().startswith(start):
                target.write_bytes(
                    script.read_bytes().replace(start, f"#!{self._venv}".encode(), 1)
                )
                target.chmod(0o755)

    def environment(self) -> dict[str, str]:
        """Return the variables of programs in the copy."""
        path = os.pathsep.join([str(self.python.parent), os.environ.get("PATH", "")])
        unset = ("PYTHONPATH", "PYTHONHOME", "NUMBA_CACHE_DIR", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if name not in unset}
        return kept | {"PATH": path, "VIRTUAL_ENV": str(self._venv)}

    @contextlib.contextmanager
    def changed(self, file: str, change: Callable[[str], str]) -> Iterator[None]:
        """Within the context, a source file of the copy is another one."""
        path = self.tree / file
        before, times = path.read_bytes(), path.stat()
        path.write_text(change(before.decode()), encoding="utf-8")
        _forget(path)
        try:
            yield
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            _forget(path)
            shutil.rmtree(self.tree / ".hypothesis", ignore_errors=True)

    def check(self) -> None:
        """Raise unless programs and those that they start use the copy's packages alone."""
        for package, folder in FOLDERS.items():
            if not self._imports(package):
                raise RuntimeError(f"{package} is not imported from the copy {self.tree}.")
            with self.changed(f"{folder}/__init__.py", lambda text: f"{text}\nraise ImportError\n"):
                if self._imports(package):
                    raise RuntimeError(f"A fault in {package} goes unnoticed in {self.tree}.")

    def _imports(self, package: str) -> bool:
        """Whether a package is imported from the copy, elsewhere and by a process of a process."""
        code = f"import {package} as p; print(p.__file__)"
        started = f"import subprocess, sys; subprocess.run([sys.executable, '-I', '-c', {code!r}])"
        with tempfile.TemporaryDirectory() as elsewhere:
            command = [self.python.name, "-c", started]  # found on the path, as tests may have it
            env = self.environment()
            done = subprocess.run(command, cwd=elsewhere, env=env, capture_output=True, text=True)
        return done.stdout.strip().startswith(f"{self.tree}{os.sep}")


def _forget(source: Path) -> None:
    """Remove a file's byte code, which is found by its size and the second of its last change."""
    Path(importlib.util.cache_from_source(str(source))).unlink(missing_ok=True)


# --- tests ----------------------------------------------------------------------------------------


class Tested(NamedTuple):
    """What a call of pytest came to."""

    failed: tuple[str, ...]  # tests, or what else went wrong
    seconds: float  # of processor time, with that of all processes


def run_tests(
    copy: Copy, arguments: Sequence[str], stop: threading.Event, patience: float
) -> Tested:
    """Run tests in a copy; raise ``InterruptedError`` if ``stop`` is set meanwhile."""
    command = [str(copy.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", "-rfE"]
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            [*command, *arguments],
            cwd=copy.tree,
            env=copy.environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        end, done = time.monotonic() + patience, 0
        while not done and time.monotonic() < end and not stop.wait(0.1):
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
        with contextlib.suppress(ProcessLookupError):  # and whatever it has left behind
            os.killpg(process.pid, signal.SIGKILL)
        if not done:
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        failed = tuple(_FAILED.findall(out.read()))
    if stop.is_set():
        raise InterruptedError
    if not done:
        failed = (*failed, f"no end after {patience:.0f} s")
    elif process.returncode not in (0, _NO_TESTS) and not failed:
        failed = (f"pytest ends with {process.returncode}",)
    return Tested(failed, usage.ru_utime + usage.ru_stime)


class Controls:
    """Which tests fail without any fault, and how long tests take; found out when first needed."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop, self._lock = stop, threading.Lock()
        self._failing: dict[tuple[str, str], list[str]] = {}  # by file and tier
        self._spans: dict[tuple[str, str], float] = {}  # seconds, shared out evenly

    def usable(self, copy: Copy, files: Sequence[str], tier: str) -> tuple[list[str], float]:
        """Return arguments of pytest without tests that fail anyway, and how long to wait."""
        with self._lock:
            unknown = [file for file in files if (file, tier) not in self._failing]
            if unknown:
                self._find(copy, unknown, tier)
        arguments = ["-m", tier]
        for file in files:
            failing = self._failing[file, tier]
            if file not in failing:  # else it cannot be imported
                arguments += [file, *(f"--deselect={test}" for test in failing)]
        return arguments, max(PATIENCE, 10.0 * sum(self._spans[file, tier] for file in files))

    def _find(self, copy: Copy, files: Sequence[str], tier: str) -> None:
        start = time.monotonic()
        failed = run_tests(copy, ["-m", tier, *files], self._stop, 10.0 * PATIENCE).failed
        span = (time.monotonic() - start) / len(files)
        for test in failed:
            if test.partition("::")[0] not in files:
                raise RuntimeError(f"Without any fault: {test}, in {', '.join(files)}.")
            print(f"Note: {test} fails without any fault, and is left out.", flush=True)
        for file in files:
            self._failing[file, tier] = [t for t in failed if t.partition("::")[0] == file]
            self._spans[file, tier] = span


# --- outcomes -------------------------------------------------------------------------------------


def digest_of(mutant: Mutant, tree: Path, caught: str) -> str:
    """Return a digest of a mutant, its file, and the test that caught it or else all tests."""
    tests = sorted((tree / "tests").rglob("*.py"))
    test = tree / caught.partition("::")[0]
    files = [tree / mutant.file, *([test] if test.is_file() else tests)]
    total = hashlib.sha256(repr(mutant).encode())
    for file in files:
        total.update(file.read_bytes())
    return total.hexdigest()[:16]


def written() -> dict[str, Outcome]:
    """Return the last outcome of every mutant that is written, by its name."""
    lines = RESULTS.read_text().splitlines() if RESULTS.is_file() else []
    contents = [json.loads(line) for line in lines]
    return {c["name"]: Outcome(**c)._replace(stages=tuple(c["stages"])) for c in contents}


def holding(
    tree: Path, entries: Sequence[Mutant], outcomes: Mapping[str, Outcome]
) -> dict[str, Outcome]:
    """Return the outcomes of these mutants that still hold, by their names."""
    found = [(entry, outcomes[entry.name]) for entry in entries if entry.name in outcomes]
    return {m.name: o for m, o in found if o.digest == digest_of(m, tree, o.caught)}


def tidy() -> None:
    """Leave the last line of every mutant that there is, in the order of the entries."""
    last = written()
    kept = [last[entry.name] for entry in mutants() if entry.name in last]
    beside = RESULTS.with_suffix(".part")
    beside.write_text("".join(f"{json.dumps(outcome._asdict())}\n" for outcome in kept))
    beside.replace(RESULTS)


def table(entries: Sequence[Mutant], outcomes: dict[str, Outcome]) -> str:
    """Return the table of all rooms, and the names of those that survived."""
    heads = ("mutants", "by room", "by rest", "by slow", "survive", "not run")
    rows: dict[str, list[int]] = defaultdict(lambda: [0] * len(heads))
    for mutant in entries:
        outcome = outcomes.get(mutant.name)
        stage = "not run" if outcome is None else outcome.stage or "survive"
        place = [ROOM, REST, SLOW, "survive", "not run"].index(stage) + 1
        for row in (rows[mutant.room], rows["all"]):
            row[0] += 1
            row[place] += 1
    rows["all"] = rows.pop("all", [0] * len(heads))  # at the end
    lines = [f"{'room':<36}" + "".join(f"{head:>9}" for head in heads)]
    lines += [f"{room:<36}" + "".join(f"{n or '':>9}" for n in row) for room, row in rows.items()]
    for mutant in entries:
        outcome = outcomes.get(mutant.name)
        if outcome is not None and not outcome.caught:
            done = ", ".join(outcome.stages)
            lines.append(f"survives ({done}): {mutant.name}, {mutant.file}: {mutant.fault}")
    return "\n".join(lines)


# --- workers --------------------------------------------------------------------------------------


class Work:
    """Mutants that are still to be tried, and what the workers share."""

    def __init__(
        self, copy: Copy, entries: Sequence[Mutant], stages: Sequence[str], stop: threading.Event
    ) -> None:
        self.stop, self._stages, self._lock = stop, tuple(stages), threading.Lock()
        self._controls = Controls(stop)
        self._rooms = files_of_rooms(copy.tree / "tests", notes=True)
        self._files = [
            f"tests/{file.relative_to(copy.tree / 'tests').as_posix()}"
            for file in sorted((copy.tree / "tests").rglob("test_*.py"))
            if file.name != COMPARES
        ]
        self._before = written()
        self.outcomes = holding(copy.tree, entries, self._before)
        self._waiting = [entry for entry in entries if self._lacking(entry)]
        self.error: BaseException | None = None

    def _lacking(self, mutant: Mutant) -> tuple[str, ...]:
        """Return the stages that a mutant has to go through."""
        outcome = self.outcomes.get(mutant.name)
        if outcome is None:
            return self._stages
        return () if outcome.caught else tuple(s for s in self._stages if s not in outcome.stages)

    def run(self, copy: Copy) -> None:
        """Try mutants in a copy until none is left."""
        try:
            copy.check()
            while not self.stop.is_set():
                with self._lock:
                    if not self._waiting:
                        return
                    mutant = self._waiting.pop(0)
                self._try(copy, mutant)
        except InterruptedError:
            return
        except BaseException as error:
            self.error = self.error or error
            self.stop.set()

    def _try(self, copy: Copy, mutant: Mutant) -> None:
        before = self.outcomes.get(mutant.name, Outcome(mutant.name, "", (), "", 0.0))
        done, seconds, caught = list(before.stages), before.seconds, ""
        earlier = self._before.get(mutant.name)
        if earlier is not None and (known := self._caught_again(copy, mutant, earlier.caught)):
            done, seconds, caught = list(earlier.stages), known.seconds, earlier.caught
        for stage in () if caught else self._lacking(mutant):
            tier, files = self._tests(mutant, stage)
            usable, patience = self._controls.usable(copy, files, tier)
            result = self._tested(copy, mutant, ["-x", *usable], patience)
            seconds += result.seconds
            done.append(stage)
            if result.failed:
                caught = result.failed[0]
                break
        digest = digest_of(mutant, copy.tree, caught)
        outcome = Outcome(mutant.name, digest, tuple(done), caught, round(seconds, 1))
        with self._lock:
            self.outcomes[mutant.name] = outcome
            with RESULTS.open("a") as file:
                file.write(json.dumps(outcome._asdict()) + "\n")
            what = f"caught by {caught}" if caught else "SURVIVES"
            print(f"{mutant.name}: {what} ({', '.join(done)}; {seconds:.0f} s)", flush=True)

    def _tested(
        self, copy: Copy, mutant: Mutant, arguments: Sequence[str], patience: float
    ) -> Tested:
        """Run tests with a fault."""
        with copy.changed(mutant.file, lambda t: t.replace(mutant.text, mutant.replacement)):
            return run_tests(copy, arguments, self.stop, patience)

    def _caught_again(self, copy: Copy, mutant: Mutant, test: str) -> Tested | None:
        """Return how the test that caught a mutant before fails with it; None unless it does.

        The test must pass without the fault.
        """
        if "::" not in test:  # there was none, or pytest itself ended
            return None
        result = self._tested(copy, mutant, [test], PATIENCE)
        if not result.failed or run_tests(copy, [test], self.stop, PATIENCE).failed:
            return None
        return result

    def _tests(self, mutant: Mutant, stage: str) -> tuple[str, list[str]]:
        """Return the tier and the files of a stage."""
        own = self._rooms.get(mutant.room, [])
        others = [file for file in self._files if file not in own]
        files = {ROOM: own, REST: others, SLOW: [*own, *others]}[stage]
        return "slow" if stage == SLOW else "not slow", files


def run(entries: Sequence[Mutant], stages: Sequence[str], workers: int) -> dict[str, Outcome]:
    """Try mutants; return all outcomes. An interruption keeps those that are there."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):  # also behind a shell's "&", which ignores one
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Copy(Path(folder).resolve() / str(number)) for number in range(workers)]
        copies[0].make()
        for copy in copies[1:]:
            copy.repeat(copies[0])
        work = Work(copies[0], entries, stages, stop)
        threads = [threading.Thread(target=work.run, args=(copy,)) for copy in copies]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            print("Interrupted; the same command goes on.", flush=True)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    if work.error is not None:
        raise work.error
    return work.outcomes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the status is 1 if mutants survive."""
    parser = argparse.ArgumentParser(description="Put faults into a copy and see which tests fail.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants or rooms; default: all")
    parser.add_argument("--rooms-only", action="store_true", help="only run the tests of the room")
    parser.add_argument("--all-tiers", action="store_true", help="also run the slow tests")
    parser.add_argument("--workers", type=int, default=1, help="copies, one mutant at a time each")
    parser.add_argument("--report", action="store_true", help="only print what is known")
    options = parser.parse_args(arguments)
    entries = mutants()
    known = {entry.name for entry in entries} | {entry.room for entry in entries}
    for name in options.names:
        if name not in known:
            parser.error(f"There is no mutant or room {name!r}; mutants.toml lists them.")
    chosen = [e for e in entries if not options.names or {e.name, e.room} & set(options.names)]
    stages = [ROOM] if options.rooms_only else [ROOM, REST, *([SLOW] * options.all_tiers)]
    if options.report:
        outcomes = holding(ROOT, chosen, written())
    else:
        outcomes = run(chosen, stages, options.workers)
        tidy()
    print(table(chosen, outcomes))
    return int(any(not outcome.caught for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
