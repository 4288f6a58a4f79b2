"""Train the policies that the package ships as partners, and write them as data.

    python -m studies.partners
    python -m studies.partners --task trust-dilemma --steps 100000 --partners /tmp/partners

For every self-play task of coopetition-standard a learner learns. Of each training one policy is
written into ``baselines/partners/NAME.npz``. Some learn in all seats: from own and from the team's
reward, as their names say, and whether it is the last policy or the one half-way. Pools for
training have those of seed a. What is learned in all seats from own rewards often plays like a
defector, and from the team's like a cooperator, which training meets: others learn in one seat
beside scripts that punish, that bully, that change their conduct, or that do different things.
Which of them are new in a game is measured (``studies.newness``). Weights are rounded to half
precision, which makes the files smaller; policies are played from the files alone.

Trainings are resumed after an interruption: their states are kept in ``--states``. At the end the
names of all partners are printed with their digests, as protocols write them.
"""

import argparse
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.baselines.networks.shipped import (
    ENDING,
    read_files,
    shipped_digest,
    shipped_folder,
    written,
)
from coopbench.baselines.registry import make_learner, preset
from coopbench.files import write_bytes
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.task import Task
from coopbench_envs.arrays import of_weights, pack, unpack

PROTOCOL = "coopetition-standard"
PARTS = 20  # after each of which a training is saved


@dataclass(frozen=True)
class Partner:
    """How a partner is trained."""

    name: str
    learner: str
    seed: int  # no training seed of a protocol
    settings: dict[str, Any]
    steps: int = 500_000
    of: int = PARTS  # parts of the training after which the policy is written
    training: str = ""  # partners of one training have one name for it

    def hyperparameters(self) -> dict[str, Any]:
        """Return the settings of the learner."""
        # The first partners were trained before the preset ended games by time.
        shared = preset("coopetition-self-play", "ippo") | {
            "layers": "32x32",
            "time_limit": "bootstrap",
        }
        return (shared if self.learner.startswith("ippo") else _MAPPO) | self.settings


_MAPPO = {
    "layers": "32x32",
    "activation": "tanh",
    "lanes": 125,
    "rollout": 3125,
    "minibatches": 10,
    "epochs": 4,
    "gamma": 0.995,
    "gae_lambda": 0.98,
    "squash": True,
    "scale_rewards": True,
    "time_limit": "terminal",
}
_OWN, _TEAM = {"reward": "own"}, {"reward": "team"}
_ENDED = {"time_limit": "terminal"}
_STRICT = ("gradual:0.7", "unforgiving:0.65,relative=1", "matcher:0.95", "reciprocator:0.7,1")
_BULLIES = ("bully:0.3,0.7", "extorter:0.3", "bully:0.1,0.5")
_TURNING = (
    "switcher:always_defect,cooperator,0.4",
    "switcher:cooperator,always_defect,0.4",
    "alternator:6",
)
_MIXED = (
    "gradual:0.6",
    "bully:0.3,0.7",
    "cooperator:0.8",
    "always_defect",
    "unforgiving:0.7,relative=1",
    "matcher:0.95",
    "extorter:0.3",
)


def _beside(partners: tuple[str, ...]) -> dict[str, Any]:
    """Return settings to learn from own rewards in one seat, beside partners in all lanes."""
    return _OWN | _ENDED | {"partners": partners}


PARTNERS = (
    Partner("own-full-a", "ippo", 2_000, _OWN, training="own-a"),
    Partner("team-half-a", "ippo", 2_000, _TEAM, of=PARTS // 2, training="team-a"),
    Partner("own-half-b", "ippo", 2_001, _OWN, of=PARTS // 2, training="own-b"),
    Partner("team-full-b", "ippo", 2_001, _TEAM, training="team-b"),
    Partner("shared-team", "ippo_shared", 2_002, _TEAM | _ENDED, steps=300_000),
    Partner(
        "recurrent-own",
        "ippo_shared",
        2_003,
        _OWN | _ENDED | {"recurrent": True, "layers": "32"},
        steps=300_000,
    ),
    Partner("mappo-team", "mappo", 2_004, _TEAM, steps=300_000),
    Partner("own-among-mixed", "ippo_shared", 2_011, _beside(_MIXED), steps=200_000),
    Partner("own-among-bullies", "ippo_shared", 2_012, _beside(_BULLIES), steps=100_000),
    Partner("own-among-turning", "ippo_shared", 2_017, _beside(_TURNING), steps=200_000),
    Partner("own-among-strict", "ippo_shared", 2_010, _beside(_STRICT), steps=300_000),
)


def rounded(content: bytes) -> bytes:
    """Return the content of a policy file with the weights of its layers in half precision."""
    arrays = unpack(content, of_weights(content))
    for name, array in arrays.items():
        if "." in name:  # the number of a layer follows
            arrays[name] = array.astype(np.float16).astype(np.float32)
    return pack(arrays)


def trained(task: Task, partner: Partner, steps: int, to: Path, states: Path) -> bool:
    """Train on a task from the last saved state; write the policy. Return if there was work."""
    file, game = to / f"{partner.name}{ENDING}", task.env.rpartition("/")[2]
    files = read_files(file) if file.is_file() else {}
    if game in files:
        return False
    settings = partner.hyperparameters()
    learner = make_learner(partner.learner, task.env, task.parameters, partner.seed, **settings)
    state = states / f"{task.id}-{partner.training or partner.name}.npz"
    if state.is_file():
        learner.load(unpack(state))
    states.mkdir(parents=True, exist_ok=True)
    part = steps // PARTS
    for mark in range(learner.steps // part * part + part, part * partner.of + 1, part):
        learner.learn(mark)
        write_bytes(state, pack(learner.save(), compressed=False))
    to.mkdir(parents=True, exist_ok=True)
    write_bytes(file, written(files | {game: rounded(learner.policy().pack())}))
    return True


def main() -> None:
    """Train what is missing and print the names of the partners."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", action="append", help="of coopetition-standard; default: all")
    parser.add_argument("--name", action="append", help="of a partner; default: all")
    parser.add_argument("--steps", type=int, help="of each training; default: those of the partner")
    parser.add_argument("--partners", type=Path, default=shipped_folder())
    parser.add_argument("--states", type=Path, default=Path("results/partners"))
    arguments = parser.parse_args()
    if arguments.steps and arguments.steps % PARTS:
        parser.error(f"--steps takes a multiple of {PARTS}")
    protocol = load_protocol(PROTOCOL)
    alone = [task for task in protocol.trained_tasks if not task.partners]
    tasks = [protocol.task_of(name) for name in arguments.task or ()] or alone
    places = arguments.partners, arguments.states
    for task, partner in product(tasks, PARTNERS):
        if arguments.name and partner.name not in arguments.name:
            continue
        begun = time.process_time()
        if trained(task, partner, arguments.steps or partner.steps, *places):
            seconds = time.process_time() - begun
            print(f"{task.id} {partner.name}: {seconds:.0f} s", flush=True)
    for file in sorted(arguments.partners.glob(f"*{ENDING}")):
        print(f'"shipped:{file.stem},{shipped_digest(read_files(file))[:12]}"')


if __name__ == "__main__":
    main()
