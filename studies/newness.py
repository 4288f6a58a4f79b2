"""Measure how new partners are: how differently they play from those that training may meet.

    python -m studies.newness
    python -m studies.newness --task trust-dilemma.unmet --matrix
    python -m studies.newness --task trust-dilemma.held-out --try gradual:0.9 --try bully:0.3,0.5

Every partner plays one seat, and a probe all other seats. Probes are the policies of the pool
``probes`` of coopetition-standard: they reciprocate, defect after cooperating, recover, exploit,
alternate and invest at random. Play is the mean action in the good regime, as a share of its range,
in every fifth of an episode, with every probe and in every seat. The distance of two partners is
the mean absolute difference of their play, in the part of an action (investments, wishes, demands,
terms) in which it is largest: noise, and turns within a fifth, cancel out. Bars count by what comes
of them: whether developers are on the platform. A partner is new if its distance from every partner
of the tasks that training may meet is at least ``NEW`` in each role that it has. The exit status is
1 if a partner of a held-out or unmet group is not.
"""

import argparse
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.protocol.training import HELD_OUT
from coopbench_envs.engine import Engine
from coopbench_envs.roles import members_of_roles
from studies.checks.folders import ROOT

PROTOCOL = "coopetition-standard"
NEW = 0.1  # least distance, as a share of the range of an action
SEED = 70_000_000  # of the first episode; neither protocols nor certificates play these
EPISODES = 16  # of every partner with every probe in every seat
PARTS_OF_TIME = 5


@dataclass(frozen=True)
class Row:
    """How new one partner is in one role of a task."""

    task: str
    role: str
    partner: str
    nearest: str  # of the partners that training may meet
    distance: float

    @property
    def new(self) -> bool:
        """Whether it is far enough from the nearest."""
        return self.distance >= NEW


@cache
def probes() -> tuple[str, ...]:
    """Return the names of the probes."""
    content = tomllib.loads((ROOT / "protocols" / f"{PROTOCOL}.toml").read_text(encoding="utf-8"))
    return tuple(content["pools"]["probes"])


def play(task: Task, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return what policies play in the good regime beside the probes, by role.

    Arrays are (policies, cells, parts of an action), in [0, 1]; a cell is one probe, seat of the
    role and part of the episode. Wishes count as one part, their mean.
    """
    game = Game.at(task.env, **task.parameters)
    agents, others = len(game.agents), probes()
    shape = (len(names), len(others), agents, EPISODES)
    subject, probe, seat, episode = (index.ravel() for index in np.indices(shape))
    engine = Engine(task.env, len(subject), **task.parameters)
    # Players by number: the partners, then the probes; the first of a match would sit nowhere.
    players = [Player(name, game) for name in ("always_defect", *names, *others)]
    seats = np.repeat((len(names) + probe)[:, None], agents, axis=1)
    lanes = np.arange(len(subject))
    seats[lanes, seat] = subject
    match = Match(engine, players, seats)
    # Partners meet the same episodes: seeds do not depend on the partner.
    match.begin((SEED + (probe * agents + seat) * EPISODES + episode).astype(np.uint64))
    sums = np.zeros((PARTS_OF_TIME, len(lanes), len(game.action_layout)))
    counts = np.zeros((PARTS_OF_TIME, len(lanes)))
    good, step = engine.state.good.copy(), 0
    for actions in match.steps():
        part = step * PARTS_OF_TIME // engine.horizon
        sums[part] += good[:, None] * _acted(engine, game, actions, seat)
        counts[part] += good
        good, step = engine.state.good.copy(), step + 1
    summed = sums.reshape(PARTS_OF_TIME, *shape, -1).sum(axis=4)
    means = summed / np.maximum(counts.reshape(PARTS_OF_TIME, *shape).sum(axis=4), 1.0)[..., None]
    table = np.moveaxis(means, 0, 3)  # (policies, probes, seats, parts of time, parts)
    return {
        role: table[:, :, members].reshape(len(names), -1, table.shape[-1])
        for role, members in members_of_roles(game.agents).items()
    }


def _acted(engine: Engine, game: Game, actions: np.ndarray, seat: np.ndarray) -> np.ndarray:
    """Return what one ``seat`` (lanes,) has done in each part of an action, (lanes, parts)."""
    lanes = np.arange(len(seat))
    played = (actions[lanes, seat] - game.low[seat]) / (game.high - game.low)[seat]
    played, state = np.clip(played, 0.0, 1.0), engine.state
    columns = [played[:, part.index].reshape(len(seat), -1) for part in game.action_layout.values()]
    means = dict(zip(game.action_layout, (some.mean(axis=1) for some in columns), strict=True))
    if "bar" in means:  # developers follow the platform, the first agent, which is always there
        here = state.present.astype(np.float64)
        means["bar"] = np.where(seat == 0, here[:, 1:].mean(axis=1), here[lanes, seat])
    return np.stack(list(means.values()), axis=1)


def distances(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the distances (left, right) of policies by their play in one role, see ``play``."""
    apart: np.ndarray = abs(left[:, None] - right[None]).mean(axis=2).max(axis=2)
    return apart


def met_partners(protocol: Protocol, task: Task) -> dict[str, tuple[str, ...]]:
    """Return the partners of each role that training for the game of ``task`` may meet."""
    met: dict[str, dict[str, None]] = {}
    for other in protocol.task:
        if other.env == task.env and not is_new_group(other.group):
            for role, names in other.pools.items():
                met.setdefault(role, {}).update(dict.fromkeys(names))
    return {role: tuple(names) for role, names in met.items()}


def is_new_group(group: str) -> bool:
    """Return whether the partners of a group must be new: training may not meet them."""
    return group.endswith(HELD_OUT)


def new_tasks(protocol: Protocol) -> list[Task]:
    """Return the tasks whose partners must be new."""
    return [task for task in protocol.task if task.pools and is_new_group(task.group)]


def newness(protocol: Protocol, task: Task, more: Sequence[str] = ()) -> list[Row]:
    """Return how new the partners of a task are, and ``more`` policies, in each role they have."""
    return [
        Row(task.id, role, name, known[int(row.argmin())], float(row.min()))
        for role, names, known, table in _tables(protocol, task, more)
        for name, row in zip(names, table, strict=True)
    ]


def _tables(
    protocol: Protocol, task: Task, more: Sequence[str]
) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...], np.ndarray]]:
    """Yield every role, its partners, those that training may meet, and their distances."""
    met = met_partners(protocol, task)
    known = tuple(dict.fromkeys(name for names in met.values() for name in names))
    asked = tuple(dict.fromkeys([*task.partner_names, *more]))
    played = play(task, [*known, *asked])
    for role, table in played.items():
        pool = met.get(role, met.get("", known))
        names = tuple(dict.fromkeys([*task.pools.get(role, task.partner_names), *more]))
        left = table[[len(known) + asked.index(name) for name in names]]
        right = table[[known.index(name) for name in pool]]
        yield role, names, pool, distances(left, right)


def _matrix(names: Sequence[str], known: Sequence[str], table: np.ndarray) -> str:
    """Write distances as a table of text, with a number for every partner of the training."""
    lines = [f"  {number:>3}: {name}" for number, name in enumerate(known)]
    lines.append(f"  {'':<48}" + "".join(f"{number:>5}" for number in range(len(known))))
    for name, row in zip(names, table, strict=True):
        lines.append(f"  {name[:48]:<48}" + "".join(f"{value:>5.2f}" for value in row))
    return "\n".join(lines)


def main() -> None:
    """Print how new partners are, or all distances."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--protocol", default=PROTOCOL)
    parser.add_argument("--task", action="append", help="with new partners; default: all")
    parser.add_argument("--try", dest="more", action="append", default=[], help="another policy")
    parser.add_argument("--matrix", action="store_true", help="print all distances")
    options = parser.parse_args()
    protocol, failed = load_protocol(options.protocol), False
    tasks: list[Any] = [protocol.task_of(name) for name in options.task or ()]
    for task in tasks or new_tasks(protocol):
        for role, names, known, table in _tables(protocol, task, options.more):
            print(f"{task.id} {role}")
            if options.matrix:
                print(_matrix(names, known, table))
            for name, row in zip(names, table, strict=True):
                nearest = known[int(row.argmin())]
                mark = "" if row.min() >= NEW else "  NOT NEW"
                failed |= bool(mark) and name not in options.more
                print(f"  {row.min():.3f}  {name:<56} nearest {nearest}{mark}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
