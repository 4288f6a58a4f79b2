"""Independent PPO in TorchRL: every group of agents has a network and learns from its own rewards.

    make interop                                      # makes the environment, runs the examples
    build/interop/torchrl/bin/python examples/torchrl_ippo.py --steps 20000

TorchRL puts agents of the same role into a group; they share a network that sees one agent at a
time. Afterwards this prints the mean return, summed over agents, of 100 episodes in which one
policy has all seats: for what was learned, for the best constant policy and for a random one, on
the same seeds. ``--steps 0`` shows the networks before training. Needs
``requirements-torchrl.txt``.
"""

import argparse

import pettingzoo
import torch
from pettingzoo.utils import BaseParallelWrapper
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import PettingZooWrapper
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import MultiAgentMLP, ProbabilisticActor, TanhNormal
from torchrl.objectives import ClipPPOLoss, ValueEstimators

import coopbench
import coopbench_envs  # registers the environments

BATCH, EPOCHS, MINIBATCHES, RATE = 1000, 5, 4, 1e-3


class Plain(BaseParallelWrapper):
    """Infos with the same numbers at every step.

    TorchRL learns from the reset what infos hold, and stops where the last step has metrics, too.
    """

    def step(self, actions):
        *rest, infos = self.env.step(actions)
        for info in infos.values():
            info.pop("metrics", None)
        return *rest, infos


def make_env(env_id, seed):
    """Make the game for TorchRL; agents that are done stay, and an episode ends for all at once."""
    game = Plain(pettingzoo.make("parallel", env_id, dead_agents="keep"))
    return PettingZooWrapper(game, done_on_any=False, seed=seed)


def network(env, group, outputs):
    """One network for all agents of a group, each of which it sees alone."""
    agents, features = env.observation_spec[group, "observation"].shape
    shape = {"depth": 2, "num_cells": 64, "activation_class": nn.Tanh}
    return MultiAgentMLP(features, outputs, agents, centralized=False, share_params=True, **shape)


def make_actor(env, group):
    """A group's policy: a Gaussian, squashed into the bounds of its actions."""
    seen, parameters = [(group, "observation")], [(group, "loc"), (group, "scale")]
    space = env.full_action_spec[group, "action"].space
    layers = nn.Sequential(network(env, group, 2 * space.low.shape[-1]), NormalParamExtractor())
    return ProbabilisticActor(
        TensorDictModule(layers, in_keys=seen, out_keys=parameters),
        in_keys=parameters,
        out_keys=[(group, "action")],
        distribution_class=TanhNormal,
        distribution_kwargs={"low": space.low, "high": space.high},
        return_log_prob=True,
        log_prob_key=(group, "log_prob"),
    )


def make_loss(env, group, actor):
    """The clipped loss of a group, with a value of what each agent sees."""
    seen, value = (group, "observation"), (group, "state_value")
    critic = TensorDictModule(network(env, group, 1), in_keys=[seen], out_keys=[value])
    scaling = {"normalize_advantage": True, "normalize_advantage_exclude_dims": (-2,)}  # agents
    loss = ClipPPOLoss(actor, critic, entropy_coeff=0.0, **scaling)
    keys = {key: (group, key) for key in ("reward", "action", "done", "terminated")}
    loss.set_keys(value=value, sample_log_prob=(group, "log_prob"), **keys)
    loss.make_value_estimator(ValueEstimators.GAE, gamma=0.99, lmbda=0.95)
    return loss


def train(env, steps, seed):
    """Return the policy of all groups after ``steps`` steps of the game, in whole batches."""
    torch.set_num_threads(1)  # small networks gain nothing from more
    torch.manual_seed(seed)
    actors = {group: make_actor(env, group) for group in env.group_map}
    policy = TensorDictSequential(*actors.values())
    losses = [make_loss(env, group, actor) for group, actor in actors.items()]
    optimisers = [torch.optim.Adam(loss.parameters(), lr=RATE) for loss in losses]
    total = steps // BATCH * BATCH
    if total == 0:
        return policy
    for batch in Collector(env, policy, frames_per_batch=BATCH, total_frames=total):
        for loss, optimiser in zip(losses, optimisers, strict=True):
            update(loss, optimiser, batch)
    return policy


def update(loss, optimiser, batch):
    """Epochs of gradient steps over one batch, (steps,)."""
    with torch.no_grad():
        loss.value_estimator(
            batch,
            params=loss.critic_network_params,
            target_params=loss.target_critic_network_params,
        )
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(batch)).chunk(MINIBATCHES):
            losses = loss(batch[chosen])
            optimiser.zero_grad()
            (losses["loss_objective"] + losses["loss_critic"]).backward()
            nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
            optimiser.step()


def as_policy(policy, env):
    """Turn the networks into what coopbench plays: a function of all seats of a batch of games."""
    names = env.possible_agents
    seats = {g: [names.index(a) for a in own] for g, own in env.group_map.items()}
    back = torch.as_tensor([seat for own in seats.values() for seat in own]).argsort()

    def ippo(observations):
        rows = torch.as_tensor(observations)
        seen = {group: {"observation": rows[:, own]} for group, own in seats.items()}
        played = TensorDict(seen, batch_size=len(rows))
        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            policy(played)
        return torch.cat([played[group, "action"] for group in seats], dim=1)[:, back].numpy()

    return ippo


def show(env_id, ippo):
    """Print a row per policy: the mean return of all agents together under self-play."""
    report = coopbench.evaluate(env_id, [ippo, "best_constant", "random"])
    print(f"{'in all seats':<24}{'mean return':>12}  95 % interval")
    for row in report.estimates:
        if row.metric == "return":
            print(f"{row.policy:<24}{row.mean:>12.2f}  {row.low:.2f} to {row.high:.2f}")


def main():
    """Read the command line, train, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="coopbench/TrustDilemma-v1")
    parser.add_argument("--steps", type=int, default=20_000, help="of the game")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    env = make_env(arguments.env, arguments.seed)
    show(arguments.env, as_policy(train(env, arguments.steps, arguments.seed), env))


if __name__ == "__main__":
    main()
