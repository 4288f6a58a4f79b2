"""Train the policies that the package ships as partners, and write them as data.

    python benchmarks/partners.py
    python benchmarks/partners.py --task trust-dilemma --steps 100000 --partners /tmp/partners

For every trained task of coopetition-standard, ``ippo`` learns in all seats: twice from own and
twice from the team's reward. Of each training one policy is written as
``baselines/partners/NAME/GAME.npz``, with names like ``own-half-b``: the reward, the last policy or
the one half-way, and which of the two seeds. Pools for training hold those of seed a, held-out ones
those of seed b. The weights are rounded to half precision, which makes the files smaller; policies
are played from the files alone.

Trainings are resumed after an interruption: their states are kept in ``--states``. At the end the
names of all partners are printed with their digests, as protocols write them.
"""

import argparse
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from coopbench.baselines.networks.perceptron import Network, NetworkPolicy
from coopbench.baselines.networks.shipped import ENDING, shipped_digest, shipped_folder
from coopbench.baselines.registry import make_learner, preset
from coopbench.files import write_bytes
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.sections import Task
from coopbench_envs.arrays import pack, unpack

PROTOCOL = "coopetition-standard"
PARTNERS = (
    ("own", "full", "a"),
    ("team", "half", "a"),
    ("own", "half", "b"),
    ("team", "full", "b"),
)
SEEDS = {"a": 2_000, "b": 2_001}  # no training seeds of a protocol
LAYERS = "32x32"  # small files
PARTS = 20  # after each of which a training is saved


def rounded(policy: NetworkPolicy) -> NetworkPolicy:
    """Return a policy with its weights rounded to half precision."""
    network: Network = policy.network
    parts = {
        name: tuple(layer.astype(np.float16).astype(np.float32) for layer in layers)
        for name, layers in (("weights", network.weights), ("biases", network.biases))
    }
    return NetworkPolicy(replace(network, **parts), policy.facts)


def trained(task: Task, partner: tuple[str, str, str], steps: int, to: Path, states: Path) -> bool:
    """Train on a task from the last saved state; write the policy. Return if there was work."""
    reward, when, name = partner
    file = to / "-".join(partner) / (task.env.rpartition("/")[2] + ENDING)
    if file.is_file():
        return False
    # The shipped partners were trained before the preset ended games by time.
    others = {"layers": LAYERS, "reward": reward, "time_limit": "bootstrap"}
    settings = preset(PROTOCOL, "ippo") | others
    learner = make_learner("ippo", task.env, task.parameters, SEEDS[name], **settings)
    state = states / f"{task.id}-{reward}-{name}.npz"
    if state.is_file():
        learner.load(unpack(state))
    states.mkdir(parents=True, exist_ok=True)
    part = steps // PARTS
    last = part * (PARTS if when == "full" else PARTS // 2)
    for mark in range(learner.steps // part * part + part, last + 1, part):
        learner.learn(mark)
        write_bytes(state, pack(learner.save(), compressed=False))
    file.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(file, rounded(learner.policy()).pack())
    return True


def main() -> None:
    """Train what is missing and print the names of the partners."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", action="append", help="of coopetition-standard; default: all")
    parser.add_argument("--steps", type=int, default=500_000, help="of each training")
    parser.add_argument("--partners", type=Path, default=shipped_folder())
    parser.add_argument("--states", type=Path, default=Path("results/partners"))
    arguments = parser.parse_args()
    if arguments.steps % PARTS:
        parser.error(f"--steps takes a multiple of {PARTS}")
    protocol = load_protocol(PROTOCOL)
    tasks = [protocol.task_of(name) for name in arguments.task or ()] or protocol.trained_tasks
    places = arguments.partners, arguments.states
    for task, partner in product(tasks, PARTNERS):
        begun = time.process_time()
        if trained(task, partner, arguments.steps, *places):
            seconds = time.process_time() - begun
            print(f"{task.id} {'-'.join(partner)}: {seconds:.0f} s", flush=True)
    for folder in sorted(path for path in arguments.partners.glob("*") if path.is_dir()):
        print(f'"shipped:{folder.name},{shipped_digest(folder)[:12]}"')


if __name__ == "__main__":
    main()
