"""The script that trains a learner on one game."""

import pytest
from team_training import recorded

from coopbench.baselines import train_learner
from coopbench.baselines.networks.kinds import read_policy

BATTLE = "coopbench/Skirmish-v0"


def test_it_learns_in_intervals_as_it_is_told(tmp_path, monkeypatch):
    learners, games = recorded(train_learner, monkeypatch), []

    def score(policy, env_id, game, metric):
        games.append((env_id, game, metric))
        return "1.00"

    monkeypatch.setattr(train_learner, "score", score)
    words = ["--env", "Skirmish-v0", "--game", "map=8m", "--game", "horizon=9", "--metric", "win"]
    words += ["--set", "learning_rate=0.5", "--set", "layers=8x8", "--set", "recurrent=True"]
    words += ["--steps", "50", "--interval", "20", "--seed", "3"]
    train_learner.main([*words, "--out", str(tmp_path / "policy.npz")])
    (learner,) = learners
    assert (learner.targets, learner.seed) == ([20, 40, 50], 3)
    assert learner.parameters == {"map": "8m", "horizon": 9}
    assert learner.values == {"learning_rate": 0.5, "layers": "8x8", "recurrent": True}
    assert games == 4 * [(BATTLE, learner.parameters, "win")]
    assert read_policy((tmp_path / "policy.npz").read_bytes()).facts["seed"] == 50


def test_it_evaluates_in_the_game_of_the_training(monkeypatch):
    monkeypatch.setattr(train_learner, "EPISODES", 2)
    assert train_learner.score("attack_nearest", BATTLE, {"map": "3m"}, "win").split()[1] == "1.00"
    scores = {train_learner.score("random", BATTLE, {"map": name}, None) for name in ("3m", "8m")}
    assert len(scores) == 2
    with pytest.raises(ValueError, match=r"Unknown metric 'wins'.*Did you mean 'win'"):
        train_learner.score("random", BATTLE, {"map": "3m"}, "wins")


@pytest.mark.slow("thousands of steps")
def test_it_trains_compares_and_saves(tmp_path, capsys):
    file, game = tmp_path / "policy.npz", "coopbench/TrustDilemma-v1"
    script = ["--steps", "4096", "--interval", "2048", "--set", "layers=8x8", "--out", str(file)]
    train_learner.main(script)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[0] == "random"
    assert [line.split()[0] for line in lines[2:4]] == ["2,048", "4,096"]
    policy = read_policy(file.read_bytes())
    assert policy.facts["steps"] == 4096
    assert train_learner.score(policy, game, {}, None).split() == lines[3].split()[2:]
