"""Print the tables of docs/validity-tables.md: what scores and statistics can and cannot tell.

    python -m studies.validity ratios      # spread of runs in the stored tables
    python -m studies.validity regime      # coverage where runs dominate, as in stored tables
    python -m studies.validity claims      # false decisions on one task, at equal means
    python -m studies.validity ranks       # false decisions and ranks of many equal policies
    python -m studies.validity groups      # coverage over groups whose tasks share their seeds
    python -m studies.validity improvement # of the interval of the probability of improvement
    python -m studies.validity profile     # of the bands of performance profiles
    python -m studies.validity waiting     # what a team earns in pathfinding if one agent waits
    python -m studies.validity games       # what kinds of play reach in the version 1 games
    python -m studies.validity games --play  # the same, played again instead of looked up

A table is a function that takes the arguments of the command line and yields rows of texts, the
head first; a line in ``TABLES`` makes it a command.
"""

import argparse
from collections.abc import Callable, Iterator

from studies.validity.decisions import claims, ranks
from studies.validity.games import games
from studies.validity.groups import groups
from studies.validity.improvement import improvement
from studies.validity.profile import profile
from studies.validity.regime import ratios, regime
from studies.validity.waiting import waiting

Rows = Callable[[argparse.Namespace], Iterator[list[str]]]

TABLES: dict[str, Rows] = {
    "ratios": ratios,
    "regime": regime,
    "claims": claims,
    "ranks": ranks,
    "groups": groups,
    "improvement": improvement,
    "profile": profile,
    "waiting": waiting,
    "games": games,
}


def main() -> None:
    """Print a table as Markdown, line by line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--trials", type=int, default=2000, help="of every simulation")
    parser.add_argument("--play", action="store_true", help="games: play certificates again")
    arguments = parser.parse_args()
    for number, row in enumerate(TABLES[arguments.table](arguments)):
        print(f"| {' | '.join(row)} |", flush=True)
        if number == 0:
            print(f"|{' --- |' * len(row)}", flush=True)


if __name__ == "__main__":
    main()
