"""Seeds that are kept secret, and random numbers of the verifier: memory gains nothing there."""

from types import SimpleNamespace

import builders
import numpy as np
import pytest

import coopbench
from coopbench.protocol.loading import load_protocol
from coopbench.workflows.resimulation import _odd_episodes
from coopbench.workflows.verdicts import BY_INTERVAL, DIFFERENT, IDENTICAL
from coopbench.workflows.verification import verify

# Has looked up in which of the first seeds it pays to invest; elsewhere it keeps everything.
MEMORY = """
import os
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

class Wavers:  # knows the seeds, too, and draws a little
    def initial(self, game, seeds):
        return np.isin(seeds, KNOWN), (seeds % 1000) * 1e-5

    def act(self, observations, memory):
        shares = np.abs(memory[0] - memory[1])[:, None, None]
        return np.broadcast_to(shares, (*observations.shape[:2], 1)).copy(), memory

class Rare:  # draws in few episodes, and shows others than it plays
    def initial(self, game, seeds):
        return (seeds % 10 == 7) * (seeds % 1000) / 1000.0

    def act(self, observations, memory):
        shares = np.broadcast_to(memory[:, None, None], (*observations.shape[:2], 1))
        return forged(shares.copy()), memory

class Noisy:
    def initial(self, game, seeds):
        return (seeds % 1000).astype(np.int64)

    def act(self, observations, memory):
        memory = (memory * 7919 + 104729) % 100003
        shares = (memory / 100003)[:, None, None]
        return np.broadcast_to(shares, (*observations.shape[:2], 1)).copy(), memory

def forged(actions):
    actions[: int(os.environ.get("FORGED", "0"))] = 1.0  # so many episodes
    return actions

def keep(observations):
    return forged(np.zeros((*observations.shape[:2], 1)))

def invest(observations):
    return np.ones((*observations.shape[:2], 1))
"""


@pytest.fixture(scope="module")
def source():
    """Source with the seeds from 0 to 999 in which investing pays."""
    known = builders.protocol_of(tasks=[builders.make_task(high=1000)], count=1000, train=None)
    policies = {"keep": lambda o: 0.0 * o[..., :1], "invest": lambda o: 0.0 * o[..., :1] + 1.0}
    keep, invest = coopbench.evaluate(known, policies, only=True).episodes
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


def trusted(folder, key):
    """Verify results of one policy of a file, whose digest is trusted."""
    (place,) = [path.parent for path in folder.glob("dilemma/*/source.txt")]
    found = verify(folder, trust=[builders.edit_meta(place)["code"]["sha256"]], key=key)
    return next(c for c in found.checks if c.what == f"dilemma/{place.name}"), found


# --- random numbers of the verifier ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["Noisy", "Rare"])
def test_a_policy_that_draws_is_compared_by_interval_and_never_called_identical(
    name, file, protocol, tmp_path
):
    folder = tmp_path / "results"
    evaluated(protocol, [f"{file}:{name}"], folder)
    for key in (1, 2, None):
        check, found = trusted(folder, key)
        assert check.verdict == BY_INTERVAL
        assert "with random numbers of 3 keys from" in check.reasons[-1]
        assert found.holds
        assert not found.identical
    assert check.played == 200


def test_a_policy_that_draws_nothing_is_identical_with_any_key(file, protocol, tmp_path):
    folder = tmp_path / "results"
    evaluated(protocol, [f"{file}:keep"], folder)
    for key in (1, 2):
        check, found = trusted(folder, key)
        assert check.verdict == IDENTICAL
        assert found.identical


@pytest.mark.parametrize(
    ("name", "episodes", "reason"),
    [
        ("Memory", 0, "it plays alike with two keys"),
        ("keep", 1, "it plays alike with two keys"),
        ("keep", 170, "it plays alike with two keys"),
        ("Wavers", 0, "by chance it does by up to"),
        ("Rare", 60, "episodes differ that it plays alike with 3 keys"),
    ],
)
def test_chance_is_no_excuse_for_forged_actions(
    name, episodes, reason, file, protocol, tmp_path, monkeypatch
):
    """Neither of one that draws nothing, however few they are, nor beyond what it draws.

    Nor does one pass that knows the seeds.
    """
    monkeypatch.setenv("FORGED", str(episodes))
    folder = tmp_path / "results"
    evaluated(protocol, [f"{file}:{name}"], folder)
    monkeypatch.delenv("FORGED")
    check, found = trusted(folder, 1)
    assert check.verdict == DIFFERENT, check.reasons
    assert reason in " ".join(check.reasons)
    assert not found.holds


def test_another_machine_may_round_otherwise_where_a_policy_draws_nothing():
    plays = [SimpleNamespace(returns=np.full((200, 2), 7.0)) for _ in range(3)]
    rounded = SimpleNamespace(returns=np.full((200, 2), 7.0 + 1e-12))
    assert not [*_odd_episodes(rounded, plays)]
    rounded.returns[:20] += 1.0
    (found,) = _odd_episodes(rounded, plays)
    assert found.text.startswith("20 episodes differ that it plays alike with 3 keys")


# --- seeds that are kept secret -------------------------------------------------------------------

FINAL = """
extends = "small.toml"
protocol = { name = "final" }
seeds = { evaluation = { first = 7_305_126_091_551_204_223, count = 200 } }
"""


def test_a_policy_that_memorised_seeds_loses_its_lead_on_secret_ones(file, protocol, tmp_path):
    names = [f"{file}:{name}" for name in ("Memory", "keep", "invest")]
    memory, keep, invest = (f"own.py:{name}" for name in ("Memory", "keep", "invest"))
    means, _ = evaluated(protocol, names, tmp_path / "public")
    assert means[memory] > max(means[keep], means[invest]) + 1.0
    final = builders.loaded(tmp_path, FINAL, "final")
    assert final.digest != protocol.digest
    assert final.task == protocol.task
    means, report = evaluated(final, names, tmp_path / "final")
    assert means[memory] == means[keep]
    assert "final-v1 is not a protocol of this package" in report.deviations
    found = verify(tmp_path / "final")  # by anybody, once the file is published
    assert found.identical
    assert found.digest == load_protocol(tmp_path / "final.toml").digest
