"""The code of docs/exchange.md that reads logs of other programs, with their real packages.

Every test writes logs as a user's program would, some of them with sessions and runs that no longer
count, executes the block of the page, and imports its data frame.
"""

import json
import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from coopbench.exchange import import_results

pandas = pytest.importorskip("pandas")
PAGE = Path(__file__).resolve().parent.parent / "docs" / "exchange.md"
RUNS = [(algorithm, seed) for algorithm in ("a", "b") for seed in (3, 4)]
STEPS = (100, 200, 400)
pytestmark = pytest.mark.slow("imports other packages, of which some start processes")


def score(algorithm, seed, step):
    return step / 100 + seed + 10 * (algorithm == "b")


def points(algorithm, seed):
    """Return what a run logs in order; the first run crashes at step 900, and goes on from 200."""
    lost = [(200, -1.0), (900, -2.0)] if (algorithm, seed) == RUNS[0] else []
    return [(100, score(algorithm, seed, 100)), *lost] + [
        (step, score(algorithm, seed, step)) for step in STEPS[1:]
    ]


def block(title, text):
    """Return the block of code below a heading of the page that has this text."""
    section = PAGE.read_text(encoding="utf-8").split(f" {title}\n")[1].split("\n#")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return next(code for code in blocks if text in code)


def execute(title, text="frame = "):
    """Return the frame that a block makes."""
    variables = {}
    exec(block(title, text), variables)
    return variables["frame"]


def check(frame):
    """Import a frame, sessions aside, and compare the last scores."""
    code = block("From the logs of others", "def current(").partition("\nreport =")[0]
    variables = {}
    exec(code, variables)
    report = import_results(variables["current"](frame), scale="given")
    last = {(b.cell.policy, b.cell.run): b.returns[:, 0].tolist() for b in report.episodes}
    assert last == {run: [score(*run, 400)] for run in RUNS}
    assert {row.policy: row.steps.tolist() for row in report.learning if row.task} == {
        "a": [*STEPS],
        "b": [*STEPS],
    }


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_mlflow():
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    mlflow.set_experiment("game")
    for algorithm, seed in [*RUNS, RUNS[0]]:
        with mlflow.start_run() as run:
            mlflow.log_params({"algo": algorithm, "env": "game", "seed": seed})
            for step, value in points(algorithm, seed):
                mlflow.log_metric("return", value, step=step)
    mlflow.delete_run(run.info.run_id)  # a repeated seed
    check(execute("MLflow"))


def test_wandb():
    """Its interface needs a server, for which runs stand that have the signatures of its class."""
    wandb = pytest.importorskip("wandb")
    from wandb.apis import public

    runs = []
    for algorithm, seed in RUNS:
        run = mock.create_autospec(public.Run, instance=True)
        run.config = {"algo": algorithm, "env": "game", "seed": seed}
        rows = [{"global_step": s, "return": value} for s, value in points(algorithm, seed)]
        run.scan_history.return_value = iter(rows)
        runs.append(run)
    api = mock.create_autospec(wandb.Api, instance=True)
    api.runs.return_value = runs
    with mock.patch.object(wandb, "Api", return_value=api):
        frame = execute("Weights & Biases")
    assert {tuple(run.scan_history.call_args.kwargs["keys"]) for run in runs} == {
        ("global_step", "return")
    }
    check(frame)


def test_evaluations_of_stable_baselines3():
    for algorithm, seed in RUNS:
        place = Path("logs", algorithm, "game", str(seed))
        place.mkdir(parents=True)
        rows = [[score(algorithm, seed, step) + k for k in range(3)] for step in STEPS]
        np.savez(place / "evaluations.npz", timesteps=STEPS, results=rows, ep_lengths=rows)
    report = import_results(execute("Stable-Baselines3", "evaluations.npz"), scale="given")
    last = {(b.cell.policy, b.cell.run): b.returns[:, 0].tolist() for b in report.episodes}
    assert last == {run: [score(*run, 400) + k for k in range(3)] for run in RUNS}


def test_monitors_of_stable_baselines3(folder):
    """100 episodes of return 0, then in a second session 100 of 10; the last line is cut off."""
    monitor = pytest.importorskip("stable_baselines3.common.monitor")
    gymnasium = pytest.importorskip("gymnasium")

    class Game(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Discrete(2)

        def reset(self, **_):
            return 0, {}

        def step(self, action):
            return 0, self.reward, True, False, {}

    for seed in (3, 4):
        for reward in (0.0, 10.0):
            for game in range(2):
                place = folder / "logs" / "a" / "game" / str(seed) / str(game)
                env = monitor.Monitor(Game(), str(place), override_existing=reward == 0.0)
                env.unwrapped.reward = reward
                for _ in range(100):
                    env.reset()
                    env.step(0)
                env.close()
        with Path(f"{place}.monitor.csv").open("a") as file:
            file.write("99.0,1")
    frame = execute("Stable-Baselines3", "get_monitor_files")
    assert frame.groupby("run")["step"].max().tolist() == [400, 400]
    report = import_results(frame, scale="given")
    assert [b.returns[:, 0].tolist() for b in report.episodes] == [[10.0, 10.0]] * 2


def test_sacred():
    sacred = pytest.importorskip("sacred")
    for algorithm, seed in [*RUNS, ("a", 5)]:
        experiment = sacred.Experiment("game", save_git_info=False)
        experiment.observers.append(sacred.observers.FileStorageObserver("results/sacred"))
        experiment.add_config({"algo": algorithm, "env": "game", "seed": seed})

        @experiment.main
        def main(_run):
            for step, value in points(_run.config["algo"], _run.config["seed"]):
                _run.log_scalar("return", value, step)
            if _run.config["seed"] == 5:
                raise KeyboardInterrupt

        if seed == 5:
            with pytest.raises(KeyboardInterrupt):
                experiment.run()
        else:
            experiment.run()
    states = [json.loads(file.read_text())["status"] for file in Path().rglob("run.json")]
    assert sorted(states) == [*["COMPLETED"] * 4, "INTERRUPTED"]
    check(execute("sacred"))


def test_rllib(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))  # where ray leaves a token
    ray = pytest.importorskip("ray")
    tune = pytest.importorskip("ray.tune", exc_type=ImportError)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

    def train(config):
        for step in STEPS:
            value = step / 100 + config["seed"]
            returns = {"episode_return_mean": value}
            tune.report({"env_runners": returns, "num_env_steps_sampled_lifetime": step})

    try:
        space = {"env": "game", "seed": tune.grid_search([3, 4])}
        place = tune.RunConfig(name="EXPERIMENT", storage_path=str(folder / "ray_results"))
        tune.Tuner(train, param_space=space, run_config=place).fit()
    finally:
        ray.shutdown()
    report = import_results(execute("RLlib"), scale="given")
    last = {b.cell.run: b.returns[:, 0].tolist() for b in report.episodes}
    assert last == {3: [7.0], 4: [8.0]}
