"""The training loop: intervals, the choice of a checkpoint, interruptions, and what is kept."""

import dataclasses
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, NamedTuple

import builders
import numpy as np
import pytest

import coopbench
from coopbench import provenance
from coopbench.baselines import registry
from coopbench.baselines.game import Game
from coopbench.baselines.learner import LearnerEntry
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.networks.network import NetworkPolicy
from coopbench.episodes.table import Cell
from coopbench.errors import Diverged, OtherProtocolError, ProtocolError
from coopbench.playing.rollout import PlayJob
from coopbench.protocol.loading import load_protocol
from coopbench.report.facts import training_text
from coopbench.report.sections.learning import task_chart
from coopbench.results import store
from coopbench.results.manifest import write_manifest
from coopbench.workflows import training_plan
from coopbench.workflows.run_folder import RunFolder
from coopbench.workflows.training_plan import Scope
from coopbench_envs.arrays import pack, unpack
from coopbench_envs.parameters import between

BESIDE = {"partners": ["tit_for_tat"], "trained_on": "trust"}
GAMES = {  # tasks of the protocol
    "trust": {"env": builders.TRUST},
    "trust.beside": {"env": builders.TRUST} | BESIDE,
    "race": {"env": "coopbench/RecoveryRace-v1"},
}


def trial(folder, games=GAMES, **change):
    """Write the protocol of this file into ``folder``; ``change`` replaces parts of it."""
    tasks = [builders.make_task(name, high=8.0, **game) for name, game in games.items()]
    budgets = {"on_policy": {"steps": 60, "interval": 20}}
    budgets["off_policy"] = {"steps": 600, "interval": 200}
    parts = {
        "train": [5, 6],
        "first": 100,
        "selection": (200, 4),
        "training": builders.make_training(episodes=4, budgets=budgets),
        "score": "own_return",
        "metrics": ["own_return", "final_trust"],
        "baselines": None,
        "resamples": 200,
        "learned": ["steady"],
    }
    return builders.protocol_file(folder, "trial", tasks=tasks, **(parts | change))


CALLS: list[tuple[str, int, int]] = []  # learn(steps): environment, seed, steps


class Params(NamedTuple):
    peak: Annotated[int, between(0, 1000, "steps at which it invests most")] = 40
    fails: Annotated[int, between(0, 1000, "steps after which it diverges; 0: never")] = 0
    killed: Annotated[int, between(0, 1000, "steps at which it kills its process once")] = 0
    lanes: Annotated[int, between(1, 1000, "games played at once; it plays none")] = 4


class Steady:
    """Learns nothing: it invests 1 - |steps - peak| / 100, and a little noise that it remembers."""

    def __init__(self, training):
        self._name, env_id, parameters, self._seed, self._params = training
        if env_id == "coopbench/SLCD-v1":
            raise ValueError("Steady cannot learn coopbench/SLCD-v1.")
        self._of = env_id, Game.at(env_id, **parameters)
        self._rng, self.steps = np.random.default_rng(self._seed), 0
        self._noise = 0.0

    def learn(self, steps):
        CALLS.append((self._of[0], self._seed, steps))
        while self.steps + 4 <= steps:
            self.steps += 4
            self._noise = 0.9 * self._noise + 0.001 * self._rng.random()
            if self._params.fails and self.steps > self._params.fails:
                raise Diverged(f"Its loss is nan at step {self.steps}.")
            once = Path(os.environ.get("STEADY_ONCE", ""))
            if self._params.killed == self.steps and not once.exists():
                once.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return {"loss": 1.0 / self.steps}

    def policy(self):
        env_id, game = self._of
        share = 1.0 - abs(self.steps - self._params.peak) / 100.0 + self._noise
        network = builders.constant_network(game, share)
        facts = {"environment": env_id, "learner": self._name, "seed": self._seed}
        facts |= {"steps": self.steps, "hyperparameters": self._params._asdict()}
        return NetworkPolicy(network, facts)

    def save(self):
        state = json.dumps(self._rng.bit_generator.state).encode()
        return {
            "rng": np.frombuffer(state, np.uint8),
            "steps": np.array(self.steps),
            "noise": np.array(self._noise),
        }

    def load(self, arrays):
        self._rng.bit_generator.state = json.loads(arrays["rng"].tobytes())
        self.steps, self._noise = int(arrays["steps"]), float(arrays["noise"])


STEADY = LearnerEntry("steady", Steady, "keeps to its plan", "on_policy", Params)


def with_steady():
    return {"steady": STEADY}


@pytest.fixture(autouse=True)
def steady(monkeypatch):
    monkeypatch.setattr(registry, "_learners", with_steady)
    CALLS.clear()


@pytest.fixture
def protocol(tmp_path):
    return load_protocol(trial(tmp_path))


def cells(root):
    """Content of every file of the cells below a folder that does not tell of times."""
    names = ("episodes.npz", "policy.npz")
    files = [file for name in names for file in root.glob(f"*/**/{name}")]
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in files}


def train(protocol, out, task="trust", run=5, **settings):
    """Train one run in ``out``; return its report."""
    return coopbench.train(protocol, "steady", out, tasks=[task], seeds=[run], **settings)


def run_of(out, task="trust", run=5):
    """The folder of a run."""
    return out / task / "steady" / f"run-{run}"


def training_of(report, task="trust", run=5):
    """What the metadata say of the training of a run."""
    return report.metadata[Cell(task, "steady", run)]["training"]


def failing(folder):
    """Checks of a results folder that do not hold."""
    return [check for check in coopbench.verify(folder).checks if not check.holds]


def sign(place, protocol):
    """Do what a forger does: make all digests fit the policy in the folder of a cell."""
    sums = builders.edit_meta(place)["sha256"]
    digest = hashlib.sha256((place / "policy.npz").read_bytes()).hexdigest()
    builders.edit_meta(place, sha256=sums | {"policy.npz": digest})
    write_manifest(place.parents[2], protocol)


def scalars(folder):
    """What a run has written for TensorBoard."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def test_training_runs_are_stored_as_results_with_their_progress(protocol, tmp_path):
    calls = []
    report = coopbench.train(
        protocol, "steady", tmp_path / "out", progress=lambda *each: calls.append(each)
    )
    assert [(b.cell.task, b.cell.run) for b in report.episodes] == [
        (task, seed) for task in GAMES for seed in (5, 6)
    ]
    assert sorted(CALLS) == sorted(
        (env, seed, steps)
        for env in ("coopbench/TrustDilemma-v1", "coopbench/RecoveryRace-v1")
        for seed in (5, 6)
        for steps in (20, 40, 60)
    )
    for task in ("trust", "race"):
        for progress in report.episodes.progress_of(task, "steady"):
            assert progress.steps.tolist() == [20, 40, 60]
            assert progress.metrics["return"].shape == (3, 4)
    best = [progress.best("return") for progress in report.episodes.progress_of("trust", "steady")]
    assert best == [1, 1]  # it invests most there
    assert not report.episodes.progress_of("trust.beside", "steady")
    facts = training_of(report, "trust.beside", 6)
    assert facts["task"] == "trust"
    assert (facts["steps"], facts["interval"], facts["chosen_step"]) == (60, 20, 40)
    assert facts["resumed"] == []
    shares = [share for cell, share, what in calls if what == "plays" and share > 0]
    assert shares == [1 / 3, 2 / 3, 1.0] * 4
    assert [what for _, _, what in calls].count("done") == 4
    assert [reason for reason in report.deviations if "steady" in reason] == []


@pytest.mark.parametrize(("peak", "selection"), [(0, (200, 4)), (60, (200, 4)), (0, None)])
def test_the_earliest_of_the_best_is_chosen_and_without_selection_seeds_the_last(
    tmp_path, peak, selection
):
    report = train(trial(tmp_path, selection=selection), tmp_path / "out", peak=peak)
    facts = training_of(report)
    assert facts["chosen_step"] == (60 if peak or selection is None else 20)
    assert facts["machine"] == provenance.machine()
    for progress in report.episodes.progress_of("trust", "steady"):
        means = progress.metrics["return"].mean(axis=1)
        assert facts["chosen_step"] == progress.steps[np.argmax(means)]
    assert bool(report.episodes.progress) == (selection is not None)


def test_a_second_call_trains_nothing(protocol, tmp_path, monkeypatch):
    def play(job, tell, real=PlayJob.__call__):
        if job.cell.task != "trust":
            raise KeyboardInterrupt
        return real(job, tell)

    with monkeypatch.context() as patch:
        patch.setattr(PlayJob, "__call__", play)
        with pytest.raises(KeyboardInterrupt):
            train(protocol, tmp_path)
    written = (run_of(tmp_path) / "meta.json").stat().st_mtime_ns
    coopbench.train(protocol, "steady", tmp_path, tasks=["trust"])
    assert (run_of(tmp_path) / "meta.json").stat().st_mtime_ns == written  # it is not played again
    before, calls = cells(tmp_path), []
    CALLS.clear()
    coopbench.train(
        protocol, "steady", tmp_path, tasks=["trust"], progress=lambda *each: calls.append(each)
    )
    assert not CALLS
    assert [what for _, _, what in calls] == ["kept", "kept"]
    (tmp_path / "trust.beside" / "steady" / "run-6" / "episodes.npz").unlink()
    other = run_of(tmp_path, run=6)
    (other / "policy.npz").write_bytes((run_of(tmp_path) / "policy.npz").read_bytes())
    sign(other, protocol)
    coopbench.train(protocol, "steady", tmp_path, tasks=["trust"])
    assert not CALLS  # the policy is there: it plays what is missing, or another policy's
    assert cells(tmp_path) == before


@pytest.mark.parametrize(
    ("change", "words"),
    [({"peak": 41}, r"peak 40 \(now 41\)"), ({"steps": 40}, r"\(steps\) 60 \(now 40\)")],
)
def test_other_settings_need_another_folder(protocol, tmp_path, change, words):
    train(protocol, tmp_path)
    before, place = cells(tmp_path), run_of(tmp_path)
    # Its metadata say so, then its state, then another task.
    for lost in ("none", "meta.json", "training/state.npz"):
        (place / lost).unlink(missing_ok=True)
        with pytest.raises(ValueError, match=f"with other settings: .*{words}"):
            train(protocol, tmp_path, **change)
    assert cells(tmp_path) == before


def test_values_of_a_preset_that_changed_need_another_folder(tmp_path, monkeypatch):
    """The digest covers its name; cells and states hold the values, which are compared."""
    values = {"steady": {"peak": 30}}
    monkeypatch.setattr(registry, "_preset", lambda name: values)
    budgets = {"on_policy": {"steps": 60, "interval": 20}}
    training = builders.make_training(episodes=4, budgets=budgets, preset="routing")
    protocol = load_protocol(trial(tmp_path, training=training))
    where = {"tasks": ["race"], "seeds": [5]}
    report = coopbench.train(protocol, "steady", tmp_path / "r", **where)
    assert report.metadata[Cell("race", "steady", 5)]["hyperparameters"]["peak"] == 30
    values["steady"] = {"peak": 31}
    with pytest.raises(ValueError, match=r"with other settings: peak 30 \(now 31\)"):
        coopbench.train(protocol, "steady", tmp_path / "r", **where)
    coopbench.train(protocol, "steady", tmp_path / "r", **where, peak=30)
    assert coopbench.verify(tmp_path / "r").holds


def test_a_run_goes_on_although_other_metrics_are_reported(protocol, tmp_path, interrupted):
    """It keeps to the metrics of its first checkpoints, and everything that reads them does."""
    with interrupted(written=True):
        coopbench.train(protocol, "steady", tmp_path, tasks=["trust"], seeds=[5])
    other = load_protocol(trial(tmp_path, metrics=["own_return", "mean_trust"]))
    assert other.digest == protocol.digest
    report = coopbench.train(other, "steady", tmp_path, tasks=["trust"], seeds=[5])
    assert report.metadata[Cell("trust", "steady", 5)]["training"]["resumed"] == [40]
    (course,) = report.episodes.progress_of("trust", "steady")
    names = ("return", "own_return", "final_trust")
    shapes = {name: values.shape for name, values in course.metrics.items()}
    assert shapes == dict.fromkeys(names, (3, 4))
    (curve,) = [curve for curve in report.learning if curve.task == "trust"]
    assert len(curve.steps) == 3
    assert report.protocol == other
    verification = coopbench.verify(tmp_path)
    assert verification.holds, str(verification)


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
import test_training as here
here.registry._learners = here.with_steady
here.train({toml!r}, {out!r}, killed=44)
"""


def test_a_killed_run_goes_on_from_its_last_interval(protocol, tmp_path, monkeypatch, torch):
    monkeypatch.setenv("STEADY_ONCE", str(tmp_path / "once"))
    places = {"tests": str(Path(__file__).parent), "toml": str(tmp_path / "trial.toml")}
    script = SCRIPT.format(out=str(tmp_path / "killed"), **places)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, timeout=builders.PATIENCE
    )
    assert done.returncode == -signal.SIGKILL
    assert not cells(tmp_path / "killed")
    report = train(protocol, tmp_path / "killed", killed=44)
    assert [steps for _, _, steps in CALLS] == [60]
    assert training_of(report)["resumed"] == [40]
    train(protocol, tmp_path / "whole", killed=44)
    assert cells(tmp_path / "killed") == cells(tmp_path / "whole")


@pytest.fixture
def interrupted(monkeypatch):
    """Interrupt the second writing of a state: before or behind it, as the fixture is called."""
    real, count = os.replace, []

    def at(written):
        def replace(source, target):
            count.extend([target] if str(target).endswith("state.npz") else [])
            second = str(target).endswith("state.npz") and len(count) == 2
            if not second or written:
                real(source, target)
            if second:
                raise KeyboardInterrupt

        monkeypatch.setattr(os, "replace", replace)
        return pytest.raises(KeyboardInterrupt)

    return at


@pytest.mark.parametrize(("written", "resumed"), [(False, 20), (True, 40)])
def test_an_interruption_around_a_state_costs_nothing(
    protocol, tmp_path, interrupted, written, resumed
):
    with interrupted(written=written):
        train(protocol, tmp_path)
    left = run_of(tmp_path) / "training" / ".state.npz.x.tmp"
    left.write_bytes(b"of a process that was killed")
    time.sleep(1.1)  # TensorBoard orders files by the second in their names
    assert training_of(train(protocol, tmp_path))["resumed"] == [resumed]
    assert not left.exists()
    events = scalars(run_of(tmp_path) / "training")
    assert {"loss", "steps_per_second", "evaluation/own_return"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("loss")] == [20, 40, 60]
    progress = store.read(tmp_path, protocol, Cell("trust", "steady", 5)).progress
    means = progress.metrics["own_return"].mean(axis=1)
    written = [event.value for event in events.Scalars("evaluation/own_return")]
    np.testing.assert_allclose(written, means, rtol=1e-6)


def test_a_run_occupies_what_its_learner_says(protocol, tmp_path, monkeypatch):
    (job,) = training_plan.runs(protocol, "steady", tmp_path, Scope(["trust"], [5]), {})
    assert job.resources == (1, 0.0)
    table = {"steady": dataclasses.replace(STEADY, cores=4, gpus=0.5)}
    monkeypatch.setattr(registry, "_learners", lambda: table)
    assert job.resources == (4, 0.5)
    assert PlayJob(protocol, job.cell, "random").resources == (1, 0.0)


def test_a_run_is_trained_by_one_process_at_a_time(protocol, tmp_path):
    with (
        RunFolder(run_of(tmp_path), "training").lock(),
        pytest.raises(ValueError, match=r"Another process trains the run in .*Wait for it to end"),
    ):
        train(protocol, tmp_path)
    assert not CALLS
    train(protocol, tmp_path, run=np.int64(5))
    assert CALLS


def test_a_state_that_could_not_be_read_again_is_not_written(protocol, tmp_path, monkeypatch):
    monkeypatch.setattr("coopbench_envs.arrays.LIMIT", 1000)
    with pytest.raises(ValueError, match=r"state of training run 5 .* allowed: 1,000"):
        train(protocol, tmp_path)
    assert not list(tmp_path.rglob("*state*"))


def test_a_run_that_diverged_is_reported_and_not_trained_again(protocol, tmp_path):
    report = train(protocol, tmp_path, fails=30)
    reason = "Its loss is nan at step 32."
    failed = {(f.cell.task, f.reason) for f in report.episodes.failures}
    assert failed == {("trust", reason), ("trust.beside", reason)}
    assert f"run 5 of steady on trust, trust.beside failed: {reason}" in report.deviations
    assert reason in str(report)
    CALLS.clear()
    assert train(protocol, tmp_path, fails=30).deviations == report.deviations
    merged = tmp_path.with_name(f"{tmp_path.name}-merged")
    coopbench.merge([tmp_path], merged)  # without the state of the training
    train(protocol, merged, fails=30)
    with pytest.raises(ValueError, match=r"with other settings: fails 30 \(now 0\)"):
        train(protocol, merged)
    assert not CALLS
    summary = run_of(tmp_path) / "training" / "run.json"
    assert json.loads(summary.read_text())["status"] == "diverged"


def changed(arrays, **course):
    """The arrays of a state with other entries in the course that its header tells."""
    header = json.loads(arrays["header"].tobytes())
    header["course"] |= course
    return arrays | {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)}


def test_a_state_that_is_damaged_is_named_and_not_restarted(protocol, tmp_path, interrupted):
    def refused(content):
        state.write_bytes(content)
        with pytest.raises(ValueError, match=r"state\.npz cannot be read .* Remove .*training to"):
            train(protocol, tmp_path, "race")

    state = run_of(tmp_path, "race") / "training" / "state.npz"
    with interrupted(written=True):
        train(protocol, tmp_path, "race")
    arrays = unpack(state)
    refused(pack({n: a for n, a in arrays.items() if not n.startswith("learner.")}))
    state.write_bytes(pack(arrays))
    train(protocol, tmp_path, "race")
    (run_of(tmp_path, "race") / "meta.json").unlink()
    arrays = unpack(state)
    wrong = {"steps": ([], [20, 60], ["20", "40", "60"]), "status": ("foo", "running")}
    wrong |= {"chosen": ("x", 30), "seconds": ("x", float("nan"), -1.0), "resumed": (3,)}
    for name, values in wrong.items():
        for value in values:
            refused(pack(changed(arrays, **{name: value})))
    refused(pack(arrays | {"best": arrays["best"][:0]}))
    refused(pack(arrays | {"metrics.return": arrays["metrics.return"][:, :3]}))
    refused(pack({name: array for name, array in arrays.items() if name != "metrics.return"}))
    refused(b"PK")


def test_results_of_training_are_verified_and_tampering_is_seen(protocol, tmp_path):
    coopbench.train(protocol, "steady", tmp_path, seeds=[5])
    coopbench.train(protocol, "steady", tmp_path, seeds=[6], tasks=["race"], fails=10)
    verification = coopbench.verify(tmp_path)
    assert verification.holds, str(verification)
    played = [check for check in verification.checks if check.played]
    assert [check.played for check in played] == [6, 6, 6]
    assert {check.how for check in played} == {"all episodes played again"}
    place = run_of(tmp_path)
    other = read_policy((place / "policy.npz").read_bytes())
    other.network.layers[0].biases[:] -= 0.01
    (place / "policy.npz").write_bytes(other.pack())
    assert not coopbench.verify(tmp_path).holds
    sign(place, protocol)
    differing = failing(tmp_path)
    assert {check.what for check in differing} == {
        "trust/steady/run-5",
        "trust.beside/steady/run-5",
    }
    reasons = [reason for check in differing for reason in check.reasons]
    assert any("selection episodes" in reason for reason in reasons)


def test_a_run_is_one_training(protocol, tmp_path):
    """Also where its cells come from two folders, each of which is in order."""
    train(protocol, tmp_path / "one")
    train(protocol, tmp_path / "two", peak=20)
    for folder, lost in (("one", "trust.beside"), ("two", "trust")):
        assert coopbench.verify(tmp_path / folder).holds
        shutil.rmtree(tmp_path / folder / lost)
    coopbench.merge([tmp_path / "one", tmp_path / "two"], tmp_path / "both")
    (check,) = failing(tmp_path / "both")
    assert check.what == "trust.beside/steady/run-5"
    assert check.reasons == (
        "it was played by another policy than was trained in trust/steady/run-5",
    )


def test_the_metadata_of_a_training_are_verified(protocol, tmp_path):
    train(protocol, tmp_path, "race")
    place = run_of(tmp_path, "race")
    before = builders.edit_meta(place)["training"]
    for facts, words in (
        ({"steps": "lots"}, "the training in meta.json has .*'lots'.*allowed: whole numbers > 0"),
        ({"interval": 1, "chosen_step": 4}, "chose that of 4"),
        ({"steps": 50}, "do not fit together"),
        ({"steps": 600, "interval": 20}, "the checkpoints are not every 20 of 600 steps"),
        (None, "holds 'policy.npz', which is no file of its cell"),
    ):
        builders.edit_meta(place, training=facts and before | facts)
        write_manifest(tmp_path, protocol)
        (check,) = failing(tmp_path)
        assert check.what == "race/steady/run-5"
        assert any(re.search(words, reason) for reason in check.reasons), check.reasons


@pytest.mark.parametrize("change", [{"learner": "isac"}, {"steps": 1000}])
def test_the_origin_in_the_header_of_a_policy_is_verified(protocol, tmp_path, change):
    train(protocol, tmp_path, "race")
    place = run_of(tmp_path, "race")
    policy = read_policy((place / "policy.npz").read_bytes())
    policy.facts.update(change)
    (place / "policy.npz").write_bytes(policy.pack())
    sign(place, protocol)
    (check,) = failing(tmp_path)
    assert check.what == "race/steady/run-5"
    assert any("policy.npz was trained " in reason for reason in check.reasons)


def test_runs_with_different_hyperparameters_are_a_deviation(protocol, tmp_path):
    what = "runs of steady on trust, trust.beside were trained with different values of peak"
    for seed, peak in ((5, 40), (6, 40), (6, 20)):
        for task in ("trust", "trust.beside"):
            shutil.rmtree(run_of(tmp_path, task, seed), ignore_errors=True)
        deviations = train(protocol, tmp_path, run=seed, peak=peak).deviations
        assert (what in deviations) == (peak == 20)
    text = " ".join(coopbench.verify(tmp_path).deviations)
    assert "were trained with different values of peak" in text


def test_a_stored_run_is_not_overwritten_by_another(protocol, tmp_path):
    for folder, peak in (("one", 40), ("two", 20)):
        train(protocol, tmp_path / folder, "race", peak=peak)
        coopbench.train(protocol, "steady", tmp_path / folder, tasks=["trust"], peak=peak)
        train(protocol, tmp_path / folder, "race", 6, fails=10)
    before = cells(tmp_path / "one")
    with pytest.raises(ValueError, match=r"trust/steady/run-5 holds another training run"):
        coopbench.evaluate(protocol, [f"steady:{tmp_path / 'two'}"], tmp_path / "one")
    assert cells(tmp_path / "one") == before
    failed = run_of(tmp_path / "one", "race", 6) / "meta.json"
    content = failed.read_text()
    coopbench.evaluate(protocol, [f"steady:{tmp_path / 'one'}"], tmp_path / "one")
    assert failed.read_text() == content  # with the hyperparameters that made it fail
    del (meta := json.loads(content))["hyperparameters"]
    failed.write_text(json.dumps(meta))
    with pytest.raises(ValueError, match=r"with other settings: .*fails None \(now 10\)"):
        train(protocol, tmp_path / "one", "race", 6, fails=10)


def test_all_runs_of_a_folder_are_evaluated_as_one_policy(protocol, tmp_path):
    coopbench.train(protocol, "steady", tmp_path / "one", seeds=[5, 6])
    report = coopbench.evaluate(
        protocol, [f"steady:{tmp_path / 'one'}", "random"], tmp_path / "two"
    )
    assert {(b.cell.policy, b.cell.run) for b in report.episodes} == {
        ("steady", 5),
        ("steady", 6),
        ("random", None),
    }
    for part in (1, 2):
        name = f"steady:{tmp_path / 'one'}"
        coopbench.evaluate(protocol, [name], tmp_path / f"part-{part}", shard=(part, 2))
    coopbench.merge([tmp_path / "part-1", tmp_path / "part-2"], tmp_path / "all")
    assert coopbench.verify(tmp_path / "all").holds
    assert cells(tmp_path / "all") == cells(tmp_path / "one")
    mine = {name: c for name, c in cells(tmp_path / "two").items() if "/steady/" in name}
    assert mine == cells(tmp_path / "one")
    coopbench.evaluate(protocol, ["random"], tmp_path / "three")
    with pytest.raises(ValueError, match="there are no runs of 'steady' in it"):
        coopbench.evaluate(protocol, [f"steady:{tmp_path / 'three'}"])
    other = trial(tmp_path, first=200, selection=(300, 4))  # the selection's
    with pytest.raises(OtherProtocolError, match=r"runs of another protocol .* single run"):
        coopbench.evaluate(other, [f"steady:{tmp_path / 'one'}"])


def test_some_tasks_are_evaluated_with_what_was_trained_on_them(protocol, tmp_path):
    """Both into the folder of the training and from there, whatever else it holds."""
    one = tmp_path / "one"
    coopbench.train(protocol, "steady", one, tasks=["trust"], seeds=[5, 6])
    mine = cells(one)
    report = coopbench.evaluate(protocol, ["random"], one, tasks="trust", only=True)
    policies = [("random", 0), ("steady", 5), ("steady", 6)]
    played = [b for b in report.episodes if b.cell.task == "trust"]
    assert sorted((block.cell.policy, block.cell.run or 0) for block in played) == policies
    assert any("lacks the tasks race" in reason for reason in report.deviations)
    name = f"steady:{one}"
    for out in (tmp_path / "two", one):
        report = coopbench.evaluate(protocol, [name, "random"], out, tasks="trust", only=True)
        played = [b for b in report.episodes if b.cell.task == "trust"]
        assert sorted((block.cell.policy, block.cell.run or 0) for block in played) == policies
    assert {name: cell for name, cell in cells(one).items() if "/steady/" in name} == mine
    assert coopbench.verify(one).holds
    with pytest.raises(ValueError, match="there are no runs of 'steady' in it"):
        coopbench.evaluate(protocol, [name], tasks="race")


def test_results_of_a_named_run_hold_what_played(protocol, tmp_path):
    coopbench.train(protocol, "steady", tmp_path / "one", tasks=["trust"])
    one = builders.first_task(protocol)
    place, results = run_of(tmp_path / "one"), tmp_path / "kept"
    name, events = f"steady:{place}", []

    def played():
        events.clear()
        coopbench.evaluate(one, [name], results, progress=lambda *each: events.append(each[2]))
        return events[-1]

    assert played() == "done"
    assert played() == "kept"
    other = read_policy((place / "policy.npz").read_bytes())
    other.network.layers[0].biases[:] -= 0.5
    (place / "policy.npz").write_bytes(other.pack())
    assert coopbench.verify(results).holds  # by the policy that played
    assert played() == "done"  # it is another one now
    place.rename(tmp_path / "moved")
    coopbench.merge([results], tmp_path / "copy")
    verification = coopbench.verify(tmp_path / "copy")
    assert verification.holds
    assert {check.how for check in verification.cells} == {"all episodes played again"}


def test_required_runs_in_the_folder_are_reported(protocol, tmp_path):
    coopbench.train(protocol, "steady", tmp_path)
    report = coopbench.evaluate(protocol, ["random", "reciprocator"], tmp_path)
    assert {b.cell.policy for b in report.episodes} == {"random", "reciprocator", "steady"}
    # Beside a learning curve stand the best fixed policy and the best that looks at nothing.
    drawn = task_chart(report, "trust")
    rulers = {level.ends[0] for level in drawn.levels}
    means = {
        block.returns.mean()
        for policy in ("random", "reciprocator")
        for block in report.episodes.runs("trust", policy)
    }
    assert sorted(rulers) == pytest.approx(sorted(means))


def test_one_model_per_task_that_plays_all(tmp_path):
    games = {name: {"horizon": k} for name, k in zip(GAMES, (6, 5, 7), strict=True)}
    training = builders.make_training(episodes=4, plays="all", steps=60, interval=20)
    file = trial(tmp_path, games, training=training)
    report = coopbench.train(file, "steady", tmp_path / "out", seeds=[5], tasks=["trust", "race"])
    assert {(b.cell.task, b.cell.policy) for b in report.episodes} == {
        (task, f"steady:{model}") for task in GAMES for model in ("trust", "race")
    }
    assert [p.cell for p in report.episodes.progress] == [
        Cell("trust", "steady:trust", 5),
        Cell("race", "steady:race", 5),
    ]
    assert not [reason for reason in report.deviations if "checkpoints" in reason]
    again = coopbench.evaluate(file, ["random"], tmp_path / "out")
    assert {b.cell.policy for b in again.episodes} == {"random", "steady:trust", "steady:race"}


def test_a_task_can_have_a_budget_of_its_own(tmp_path, command):
    games = GAMES | {"race": GAMES["race"] | {"budget": {"steps": 90, "interval": 30}}}
    protocol, out = trial(tmp_path, games, baselines=["random"]), tmp_path / "out"
    said = command("train", protocol, "steady", "--run", "5", "--out", out)
    text, advice = said.err, shlex.join(["coopbench", "evaluate", f"{protocol}", "--out", f"{out}"])
    assert advice in said.out.replace("\n", " ")
    assert "2 training runs of 60 steps, evaluated every 20; 90 steps, evaluated every 30" in text
    report, loaded = coopbench.load_report(out), load_protocol(protocol)
    courses = {progress.cell.task: progress.steps.tolist() for progress in report.episodes.progress}
    assert courses == {"trust": [20, 40, 60], "race": [30, 60, 90]}
    assert not any("checkpoints" in reason for reason in report.deviations)
    assert "evaluated every 200; on race 90 steps, evaluated every 30" in training_text(loaded)
    assert loaded.budgets_of(loaded.task_of("trust.beside"))["on_policy"].steps == 60
    assert loaded.budgets_of(loaded.task_of("race"))[""].steps == 90


@pytest.mark.parametrize(
    ("budget", "task", "words"),
    [
        ({"steps": 90, "interval": 40}, "race", "no whole number of intervals"),
        ({"steps": 90}, "race", "interval"),
        ({"steps": 60, "interval": 20}, "trust.beside", "is played by models of 'trust'"),
    ],
)
def test_a_budget_of_a_task_is_checked(tmp_path, budget, task, words):
    games = GAMES | {task: GAMES[task] | {"budget": budget}}
    with pytest.raises(ProtocolError, match=words):
        load_protocol(trial(tmp_path, games))
    games = {"race": GAMES["race"] | {"budget": {"steps": 60, "interval": 20}}}
    with pytest.raises(ProtocolError, match=r"goes with on = 'each' in \[training\]"):
        load_protocol(trial(tmp_path, games, training=None, train=None, selection=None))


def test_budgets_come_from_the_kind_of_learner(protocol):
    def budget(kind="on_policy", **how):
        learner = STEADY.__class__("x", None, "", kind, Params)
        planned = training_plan.budget_of(protocol, learner, **how)
        return planned.steps, planned.interval

    assert budget() == (60, 20)
    assert budget("off_policy") == (600, 200)
    assert budget(steps=40) == (40, 20)
    assert budget(steps=7) == (7, 7)
    assert budget("off_policy", smoke=True) == (6, 2)
    for steps in (50, 0, 20 * 10_001, 2 * 10**15):
        allowed = r"allowed: multiples of 20 .* up to 200000, and 1 to 20"
        with pytest.raises(ValueError, match=f"steps was {steps}; {allowed}"):
            budget(steps=steps)
    hard = load_protocol("routing-hard")
    assert training_plan.budget_of(hard, STEADY).steps == 20_000_000
    training = hard.training.model_copy(update={"task": None})
    with pytest.raises(ProtocolError, match="does not say what a model is trained on"):
        training_plan.budget_of(hard.model_copy(update={"training": training}), STEADY)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"learner": "stedy"}, "Unknown learner 'stedy'.*Did you mean 'steady'"),
        ({"tasks": ["trsut"]}, "Unknown task 'trsut'.*Did you mean 'trust'"),
        ({"tasks": ["trust.beside"]}, "Unknown task 'trust.beside'"),
        ({"tasks": []}, r"tasks was \[\]; allowed: a list of some of trust, race"),
        ({"tasks": "trsut"}, "Unknown task 'trsut'.*Did you mean 'trust'"),
        ({"tasks": iter(())}, "tasks was .*; allowed: a list of some of trust, race"),
        ({"seeds": 5}, "seeds was 5; allowed: a list"),
        *(({"seeds": [s]}, rf"seeds were \[{s}\].*does not evaluate on") for s in (101, 201)),
        ({"seeds": [-1]}, "different whole numbers"),
        ({"steps": 20.0}, "steps was 20.0"),
        ({"lanes": 21}, "lanes was 21 with learner 'steady'.* up to 20, the interval"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_begins(protocol, tmp_path, how, words):
    arguments = {"learner": "steady", "out": tmp_path / "out"} | how
    with pytest.raises((ValueError, TypeError), match=words):
        coopbench.train(protocol, **arguments)
    assert not (tmp_path / "out").exists()
    assert not CALLS


def test_games_that_cannot_be_learned_are_named_first(tmp_path):
    file = trial(tmp_path, GAMES | {"race": {"env": "coopbench/SLCD-v1"}})
    with pytest.raises(ValueError, match="Steady cannot learn"):
        coopbench.train(file, "steady", tmp_path / "out")
    trial(tmp_path, GAMES | {"trust.beside": {"partners": ["tit_for_tat"]}})
    with pytest.raises(ValueError, match=r"Task 'trust\.beside' of trial-v1 has partners"):
        coopbench.train(file, "steady", tmp_path / "out")
    assert not (tmp_path / "out").exists()


SMALL = {"lanes": 4, "rollout": 20, "batch_size": 20, "epochs": 1, "layers": "8"}


@pytest.mark.slow("starts interpreters with torch")
def test_processes_come_to_the_same_runs(protocol, tmp_path, monkeypatch):
    monkeypatch.undo()  # workers know the learners of the package alone
    one = coopbench.train(protocol, "ippo", tmp_path / "one", tasks=["trust"], **SMALL)
    coopbench.train(
        protocol, "ippo", tmp_path / "two", tasks=["trust"], backend="processes", workers=2, **SMALL
    )
    assert len(cells(tmp_path / "one")) == 2 * 2 * 2
    assert cells(tmp_path / "one") == cells(tmp_path / "two")
    assert one.metadata[Cell("trust", "ippo", 5)]["hyperparameters"]["rollout"] == 20


def test_the_command_trains_reports_and_names_what_is_wrong(protocol, tmp_path, command):
    words, out = ("train", "trial.toml"), tmp_path / "out"
    printed = command(*words, "steady", "--task", "trust", "--set", "peak=20", "--out", out)
    assert "2 training runs of 60 steps, evaluated every 20" in printed.err
    assert "trust / steady / run 6" in printed.err
    assert "steps/s" in printed.err
    assert (out / "report.html").is_file()
    meta = builders.edit_meta(run_of(out, run=6))
    assert meta["hyperparameters"]["peak"] == 20
    for given, message in (
        (("steady", "--set", "peak"), "--set takes NAME=VALUE; given 'peak'"),
        (("stedy",), "Did you mean 'steady'"),
        (("steady", "--task", "trust"), "with other settings: peak 20 (now 40)"),
    ):
        assert message in command(*words, *given, "--out", out, status=2).message
    assert "steps at which it invests most" in command("show", "steady").out


@pytest.mark.parametrize(("name", "first"), [("ippo", 3_125), ("isac", 2_625)])
def test_a_budget_without_an_update_is_refused(name, first, tmp_path, monkeypatch):
    monkeypatch.undo()
    standard = load_protocol("coopetition-standard")

    def runs(steps):
        return training_plan.runs(standard, name, tmp_path, Scope(["slcd"], steps=steps), {})

    assert len(runs(first)) == len(standard.seeds.training)
    with pytest.raises(ValueError, match=rf"nothing in {first - 1:,} steps: .* after {first:,}\."):
        runs(first - 1)


def test_a_run_that_finished_too_few_episodes_to_learn_is_refused(tmp_path, monkeypatch):
    """How long episodes are is not known before they are played."""
    monkeypatch.undo()
    scope = {"tasks": ["trust-dilemma"], "seeds": [2000], "steps": 320}
    with pytest.raises(ValueError, match=r"'qmix_shared' learned nothing on 'trust-dilemma' in 32"):
        coopbench.train("marl-standard", "qmix_shared", tmp_path, **scope)
    assert not list(tmp_path.rglob("meta.json"))


def test_a_smoke_run_is_named_at_the_top_of_its_report(tmp_path):
    """In the terminal and on the page; a run that is only shorter than the budget is none."""
    budgets = {"on_policy": {"steps": 2400, "interval": 400}}
    training = builders.make_training(episodes=4, budgets=budgets)
    protocol = load_protocol(trial(tmp_path, training=training))
    report = train(protocol, tmp_path / "smoke", smoke=True)
    named = "the runs of steady are smoke runs of 24 steps, a hundredth of the budget"
    assert report.deviations[0].startswith(named)
    assert not [reason for reason in report.deviations if "checkpoints" in reason]
    _, verdict, reason = str(report).splitlines()[:3]
    assert verdict == "Smoke run. Not a standard report"
    assert reason.startswith(f"  - {named}")
    page = report.save(tmp_path / "report")["html"].read_text(encoding="utf-8")
    assert page.index("Smoke run") < page.index(named) < page.index("<table")
    short = train(protocol, tmp_path / "short", steps=400)
    assert "smoke" not in f"{short}{short.deviations}".lower()


@pytest.mark.parametrize("name", ["ippo", "isac_shared"])
def test_a_hundredth_of_the_budget_is_enough_to_learn_something(name, tmp_path, monkeypatch):
    monkeypatch.undo()
    entry, scope = registry.learners()[name], Scope(["trust-dilemma"], [2900], smoke=True)
    for protocol in map(load_protocol, ("coopetition-published", "coopetition-standard")):
        job = training_plan.runs(protocol, name, tmp_path, scope, {})[0]
        assert entry.first_update(entry.params(**job.settings)) <= job.budget.interval
    learner = registry.make_learner(name, job.task.env, job.task.parameters, 2900, **job.settings)
    report = learner.learn(job.budget.interval)
    assert {"policy_loss", "actor_loss"} & set(report)
