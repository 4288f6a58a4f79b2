"""Compare the speed with other packages, each in its own interpreter, in turns with this one.

    python benchmarks/peers.py [--record] [PEER ...]

A peer is measured with ``build/peers/PEER/bin/python``, which ``make peers`` makes; a row says so
where there is none. Figures are steps per second of processor time, medians of several rounds.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import probes
import speed

FOLDER = Path(__file__).resolve().parent.parent / "build" / "peers"
HEAD = ("What", "Other package", "coopbench, per s", "Other, per s", "Ratio")


class Comparison(NamedTuple):
    """A script of a peer with its arguments, and the one of this package that does the like."""

    peer: str  # folder of its interpreter
    name: str  # as its authors write it
    what: str
    script: tuple[str, ...]
    ours: tuple[str, ...]


def game(name: str, lanes: int) -> Comparison:
    """Return the comparison of a published game with its reference."""
    how = f"a batch of {lanes}" if lanes else "one environment"
    return Comparison(
        "coopetition-gym",
        "Coopetition-Gym",
        f"steps of {name}-v0, {how}",
        ("play_coopetition_gym.py", f"{name}-v0"),
        ("play_coopbench.py", f"coopbench/{name}-v0", str(lanes)),
    )


def battle(peer: str, name: str, script: str, scenario: str) -> Comparison:
    """Return the comparison of a battle with a package that plays battles."""
    return Comparison(
        peer,
        name,
        f"steps of Skirmish-v0, `{scenario}`, a batch of 64",
        (script, scenario),
        ("play_coopbench.py", "coopbench/Skirmish-v0", "64", f'{{"map": "{scenario}"}}'),
    )


def trains(observation: str) -> Comparison:
    """Return the comparison of a railway of 20 trains."""
    sight = "trees of depth 2" if observation == "tree" else "no observations"
    values = f'{{"num_agents": 20, "cities": 3, "observation": "{observation}"}}'
    return Comparison(
        "flatland-rl",
        "flatland-rl",
        f"steps of Rail-v0, 20 trains, {sight}, a batch of 64",
        ("play_flatland.py", "20", observation),
        ("play_coopbench.py", "coopbench/Rail-v0", "64", values),
    )


def qmix(networks: str) -> Comparison:
    """Return the comparison of QMIX on a battle; the agents of this package have a memory."""
    return Comparison(
        "benchmarl",
        "BenchMARL",
        f"steps of QMIX, `3m`, agents there {networks}",
        ("train_benchmarl.py", "3m", networks),
        ("train_qmix.py", "3m"),
    )


ROUTING = ("play_coopbench.py", "coopbench/Routing-v0", "64")
CROWD = '{"num_agents": 32, "map_params": {"obstacle_density": 0.15}}'
COMPARISONS = (
    game("TrustDilemma", 0),
    game("TrustDilemma", 1024),
    game("PlatformEcosystem", 1024),
    Comparison(
        "camar",
        "CAMAR",
        "steps of Routing-v0, 32 agents, 60 obstacle cells, a batch of 64",
        ("play_camar.py", "32", "0.15"),
        (*ROUTING, CROWD),
    ),
    Comparison(
        "pogema",
        "POGEMA",
        "steps of Routing-v0, 32 agents, 60 obstacle cells, a batch of 64",
        ("play_pogema.py", "32", "20", "0.15"),
        (*ROUTING, CROWD),
    ),
    trains("none"),
    trains("tree"),
    battle("smaclite", "SMAClite", "play_smaclite.py", "2s3z"),
    battle("smax", "SMAX", "play_smax.py", "3m"),
    battle("smax", "SMAX", "play_smax.py", "2s3z"),
    Comparison(
        "stable-baselines3",
        "Stable-Baselines3",
        "agent-steps of PPO, TrustDilemma-v1, 64x64",
        ("train_sb3.py", "coopbench/TrustDilemma-v1", "64"),
        ("train_coopbench.py", "coopbench/TrustDilemma-v1", "64x64"),
    ),
    Comparison(
        "stable-baselines3",
        "Stable-Baselines3",
        "agent-steps of PPO, TrustDilemma-v1, 128x128",
        ("train_sb3.py", "coopbench/TrustDilemma-v1", "128"),
        ("train_coopbench.py", "coopbench/TrustDilemma-v1", "128x128"),
    ),
    qmix("recurrent"),
    qmix("memoryless"),
)


def rows(
    comparisons: tuple[Comparison, ...], rounds: int, folder: Path = FOLDER
) -> Iterator[list[speed.Cell]]:
    """Measure and yield one row for each comparison, also where the peer has no result."""
    for comparison in comparisons:
        python = folder / comparison.peer / "bin" / "python"
        theirs = probes.Probe(python, comparison.script[0], comparison.script[1:])
        ours = probes.Probe(Path(sys.executable), comparison.ours[0], comparison.ours[1:])
        try:
            pair = probes.compare(ours, theirs, rounds)
        except probes.ProbeError as error:
            print(f"{comparison.name}: {error}", file=sys.stderr, flush=True)
            reason = "not installed" if isinstance(error, probes.MissingError) else "failed"
            yield [comparison.what, f"{comparison.name}: {reason}", None, None, None]
            continue
        version = ", ".join(f"{name} {text}" for name, text in pair.versions.items())
        name = f"{comparison.name} ({version})"
        yield [comparison.what, name, pair.first, pair.second, pair.ratio]


def identity(row: Sequence[speed.Cell]) -> tuple[str, str]:
    """Return what a row measures, and the name of the package without versions or reasons."""
    return str(row[0]), re.split(r" \(|: ", str(row[1]))[0]


def main() -> None:
    """Measure all peers, or those that are named; stored rows of others stay."""
    parser = speed.parser(__doc__.splitlines()[0])
    names = sorted({comparison.peer for comparison in COMPARISONS})
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"default: all of {names}")
    options = parser.parse_args()
    if unknown := set(options.peers) - set(names):
        parser.error(f"no peers {sorted(unknown)}; there are {names}")
    machine = speed.machine()
    chosen = tuple(c for c in COMPARISONS if not options.peers or c.peer in options.peers)
    measured = []
    for row in rows(chosen, options.rounds):
        measured.append(row)
        print(" | ".join(speed.written(cell) for cell in row), flush=True)
    if options.record:
        cells = speed.merged("peers", measured, identity) if options.peers else measured
        speed.record("peers", speed.Table(HEAD, cells, machine))


if __name__ == "__main__":
    main()
