"""Make the certificates of battles: search blind plans on each map, and play them and scripts.

    python benchmarks/skirmish_certificates.py [v1-drawn|v1-fixed|v0 ...] [--map MAP ...]

A file that exists is left as it is, so the program can be stopped and started again; ``--replay``
plays the plans of existing files again and writes their figures anew.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from coopbench.baselines.strategies.plans import packed_plan
from coopbench.files import write_text
from coopbench.theory.battles.certificates import BattleCertificate, load_battles, measured
from coopbench.theory.battles.search import Budget, searched
from coopbench.theory.battles.trials import Trials
from coopbench_envs.parameters import named

FOLDER = Path(__file__).resolve().parent.parent / "baselines" / "certificates"
VERSIONS = {
    "v1-drawn": ("coopbench/Skirmish-v1", {"start": "drawn"}),
    "v0": ("coopbench/Skirmish-v0", {}),
    "v1-fixed": ("coopbench/Skirmish-v1", {"start": "fixed"}),
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
}


def made(
    env_id: str, parameters: dict[str, str], budget: Budget, episodes: int
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


def main() -> None:
    """Write one file for each battle that has none."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("versions", nargs="*", default=list(VERSIONS))
    parser.add_argument("--map", action="append", choices=MAPS)
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--effort", type=int, default=1, help="generations, times the usual")
    options = parser.parse_args()
    for version in options.versions:
        env_id, start = named("version", version, VERSIONS)
        stored = load_battles(env_id)
        for name in options.map or MAPS:
            parameters = {"map": name, **start}
            old = stored.get("-".join(parameters.values()))
            if old is None:
                budget, episodes = MAPS[name]
                budget = replace(budget, generations=options.effort * budget.generations)
                new = made(env_id, parameters, budget, episodes)
            elif options.replay:
                new = measured(replace(old, figures={}), MAPS[name][1])
            else:
                continue
            path = FOLDER / env_id.rpartition("/")[2] / f"{new.name}.json"
            path.parent.mkdir(exist_ok=True)
            write_text(path, new.to_json())
            best = new.reactive
            print(
                f"{version} {name}: plans {new.figures['masked'].win:.3f}, "
                f"{new.figures['unmasked'].win:.3f}, {best} {new.figures[best].win:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
