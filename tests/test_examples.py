"""Examples: what they print, and that a seed decides it."""

import re
import runpy
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import coopbench

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
ROW = re.compile(r"(\w+) +(-?[\d.]+)  (-?[\d.]+) to (-?[\d.]+)")


@pytest.fixture
def run(monkeypatch, capsys):
    def printed(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return printed


def rows(text):
    """Mean, low and high by policy."""
    rows = [ROW.fullmatch(line) for line in text.splitlines()[1:]]
    return {row[1]: tuple(map(float, row.groups()[1:])) for row in rows if row is not None}


def focal_constant(actions, seeds):
    """Mean return of the seats k mod 2 of games seeded k, beside tit for tat, in Gymnasium."""
    returns = []
    for seed in range(seeds):
        game = gym.make(
            "coopbench/TrustDilemma-v1", control="focal", ego=seed % 2, partner="tit_for_tat"
        )
        game.reset(seed=seed)
        earned, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = game.step(actions)
            earned, over = earned + reward, terminated or truncated
        returns.append(earned)
    return np.mean(returns)


def test_the_table_of_one_seat_holds_three_policies(run):
    table_rows = rows(run("sb3_focal.py", "--steps", 0))
    assert list(table_rows) == ["ppo", "best_constant", "random"]
    for mean, low, high in table_rows.values():
        assert low <= mean <= high
    expected = focal_constant(np.zeros(1), 100)
    assert table_rows["best_constant"][0] == pytest.approx(expected, abs=0.005)
    assert table_rows["random"][0] < table_rows["best_constant"][0]


@pytest.mark.slow("a thousand episodes of three networks, twice")
@pytest.mark.parametrize(
    ("name", "steps"), [("sb3_parameter_sharing.py", 6400), ("cleanrl_ppo.py", 2000)]
)
def test_three_runs_come_into_a_report(run, name, steps, tmp_path):
    """One update each: enough to depend on the games, the network and the order of the rows."""
    first = run(name, "--steps", steps, "--out", tmp_path / "a")
    assert (
        run(name, "--steps", steps, "--out", tmp_path / "b").splitlines()[:-1]
        == (first.splitlines()[:-1])
    )
    policy, *others = rows(first)
    assert others == ["best_constant", "random"]
    text = (tmp_path / "a" / "report" / "report.md").read_text(encoding="utf-8")
    assert "n = 3" in text
    report = coopbench.load_report(tmp_path / "a")
    assert [block.cell.run for block in report.episodes if block.cell.policy == policy] == [
        *(1000, 1001, 1002)
    ]
    returns = [block.returns for block in report.episodes if block.cell.policy == policy]
    assert not np.array_equal(returns[0], returns[1])


def test_a_timed_submission_scores_every_episode(run):
    lines = run("timed_submission.py", "--task", "test_00").splitlines()
    scores = [
        float(re.fullmatch(r"test_00 \d: (\S+), \d+% arrived", line)[1]) for line in lines[:-1]
    ]
    assert len(scores) == 10
    assert -1 < min(scores) < max(scores) < 0
    first, second = re.fullmatch(r"Round 1: (\S+); Round 2: (\S+)", lines[-1]).groups()
    assert float(first) == pytest.approx(np.mean(scores), abs=1e-3)
    assert float(second) == pytest.approx(10 + sum(scores), abs=1e-2)
