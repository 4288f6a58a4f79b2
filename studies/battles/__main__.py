"""Make the certificates of battles: search blind plans on each map, and play them and scripts.

    python -m studies.battles [VERSION ...] [--map MAP ...]

Versions are v1-drawn, v1-shifted, v1-fixed, v1-teams, v1-teams-shifted and v0. A file that exists
is left as it is, so the program can be stopped and started again; ``--replay`` plays the plans of
existing files again and writes their figures anew, in ``--episodes`` if that is given; policies
trained from drawn starts then play from shifted ones, too. ``--learn STEPS`` trains policies on
each battle of skirmish-certified, as many as ``--runs`` says, and adds the one with the best score
in the selection episodes; with ``--blind`` they get no observations:

    python -m studies.battles v1-drawn --map 3m --learn 500000
"""

import argparse
import io
import json
import zipfile
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import coopbench
from coopbench.analysis.battles import (
    LEARNED,
    LEARNED_BLIND,
    BattleCertificate,
    load_battles,
)
from coopbench.baselines.strategies.certified import battles_file
from coopbench.baselines.strategies.plans import packed_plan
from coopbench.files import write_bytes
from coopbench.protocol.loading import load_protocol
from coopbench.workflows.training_run import cell_of
from coopbench_envs.parameters import named
from coopbench_envs.skirmish.teams import RACES
from studies.battles.play import measured
from studies.battles.search import Budget, searched
from studies.battles.trials import Trials

ROOT = Path(__file__).resolve().parents[2]
PROTOCOL, LEARNER = "studies/protocols/skirmish-certified.toml", "mappo_shared"  # below ROOT
# Hyperparameters of the trained policies that differ from the preset. Without observations only
# memory tells how much time is over.
TRAINED: dict[str, dict[str, Any]] = {
    LEARNED: {},
    LEARNED_BLIND: {"blind": True, "recurrent": True},
}
TEAMS = {
    f"{race}-{n}-{m}": {"teams": "drawn", "race": race, "num_agents": n, "num_enemies": m}
    for race, (n, m) in product(RACES, ((5, 5), (10, 11)))
}
VERSIONS = {
    "v1-drawn": ("coopbench/Skirmish-v1", {"start": "drawn"}),
    "v0": ("coopbench/Skirmish-v0", {}),
    "v1-fixed": ("coopbench/Skirmish-v1", {"start": "fixed"}),
    "v1-shifted": ("coopbench/Skirmish-v1", {"start": "shifted"}),
    "v1-teams": ("coopbench/Skirmish-v1", {"start": "drawn"}),
    "v1-teams-shifted": ("coopbench/Skirmish-v1", {"start": "shifted"}),
}
SMALL = Budget(generations=100)
MEDIUM = Budget(library=96, screening=8, generations=24, final_episodes=96)
LARGE = Budget(library=64, screening=4, generations=16, meetings=16, final_episodes=64)
LARGEST = Budget(
    library=48, screening=4, generations=12, children=16, meetings=8, final_episodes=32
)
# Maps in the order in which they are made: (budget, episodes of the figures).
MAPS = {
    "3m": (SMALL, 250),
    "2s3z": (MEDIUM, 250),
    "5m_vs_6m": (MEDIUM, 250),
    "8m": (MEDIUM, 250),
    "3s5z": (LARGE, 250),
    "MMM2": (LARGE, 250),
    "2s_vs_1sc": (MEDIUM, 250),
    "3s_vs_5z": (MEDIUM, 250),
    "6h_vs_8z": (MEDIUM, 250),
    "10m_vs_11m": (LARGE, 250),
    "1c3s5z": (LARGE, 250),
    "3s5z_vs_3s6z": (LARGE, 250),
    "bane_vs_bane": (LARGEST, 250),
    "corridor": (LARGEST, 100),
    "27m_vs_30m": (LARGEST, 100),
    "2c_vs_64zg": (LARGEST, 100),
    "8m_vs_9m": (MEDIUM, 250),
    "MMM": (LARGE, 250),
    "25m": (LARGEST, 100),
    **dict.fromkeys(TEAMS, (LARGE, 250)),
}


def made(
    env_id: str, parameters: dict[str, Any], budget: Budget, episodes: int
) -> BattleCertificate:
    """Search both plans of a battle and measure all players."""
    plans, records = {}, {}
    for masks in (True, False):
        per_call = (budget.parents + budget.children) * budget.meetings
        trials = Trials(env_id, parameters, masks=masks, lanes=min(per_call, 512))
        outcome = searched(trials, budget, masks=masks, seed=1)
        name = "masked" if masks else "unmasked"
        plans[name], records[name] = packed_plan(outcome.plan, masks=masks), outcome.record
    return measured(BattleCertificate(env_id, parameters, records, plans, {}), episodes)


def learned(
    certificate: BattleCertificate, player: str, runs: int, steps: int
) -> BattleCertificate:
    """Train policies on a battle; store the one with the best selection score."""
    protocol = load_protocol(ROOT / PROTOCOL)
    task = next(t for t in protocol.trained_tasks if t.parameters == certificate.parameters)
    seeds, settings = protocol.seeds.training[:runs], TRAINED[player]
    results = ROOT / "results" / "battles" / player
    how: dict[str, Any] = {"tasks": [task.id], "seeds": seeds, "steps": steps}
    coopbench.train(protocol, LEARNER, results, **how, **settings)
    folders = [results / cell_of(protocol, LEARNER, task.id, seed).folder for seed in seeds]
    best = max(folders, key=selected)
    meta = json.loads((best / "meta.json").read_text(encoding="utf-8"))
    store(
        certificate.env_id, f"{certificate.name}.{player}.npz", (best / "policy.npz").read_bytes()
    )
    training = {
        **{"protocol": PROTOCOL, "task": task.id, "learner": LEARNER, "settings": settings},
        **{"runs": runs, "seed": meta["run"], "budget": steps, "steps": meta["chosen_step"]},
    }
    return replace(certificate, training={**certificate.training, player: training})


def store(env_id: str, name: str, content: bytes) -> None:
    """Put a file into the archive of an environment's battles; equal contents give equal bytes."""
    file, contents = battles_file(env_id), dict[str, bytes]()
    if file.is_file():
        with zipfile.ZipFile(file) as packed:
            contents = {old: packed.read(old) for old in packed.namelist()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for old, stored in sorted((contents | {name: content}).items()):
            packed.writestr(zipfile.ZipInfo(old), stored, zipfile.ZIP_DEFLATED)
    write_bytes(file, buffer.getvalue())


def selected(run: Path) -> tuple[float, float]:
    """Return victories and mean return of a run's best checkpoint in the selection episodes."""
    names = json.loads((run / "meta.json").read_text(encoding="utf-8"))["arrays"]["progress"]
    with np.load(run / "episodes.npz", allow_pickle=False) as arrays:
        means = dict(zip(names, arrays["progress"].mean(axis=2), strict=True))
    wins, returns = means["win"], means["return"]
    return max(zip(wins.tolist(), returns.tolist(), strict=True))


def is_trained(certificate: BattleCertificate, player: str, runs: int, steps: int) -> bool:
    """Return whether a battle has the policy of so many trainings of this budget."""
    training = certificate.training.get(player, {})
    return (training.get("runs"), training.get("budget")) == (runs, steps)


def main() -> None:
    """Write one file for each battle that has none."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("versions", nargs="*", default=list(VERSIONS))
    parser.add_argument("--map", action="append", choices=MAPS)
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--episodes", type=int, help="of the figures; default: those of MAPS")
    parser.add_argument("--effort", type=int, default=1, help="generations, times the usual")
    parser.add_argument("--learn", type=int, help="steps of each training")
    parser.add_argument("--runs", type=int, default=1, help="trainings of a policy")
    parser.add_argument("--blind", action="store_true", help="train without observations")
    options = parser.parse_args()
    player = LEARNED_BLIND if options.blind else LEARNED
    for version in options.versions:
        env_id, start = named("version", version, VERSIONS)
        stored = load_battles(env_id)
        for name in options.map or MAPS:
            if (name in TEAMS) != version.startswith("v1-teams"):
                continue
            parameters = {**TEAMS.get(name, {"map": name}), **start}
            episodes = options.episodes or MAPS[name][1]
            old = stored.get("-".join([name, *start.values()]))
            if old is None:
                budget = MAPS[name][0]
                budget = replace(budget, generations=options.effort * budget.generations)
                new = made(env_id, parameters, budget, episodes)
            elif options.learn and not is_trained(old, player, options.runs, options.learn):
                new = learned(old, player, options.runs, options.learn)
                new = measured(new, episodes)
            elif options.replay:
                training = stored[old.policies_of].training
                new = measured(replace(old, training=training), episodes)
            else:
                continue
            store(env_id, f"{new.name}.json", new.to_json().encode())
            best = new.reactive
            print(
                f"{version} {name}: blind {new.blind.win:.3f}, {best} {new.figures[best].win:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
