"""Shipped policies: trained ones as data of the package, named with the digest of their files."""

import hashlib
import re

import builders
import numpy as np
import pytest
from test_network import network, policy

import coopbench
from coopbench.baselines.game import Game
from coopbench.baselines.networks import shipped
from coopbench.baselines.registry import hyperparameters, learners, make_policy
from coopbench.errors import ProtocolError
from coopbench.protocol.loading import load_protocol
from coopbench_envs.parameters import resolve
from studies import partners

NETWORK = policy(network(features=7))


@pytest.fixture
def name(tmp_path, monkeypatch):
    """The name of a policy that is shipped beside the others, with its digest."""
    folder = builders.copied(shipped.shipped_folder(), tmp_path / "partners")
    files = {"TrustDilemma-v1": NETWORK.pack()}
    (folder / "tiny.npz").write_bytes(shipped.written(files))
    monkeypatch.setattr(shipped, "shipped_folder", lambda: folder)
    return f"shipped:tiny,{shipped.shipped_digest(files)[:12]}"


def beside(folder, *partners):
    """A protocol with a task that is played beside these partners."""
    return builders.small_protocol(folder, tasks=[builders.make_task(partners=list(partners))])


def actions(made):
    """First actions of a policy on one observation of TrustDilemma."""
    game = Game.at(builders.TRUST)
    observations = np.linspace(0.0, 1.0, 14, dtype=np.float32).reshape(1, 2, 7)
    return made.act(observations, made.initial(game, np.zeros(1, np.uint64)), None)[0]


def test_the_file_of_the_game_is_played(name):
    made = make_policy(name, Game.at(builders.TRUST))
    np.testing.assert_array_equal(actions(made), actions(NETWORK))


def test_the_digest_covers_names_and_contents_of_all_files(name, tmp_path):
    files = shipped.read_files(tmp_path / "partners" / "tiny.npz")
    content = hashlib.sha256(NETWORK.pack()).hexdigest()
    whole = hashlib.sha256(f"TrustDilemma-v1.npz {content}\n".encode()).hexdigest()
    assert shipped.shipped_digest(files) == whole
    assert shipped.shipped_digest(files | {"SLCD-v1": NETWORK.pack()}) != whole


@pytest.mark.parametrize("digest", ["", ",123456789012"])
def test_a_wrong_digest_is_refused_with_the_right_one(name, digest):
    right = re.escape(name)
    with pytest.raises(ValueError, match=rf"digest '{digest[1:]}'; this package has '{right}"):
        make_policy(f"shipped:tiny{digest}", Game.at(builders.TRUST))


def test_an_unknown_policy_is_refused_with_the_nearest_name(name):
    with pytest.raises(ValueError, match=r"Unknown shipped policy 'tinny'.*'tiny'"):
        make_policy(name.replace("tiny", "tinny"), Game.at(builders.TRUST))


def test_a_game_without_a_file_is_refused_with_those_that_have_one(name):
    with pytest.raises(ValueError, match=r"cannot play coopbench/SLCD-v1; it plays TrustDilemma"):
        make_policy(name, Game.at("coopbench/SLCD-v1"))


def test_protocols_name_them_in_pools_and_their_digest_covers_the_content(name, tmp_path):
    protocol = beside(tmp_path, "cooperator", name)
    assert protocol.task[0].partner_names == ("cooperator", name)
    files = shipped.read_files(tmp_path / "partners" / "tiny.npz")
    longer = name + shipped.shipped_digest(files)[12:14]
    assert beside(tmp_path, "cooperator", longer).digest != protocol.digest
    with pytest.raises(ProtocolError, match=r"this package has 'shipped:tiny,"):
        beside(tmp_path, "shipped:tiny,000000000000")


def test_trained_partners_by_folder_stay_refused(name, tmp_path):
    with pytest.raises(ProtocolError, match=r"does not cover; allowed: .*shipped:NAME,DIGEST"):
        beside(tmp_path, "ippo:results/run-1")


def test_episodes_with_them_are_played_and_verified(name, tmp_path):
    protocol = beside(tmp_path, "cooperator", name)
    coopbench.evaluate(protocol, ["always_defect", name], out=tmp_path / "results")
    assert coopbench.verify(tmp_path / "results").identical
    assert hyperparameters(name)["name"] == "tiny"


@pytest.mark.parametrize("partner", partners.PARTNERS, ids=lambda partner: partner.name)
def test_the_settings_of_every_training_are_those_of_its_learner(partner):
    settings = partner.hyperparameters()
    resolved = resolve(learners()[partner.learner].params, settings, partner.name)
    assert settings.items() <= resolved._asdict().items()


def test_the_package_loads_what_it_ships():
    """Every shipped policy has a file for each game of the standard protocol, and fits it."""
    protocol = load_protocol("coopetition-standard")
    tasks = [task for task in protocol.trained_tasks if not task.partners]
    for file in shipped.shipped_folder().glob("*.npz"):
        for task in tasks:
            made = f"shipped:{file.stem},{shipped.shipped_digest(shipped.read_files(file))[:12]}"
            make_policy(made, Game.at(task.env, **task.parameters))
