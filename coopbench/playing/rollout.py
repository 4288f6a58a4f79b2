"""Rollout: play the episodes of cells, all of them at once as lanes of one engine."""

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import OWN, Actor, Match, Script, SideBySide, seating
from coopbench.baselines.player import Player
from coopbench.episodes.actions import Actions, packed, stored_episodes
from coopbench.episodes.fingerprints import Fingerprints, extremes
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell, Episodes, Played, Progress
from coopbench.episodes.trained import Trained
from coopbench.episodes.trajectories import Recorder
from coopbench.playing.contestants import Checkpoints, Failed, Model, PolicyLike, name_of
from coopbench.playing.jobs import Resources, Tell
from coopbench.playing.plan import game_of
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task, instance_state
from coopbench.provenance import elapsed
from coopbench_envs.core import streams
from coopbench_envs.drivers import MANY_LANES
from coopbench_envs.engine import Engine
from coopbench_envs.foreign.engine import ForeignEngine
from coopbench_envs.foreign.loading import code_of
from coopbench_envs.foreign_names import is_foreign
from coopbench_envs.lanes import Lanes, Readable, Share


def engine_of(task: Task, episodes: int = 1, cells: int = 1) -> Engine | ForeignEngine:
    """Return an engine that plays a task, with one lane for every episode of every cell.

    The arrays of a cell have the layout in memory that they have in an engine of its own, so that
    means over its episodes have the same bits.
    """
    if is_foreign(task.env):
        return ForeignEngine(task.spec, episodes * cells, **task.parameters)
    order = None if episodes >= MANY_LANES else "C"
    return Engine(task.env, episodes * cells, order=order, **task.parameters)


def environment_facts(engine: Lanes) -> dict[str, Any]:
    """Return what results say of an environment from outside of this package; empty for all others.

    ``code`` are the versions of its packages, or the digest of its file; ``repeats`` is whether the
    first episode went the same way when it was played twice; ``horizon`` is the longest that an
    episode may take, and ``stated`` whether the environment itself says so. A registered
    environment has a horizon, and the same seed is the same episode.
    """
    code = code_of(engine.spec.id)
    if not code:
        return {}
    repeats = stated = True
    if isinstance(engine, ForeignEngine):
        repeats, stated = engine.repeats(), engine.constants.stated
    return {"code": code, "repeats": repeats, "horizon": engine.horizon, "stated": stated}


def play(
    protocol: Protocol,
    cell: Cell,
    policy: PolicyLike,
    progress: Tell | None = None,
    partners: Sequence[PolicyLike] | None = None,
    seeds: np.ndarray | None = None,
    with_actions: bool = False,
) -> Episodes:
    """Play every episode of ``cell`` and return their results.

    Episode k is the environment seeded with the task's k-th evaluation seed. Seats are those of the
    task's partners, or with other ``partners`` those of ``seating``. Curves hold, for every metric
    of the environment, its value so far after each step (0 = at the start), averaged over episodes;
    an episode that is over counts with its last value. ``outside`` counts the actions of the policy
    that are not in its action space: numbers beyond the bounds, which are clipped, and illegal
    choices, which are replaced by "do nothing". With other ``seeds`` the frozen start
    positions of the task, which are those of its evaluation, are not used. The trace holds the
    actions of the policy if they are to be stored, ``with_actions``.
    """
    task = protocol.played_in(cell)
    frozen, seeds = seeds is None, protocol.seeds_of(task) if seeds is None else seeds
    engine = engine_of(task, len(seeds))
    if partners is None:
        partners, seats = task.partner_names, task.seating(len(seeds), engine.agents)
    else:
        seats = seating(len(seeds), len(engine.agents), len(partners))
    players = [Player(seated, Game.of(engine)) for seated in (policy, *partners)]
    match = Match(engine, players, seats)
    match.begin(seeds, instance_state(task, engine.constants, len(seeds)) if frozen else None)
    prints = Fingerprints(engine, seats == OWN if with_actions else None)
    watch = _Watch(engine, players[0].game, cell, seats, prints, warns=True)
    _watched(match, [watch], progress)
    episodes = watch.evaluated(protocol, players)
    facts = environment_facts(engine)
    drawn = episodes.drawn or (frozen and task.instances is not None)
    episodes = replace(episodes, environment=facts, drawn=drawn)
    engine.close()
    if not with_actions or episodes.trace is None:
        return episodes
    lanes = stored_episodes(episodes, int(np.prod(engine.actions.shape[2:])), engine.horizon)
    content = packed(prints.actions(lanes, episodes.lengths))
    return replace(episodes, trace=replace(episodes.trace, actions=content))


def play_together(
    protocol: Protocol,
    policies: Mapping[Cell, PolicyLike],
    progress: Tell | None = None,
    until: Mapping[Cell, int] | None = None,
    recorded: Mapping[Cell, Iterable[int]] | None = None,
) -> list[Episodes]:
    """Play all episodes of several cells of one task; return what ``play`` returns of each.

    All cells are lanes of one engine, so that every partner is made once, and acts once in a step.
    The task's partners and the environment must be of this package, and do in a lane what follows
    from that lane alone. A policy acts on the lanes of its own cell. Episodes are played up to
    ``until`` steps, and traces hold those ``recorded``; without, to their ends and the best and the
    worst one.
    """
    cells = list(policies)
    task = protocol.played_in(cells[0])
    seeds, count = protocol.seeds_of(task), len(cells)
    engine = engine_of(task, len(seeds), count)
    game, seats = Game.of(engine), task.seating(len(seeds), engine.agents)
    owners = [Player(policy, game) for policy in policies.values()]
    partners = [Player(name, game) for name in task.partner_names]
    match = Match(engine, [SideBySide(owners), *partners], np.tile(seats, (count, 1)))
    states = instance_state(task, engine.constants, len(seeds))
    start = {name: np.concatenate([values] * count) for name, values in (states or {}).items()}
    match.begin(np.tile(seeds, count), start)
    watches = []
    for number, cell in enumerate(cells):
        share = Share(engine, slice(number * len(seeds), (number + 1) * len(seeds)))
        longest = None if until is None else until[cell]
        watches.append(_Watch(share, game, cell, seats, Fingerprints(share), longest))
    _watched(match, watches, progress)
    engine.close()
    results = []
    for watch, owner in zip(watches, owners, strict=True):
        rows = None if recorded is None else tuple(recorded[watch.cell])
        episodes = watch.evaluated(protocol, [owner, *partners], rows)
        results.append(replace(episodes, drawn=episodes.drawn or task.instances is not None))
    return results


def _nearest(cell: Cell, players: Sequence[Player]) -> dict[str, str]:
    """Return who has played the choices nearest to its actions, name -> "N choices"."""
    names = [cell.policy, *(player.label for player in players[1:])]
    return {n: player.nearest for n, player in zip(names, players, strict=True) if player.nearest}


class Seated(NamedTuple):
    """An actor that sits in the match by itself, without a ``Player`` for it."""

    actor: Actor


class Keyed(NamedTuple):
    """A policy whose random numbers follow from a key, and not from seeds that it might know."""

    policy: PolicyLike
    key: tuple[int, ...]


def play_again(
    protocol: Protocol,
    cell: Cell,
    actor: PolicyLike | Seated | Keyed | Actions,
    numbers: Sequence[int],
    recorded: Iterable[int],
    longest: int | None = None,
    progress: Tell | None = None,
) -> tuple[Episodes, Actions | None]:
    """Play episodes of a cell again by their ``numbers``, up to ``longest`` steps; see ``play``.

    The actor is the policy of the cell, or the actions that it took in these episodes; partners
    act as they are named. The trace holds actions and rewards of the ``recorded`` numbers, by
    their positions in ``numbers``. Actions are also returned as they were played, in the form in
    which they are stored.
    """
    task, rows = protocol.played_in(cell), list(numbers)
    engine, count = engine_of(task, len(rows)), max(rows) + 1
    seats = task.seating(count, engine.agents)[rows]
    players: list[Actor] = [Player(name, Game.of(engine)) for name in task.partner_names]
    prints = Fingerprints(engine)
    if isinstance(actor, Keyed):
        draws = np.random.default_rng(actor.key)
        players.insert(0, Player(actor.policy, Game.of(engine), draws))
    elif isinstance(actor, Seated):
        players.insert(0, actor.actor)
    elif not isinstance(actor, Actions):
        players.insert(0, Player(actor, Game.of(engine)))
    else:
        joint, last = actor.joint, actor.joint.shape[1] - 1
        players.insert(0, Script(lambda step: joint[:, min(step, last)].copy()))
        prints = Fingerprints(engine, seats == OWN)
    match = Match(engine, players, seats)
    match.begin(
        protocol.seeds_of(task)[rows], instance_state(task, engine.constants, count, rows) or {}
    )
    watch = _Watch(engine, Game.of(engine), cell, seats, prints, longest)
    _watched(match, [watch], progress)
    places = [rows.index(k) for k in recorded]
    own = [player for player in players if isinstance(player, Player)]
    whole = len(own) == len(players)  # what is stated of policies is not known of given actions
    episodes = watch.evaluated(protocol, own, places) if whole else watch.episodes(places)
    episodes = replace(episodes, drawn=episodes.drawn or task.instances is not None)
    played = None
    if isinstance(actor, Actions):
        played = prints.actions(np.arange(len(rows)), episodes.lengths)
        played = played._replace(episodes=actor.episodes)
    engine.close()
    return episodes, played


class _Watch:
    """Notes the episodes of one cell, up to ``longest`` steps, from their beginning on.

    With ``warns`` it warns of a policy whose first actions are not in the action space.
    """

    def __init__(
        self,
        engine: Readable,
        game: Game,
        cell: Cell,
        seats: np.ndarray,
        prints: Fingerprints,
        longest: int | None = None,
        warns: bool = False,
    ) -> None:
        self.engine, self.cell, self.prints, self._warns = engine, cell, prints, warns
        self._game, self._seats, self._longest = game, seats, longest
        self._seeds = engine.control.seed.copy()
        self._recorder = Recorder(engine)
        self._recorder.note()
        self._course = [engine.control.measures.mean(axis=0)]
        self._outside = 0
        self._result: Episodes | None = None

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to note."""
        steps = len(self._course) - 1
        return bool(self.engine.control.done.all()) or steps == self._longest

    def note(self, actions: np.ndarray) -> None:
        """Note a step, in which players returned these ``actions`` in the lanes of the cell."""
        control = self.engine.control
        beyond = _beyond(self._game, actions) & (self._seats == OWN) & control.moved[:, None]
        if self._warns and len(self._course) == 1 and beyond.any():
            _warn(self._game, self.cell, actions, beyond)
        self._outside += int(beyond.sum())
        self._recorder.note()
        self.prints.note()
        with np.errstate(over="ignore"):  # numbers that large are refused in the end
            self._course.append(control.measures.mean(axis=0))
        if self.is_over:  # other lanes may go on, and these too if they are not over by themselves
            self._result = self._outcome()

    def episodes(self, recorded: Sequence[int]) -> Episodes:
        """Return the results; the trace holds actions and rewards of the ``recorded`` episodes."""
        episodes = self._outcome() if self._result is None else self._result
        return replace(episodes, trace=self.prints.trace(recorded, episodes.lengths))

    def evaluated(
        self, protocol: Protocol, players: Sequence[Player], recorded: Sequence[int] | None = None
    ) -> Episodes:
        """Return the results of the first player; recorded are by default the best and the worst.

        The other players are its partners.
        """
        episodes = self._outcome() if self._result is None else self._result
        if recorded is None:
            scores = values(episodes, protocol.report.score)
            recorded = extremes(scores[: self.prints.recordable])
        return replace(
            episodes,
            trace=self.prints.trace(recorded, episodes.lengths),
            rescaled=players[0].rescaled,
            nearest=_nearest(self.cell, players),
        )

    def _outcome(self) -> Episodes:
        """Return the results so far, without a trace."""
        engine, control, names = self.engine, self.engine.control, list(self.engine.spec.metrics)
        course = np.array(self._course).T.copy()
        measured = {name: control.measures[:, k].copy() for k, name in enumerate(names)}
        return Episodes(
            cell=self.cell,
            agents=engine.agents,
            seeds=self._seeds,
            lengths=engine.state.time.copy(),
            terminated=control.ended.copy(),
            seats=self._seats == OWN,
            returns=control.returns.copy(),
            metrics=measured | self._recorder.metrics(),
            curves=dict(zip(names, course, strict=True)),
            agent_metrics=self._recorder.agent_metrics(),
            common_reward=engine.spec.common_reward,
            outside=self._outside,
            drawn=_has_drawn(engine),
        )


def _watched(match: Match, watches: Sequence[_Watch], progress: Tell | None) -> None:
    """Play a match that has begun until all watches of its lanes, in their order, are over."""
    engine, control = match.engine, match.engine.control
    share = engine.lanes // len(watches)
    going = [(k, watch) for k, watch in enumerate(watches) if not watch.is_over]
    if not going:
        return
    for step, actions in enumerate(match.steps(), 1):
        for k, watch in going:
            watch.note(actions[k * share : (k + 1) * share])
        going = [(k, watch) for k, watch in going if not watch.is_over]
        if progress is not None:
            progress(float(max(control.done.mean(), step / engine.horizon)))
        if not going:
            return


def _has_drawn(engine: Readable) -> bool:
    """Whether a random number was drawn in an episode: then its stream is not where it began."""
    if is_foreign(engine.spec.id):  # which has random numbers of its own
        return True
    control = engine.control
    return bool(np.any(control.rng != streams(control.seed, control.episode)))


def _beyond(game: Game, actions: np.ndarray) -> np.ndarray:
    """Return which actions are not in the space of a game, (lanes, agents), but for rounding.

    Choices that a mask forbids are in it.
    """
    if game.choices:
        return np.asarray((actions < 0) | (actions >= game.choices))
    if not game.low.size:
        return np.zeros(actions.shape[:2], np.bool_)
    low, high = (end.reshape(actions.shape[1:]) for end in (game.low, game.high))
    finite = np.isfinite(low) & np.isfinite(high)
    slack = 1e-6 * np.where(finite, high - low, 0.0)
    beyond = (actions < low - slack) | (actions > high + slack)
    return np.asarray(beyond.any(axis=-1))


def _warn(game: Game, cell: Cell, actions: np.ndarray, beyond: np.ndarray) -> None:
    """Warn of a policy whose first actions in a cell are not in the action space."""
    lane, seat = np.argwhere(beyond)[0]
    allowed = f"0 to {game.choices - 1}"
    if not game.choices:
        low, high = (end[seat].ravel().tolist() for end in (game.low, game.high))
        allowed = f"{low} to {high}"
    warnings.warn(
        f"{cell.policy} takes actions outside of the action space on {cell.task} from the first "
        f"step on: {actions[lane, seat].tolist()} for {game.agents[seat]!r}; allowed: {allowed}. "
        f"Numbers are clipped to the bounds (forces of Routing-v0 are not), and choices replaced "
        f"by doing nothing.",
        stacklevel=2,
    )


@dataclass(frozen=True, eq=False)
class CellJob:
    """A job for one cell: by default it plays the episodes of the cell once, on one core.

    A subclass adds what it needs and ``__call__``; see ``coopbench.playing.jobs.Job``. Two
    jobs are never equal, because their contents need not be comparable.
    """

    protocol: Protocol
    cell: Cell

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The one cell of the job."""
        return (self.cell,)

    @property
    def task(self) -> Task:
        """The task of the cell, as its policy plays it."""
        return self.protocol.played_in(self.cell)

    @property
    def steps(self) -> int:
        """The largest number of environment steps that the job can take."""
        return self.steps_of(self.protocol.episodes(self.task))

    def steps_of(self, episodes: int) -> int:
        """Return the largest number of steps in this number of episodes of the task."""
        return int(game_of(self.task).constants.horizon) * episodes

    @property
    def cost(self) -> float:
        """The number of agents times ``steps``."""
        return float(len(game_of(self.task).agents) * self.steps)

    @property
    def kind(self) -> str:
        """The module whose kernels the task's environment compiles."""
        return self.task.spec.module

    @property
    def resources(self) -> Resources:
        """One core: episodes are lanes of one engine, which uses one thread."""
        return Resources()

    @property
    def place(self) -> str:
        """Where the policy plays, for errors: its task."""
        return f"task {self.cell.task!r}"

    def name_after(self, text: str) -> str:
        """Return the name of the job, without its policy if ``text`` names it in quotes."""
        if repr(self.cell.policy) not in text:
            return str(self)
        return self.place if self.cell.run is None else f"run {self.cell.run} on {self.place}"

    def __str__(self) -> str:
        run = "" if self.cell.run is None else f", run {self.cell.run},"
        return f"policy {self.cell.policy!r}{run} on {self.place}"


@dataclass(frozen=True, eq=False)
class PlayJob(CellJob):
    """The play of one cell, for a backend; its result is ``Played``."""

    policy: Model
    partners: Sequence[PolicyLike] | None = None
    with_actions: bool = False  # whether the results are to hold the actions of the policy

    @property
    def place(self) -> str:
        """The task, and the partners if they are not those of the protocol."""
        names = ", ".join(repr(name_of(partner)) for partner in self.partners or ())
        return super().place + (f" with partners {names}" if names else "")

    @property
    def steps(self) -> int:
        """Steps of the cell's episodes and of its checkpoints' ones; 0 for a run that failed."""
        if isinstance(self.policy, Failed):
            return 0
        selection, episodes = self.protocol.seeds.selection, self.protocol.episodes(self.task)
        if isinstance(self.policy, Checkpoints) and selection is not None:
            episodes += selection.count * len(self.policy.policies)
        return self.steps_of(episodes)

    @property
    def player(self) -> PolicyLike:
        """The policy that plays; ``ValueError`` where there is none, or several to choose from."""
        if isinstance(self.policy, Trained):
            return self.policy.policy
        if isinstance(self.policy, Failed):
            raise ValueError(f"There is nothing to play: {self} failed ({self.policy.reason}).")
        if isinstance(self.policy, Checkpoints):
            raise ValueError(f"{self} has checkpoints, one of which is to be chosen first.")
        return self.policy

    @property
    def progress(self) -> Progress | None:
        """The progress of a training run on the task of the cell, if it is known."""
        run = self.policy
        return run.progress_on(self.cell.task) if isinstance(run, Trained) else None

    def __call__(self, tell: Tell | None) -> Played:
        """Play the cell; of a training run first its checkpoints, then the best of them."""
        start, model, progress = time.perf_counter(), self.policy, self.progress
        if isinstance(model, Checkpoints):
            # The choice is made on the task that was trained on, also where another one is played.
            chosen = play_checkpoints(
                self.protocol, replace(self.cell, task=self.task.origin), model, tell
            )
            place = self.protocol.chosen(chosen)
            policy, tell = model.policies[int(chosen.steps[place])], None
            progress = chosen if chosen.cell == self.cell else None
        else:
            policy = self.player
        episodes = play(
            self.protocol, self.cell, policy, tell, self.partners, with_actions=self.with_actions
        )
        return Played(episodes, progress, elapsed(start))


def play_selection(
    protocol: Protocol, cell: Cell, policy: PolicyLike, metrics: Iterable[str] = ()
) -> dict[str, np.ndarray]:
    """Play the selection episodes; return what is stored of a checkpoint, {metric: (episodes,)}.

    ``cell`` is on the task of the training, whose partners play as in the evaluation. ``metrics``
    are those of checkpoints that are stored already; by default what the protocol reports.
    """
    selection, task = protocol.seeds.selection, protocol.task_of(cell.task)
    if selection is None:
        raise ValueError(f"{protocol.name} has no selection seeds to choose a checkpoint by.")
    seeds = np.array(selection.seeds, np.uint64)
    block = play(protocol, cell, policy, seeds=seeds)
    names = tuple(metrics) or protocol.selection_metrics_of(task)
    return {name: values(block, name) for name in names}


def play_checkpoints(
    protocol: Protocol, cell: Cell, checkpoints: Checkpoints, tell: Tell | None
) -> Progress:
    """Play the selection episodes of a protocol with every checkpoint of a training run."""
    steps = sorted(checkpoints.policies)
    rows: dict[str, list[np.ndarray]] = {}
    for number, step in enumerate(steps, start=1):
        for name, row in play_selection(protocol, cell, checkpoints.policies[step]).items():
            rows.setdefault(name, []).append(row)
        if tell is not None:
            tell(number / (len(steps) + 1))
    metrics = {name: np.stack(column) for name, column in rows.items()}
    return Progress(cell, np.array(steps, np.int64), metrics)
