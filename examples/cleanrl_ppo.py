"""PPO in one file, in the way of CleanRL: PyTorch and Gymnasium's vector interface, nothing else.

    python examples/cleanrl_ppo.py --steps 200000

Trains one agent with three seeds and a partner that does not learn. Then the runs play one seat of
a task of ``coopetition-standard`` with fifteen partners, and a report compares them with the best
constant policy and a random one on the same seeds. ``--steps 0`` shows the networks before
training. Needs PyTorch.
"""

import argparse
import math

import gymnasium as gym
import numpy as np
import torch
from gymnasium.wrappers.vector import RescaleAction
from torch import nn

import coopbench
import coopbench_envs  # registers the environments

PROTOCOL = "coopetition-standard"
GAMES, LENGTH = 16, 125  # of one rollout
EPOCHS, MINIBATCHES = 4, 4
RATE, GAMMA, LAMBDA, CLIP, VALUE_WEIGHT, MAX_NORM = 1e-3, 0.99, 0.95, 0.2, 0.5, 0.5
LOW, HIGH = np.float32(-1.0), np.float32(1.0)  # of actions: PPO begins in the middle, at 0


class Agent(nn.Module):
    """A Gaussian over actions and a value, by two networks."""

    def __init__(self, features, dim):
        super().__init__()
        self.mean = network(features, dim)
        self.value = network(features, 1)
        self.log_std = nn.Parameter(torch.zeros(dim))

    def policy(self, observations):
        """Distribution of actions."""
        return torch.distributions.Normal(self.mean(observations), self.log_std.exp())


def network(inputs, outputs):
    """Two hidden layers of 64."""
    hidden = nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()
    return nn.Sequential(*hidden, nn.Linear(64, outputs))


def collect(games, agent, observations, over):
    """Play one rollout; return its arrays (time, game), and where it stopped.

    With Gymnasium's autoreset of the next step, the step after the end of an episode ignores its
    action and only brings the next episode's first observation. It is no transition: ``real`` is
    False there.
    """
    steps = []
    for _ in range(LENGTH):
        seen = torch.as_tensor(observations)
        with torch.no_grad():
            policy = agent.policy(seen)
            actions = policy.sample()
        log_prob, value = policy.log_prob(actions).sum(-1), agent.value(seen).squeeze(-1).detach()
        clipped = actions.clamp(-1.0, 1.0).numpy()
        observations, rewards, terminated, truncated, _ = games.step(clipped)
        earned = torch.as_tensor(rewards, dtype=torch.float32)
        ends, cuts = torch.as_tensor(terminated), torch.as_tensor(truncated)
        steps.append((seen, actions, log_prob, value, earned, ends, cuts, ~torch.as_tensor(over)))
        over = terminated | truncated
    return [torch.stack(part) for part in zip(*steps, strict=True)], observations, over


def advantages(rewards, values, terminated, truncated):
    """Generalised advantages, (time, game); ``values`` has one row more, of where it stopped.

    The observation after a step is that of the next row, also at the end of an episode, so that a
    truncated episode goes on with its value. Only a terminated one is worth nothing from there.
    """
    advantage = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        worth = values[t + 1] * ~terminated[t]
        surprise = rewards[t] + GAMMA * worth - values[t]
        following = surprise + GAMMA * LAMBDA * following * ~(terminated[t] | truncated[t])
        advantage[t] = following
    return advantage


def update(agent, optimiser, rows):
    """Epochs of gradient steps over the real transitions of a rollout."""
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(rows[0])).chunk(MINIBATCHES):
            seen, actions, before, gained, target = (part[chosen] for part in rows)
            gained = (gained - gained.mean()) / (gained.std() + 1e-8)
            ratio = (agent.policy(seen).log_prob(actions).sum(-1) - before).exp()
            kept = torch.min(gained * ratio, gained * ratio.clamp(1.0 - CLIP, 1.0 + CLIP)).mean()
            wrong = (agent.value(seen).squeeze(-1) - target).square().mean()
            optimiser.zero_grad()
            (VALUE_WEIGHT * wrong - kept).backward()
            nn.utils.clip_grad_norm_(agent.parameters(), MAX_NORM)
            optimiser.step()


def train(env_id, partner, steps, seed):
    """Return the agent after ``steps`` steps of all games together, in whole rollouts."""
    torch.set_num_threads(1)  # small networks gain nothing from more
    torch.manual_seed(seed)
    games = gym.make_vec(env_id, num_envs=GAMES, control="focal", ego=0, partner=partner)
    games = RescaleAction(games, LOW, HIGH)
    agent = Agent(games.single_observation_space.shape[0], games.single_action_space.shape[0])
    optimiser = torch.optim.Adam(agent.parameters(), lr=RATE, eps=1e-5)
    observations, _ = games.reset(seed=seed)
    over = np.zeros(GAMES, np.bool_)
    for _ in range(steps // (GAMES * LENGTH)):
        parts, observations, over = collect(games, agent, observations, over)
        seen, actions, log_prob, values, rewards, terminated, truncated, real = parts
        with torch.no_grad():
            last = agent.value(torch.as_tensor(observations)).squeeze(-1)
        gained = advantages(rewards, torch.cat([values, last[None]]), terminated, truncated)
        rows = (seen, actions, log_prob, gained, gained + values)
        update(agent, optimiser, [part[real] for part in rows])
    return agent


def as_policy(agent, env_id):
    """Turn the agent into what coopbench plays: a function of all seats of a batch of games."""
    bounds = gym.make(env_id).action_space  # low and high are (agents, dim)

    def ppo(observations):
        with torch.no_grad():
            actions = agent.mean(torch.as_tensor(observations)).clamp(-1.0, 1.0).numpy()
        return bounds.low + (actions + 1.0) / 2.0 * (bounds.high - bounds.low)

    return ppo


def show(task, models, folder):
    """Report all runs with baselines under the protocol; print a row per policy."""
    policies = [coopbench.TrainedRuns("cleanrl_ppo", models), "best_constant", "random"]
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
    parser.add_argument("--task", default="trust-dilemma.focal", help=f"one of {PROTOCOL}")
    parser.add_argument("--partner", default="reciprocator", help="a name of coopbench.policies()")
    parser.add_argument(
        "--steps", type=int, default=200_000, help="of training, all games together"
    )
    parser.add_argument("--seed", type=int, default=1000, help="of the first run")
    parser.add_argument("--runs", type=int, default=3, help="seeds in a row; intervals need 3")
    parser.add_argument("--out", default="results/cleanrl", help="folder of results and report")
    arguments = parser.parse_args()
    env_id = coopbench.load_protocol(PROTOCOL).task_of(arguments.task).env
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    agents = {seed: train(env_id, arguments.partner, arguments.steps, seed) for seed in seeds}
    runs = {seed: as_policy(agent, env_id) for seed, agent in agents.items()}
    show(arguments.task, {arguments.task: runs}, arguments.out)


if __name__ == "__main__":
    main()
