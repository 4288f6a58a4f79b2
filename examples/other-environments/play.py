"""Evaluate and verify environments of other packages: MPE2, POGEMA and Gymnasium's CartPole.

    python examples/other-environments/play.py

See docs/any-environment.md. Every evaluation is checked here: `make interop-envs` runs this file.
"""

import tempfile
from pathlib import Path

import numpy as np

import coopbench

POGEMA = f"pettingzoo:{Path(__file__).with_name('pogema_environment.py')}:grid"
GRID = {"num_agents": 4, "size": 8, "max_episode_steps": 32}


def still(observations):
    """Choose the first action for every agent, which is to do nothing in all of these games."""
    return np.zeros(observations.shape[:2], np.int64)


def by_name(observations):
    """Do nothing where agents have different observations: dictionaries {agent: observation}."""
    agents = list(observations[0])
    return np.zeros((len(observations), len(agents) or 2), np.int64)


def played(name, policy, folder, **options):
    """Evaluate a policy and ``random``, verify what was written, and return the report."""
    out = Path(folder) / name.rpartition("/")[2].replace(":", "-")
    report = coopbench.evaluate(name, ["random", policy], out=out, **options)
    print(report)
    repeats = all(block.environment["repeats"] for block in report.episodes)
    verification = coopbench.verify(out, env=[name])
    assert verification.holds is repeats, verification.to_json()
    assert not coopbench.verify(out).holds, "the environment was executed without being named"
    return report, repeats


def main():
    """Play all environments."""
    with tempfile.TemporaryDirectory() as folder:
        report, repeats = played("pettingzoo:mpe2.simple_spread_v3", still, folder, episodes=20)
        assert repeats
        assert all((block.lengths == 25).all() for block in report.episodes)
        tag = "pettingzoo:mpe2.simple_speaker_listener_v4"
        report, repeats = played(tag, by_name, folder, episodes=5, parameters={"max_cycles": 10})
        assert repeats
        assert all((block.lengths == 10).all() for block in report.episodes)
        report, repeats = played("gymnasium:CartPole-v1", still, folder, episodes=20)
        assert repeats
        report, repeats = played(POGEMA, still, folder, episodes=5, parameters=GRID)
        assert not repeats, "POGEMA draws grids that the seed of reset does not fix"
        assert {"metrics.ISR", "metrics.CSR"} <= {row.metric for row in report.estimates}


if __name__ == "__main__":
    main()
