"""Published figures beside the same play here: the tables of docs/published.md.

    python -m studies.published          prints the tables
    python -m studies.published --write  puts them into the page

Plays the version 0 games with simple policies, 100 episodes seeded 0 to 99 for the tables of the
games' pages and of the protocol, 13 seeded 99 to 111 for the campaign; about ten seconds warm.
"""

import csv
import re
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.baselines.strategies.investments import Fractions
from coopbench.playing.plan import game_of
from coopbench.protocol.loading import load_protocol
from coopbench.report.markdown import rows_table
from coopbench_envs.engine import Engine
from coopbench_envs.registration import spec
from studies.equilibria import best_constant

PAGE = Path(__file__).resolve().parent.parent / "docs" / "published.md"
LEARNED = PAGE.parent.parent / "benchmarks" / "results" / "tables" / "coopetition-published"
OURS = {"ippo": "`ippo` here", "isac": "`isac` here, 100,000 steps"}
CAMPAIGN = range(99, 112)
# coopetition_gym/docs/benchmarks/environment_analysis.md of the source at commit 4eaeee61: mean
# returns, summed over agents, of investing a share of the largest endowment, and of ISAC.
SHARES = (0.35, 0.5, 0.75)
BENCHMARK = {
    "TrustDilemma": (36_612, 46_267, 43_648, 44_660),
    "PartnerHoldUp": (37_219, 45_320, 41_833, 43_237),
    "PlatformEcosystem": (146_967, 138_286, 127_605, 118_889),
    "DynamicPartnerSelection": (None, 107_314, 94_021, 81_620),
    "RecoveryRace": (47_694, 59_508, 55_563, 57_348),
    "SynergySearch": (None, 41_994, 38_975, 40_439),
    "SLCD": (50_946, 49_870, 46_827, 45_555),
    "RenaultNissan": (46_406, 45_472, 42_694, 43_033),
    "CooperativeNegotiation": (33_908, 43_948, 41_035, 38_321),
    "ReputationMarket": (None, 146_966, 163_761, 144_730),
}

# TrustDilemma, as published on the game's page and in the example of the protocol: mean return (sum
# of both agents), its standard deviation, mean final trust, cooperation.
TRUST_DILEMMA = {
    "random": ("82.4 ± 14.2, .28, .49", "85.2 ± 12.3, .32, .48"),
    "constant:0.35": ("98.6 ± 6.3, .42, .35", ""),
    "constant:0.5": ("112.8 ± 7.1, .56, .50", "112.4 ± 8.7, .58, .50"),
    "constant:0.75": ("134.2 ± 8.4, .68, .75", ""),
    "tit_for_tat": ("128.5 ± 10.8, .64, .58", "124.6 ± 10.2, .62, .54"),
}
# Published mean returns of the strong and of the weak partner.
HOLD_UP = {"random": "78.2, 45.6", "constant:0.5": "95.4, 62.8 (called fair)"}
# Published mean returns over all games, with the high and with the low synergy.
SYNERGY = {
    "constant:0.5": "172.4, 175.2, 169.8",
    "constant:0.75": "186.8, 212.4, 165.2",
    "random": "156.2, 165.4, 148.6",
}
# Games of the campaign by tier; published mean returns: random, best learner with its name.
TIERS = {
    "TR-1": (
        (
            "PartnerHoldUp",
            "PlatformEcosystem",
            "DynamicPartnerSelection",
            "SynergySearch",
            "RenaultNissan",
        ),
        22762,
        "QMIX 69,630",
        34182,
    ),
    "TR-2": (
        ("TrustDilemma", "RecoveryRace", "SLCD", "CooperativeNegotiation", "ReputationMarket"),
        27250,
        "ISAC 65,368",
        43646,
    ),
    "TR-3": (
        ("TeamProduction", "LoyaltyTeam", "CoalitionFormation", "ApacheProject", "PublicGoods"),
        144218,
        "ISAC 1,272,467",
        610835,
    ),
    "TR-4": (
        (
            "ReciprocalDilemma",
            "GiftExchange",
            "IndirectReciprocity",
            "GraduatedSanction",
            "AppleAppStore",
        ),
        65103,
        "COMA 125,819",
        110098,
    ),
}
# Published means of the policy that always invests everything, to the unit.
ORACLE = {
    "ApacheProject": 5484826,
    "CoalitionFormation": 421152,
    "LoyaltyTeam": 123359,
    "PublicGoods": 182166,
    "TeamProduction": 89390,
}


class Played(NamedTuple):
    """Returns (episodes, agents), final trust, cooperation and length (episodes,)."""

    returns: np.ndarray
    trust: np.ndarray
    cooperation: np.ndarray
    length: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """Return summed over agents, (episodes,)."""
        return np.asarray(self.returns.sum(axis=1))


def play(game, policy, seeds):
    """Play one policy in all seats of a version 0 game."""
    engine = Engine(f"{game}-v0", len(seeds))
    match = Match(engine, [Player(policy, Game.of(engine))])
    returns = match.play(np.array(seeds, np.uint64)).copy()
    names, measures = list(engine.spec.metrics), engine.control.measures
    metrics = {name: measures[:, k].copy() for k, name in enumerate(names)}
    return Played(returns, *(metrics[n] for n in ("final_trust", "cooperation_rate", "length")))


class MirrorFromBaseline:
    """Tit for tat that starts from the agents' baselines instead of half the endowment."""

    def initial(self, game, seeds):
        """Return the number of steps played."""
        self._game, self._fractions = game, Fractions(game, "tit_for_tat")
        return np.zeros(len(seeds), np.int64)

    def act(self, observations, memory):
        """Invest the mean fraction that the others have just invested."""
        constants = self._game.constants
        start = constants.baseline / constants.endowment
        others = self._fractions.others(observations).mean(axis=2)
        return self._fractions.units(np.where(memory[:, None] > 0, others, start)), memory + 1


class ShareOfLargest:
    """A share of the largest endowment, or all of a smaller one: the source's constants."""

    def __init__(self, share):
        self._share = share

    def initial(self, game, seeds):
        """Return nothing: it has no memory."""
        self._game, self._fractions = game, Fractions(game, "constant")

    def act(self, observations, memory):
        """Invest the same units in every step."""
        endowment = self._game.constants.endowment
        fractions = np.minimum(self._share * endowment.max() / endowment, 1.0)
        return self._fractions.units(np.broadcast_to(fractions, observations.shape[:2])), memory


def spread(values):
    """Write a mean and a standard deviation."""
    deviation = 0.0 if np.ptp(values) == 0.0 else values.std(ddof=1)
    return f"{values.mean():,.0f} ± {deviation:,.0f}"


def games():
    """Table of the figures on the pages of single games."""
    rows = []
    for policy, (page, example) in TRUST_DILEMMA.items():
        here = play("TrustDilemma", policy, range(100))
        facts = f"{here.trust.mean():.2f}, {here.cooperation.mean():.2f}"
        steps = f"{here.length.mean():.0f}"
        rows.append(
            ("TrustDilemma", policy, page, example, f"{spread(here.total)}, {facts}", steps)
        )
    for policy, page in HOLD_UP.items():
        here = play("PartnerHoldUp", policy, range(100))
        returns = ", ".join(f"{value:,.0f}" for value in here.returns.mean(axis=0))
        rows.append(("PartnerHoldUp", policy, page, "", returns, f"{here.length.mean():.0f}"))
    for policy, page in SYNERGY.items():
        here = play("SynergySearch", policy, range(100))
        rows.append(
            ("SynergySearch", policy, page, "", spread(here.total), f"{here.length.mean():.0f}")
        )
    heads = ["Game", "Policy", "Its page", "Protocol's example", "Here", "Steps here"]
    return rows_table(heads, [(r[0], f"`{r[1]}`", *r[2:]) for r in rows])


def benchmark():
    """Table of the benchmark page by game: constants and the best learner."""
    with (LEARNED / "estimates.csv").open(encoding="utf-8") as file:
        means = {
            (row["task"], row["policy"]): float(row["mean"])
            for row in csv.DictReader(file)
            if row["metric"] == "return"
        }
    tasks, rows = {task.env: task for task in alike()}, []
    for name, (*published, learner) in BENCHMARK.items():
        cells = []
        for share, figure in zip(SHARES, published, strict=True):
            here = play(name, ShareOfLargest(share), range(100)).total.mean()
            cells.append(f"{'' if figure is None else f'{figure:,}'} / {here:,.0f}")
        best = best_constant(f"{name}-v0", episodes=100).value
        task = tasks.get(spec(f"{name}-v0").id)
        own = [0.0 if task is None else means[task.id, policy] for policy in OURS]
        learned = [
            f"{value:,.0f} ({value / best:.2f})" if value else "" for value in (learner, *own)
        ]
        rows.append((name, *cells, *learned, f"{best:,.0f}"))
    heads = ["Game", *(f"{share:g}" for share in SHARES)]
    return rows_table([*heads, "ISAC, published", *OURS.values(), "Best constant here"], rows)


def alike():
    """Return the tasks of the protocol whose episodes are as long as those of the benchmark."""
    return [
        task
        for task in load_protocol("coopetition-published").groups["games"]
        if game_of(task).constants.horizon == Engine(task.env, 1).constants.horizon
    ]


def campaign():
    """Table of the campaign's tiers: means over five games of the summed returns."""
    rows = []
    for tier, (names, random, learner, mirror) in TIERS.items():
        means = {
            policy: np.mean([play(name, policy, CAMPAIGN).total.mean() for name in names])
            for policy in ("random", "tit_for_tat")
        }
        baseline = np.mean([play(n, MirrorFromBaseline(), CAMPAIGN).total.mean() for n in names])
        best = [best_constant(f"{n}-v0", episodes=len(CAMPAIGN), seed=CAMPAIGN[0]) for n in names]
        constant = np.mean([one.value for one in best])
        rows.append(
            (
                tier,
                f"{random:,}",
                f"{means['random']:,.0f}",
                f"{mirror:,}",
                f"{baseline:,.0f}",
                f"{means['tit_for_tat']:,.0f}",
                learner,
                f"{constant:,.0f}",
            )
        )
    heads = ["Tier", "Random, published", "Random here", "Tit for tat, published"]
    heads += [
        "From the baseline, here",
        "Tit for tat here",
        "Best learner, published",
        "Best constant here",
    ]
    return rows_table(heads, rows)


def oracle():
    """Table of the policy that always invests everything."""
    rows = [
        (name, f"{value:,}", f"{play(name, 'constant:1.0', CAMPAIGN).total.mean():,.0f}")
        for name, value in ORACLE.items()
    ]
    return rows_table(["Game", "Published", "Here"], rows)


TABLES = {"games": games, "benchmark": benchmark, "campaign": campaign, "oracle": oracle}


def main():
    tables = {name: table() for name, table in TABLES.items()}
    if "--write" not in sys.argv[1:]:
        print("\n\n".join(tables.values()))
        return
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables.items():
        part = re.compile(rf"(<!-- played: begin {name} -->\n).*?(<!-- played: end -->)", re.DOTALL)
        text, count = part.subn(lambda m, t=table: f"{m[1]}{t}\n{m[2]}", text)
        assert count == 1, name
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
