"""Compare compiled environments with the same kernels in plain Python, in turns.

    python benchmarks/games.py [--record] [--rounds N]
    python benchmarks/games.py Skirmish-v1 Rail-v1   # these alone; all: every environment

A batch is 64 or 1024 lanes, compiled, and 4 lanes in plain Python; a single environment is one of
``gymnasium.make`` in both. Figures are steps of one environment, observations and masks included,
per second of processor time. Environments that are named have their default parameters.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import probes
import speed

import coopbench_envs

HEAD = ("What", "Steps/s", "In plain Python", "Ratio")
SCRIPT = "play_coopbench.py"
PLAIN, PLAIN_LANES = {"NUMBA_DISABLE_JIT": "1"}, 4
LANES = (0, 1, 64, 1024)  # of environments that are named


class Case(NamedTuple):
    """What is measured: an environment, its lanes (0: a single one), and its parameters."""

    name: str
    lanes: int
    detail: str = ""
    parameters: Mapping = {}

    @property
    def what(self) -> str:
        """How the table names it."""
        how = f"batch of {self.lanes}" if self.lanes else "`gymnasium.make`"
        return ", ".join(part for part in (self.name, self.detail, how) if part)

    def probe(self, lanes: int, settings: dict[str, str]) -> probes.Probe:
        """Return the probe that plays it."""
        arguments = (f"coopbench/{self.name}", str(lanes), json.dumps(dict(self.parameters)))
        return probes.Probe(Path(sys.executable), SCRIPT, arguments, settings)


def field(agents: int, density: float) -> dict:
    """Return the parameters of pathfinding among obstacles."""
    return {"num_agents": agents, "map_params": {"obstacle_density": density}}


TRAINS = {"num_agents": 20, "cities": 3}
CASES = (
    Case("TrustDilemma-v0", 0),
    Case("TrustDilemma-v0", 1024),
    Case("TrustDilemma-v1", 1024),
    Case("PlatformEcosystem-v0", 1024),
    Case("PlatformEcosystem-v1", 1024),
    Case("PartnerHoldUp-v1", 1024),
    Case("DynamicPartnerSelection-v1", 1024),
    Case("Routing-v0", 64, "8 agents, no obstacles", field(8, 0.0)),
    Case("Routing-v0", 64, "32 agents, 60 obstacle cells", field(32, 0.15)),
    Case("Routing-v1", 64, "32 agents, 60 obstacle cells", field(32, 0.15)),
    Case("Rail-v0", 64, "20 trains, trees of depth 2", TRAINS),
    Case("Rail-v1", 64, "20 trains", TRAINS),
    Case("Skirmish-v0", 64, "`2s3z`", {"map": "2s3z"}),
    Case("Skirmish-v1", 64, "`2s3z`", {"map": "2s3z"}),
)


def cases(names: list[str]) -> list[Case]:
    """Return the cases of the named environments, ``all`` for every one; without names CASES."""
    ids = coopbench_envs.ids() if names == ["all"] else [coopbench_envs.spec(n).id for n in names]
    chosen = [Case(env_id.removeprefix("coopbench/"), lanes) for env_id in ids for lanes in LANES]
    return chosen or list(CASES)


def rows(chosen: Sequence[Case], rounds: int) -> Iterator[list[speed.Cell]]:
    """Measure and yield one row for each case."""
    for case in chosen:
        lanes = min(case.lanes, PLAIN_LANES)
        pair = probes.compare(case.probe(case.lanes, {}), case.probe(lanes, PLAIN), rounds)
        yield [case.what, pair.first, pair.second, pair.ratio]


def main() -> None:
    """Print the table."""
    parser = speed.parser(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("environments", nargs="*", metavar="ENVIRONMENT")
    options = parser.parse_args()
    if options.record and options.environments:
        parser.error("the table of the page holds its own cases; name no ENVIRONMENT with --record")
    machine = speed.machine()
    measured = []
    for row in rows(cases(options.environments), options.rounds):
        measured.append(row)
        print(" | ".join(speed.written(cell) for cell in row), flush=True)
    speed.finish("games", speed.Table(HEAD, measured, machine), options.record)


if __name__ == "__main__":
    main()
