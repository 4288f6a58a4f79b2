"""BenchMARL's QMIX, or another of its algorithms, on a battle of Skirmish.

Actions are discrete and some are illegal, the team has one reward, and there is a global state.

    make interop                                      # makes the environment, runs the examples
    build/interop/torchrl/bin/python examples/benchmarl_qmix.py --map 3m --steps 40000

Any algorithm of BenchMARL with discrete actions will do: qmix, vdn, iql, mappo, ippo and so on. The
networks have no memory. Afterwards this prints how often 100 episodes are won: with what was
learned, with the heuristic of the rules and with random legal actions, on the same seeds; and how
many steps of the game were trained on per second of processor time. ``--steps 0`` shows the
networks before training. Needs ``requirements-torchrl.txt``.
"""

import argparse
import itertools
import tempfile
import time

import pettingzoo
import torch
from benchmarl.algorithms import algorithm_config_registry
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.gru import GruConfig
from benchmarl.models.mlp import MlpConfig
from benchmarl_mappo import CoopbenchTask, parts
from pettingzoo.utils import BaseParallelWrapper
from tensordict import TensorDict
from torch import nn
from torchrl.envs import PettingZooWrapper
from torchrl.envs.utils import ExplorationType, set_exploration_type

import coopbench
import coopbench_envs  # registers the environments

BATCH = 1000  # steps of the game between two rounds of updates
UPDATES = 8  # of 32 sequences of the batch's length, per round
ALGORITHMS = [n for n, c in algorithm_config_registry.items() if c.supports_discrete_actions()]


class Masked(BaseParallelWrapper):
    """Infos that hold the legal actions alone: TorchRL takes the mask from there."""

    def reset(self, seed=None, options=None):
        observations, infos = self.env.reset(seed=seed, options=options)
        return observations, masks_of(infos)

    def step(self, actions):
        *rest, infos = self.env.step(actions)
        return *rest, masks_of(infos)


def masks_of(infos):
    """Return what TorchRL reads of the infos."""
    return {agent: {"action_mask": info["action_mask"]} for agent, info in infos.items()}


class BattleTask(CoopbenchTask):
    """A battle as a task of BenchMARL; ``config`` has its ``id`` and parameters."""

    def get_env_fun(self, num_envs, continuous_actions, seed, device):
        seeds = itertools.count(seed)  # each of BenchMARL's games gets its own

        def make():
            game = Masked(pettingzoo.make("parallel", dead_agents="keep", **self.config))
            return PettingZooWrapper(
                game,
                return_state=True,
                done_on_any=False,
                categorical_actions=True,
                group_map={"team": game.possible_agents},  # soldiers of all kinds
                seed=next(seeds),
                device=device,
            )

        return make

    def supports_continuous_actions(self):
        return False

    def supports_discrete_actions(self):
        return True

    def info_spec(self, env):
        return None

    def action_mask_spec(self, env):
        return parts(env, "action_mask")


def make_experiment(map_name, algorithm, steps, seed, folder, recurrent=False):
    """Return BenchMARL's experiment; its own evaluation is off, because coopbench does that.

    Recurrent networks can be trained, as ``benchmarks/peers.py`` does, but not shown below.
    """
    torch.set_num_threads(1)  # small networks gain nothing from more
    config = ExperimentConfig.get_from_yaml()
    config.max_n_frames = max(steps, 1)
    config.on_policy_collected_frames_per_batch = BATCH
    config.on_policy_minibatch_size = 250
    config.on_policy_n_minibatch_iters = 10
    config.off_policy_collected_frames_per_batch = BATCH
    config.off_policy_n_optimizer_steps = UPDATES
    config.off_policy_train_batch_size = 32 * 30
    config.off_policy_memory_size = 100_000
    config.exploration_eps_init, config.exploration_eps_end = 1.0, 0.05
    config.exploration_anneal_frames = 20_000
    config.gamma, config.lr, config.polyak_tau = 0.99, 5e-4, 0.02
    config.evaluation, config.create_json, config.loggers = False, False, []
    config.save_folder = folder
    game = {"id": "coopbench/Skirmish-v0", "map": map_name}
    return Experiment(
        task=BattleTask(f"skirmish_{map_name}", game),
        algorithm_config=algorithm_config_registry[algorithm].get_from_yaml(),
        model_config=networks(recurrent),
        seed=seed,
        config=config,
    )


def networks(recurrent):
    """Return the shape of the agents' networks: 64 units, with or without memory."""
    if not recurrent:
        return MlpConfig(num_cells=[64, 64], layer_class=nn.Linear, activation_class=nn.ReLU)
    return GruConfig(
        hidden_size=64,
        n_layers=1,
        bias=True,
        dropout=0.0,
        compile=False,
        mlp_num_cells=[64],
        mlp_layer_class=nn.Linear,
        mlp_activation_class=nn.ReLU,
    )


class Learned:
    """The networks as what coopbench plays: a policy that is told the legal actions."""

    uses_masks = True

    def __init__(self, experiment, name):
        self.name, self._networks = name, experiment.policy

    def initial(self, game, seeds):
        return None  # no memory

    def act(self, observations, memory, masks):
        team = {
            "observation": torch.as_tensor(observations),
            "action_mask": torch.as_tensor(masks),
        }
        played = TensorDict({"team": team}, batch_size=len(observations))
        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            self._networks(played)
        return played["team", "action"].numpy(), None


def show(map_name, policy):
    """Print a row per policy: the share of battles that it wins."""
    policies = [policy, "smac_heuristic", "random"]
    report = coopbench.evaluate("coopbench/Skirmish-v0", policies, map=map_name)
    print(f"{'policy':<24}{'won':>8}  95 % interval")
    for row in report.estimates:
        if row.metric == "win":
            print(f"{row.policy:<24}{row.mean:>8.2f}  {row.low:.2f} to {row.high:.2f}")


def main():
    """Read the command line, train, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--map", default="3m")
    parser.add_argument("--algorithm", default="qmix", choices=ALGORITHMS)
    parser.add_argument("--steps", type=int, default=40_000, help="of the game")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:  # BenchMARL writes files
        experiment = make_experiment(
            arguments.map, arguments.algorithm, arguments.steps, arguments.seed, folder
        )
        if arguments.steps:
            begin = time.process_time()
            experiment.run()
            pace = arguments.steps / (time.process_time() - begin)
            print(f"{pace:.0f} steps of the game per second of processor time")
        show(arguments.map, Learned(experiment, arguments.algorithm))


if __name__ == "__main__":
    main()
