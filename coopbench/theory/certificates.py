"""Certificates: how hard a coopetition game is, in figures that anybody can reproduce.

A game can be too easy in known ways: selfish play loses nothing, one constant wins, a sequence
fixed in advance wins, the seed changes nothing, defection pays. A certificate measures each and
says which criteria hold. ``coopbench certify`` prints it; the certificates
of this package are data files of ``coopbench.baselines``; the policies ``best_constant`` and
``open_loop`` play the actions that they hold.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import Actor, Match, Script
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_policy
from coopbench.baselines.strategies.certified import certified
from coopbench.baselines.strategies.investments import CUSTOMARY
from coopbench.report.markdown import rows_table
from coopbench.theory.best_play import best_open_loop
from coopbench.theory.one_step import single_parts, solve
from coopbench_envs.engine import Engine
from coopbench_envs.roles import members_of_roles

__all__ = ["Certificate", "Criterion", "certify", "load_certificate"]

# First seeds of the episodes for searching and for judging its results; no protocol uses them.
SEARCH, JUDGED = 2_000_000, 1_000_000
SEARCHED, EPISODES = 50, 200
REACTIVE = (
    "tit_for_tat",
    "generous_tit_for_tat",
    "suspicious_tit_for_tat",
    "win_stay_lose_shift",
    "grim_trigger",
    "trust_threshold",
    "conditional_cooperator",
    "conditional_cooperator:0.7",
    "conditional_cooperator:1,0.8",
)


@dataclass(frozen=True)
class Criterion:
    """One requirement on a game, with the value that was measured."""

    name: str
    value: float
    bound: float
    above: bool  # True: value must be >= bound; False: <= bound
    met: bool


@dataclass(frozen=True)
class Certificate:
    """Figures of one game at its defaults; returns are per step, summed over agents."""

    env_id: str
    episodes: int
    figures: dict[str, float]
    policies: dict[str, float]  # return of every policy in all seats
    best_reactive: str
    best_constant: dict[str, list[float]]  # role -> action, as fractions of the action's range
    open_loop: list[float]  # investment of all agents at each step, as a fraction
    criteria: tuple[Criterion, ...]

    @property
    def met(self) -> bool:
        """Whether every criterion holds."""
        return all(criterion.met for criterion in self.criteria)

    def to_json(self) -> str:
        """Write as JSON with sorted keys."""
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"

    def table(self) -> str:
        """Write as Markdown tables: the criteria, then the policies."""
        rows = [
            (c.name, f"{c.value:.3f}", _requirement(c), "yes" if c.met else "**no**")
            for c in self.criteria
        ]
        low, high = self.figures["random"], self.figures["best_reactive"]
        scores = [
            (f"`{name}`", f"{value:.3f}", f"{(value - low) / (high - low):.2f}")
            for name, value in sorted(self.policies.items(), key=lambda item: -item[1])
        ]
        heads = ["Policy in every seat", "Return per step", "Score"]
        met = self.figures["price_of_anarchy_in_play"]
        note = f"At the trust that is met in play the price of anarchy is {met:.3f}."
        criteria = rows_table(["Criterion", "Value", "Asked", "Holds"], rows)
        return f"{criteria}\n\n{note}\n\n{rows_table(heads, scores)}"


def _requirement(criterion: Criterion) -> str:
    """Write what a criterion requires of its value."""
    if not criterion.above:
        return f"<= {criterion.bound:g}"
    return f"> {criterion.bound:g}" if criterion.bound == 0.0 else f">= {criterion.bound:g}"


def certify(
    env_id: str, *, stored: Certificate | None = None, tell: Callable[[str], None] | None = None
) -> Certificate:
    """Measure a game of the coopetition families at its defaults.

    Searches use one set of seeds and their results are judged on another; no protocol uses either.
    With a ``stored`` certificate its best constant and open loop are judged again and nothing is
    searched. ``tell`` is called with the name of each part before it is measured. Raises
    ``ValueError`` for games of other families.
    """
    say = tell or (lambda text: None)
    say("one step as a game")
    figures = _stage_figures(env_id)
    say("policies")
    bench = _Bench(env_id)
    policies = {name: bench.alone(name) for name in _playable(bench.game)}
    best = max((n for n in REACTIVE if n in policies), key=lambda name: policies[name].sum())
    cooperator = "conditional_cooperator"
    cooperator = cooperator if cooperator in policies else best
    defection = policies["always_defect"]
    figures |= {
        "random": float(policies["random"].sum()),
        "best_reactive": float(policies[best].sum()),
        "cooperation_gain": float((policies[cooperator] / defection).min()),
        "honesty": bench.honesty(cooperator),
        "spread": bench.spread(cooperator),
    }
    say("best constant")
    constant = stored.best_constant if stored else best_constant(env_id)
    say("best sequence")
    loop = stored.open_loop if stored else _open_loop(env_id)
    figures["best_constant"] = bench.actions(_everyone(constant, bench.game))
    figures["open_loop"] = bench.actions(_sequence(loop, bench.game))
    gap = figures["best_reactive"] - figures["random"]
    for name in ("best_constant", "open_loop"):
        figures[f"{name}_score"] = (figures[name] - figures["random"]) / gap
    returns = {name: float(value.sum()) for name, value in policies.items()}
    returns |= {name: figures[name] for name in ("best_constant", "open_loop")}
    return Certificate(
        bench.game.env_id, EPISODES, figures, returns, best, constant, loop, _criteria(figures)
    )


def load_certificate(env_id: str) -> Certificate:
    """Return the certificate of an environment that this package contains.

    Raises ``FileNotFoundError`` if the environment has none.
    """
    content = certified(env_id)
    rows = content.pop("criteria")
    return Certificate(**content, criteria=tuple(Criterion(**row) for row in rows))


def _criteria(figures: dict[str, float]) -> tuple[Criterion, ...]:
    """Compare the figures with the requirements on the games of this package."""
    requirements = (
        ("price of anarchy of a step at full trust", "price_of_anarchy", 1.2, True),
        ("gain of a lone deviation in that step, of endowment", "temptation", 0.0, True),
        (
            "cooperation over defection, least agent's ratio of returns",
            "cooperation_gain",
            1.2,
            True,
        ),
        ("against tit for tat, cooperator less defector, per step", "honesty", 0.0, True),
        ("best constant, score", "best_constant_score", 0.85, False),
        ("best fixed sequence, score", "open_loop_score", 0.85, False),
        ("standard deviation of returns over seeds, per step", "spread", 0.0, True),
    )
    rows = []
    for text, name, bound, above in requirements:
        value = figures[name]
        strict = bound == 0.0
        met = (value > bound if strict else value >= bound) if above else value <= bound
        rows.append(Criterion(text, value, bound, above, bool(met)))
    return tuple(rows)


def _stage_figures(env_id: str) -> dict[str, float]:
    """Return the figures of one step, at full trust and at the trust met in play."""
    full = solve(env_id)
    figures = {
        "price_of_anarchy": full.price_of_anarchy,
        "temptation": float(full.temptation.max(axis=0).min()),
    }
    met = solve(env_id, trust=None)
    return figures | {"price_of_anarchy_in_play": met.price_of_anarchy}


def _playable(game: Game) -> list[str]:
    """Return the policies that a certificate tries and that can play ``game``."""
    names = ["random", "always_defect", "constant:0.35", "constant:0.5", "constant:0.75", *REACTIVE]
    playable = []
    for name in names:
        try:
            make_policy(name, game)
        except ValueError:
            continue
        playable.append(name)
    return playable


class _Bench:
    """Plays the episodes of one game on which certificates are judged."""

    def __init__(self, env_id: str) -> None:
        self._engine = Engine(env_id, EPISODES)
        self._seeds = np.arange(JUDGED, JUDGED + EPISODES, dtype=np.uint64)
        self.game = Game.of(self._engine)

    def alone(self, policy: str) -> np.ndarray:
        """Return the mean return per step (agents,) with one policy in every seat."""
        result: np.ndarray = self._played([policy] * len(self.game.agents)).mean(axis=0)
        return result

    def spread(self, policy: str) -> float:
        """Return the standard deviation over episodes of the summed return per step."""
        total = self._played([policy] * len(self.game.agents)).sum(axis=1)
        return 0.0 if np.ptp(total) == 0.0 else float(total.std(ddof=1))

    def honesty(self, cooperator: str) -> float:
        """Return what a seat among tit for tat gains by cooperating instead of defecting.

        It is the return per step of the role that gains least.
        """
        gains = []
        for members in members_of_roles(self.game.agents).values():
            seat = members[0]
            earned = []
            for policy in (cooperator, "always_defect"):
                seats = ["tit_for_tat"] * len(self.game.agents)
                seats[seat] = policy
                earned.append(self._played(seats)[:, seat].mean())
            gains.append(earned[0] - earned[1])
        return float(min(gains))

    def actions(self, fractions: np.ndarray) -> float:
        """Return the summed return per step of fixed fractions (steps or 1, agents, parts)."""
        low, high = self.game.low, self.game.high
        units, last = low + fractions * (high - low), len(fractions) - 1
        shape = self._engine.actions.shape

        script = Script(lambda step: np.broadcast_to(units[min(step, last)], shape))
        return float(self._run([script]).sum(axis=1).mean())

    def _played(self, seats: list[str]) -> np.ndarray:
        """Return returns per step (episodes, agents) with one policy per seat."""
        names = list(dict.fromkeys(seats))
        numbers = [names.index(name) - 1 for name in seats]  # of players, as in a seating
        players = [Player(name, self.game) for name in names]
        return self._run(players, np.tile(numbers, (EPISODES, 1)))

    def _run(self, players: Sequence[Actor], seats: np.ndarray | None = None) -> np.ndarray:
        """Play the judged episodes; return returns per step (episodes, agents)."""
        returns = Match(self._engine, players, seats).play(self._seeds)
        return returns / self._engine.horizon


def best_constant(env_id: str) -> dict[str, list[float]]:
    """Search the best constant action of each role, as fractions of the action's range.

    Every part that is one number is moved in turn for every role, over an even grid and then over
    ever narrower ones, from three starts; longer parts keep their customary value. The criterion
    is the summed return over the search seeds.
    """
    game = Game.at(env_id)
    parts = list(single_parts(game.action_layout).values())
    roles = members_of_roles(game.agents)
    search = _Search(env_id)
    ends = [_climbed(search, roles, parts, start) for start in (0.0, 0.5, 1.0)]
    actions, _ = max(ends, key=lambda end: end[1])
    return {role: actions[members[0]].tolist() for role, members in roles.items()}


class _Search:
    """Plays constant actions on the search seeds, many candidates at once."""

    def __init__(self, env_id: str, candidates: int = 11) -> None:
        self.candidates = candidates
        self._engine = Engine(env_id, candidates * SEARCHED)
        self.low, self.high = self._engine.action_bounds()
        self._seeds = np.tile(np.arange(SEARCH, SEARCH + SEARCHED, dtype=np.uint64), candidates)

    def __call__(self, fractions: np.ndarray) -> np.ndarray:
        """Return the values (candidates,) of actions (candidates, agents, parts)."""
        units = np.repeat(self.low + fractions * (self.high - self.low), SEARCHED, axis=0)
        returns = Match(self._engine, [Script(lambda step: units)]).play(self._seeds)
        total = returns.sum(axis=1).reshape(self.candidates, SEARCHED)
        return np.asarray(total.mean(axis=1))


def _climbed(
    search: _Search, roles: dict[str, list[int]], parts: list[int], start: float
) -> tuple[np.ndarray, float]:
    """Move one number at a time from ``start``; return the actions (agents, parts), their value."""
    best = np.full(search.high.shape, CUSTOMARY)
    best[:, parts] = start
    worth = -np.inf
    offsets = np.linspace(-1.0, 1.0, search.candidates)
    for width in (1.0, 1.0, 0.2, 0.04):
        for members in roles.values():
            for part in parts:
                trial = np.tile(best, (search.candidates, 1, 1))
                centre = 0.5 if width == 1.0 else best[members[0], part]
                reach = 0.5 if width == 1.0 else width
                trial[:, members, part] = np.clip(centre + reach * offsets, 0, 1)[:, None]
                values = search(trial)
                if values.max() > worth:
                    best, worth = trial[values.argmax()], float(values.max())
    return best, worth


def _open_loop(env_id: str) -> list[float]:
    """Search the best sequence of investments common to all agents, as fractions."""
    sequence = best_open_loop(env_id, episodes=SEARCHED, seed=SEARCH, iterations=80)
    return [float(step[0]) for step in sequence.fractions]


def _everyone(constant: dict[str, list[float]], game: Game) -> np.ndarray:
    """Return the constant actions of the roles for every agent, (1, agents, parts)."""
    rows = np.zeros(game.high.shape)
    for role, members in members_of_roles(game.agents).items():
        rows[members] = constant[role]
    return rows[None]


def _sequence(loop: list[float], game: Game) -> np.ndarray:
    """Return the actions of all agents at each step, (steps, agents, parts)."""
    actions = np.full((len(loop), *game.high.shape), CUSTOMARY)
    actions[:, :, 0] = np.array(loop)[:, None]
    return actions
