"""A timed submission to the railways of the Flatland challenge: a planner, asked step by step.

    python examples/timed_submission.py --task test_00 --task test_01

In the starter kit of the challenge a submission owns the loop:

    while remote_client.env_create(obs_builder):         # initial, then the first act
        while not done:
            remote_client.env_step(plan(observation))    # every later act

Here the evaluation owns it. A fresh copy of the planner plays each episode in a process of its own,
and every answer has to come within the limits of the challenge. Prints a line for each episode, and
the scores of both rounds. Needs nothing but this package.
"""

import argparse

import numpy as np

from coopbench.baselines.registry import make_policy
from coopbench.timed.evaluation import timed_evaluate
from coopbench_envs.rail.trains import ARRIVED, BROKEN_OFF_MAP


class Convoys:
    """Sends a few trains at a time on their shortest ways, in the order of their departures."""

    uses_state = True  # act is given the state of the game
    uses_masks = True  # and which actions are legal

    def __init__(self, at_once=5):
        self.at_once = at_once
        self.name = f"convoys-{at_once}"

    def initial(self, game, seeds):
        """Begin an episode: the time for planning runs from here to the first answer."""
        self.dispatcher = make_policy("shortest_path", game)

    def act(self, observations, memory, state, masks):
        """Return the actions of a step, (episodes, trains), and the order of departures."""
        if memory is None:
            memory = np.argsort(np.argsort(state.departure, axis=1, kind="stable"), axis=1)
        waiting = state.status <= BROKEN_OFF_MAP
        on_map = ~waiting & (state.status < ARRIVED)
        places = self.at_once - on_map.sum(axis=1, keepdims=True)
        before = ((memory[:, None] < memory[:, :, None]) & waiting[:, None]).sum(axis=2)
        allowed = on_map | (waiting & (before < places))
        actions, _ = self.dispatcher.act(observations, None, state, masks)
        return np.where(allowed, actions, 0), memory


def main():
    """Read the command line, play, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--protocol", default="rail-published-1")
    parser.add_argument("--task", action="append", help="repeat for more; default: all tests")
    parser.add_argument("--at-once", type=int, default=5, help="trains on the map")
    arguments = parser.parse_args()
    planner = Convoys(arguments.at_once)
    scores = timed_evaluate(arguments.protocol, planner, arguments.task)
    for row in scores.episodes:
        print(f"{row.task} {row.episode}: {row.normalised:.3f}, {row.arrived:.0%} arrived")
    print(f"Round 1: {scores.round_one:.4f}; Round 2: {scores.round_two:.2f}")


if __name__ == "__main__":
    main()
