"""A BenchMARL task for the games, and one of its algorithms by name.

    make interop                                      # makes the environment, runs the examples
    build/interop/torchrl/bin/python examples/benchmarl_mappo.py --algorithm mappo --steps 40000

Any algorithm of BenchMARL with continuous actions will do: mappo, ippo, maddpg, iddpg, masac, isac.
It is trained with three seeds. Then the runs play a task of ``coopetition-standard``, all seats
each, and a report compares them with the best constant policy and a random one on the same seeds.
``--steps 0`` shows the networks before training. Needs ``requirements-torchrl.txt``.
"""

import argparse
import itertools
import math
import tempfile

import pettingzoo
import torch
from benchmarl.algorithms import algorithm_config_registry
from benchmarl.environments.common import TaskClass
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from pettingzoo.utils import BaseParallelWrapper
from tensordict import TensorDict
from torch import nn
from torchrl.data import Composite
from torchrl.envs import PettingZooWrapper
from torchrl.envs.utils import ExplorationType, set_exploration_type

import coopbench
import coopbench_envs  # registers the environments

PROTOCOL = "coopetition-standard"
BATCH = 2000  # steps of the game between two updates
ALGORITHMS = [n for n, c in algorithm_config_registry.items() if c.supports_continuous_actions()]


class Plain(BaseParallelWrapper):
    """Infos with the same numbers at every step, as TorchRL needs them: without metrics."""

    def step(self, actions):
        *rest, infos = self.env.step(actions)
        for info in infos.values():
            info.pop("metrics", None)
        return *rest, infos


class CoopbenchTask(TaskClass):
    """A game as a task of BenchMARL; ``config`` has its ``id`` and parameters."""

    def get_env_fun(self, num_envs, continuous_actions, seed, device):
        # It is called once for each of BenchMARL's games: they all play the same episodes unless
        # each has a seed of its own.
        seeds = itertools.count(seed)

        def make():
            game = Plain(pettingzoo.make("parallel", dead_agents="keep", **self.config))
            return PettingZooWrapper(
                game, return_state=True, done_on_any=False, seed=next(seeds), device=device
            )

        return make

    def supports_continuous_actions(self):
        return True

    def supports_discrete_actions(self):
        return False

    def max_steps(self, env):
        return pettingzoo.make("parallel", **self.config).unwrapped.engine.horizon

    def has_render(self, env):
        return False

    def group_map(self, env):
        return env.group_map

    def observation_spec(self, env):
        return parts(env, "observation")

    def info_spec(self, env):
        return parts(env, "info")

    def state_spec(self, env):
        return Composite({"state": env.observation_spec["state"].clone()})

    def action_spec(self, env):
        return env.full_action_spec

    def action_mask_spec(self, env):
        return None

    @staticmethod
    def env_name():
        return "coopbench"


def parts(env, kind):
    """Specs of one kind of what each group gets."""
    spec = env.observation_spec
    return Composite(
        {g: Composite({kind: spec[g, kind].clone()}, shape=spec[g].shape) for g in env.group_map}
    )


def make_experiment(env_id, algorithm, steps, seed, folder):
    """Return BenchMARL's experiment; its own evaluation is off, because coopbench does that."""
    torch.set_num_threads(1)  # small networks gain nothing from more
    config = ExperimentConfig.get_from_yaml()
    config.max_n_frames = max(steps, 1)
    config.on_policy_collected_frames_per_batch = BATCH
    config.off_policy_collected_frames_per_batch = BATCH
    config.off_policy_n_optimizer_steps = 100
    config.on_policy_minibatch_size = 250
    config.on_policy_n_minibatch_iters = 10
    config.lr = 1e-3
    config.evaluation, config.create_json, config.loggers = False, False, []
    config.save_folder = folder
    return Experiment(
        task=CoopbenchTask(env_id.rpartition("/")[2].lower(), {"id": env_id}),
        algorithm_config=algorithm_config_registry[algorithm].get_from_yaml(),
        model_config=MlpConfig(num_cells=[64, 64], layer_class=nn.Linear, activation_class=nn.Tanh),
        seed=seed,
        config=config,
    )


def as_policy(experiment):
    """Turn the networks into what coopbench plays: a function of all seats of a batch of games."""
    names = experiment.test_env.possible_agents
    seats = {g: [names.index(a) for a in own] for g, own in experiment.group_map.items()}
    back = torch.as_tensor([seat for own in seats.values() for seat in own]).argsort()

    def policy(observations):
        rows = torch.as_tensor(observations)
        seen = {group: {"observation": rows[:, own]} for group, own in seats.items()}
        played = TensorDict(seen, batch_size=len(rows))
        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            experiment.policy(played)
        return torch.cat([played[group, "action"] for group in seats], dim=1)[:, back].numpy()

    return policy


def show(task, name, models, folder):
    """Report all runs with baselines under the protocol; print a row per policy."""
    policies = [coopbench.TrainedRuns(name, models), "best_constant", "random"]
    report = coopbench.evaluate(PROTOCOL, policies, folder, tasks=[task], only=True)
    files = report.save(f"{folder}/report")
    print(f"{task:<24}{'own return':>12}  95 % interval")
    for row in report.estimates:
        if row.metric == "own_return":
            interval = f"{row.low:.2f} to {row.high:.2f}"
            known = "needs three runs" if math.isnan(row.low) else interval
            print(f"{row.policy:<24}{row.mean:>12.2f}  {known}")
    print(f"Report: {files['html']}")


def main():
    """Read the command line, train, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="trust-dilemma", help=f"one of {PROTOCOL}, in self-play")
    parser.add_argument("--algorithm", default="mappo", choices=ALGORITHMS)
    parser.add_argument("--steps", type=int, default=40_000, help="of the game")
    parser.add_argument("--seed", type=int, default=1000, help="of the first run")
    parser.add_argument("--runs", type=int, default=3, help="seeds in a row; intervals need 3")
    parser.add_argument("--out", default="results/benchmarl", help="folder of results and report")
    arguments = parser.parse_args()
    env_id = coopbench.load_protocol(PROTOCOL).task_of(arguments.task).env
    runs = {}
    with tempfile.TemporaryDirectory() as folder:  # BenchMARL writes files
        for seed in range(arguments.seed, arguments.seed + arguments.runs):
            experiment = make_experiment(env_id, arguments.algorithm, arguments.steps, seed, folder)
            if arguments.steps:
                experiment.run()
            runs[seed] = as_policy(experiment)
        name = f"benchmarl_{arguments.algorithm}"
        show(arguments.task, name, {arguments.task: runs}, arguments.out)


if __name__ == "__main__":
    main()
