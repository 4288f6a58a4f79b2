"""Pools of partners by name, and the reward that a protocol fixes for all learners."""

import numpy as np
import pytest
from team_training import rows_of

from coopbench.errors import ProtocolError
from coopbench.protocol.loading import load_protocol
from coopbench.workflows.training_plan import Scope, runs

POOLED = """
extends = "coopetition-published"
[protocol]
name = "mine"
[report]
learned = []
[pools]
strangers = ["random", "always_defect"]
[[task]]
id = "dilemma"
env = "coopbench/TrustDilemma-v0"
partners = {partners}
bounds = {{ low = 0.0, high = 1.0 }}
"""


def written(folder, partners):
    file = folder / "mine.toml"
    file.write_text(POOLED.format(partners=partners))
    return file


def test_the_name_of_a_pool_stands_for_its_partners(tmp_path):
    """The digest is that of a protocol that lists them."""
    named = load_protocol(written(tmp_path, '"strangers"'))
    listed = load_protocol(written(tmp_path, '["random", "always_defect"]'))
    assert named.task[0].partners == ("random", "always_defect")
    assert named.digest == listed.digest


def test_an_unknown_pool_is_refused_with_the_nearest_name(tmp_path):
    with pytest.raises(ProtocolError, match=r"'stranger'.*Did you mean 'strangers'"):
        load_protocol(written(tmp_path, '"stranger"'))


def test_pools_are_lists(tmp_path):
    file = written(tmp_path, '"strangers"')
    file.write_text(file.read_text().replace('["random", "always_defect"]', '"random"'))
    with pytest.raises(ProtocolError, match=r"'pools' takes a table"):
        load_protocol(file)


@pytest.mark.parametrize("name", ["coopetition-standard", "coopetition-team"])
def test_every_run_learns_from_the_reward_of_its_track(tmp_path, name):
    protocol = load_protocol(name)
    jobs = runs(protocol, "ippo", tmp_path, Scope(tasks=["trust-dilemma"]), {})
    assert {job.settings.get("reward", "own") for job in jobs} == {protocol.training.reward}


def test_the_reward_of_the_other_track_is_refused(tmp_path):
    protocol = load_protocol("coopetition-standard")
    with pytest.raises(ValueError, match=r"reward was 'team'.*trains every learner on 'own'"):
        runs(protocol, "ippo", tmp_path, Scope(tasks=["trust-dilemma"]), {"reward": "team"})


def test_the_team_reward_of_a_seat_is_the_mean_of_all():
    own, team = (rows_of("TrustDilemma-v1", lanes=4, reward=whose) for whose in ("own", "team"))
    actions = np.broadcast_to([[-1.0], [1.0]], (4, 2, 1))
    first, second = own.step(actions).rewards.T
    assert (first > second).all()
    for rewards in team.step(actions).rewards.T:
        np.testing.assert_allclose(rewards, (first + second) / 2, rtol=1e-6)
