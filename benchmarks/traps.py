"""Test whether a failing learner or its game is the cause.

    python benchmarks/traps.py partner-hold-up platform-ecosystem

trains ``ippo_shared`` on tasks of coopetition-standard twice with the same settings, budget and
seed: from its random start, and from networks that were first fitted to ``conditional_cooperator``,
which acts on the same observations. Scores are normalised own returns over 60 episodes that no
protocol uses. Where the second run stays high while the first ends at the best constant, the game
rewards a behaviour that the learner does not discover; where both end there, it does not.
"""

import sys
from typing import Any

import numpy as np
from tuning import EPISODES

from coopbench.baselines.game import Game
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_learner, preset
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell
from coopbench.playing.rollout import play
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.sections import Task
from coopbench_envs.engine import SAME_STEP, Engine

PROTOCOL, LEARNER, TEACHER, SEED = (
    "coopetition-standard",
    "ippo_shared",
    "conditional_cooperator",
    901,
)
STEPS, SAMPLES, FITS = 200_000, 400, 3000


def lesson(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Observations and actions of the teacher over some episodes, with random deviations."""
    engine = Engine(task.env, 64, **task.parameters)
    engine.reset(np.arange(800_000, 800_064, dtype=np.uint64))
    player, control = Player(TEACHER, Game.of(engine)), engine.control
    rng, seen, done = np.random.default_rng(SEED), [], []
    begun = np.full(64, -1)
    for _ in range(SAMPLES):
        fresh = control.episode != begun
        if fresh.any():
            player.begin(control.seed, control.episode, fresh)
            begun = control.episode.copy()
        actions = player.act(control.obs, engine.view())
        seen.append(control.obs.copy())
        done.append(actions)
        astray = rng.random(actions.shape[:2]) < 0.2
        played = np.where(astray[:, :, None], rng.random(actions.shape), actions)
        engine.step(played, SAME_STEP)
    return np.stack(seen), np.stack(done)


def fit(learner: Any, task: Task) -> None:
    """Fit the mean actions of a learner to the actions of the teacher."""
    import torch

    seen, done = lesson(task)
    rows = learner._rows
    inputs = np.stack(
        [rows._inputs(rows._first(obs), np.ones(obs.shape[:2], bool)) for obs in seen]
    )
    x = torch.from_numpy(inputs.reshape(-1, inputs.shape[-1]))
    y = torch.from_numpy((done.reshape(-1, done.shape[-1]) * 2.0 - 1.0).astype(np.float32))
    policy = learner._models[0].policy
    optimiser = torch.optim.Adam(policy.parameters(), 1e-3)
    generator = torch.Generator().manual_seed(SEED)
    for _ in range(FITS):
        some = torch.randint(len(x), (512,), generator=generator)
        loss = ((policy.get_distribution(x[some]).distribution.mean - y[some]) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def main() -> None:
    protocol = load_protocol(PROTOCOL)
    settings = preset(PROTOCOL, LEARNER)
    for name in sys.argv[1:] or [task.id for task in protocol.trained_tasks]:
        task = protocol.played_by(name)[0]

        def score(policy: Any, task: Task = task) -> float:
            block = play(protocol, Cell(task.id, "trap"), policy, seeds=EPISODES)
            return float(task.bounds.normalise(values(block, protocol.report.score)).mean())

        for start in ("random", "fitted"):
            learner = make_learner(LEARNER, task.env, task.parameters, SEED, **settings)
            if start == "fitted":
                fit(learner, task)
            course = [score(learner.policy())]
            for k in range(1, 5):
                learner.learn(STEPS * k // 4)
                course.append(score(learner.policy()))
            text = ", ".join(f"{value:.3f}" for value in course)
            print(f"{name}, {start} start: {text} at 0 to {STEPS:,} steps", flush=True)
        print(f"{name}: best_constant {score('best_constant'):.3f}, {TEACHER} {score(TEACHER):.3f}")


if __name__ == "__main__":
    main()
