"""Evaluate, verify and train on environments of other packages, with the real packages.

MPE2's spread and speaker-listener, POGEMA, Gymnasium's CartPole and Pendulum, PettingZoo's connect
four, whose agents take turns, and MPE2's tag within SuperSuit's wrappers.

    python examples/other-environments/play.py

See docs/any-environment.md. Every evaluation is checked here: `make interop-envs` runs this file.
"""

import tempfile
from pathlib import Path

import numpy as np

import coopbench
from coopbench.baselines.registry import make_learner
from coopbench_envs.lanes import of_user

POGEMA = f"pettingzoo:{Path(__file__).with_name('pogema_environment.py')}:grid"
GRID = {"num_agents": 4, "size": 8, "max_episode_steps": 32, "on_target": "nothing"}


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


def padded_tag(**parameters):
    """Make MPE2's tag with equal spaces and with agents that have left, by SuperSuit."""
    import supersuit
    from mpe2 import simple_tag_v3

    env = simple_tag_v3.parallel_env(**parameters)
    env = supersuit.pad_action_space_v0(supersuit.pad_observations_v0(env))
    return supersuit.black_death_v3(env)


SHORT = {"lanes": 4, "rollout": 128, "batch_size": 64, "epochs": 2}
EPISODES = {"lanes": 4, "batch_size": 4, "replay": 32, "reward": "team"}
TRAINED = [
    ("pettingzoo:mpe2.simple_spread_v3", "qmix_shared", EPISODES, {}),
    ("pettingzoo:mpe2.simple_spread_v3", "maddpg", {"lanes": 4}, {"continuous_actions": True}),
    ("pettingzoo:pettingzoo.classic.connect_four_v3", "ippo_shared", SHORT, {}),
    ("gymnasium:CartPole-v1", "ippo", SHORT, {}),
    ("gymnasium:Pendulum-v1", "ippo", SHORT, {}),
    (padded_tag, "ippo", SHORT, {"max_cycles": 25}),
]


def trained(env, learner, values, parameters, steps=1024):
    """Train a few updates and evaluate the policy that comes out."""
    environment = of_user(env)
    training = make_learner(learner, environment, parameters, 1, **values)
    told = training.learn(steps)
    policy = {f"my_{learner}": training.policy()}
    report = coopbench.evaluate(env, policy, episodes=4, **parameters)
    (block,) = report.episodes
    mean = block.team_returns.mean()
    print(f"{environment.id}, {learner}: {training.steps} steps, return {mean:.2f}, {told}")
    assert np.isfinite(list(told.values())).all()


def main():
    """Play and train on all environments."""
    for case in TRAINED:
        trained(*case)
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
