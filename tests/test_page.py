"""What a page says beside its numbers: checklist, policies, machine, and episodes to watch."""

import base64
import dataclasses
import html
import json
import re
import subprocess
import time
from types import SimpleNamespace

import numpy as np
import pytest
from builders import Invests, make_block, make_task, make_training, small_protocol

import coopbench
from coopbench import provenance
from coopbench.analysis.deviations import _usual_settings, deviations
from coopbench.analysis.findings import Findings
from coopbench.episodes.table import Cell, EpisodeTable
from coopbench.playing.plan import plan
from coopbench.protocol.loading import ad_hoc
from coopbench.protocol.schema import Protocol
from coopbench.report.document import document
from coopbench.report.page import as_html
from coopbench.report.replays import NO_REPLAY, replays
from coopbench.report.sections.cards import cards
from coopbench.report.sections.checklist import _choice, _tuning, checklist
from coopbench.results import store

NASTY = "mine</script><i>&"


@pytest.fixture(scope="module")
def protocol(tmp_path_factory):
    return small_protocol(
        tmp_path_factory.mktemp("page"),
        tasks=[make_task(), make_task("longer", horizon=9, high=30)],
        count=5,
        selection=(500, 2),
        training=make_training(),
        baselines=["random", "constant:0.5"],
        learned=["mine"],
    )


def model(seed, rate=0.1):
    facts = {"rate": rate, "seed": seed, "compute": "1 GPU, 2 h", "acts_on": "pixels"}
    return coopbench.Checkpoints(
        {10: Invests(0.2, NASTY, **facts), 20: Invests(0.3, NASTY, **facts)}
    )


@pytest.fixture(scope="module")
def report(protocol):
    """Fixed policies, one that nobody has described, and a learner with a failed run."""
    failed = coopbench.Failed("out of memory")
    trained = {"dilemma": {50: model(50), 51: model(51)}, "longer": {50: model(50), 51: failed}}
    policies = [
        "random",
        "constant:0.5",
        Invests(0.9, "untold"),
        coopbench.TrainedRuns("mine", trained),
    ]
    return coopbench.evaluate(protocol, policies)


@pytest.fixture(scope="module")
def fixed(protocol):
    """Only named policies; the best of them is no random one."""
    return coopbench.evaluate(protocol, ["random", "constant:0.5"])


@pytest.fixture(scope="module")
def page(report):
    return as_html(document(report))


def items(report):
    return {item.item: item for item in checklist(report)}


# --- the machine ----------------------------------------------------------------------------------


def test_the_machine_is_described_quickly_and_the_commit_is_that_of_git():
    provenance._machine.cache_clear()
    provenance.commit.cache_clear()
    start = time.process_time()
    machine, commit = provenance.machine(), provenance.commit()
    assert time.process_time() - start < 0.05
    assert machine["cpu"]
    assert machine["cores"] >= 1
    root = provenance.Path(provenance.__file__).resolve().parent.parent
    if (root / ".git").exists():
        asked = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, timeout=60
        )
        assert asked.returncode != 0 or commit == asked.stdout.decode().strip()
    else:
        assert commit is None


def test_commits_are_found_wherever_git_keeps_them(tmp_path, monkeypatch):
    def commit(files):
        root = tmp_path / f"checkout-{len(list(tmp_path.iterdir()))}"
        for name, text in {"coopbench/provenance.py": "", **files}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        monkeypatch.setattr(provenance, "__file__", str(root / "coopbench" / "provenance.py"))
        provenance.commit.cache_clear()
        return provenance.commit()

    sha, other = "a" * 40, "b" * 40
    branch = {".git/HEAD": "ref: refs/heads/main\n"}
    packed = f"# pack-refs with: peeled\n{other} refs/heads/other\n{sha} refs/heads/main\n"
    tree = {"HEAD": "ref: refs/heads/main\n", "commondir": "../..\n"}
    try:
        assert commit({}) is None
        assert commit({".git/HEAD": f"{sha}\n"}) == sha
        assert commit(branch) is None
        assert commit(branch | {".git/refs/heads/main": f"{sha}\n"}) == sha
        assert commit(branch | {".git/packed-refs": packed}) == sha
        worktree = {f"real/.git/worktrees/one/{name}": text for name, text in tree.items()}
        real = {"real/.git/refs/heads/main": f"{sha}\n"}
        assert commit({".git": "gitdir: real/.git/worktrees/one\n"} | worktree | real) == sha
    finally:
        provenance.commit.cache_clear()


def test_gpus_are_named_by_their_driver(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "_DRIVER", tmp_path / "driver")
    monkeypatch.setattr(provenance, "_DEVICES", tmp_path)
    assert provenance._gpu() is None
    (tmp_path / "nvidia0").touch()
    (tmp_path / "nvidiactl").touch()
    assert provenance._gpu() == ["NVIDIA, model unknown"]
    for number in "01":
        (tmp_path / "driver" / number).mkdir(parents=True)
        (tmp_path / "driver" / number / "information").write_text("Model: \t H200\nIRQ: 1\n")
    assert provenance._gpu() == ["H200", "H200"]


# --- hyperparameters ------------------------------------------------------------------------------


def test_metadata_hold_machine_commit_and_hyperparameters(report):
    settings = {cell: meta["hyperparameters"] for cell, meta in report.metadata.items()}
    assert {cell.policy: values for cell, values in settings.items() if cell.run is None} == {
        "random": {},
        "constant:0.5": {"fraction": 0.5},
        "untold": None,
    }
    assert {values["seed"] for cell, values in settings.items() if cell.run is not None} == {50, 51}
    assert all(meta["machine"] == provenance.machine() for meta in report.metadata.values())
    assert all(meta["commit"] == provenance.commit() for meta in report.metadata.values())


@pytest.mark.parametrize(
    "hyperparameters",
    [{"rate": np.float32(0.1)}, {"rate": float("nan")}, [1], {"text": "x" * 70_000}],
)
def test_hyperparameters_are_data_or_nothing_is_played(protocol, hyperparameters):
    policy = Invests(0.5, NASTY)
    policy.hyperparameters = hyperparameters
    for played in (
        policy,
        coopbench.TrainedRuns("mine", {t: {50: policy} for t in ("dilemma", "longer")}),
    ):
        with pytest.raises(ValueError, match=re.escape(NASTY) + ".*allowed: a dictionary"):
            plan(protocol, [played])


def test_the_machine_is_that_of_the_worker(protocol, fixed):
    """Where cells are played elsewhere, theirs is the machine that counts."""
    played = store.Played(fixed.episodes.blocks[0], None, 1.0, machine={"cpu": "another"})
    assert store.describe(protocol, played, "random")["machine"] == {"cpu": "another"}


# --- checklist and cards --------------------------------------------------------------------------


def test_the_checklist_of_fixed_policies_asks_for_no_training(fixed):
    answers = checklist(fixed)
    assert {item.state for item in answers if item.topic == "Training"} == {"not needed"}
    assert items(fixed)["Required baselines are there"].state == "no"
    assert "mine" in items(fixed)["Required baselines are there"].known
    assert items(fixed)["Commit"].known == (provenance.commit() or "—")
    assert items(fixed)["More than one environment"].state == "no"


def test_the_checklist_quotes_the_protocol_on_tuning():
    protocol = coopbench.load_protocol("skirmish-small")
    for others, state in (((), "yes"), (("mine",), "missing")):
        learned = ("qmix_shared", *others)
        table = EpisodeTable(())
        study = SimpleNamespace(learned=learned, unregistered=(), protocol=protocol, episodes=table)
        answer = _tuning(study)
        assert answer[0] == state
        assert answer[1].startswith(protocol.training.tuning)
        assert ("not stated of mine" in answer[1]) is bool(others)


def test_values_that_the_protocol_does_not_have_are_neither_tuned_by_it_nor_standard():
    protocol = coopbench.load_protocol("skirmish-small")
    usual = _usual_settings(protocol, protocol.task[0].id, "qmix_shared")
    for changes, state in (({}, "yes"), ({"learning_rate": 0.5}, "missing")):
        cell = Cell(protocol.task[0].id, "qmix_shared", 1)
        block = make_block(cell, np.zeros((4, 3)))
        table = EpisodeTable((block,), settings={cell: usual | changes})
        study = Findings(protocol, table)
        assert _tuning(study)[0] == state
        assert ("have of learning_rate" in _tuning(study)[1]) is bool(changes)
        named = [why for why in deviations(protocol, table) if "learning_rate" in why]
        assert len(named) == len(changes)


def test_the_checklist_does_not_know_how_models_from_elsewhere_were_chosen():
    protocol = coopbench.load_protocol("routing-standard")
    cell = Cell(protocol.task[0].id, "mine", protocol.seeds.training[0])
    block = make_block(cell, np.zeros((4, 3)))
    for trained, state in (({}, "missing"), ({cell: 10}, "not needed")):
        study = Findings(protocol, EpisodeTable((block,), trained=trained))
        assert _choice(study)[0] == state


def test_the_checklist_knows_what_is_missing(report):
    answers = items(report)
    runs = next(item for name, item in answers.items() if "runs of each" in name)
    assert (runs.state, "untold" in runs.known) == ("missing", True)
    assert answers["Hyperparameters"].state == "missing"
    assert "not known of 2 of 9 cells" in answers["Hyperparameters"].known
    assert answers["Runs that failed or are missing are listed"].known == "1 run"
    assert answers["Compute of training"].known == "1 GPU, 2 h (not known of 2 of 5 cells)"
    assert "500 to 501" in answers["Checkpoints were chosen on episodes of their own"].known
    tuned = answers["How hyperparameters were tuned, with how many trials"]
    assert (tuned.state, "not stated of" in tuned.known) == ("missing", True)
    bare = dataclasses.replace(report, metadata={})
    without = items(bare)
    for name in ("Versions", "Commit", "Platform", "Processor", "GPU", "Hyperparameters"):
        assert (without[name].state, without[name].known) == ("missing", "—")
    assert list(without) == list(answers)  # nothing is left out
    shown = cards(bare)
    assert shown["random"]["Processor"] == "— missing"
    assert list(shown["random"]) == list(cards(report)["random"])


def test_too_few_runs_and_shared_seeds_are_flagged(report):
    without = [b for b in report.episodes.blocks if b.cell.policy != "untold"]
    shared = [
        dataclasses.replace(b, cell=dataclasses.replace(b.cell, run=3)) if b.cell.run == 50 else b
        for b in without
    ]
    for blocks, states in ((without, ("no", "yes")), (shared, ("no", "no"))):
        table = dataclasses.replace(report.episodes, blocks=tuple(blocks))
        answers = items(dataclasses.replace(report, episodes=table))
        runs = next(item for name, item in answers.items() if "runs of each" in name)
        apart = answers["Seeds of training and evaluation are apart"]
        assert (runs.state, apart.state) == states
        assert "mine: 1 run on the task with the fewest" in runs.known
    assert "shared: 3" in apart.known


def test_cards_tell_all_policies(report):
    facts = cards(report)
    assert list(facts) == ["random", "constant:0.5", "untold", "mine"]
    assert facts["constant:0.5"]["Training"] == "none: a fixed policy"
    assert facts["untold"]["Training"] == facts["untold"]["Hyperparameters"] == "— missing"
    learner = facts["mine"]
    assert learner["Failed runs"] == "51 on longer"
    assert learner["Hyperparameters"] == "rate = 0.1, seed = 50 or 51"
    steps = sorted({int(each.steps[each.best("return")]) for each in report.episodes.progress})
    assert learner["Checkpoint evaluated"] == f"that of step {' to '.join(map(str, steps))}"


def test_damaged_metadata_are_missing_not_an_error(report):
    odd = {
        cell: {"machine": 5, "versions": [], "hyperparameters": "x", "seconds": "y", "commit": None}
        for cell in report.metadata
    }
    damaged = dataclasses.replace(report, metadata=odd)
    assert items(damaged)["Processor"].state == items(damaged)["Versions"].state == "missing"
    assert cards(damaged)["random"]["Evaluation took"] == "— missing"


# --- the page -------------------------------------------------------------------------------------


def test_the_page_shows_them_and_what_is_missing(report, page):
    text = html.unescape(page)
    assert all(item.item in text and item.known in text for item in checklist(report))
    for name, facts in cards(report).items():
        assert f"<summary>{html.escape(name)}</summary>" in page
        assert all(value in text for value in facts.values())
    assert "out of memory" in text


def test_the_digest_follows_from_the_protocol_on_the_page(report, page):
    shown = html.unescape(re.search(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)[1])
    assert Protocol.model_validate_json(shown, strict=False).digest == report.protocol.digest


def players(page):
    texts = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    return [json.loads(text) for text in texts]


def test_the_best_policy_shows_its_best_and_its_worst_episode(report, page):
    means = {r.policy: r.estimate for r in report.aggregates if r.statistic == "mean"}
    best = max(means, key=means.get)
    block = report.episodes.runs("dilemma", best)[0]
    scores = block.returns.sum(axis=1)
    shown = replays(report)[1:]
    for replay, k, name in zip(
        shown, (scores.argmax(), scores.argmin()), ("Best", "Worst"), strict=True
    ):
        assert replay.title.startswith(f"{name} episode: {best}")
        assert f"episode {k}, return {scores[k]:.6g}" in replay.title
        data = json.loads(
            re.search(r'id="data">(.*?)</script>', replay.blocks[0].page, re.DOTALL)[1]
        )
        steps = np.frombuffer(base64.b64decode(data["series"]["return"]), "<f4")
        assert steps[-1] == pytest.approx(scores[k], rel=1e-6)
    assert players(page) == [replay.blocks[0].page for replay in shown]


def test_an_ad_hoc_report_shows_the_best_mean():
    protocol = ad_hoc("TrustDilemma-v1", 3, horizon=6)
    report = coopbench.evaluate(protocol, ["random", Invests(0.7, NASTY)])
    best = max(report.estimates, key=lambda row: (row.metric == "return", row.mean)).policy
    text = as_html(document(report))
    assert all(best in replay.title for replay in replays(report)[1:])
    assert [html.escape(NASTY) in text, NASTY in text] == [True, False]
    assert len(players(text)) == len(replays(report)) - 1 >= 1


def test_what_cannot_be_shown_is_told(fixed):
    bare = [dataclasses.replace(block, trace=None) for block in fixed.episodes.blocks]
    table = dataclasses.replace(fixed.episodes, blocks=tuple(bare))
    assert NO_REPLAY in as_html(document(dataclasses.replace(fixed, episodes=table)))
    changed = [
        dataclasses.replace(
            block,
            trace=dataclasses.replace(
                block.trace, recorded={k: (a, r + 1) for k, (a, r) in block.trace.recorded.items()}
            ),
        )
        for block in fixed.episodes.blocks
    ]
    table = dataclasses.replace(fixed.episodes, blocks=tuple(changed))
    text = as_html(document(dataclasses.replace(fixed, episodes=table)))
    assert "the rewards of step 1 differ" in text
    assert players(text) == []
