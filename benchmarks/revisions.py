"""Compare the speed with that of an earlier revision of this repository, in turns on one core.

    python benchmarks/revisions.py EARLIER [ENVIRONMENT ...] [--rounds N] [--record]

EARLIER is a folder with a checkout of that revision; rows of ENVIRONMENTs that are named, such as
Routing-v0, take the places of their stored ones. Figures are nanoseconds of processor time per
step of one lane under random actions, observations included, the smallest of all rounds: other
work on the machine makes a measurement longer, never shorter.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import probes
import speed

import coopbench_envs

ROOT = Path(__file__).resolve().parent.parent
HEAD = ("What", "Earlier, ns", "Now, ns", "Ratio")
CROWD: dict[str, Any] = {"num_agents": 32, "map_params": {"obstacle_density": 0.15}}
CAVES = {"num_rows": 96, "num_cols": 96, "agent_rad_range": (0.03, 0.03)}
ROUTING: dict[str, dict[str, Any]] = {
    "8 agents, no obstacles": {"num_agents": 8, "map_params": {"obstacle_density": 0.0}},
    "32 agents, 60 obstacle cells": CROWD,
    "32 agents, 60 obstacle cells, `diffdrive`": CROWD | {"dynamics": "diffdrive"},
    "32 agents, `caves_cont`": {"num_agents": 32, "map": "caves_cont", "map_params": CAVES},
}


def plays() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what is played: all games, Routing with few and many agents, trains and battles."""
    for env_id in coopbench_envs.ids():
        if ".coopetition." in coopbench_envs.spec(env_id).module:
            yield f"{env_id.removeprefix('coopbench/')}, batch of 1024", (env_id, "1024")
    for name in ("Routing-v0", "Routing-v1"):
        for what, parameters in ROUTING.items():
            play = (f"coopbench/{name}", "64", json.dumps(parameters))
            yield f"{name}, {what}, batch of 64", play
    for name in ("Rail-v1", "Skirmish-v1"):
        yield f"{name}, batch of 64", (f"coopbench/{name}", "64")


def main() -> None:
    """Print the steps of both revisions, and the ratio of their speeds."""
    parser = speed.parser(__doc__.splitlines()[0])
    parser.add_argument("earlier", type=Path, metavar="EARLIER", help="another checkout")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("environments", nargs="*", metavar="ENVIRONMENT", help="default: all")
    options = parser.parse_args()
    names = {name.partition(",")[0] for name, _ in plays()}
    if unknown := sorted({*options.environments} - names):
        parser.error(f"{', '.join(unknown)} is not measured; known: {', '.join(sorted(names))}.")
    if not (options.earlier / "coopbench_envs" / "engine.py").is_file():  # else it plays this one
        parser.error(f"{options.earlier} is no checkout of coopbench; name the folder of one.")
    machine, rows = speed.machine(), []
    for name, play in plays():
        if options.environments and name.partition(",")[0] not in options.environments:
            continue
        pair = [
            probes.Probe(
                Path(sys.executable), "play_coopbench.py", play, {"PYTHONPATH": str(folder)}
            )
            for folder in (options.earlier.resolve(), ROOT)
        ]
        try:
            for probe in pair:
                probes.measure(probe)  # compiles
            rounds = [
                [1e9 / probes.measure(probe).rate for probe in pair] for _ in range(options.rounds)
            ]
        except probes.ProbeError as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            rows.append([name, None, None, None])
            continue
        before, after = (min(column) for column in zip(*rounds, strict=True))
        rows.append([name, before, after, before / after])
        print(" | ".join(speed.written(cell) for cell in rows[-1]), flush=True)
    cells = speed.merged("revisions", rows) if options.environments else rows
    speed.finish("revisions", speed.Table(HEAD, cells, machine), options.record)


if __name__ == "__main__":
    main()
