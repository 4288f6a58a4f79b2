"""The exporter by itself, and by the ending of a file."""

import json
from pathlib import Path

import coopbench
from coopbench.exchange.exports import exporter_of


def test_an_ending_writes_a_line_for_each_episode(tmp_path):
    report = coopbench.evaluate("coopbench/TrustDilemma-v1", ["random", "cooperator"], episodes=3)
    file = tmp_path / "episodes.jsonl"
    assert exporter_of(Path("EPISODES.JSONL"))(report, file, {"random": "chance"}, ["return"]) == ()
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [(row["policy"], row["episode"], row["seed"]) for row in rows] == [
        ("chance", episode, episode) for episode in range(3)
    ]
    returns = report.episodes.of(rows[0]["task"], "random").team_returns
    assert [row["return"] for row in rows] == returns.tolist()
    assert set(rows[0]) == {"task", "policy", "run", "episode", "seed", "return"}
