"""Late seeds and random numbers of the verifier: memorised public seeds gain nothing there."""

import json

import builders
import numpy as np
import pytest

import coopbench
from coopbench.cli.main import app
from coopbench.errors import ProtocolError
from coopbench.files import digest_of
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.variants import with_late_seeds
from coopbench.results.protocol_file import read_protocol
from coopbench.workflows.late import FILE, commit
from coopbench.workflows.verdicts import BY_INTERVAL, DIFFERENT, IDENTICAL
from coopbench.workflows.verification import verify

DRAND = "drand round 4242: 8f3ab1"
# Has looked up in which of the first seeds it pays to invest; elsewhere it keeps everything.
MEMORY = """
import numpy as np
from coopbench_envs.core import streams

PAYS = np.array([SEEDS], np.uint64)
KNOWN = streams(PAYS, np.zeros(len(PAYS), np.int64), salt=1)

class Memory:
    def initial(self, game, seeds):
        return np.isin(seeds, KNOWN)

    def act(self, observations, known):
        shares = np.where(known, 1.0, 0.0)[:, None, None]
        return np.broadcast_to(shares, (*observations.shape[:2], 1)).copy(), known

class Noisy:
    def initial(self, game, seeds):
        return (seeds % 1000).astype(np.int64)

    def act(self, observations, memory):
        memory = (memory * 7919 + 104729) % 100003
        shares = (memory / 100003)[:, None, None]
        return np.broadcast_to(shares, (*observations.shape[:2], 1)).copy(), memory

def keep(observations):
    return np.zeros((*observations.shape[:2], 1))

def invest(observations):
    return np.ones((*observations.shape[:2], 1))
"""


@pytest.fixture(scope="module")
def source():
    """Source with the seeds from 0 to 999 in which investing pays."""
    known = builders.protocol_of(tasks=[builders.make_task(high=1000)], count=1000, train=None)
    policies = {"keep": lambda o: 0.0 * o[..., :1], "invest": lambda o: 0.0 * o[..., :1] + 1.0}
    keep, invest = coopbench.evaluate(known, policies).episodes
    seeds = np.flatnonzero(invest.team_returns > keep.team_returns)
    return MEMORY.replace("SEEDS", ", ".join(map(str, seeds)))


@pytest.fixture
def file(source, tmp_path):
    path = tmp_path / "own.py"
    path.write_text(source)
    return path


@pytest.fixture
def protocol(tmp_path):
    task = builders.make_task(high=1000)
    return load_protocol(builders.protocol_file(tmp_path, tasks=[task], train=None, count=200))


def evaluated(protocol, policies, folder, **options):
    report = coopbench.evaluate(protocol, policies, folder, **options)
    score = protocol.report.score
    return {r.policy: r.mean for r in report.estimates if r.metric == score}, report


def trusted(folder, name, **options):
    meta = json.loads((folder / "dilemma" / name / "meta.json").read_text())
    found = verify(folder, trust=[meta["code"]["sha256"]], **options)
    return {check.what: check for check in found.checks}[f"dilemma/{name}"], found


# --- random numbers of the verifier ---------------------------------------------------------------


def test_a_policy_that_knows_the_seeds_does_not_pass_with_other_random_numbers(
    file, protocol, tmp_path
):
    folder = tmp_path / "results"
    evaluated(protocol, [f"{file}:Memory"], folder)
    check, found = trusted(folder, _place(folder), key=1)
    assert check.verdict == DIFFERENT
    assert "with random numbers of the key 1 its mean return differs by -" in check.reasons[-1]
    assert not found.holds


def test_a_policy_that_draws_is_compared_by_interval_and_never_called_identical(
    file, protocol, tmp_path
):
    folder = tmp_path / "results"
    evaluated(protocol, [f"{file}:Noisy"], folder)
    for key in (1, 2, None):
        check, found = trusted(folder, _place(folder), key=key)
        assert check.verdict == BY_INTERVAL
        assert found.holds
        assert not found.identical
    assert check.played == 200


def test_a_policy_that_draws_nothing_is_identical_with_any_key(file, protocol, tmp_path):
    folder = tmp_path / "results"
    evaluated(protocol, [f"{file}:keep"], folder)
    for key in (1, 2):
        check, found = trusted(folder, _place(folder), key=key)
        assert check.verdict == IDENTICAL
        assert found.identical


def _place(folder):
    (place,) = [path.parent.name for path in folder.glob("dilemma/*/source.txt")]
    return place


# --- late seeds -----------------------------------------------------------------------------------


def test_a_policy_that_memorised_seeds_loses_its_lead_on_late_ones(file, protocol, tmp_path):
    early, late = tmp_path / "early", tmp_path / "late"
    names = [f"{file}:{name}" for name in ("Memory", "keep", "invest")]
    means, _ = evaluated(protocol, names, early)
    memory, keep, invest = (f"own.py:{name}" for name in ("Memory", "keep", "invest"))
    assert means[memory] > max(means[keep], means[invest]) + 1.0
    committed, digest = commit(early)
    assert digest == digest_of(committed.read_bytes())
    means, report = evaluated(protocol, names, late, late=committed, beacon=DRAND)
    assert means[memory] == means[keep]
    assert any(digest[:12] in text and DRAND in text for text in report.deviations)
    played = read_protocol(late)
    assert played.seeds.evaluation.first > 1000
    assert played == with_late_seeds(protocol, digest, DRAND)
    found = verify(late)
    assert found.identical
    assert {check.what for check in found.checks} >= {FILE}


def test_the_seeds_follow_from_both_and_nobody_can_choose_them(protocol):
    digest = "0" * 63
    firsts = {
        with_late_seeds(protocol, digest + last, beacon).seeds.evaluation.first
        for last in "01"
        for beacon in ("a", "b")
    }
    assert len(firsts) == 4
    content = with_late_seeds(protocol, digest + "0", "a").model_dump(mode="json")
    content["seeds"]["evaluation"]["first"] += 1
    with pytest.raises(ValueError, match="follows from the commitment"):
        type(protocol).model_validate(content, strict=False)


@pytest.mark.parametrize("beacon", ["", "  ", "a\nb", "x" * 501, "\x1b[2J"])
def test_beacons_that_cannot_be_shown_are_refused(protocol, beacon):
    with pytest.raises(ProtocolError, match="1 to 500 printable"):
        with_late_seeds(protocol, "0" * 64, beacon)


def test_only_who_was_committed_to_plays_late(file, protocol, tmp_path):
    early = tmp_path / "early"
    evaluated(protocol, [f"{file}:keep"], early)
    evaluated(protocol, {"steady": f"{file}:keep"}, early)
    committed, _ = commit(early, tmp_path / "c.json")
    options = {"late": committed, "beacon": DRAND}
    with pytest.raises(ValueError, match=r"'steady' .*, 'invest' in its source, was not committed"):
        coopbench.evaluate(protocol, {"steady": f"{file}:invest"}, **options)
    with pytest.raises(ValueError, match=r"'own.py:Memory' with digest .* was not committed to"):
        coopbench.evaluate(protocol, [f"{file}:Memory"], tmp_path / "late", **options)
    with pytest.raises(ValueError, match="with digest None was not committed to"):
        coopbench.evaluate(protocol, {"own.py:keep": lambda o: o[..., :1]}, **options)
    with pytest.raises(ValueError, match="late goes with a beacon"):
        coopbench.evaluate(protocol, ["random"], late=committed)
    other = with_late_seeds(protocol, "0" * 64, "a")
    with pytest.raises(ValueError, match="The commitment is to small-v1 with digest"):
        coopbench.evaluate(other, ["random"], **options)
    file.write_text(file.read_text() + "\n# edited after the commitment\n")
    with pytest.raises(ValueError, match=r"was not committed to; committed: own\.py:keep"):
        coopbench.evaluate(protocol, [f"{file}:keep"], **options)
    assert not (tmp_path / "late").exists()


def test_a_late_folder_without_its_commitment_or_of_others_is_no_verified_one(
    file, protocol, tmp_path
):
    early, late = tmp_path / "early", tmp_path / "late"
    evaluated(protocol, [f"{file}:keep"], early)
    committed, _ = commit(early)
    evaluated(protocol, [f"{file}:keep"], late, late=committed, beacon=DRAND)
    coopbench.merge([late], tmp_path / "merged")
    assert verify(tmp_path / "merged").identical
    content = json.loads((late / FILE).read_text())
    ((name, (identity,)),) = content["policies"].items()
    for policies, reason in (
        ({"other": ["0" * 64]}, "was not committed to"),
        ({name: [identity.replace("keep", "invest")]}, "'keep' in its source, was not committed"),
        ({}, "is not a commitment"),
        (content["policies"], "not the one from which the seeds follow"),
    ):
        (late / FILE).write_text(json.dumps(content | {"policies": policies}))
        checks = {check.what: check for check in verify(late).checks}
        assert checks[FILE].verdict == DIFFERENT
        assert reason in " ".join(checks[FILE].reasons)
    (late / FILE).unlink()
    assert "missing" in " ".join(c.reasons[0] for c in verify(late).checks if c.what == FILE)
    with pytest.raises(ValueError, match=r"No folder holds the commitment\.json .* copy that file"):
        coopbench.merge([late], tmp_path / "again")


def test_commitments_to_nobody_or_to_objects_are_refused(file, protocol, tmp_path):
    folder = tmp_path / "results"
    evaluated(protocol, ["random"], folder)
    with pytest.raises(ValueError, match="no policies but those of this package"):
        commit(folder)
    evaluated(protocol, {"mine": lambda observations: observations[..., :1] * 0}, folder)
    with pytest.raises(ValueError, match="neither weights nor source of 'mine'"):
        commit(folder)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        commit(tmp_path / "nowhere")
    assert not (folder / FILE).exists()


def test_the_commands_commit_and_evaluate_late(file, protocol, tmp_path, capsys, written_reports):
    source = tmp_path / "small.toml"
    early, late = tmp_path / "early", tmp_path / "late"
    policy = ["--policy", f"{file}:keep"]
    app(["evaluate", str(source), *policy, "--out", str(early)], standalone_mode=False)
    app(["commit", str(early)], standalone_mode=False)
    shown = capsys.readouterr().out
    digest = digest_of((early / FILE).read_bytes())
    assert f"Digest to publish: {digest}" in shown
    options = ["--late", str(early / FILE), "--beacon", DRAND, "--out", str(late)]
    app(["evaluate", str(source), *policy, *options], standalone_mode=False)
    assert read_protocol(late).seeds.late.beacon == DRAND
    page = (late / "report.md").read_text()
    assert DRAND in page
    assert digest in page
    with pytest.raises(FileExistsError, match="a commitment is not edited"):
        commit(early)


def trained(policy):
    facts = {"task": "dilemma", "steps": 20, "interval": 20, "chosen_step": 20, "seconds": 1.0}
    return coopbench.Trained(policy, None, facts)


def test_a_trained_run_is_committed_to_by_its_weights(protocol, tmp_path):
    early, late = tmp_path / "early", tmp_path / "late"
    runs = {50: trained(builders.random_network())}
    evaluated(protocol, [coopbench.Models("ippo", runs)], early)
    committed, _ = commit(early)
    evaluated(protocol, [coopbench.Models("ippo", runs)], late, late=committed, beacon=DRAND)
    assert verify(late).identical
    other = {50: trained(builders.random_network(seed=1))}
    with pytest.raises(ValueError, match=r"'ippo' with digest .* was not committed to"):
        coopbench.evaluate(
            protocol, [coopbench.Models("ippo", other)], late=committed, beacon=DRAND
        )
