"""Rollout: play the evaluation episodes of one cell, all of them at once as lanes of one engine."""

import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import OWN, Actor, Match, Script, seating
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
from coopbench_envs.engine import Engine
from coopbench_envs.foreign.engine import ForeignEngine
from coopbench_envs.foreign.loading import code_of
from coopbench_envs.foreign_names import is_foreign
from coopbench_envs.lanes import Lanes


def engine_of(task: Task, lanes: int = 1) -> Engine | ForeignEngine:
    """Return an engine that plays a task, with one lane for every episode."""
    if is_foreign(task.env):
        return ForeignEngine(task.spec, lanes, **task.parameters)
    return Engine(task.env, lanes, **task.parameters)


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
    episodes = _watched(match, cell, prints, progress)
    scores = values(episodes, protocol.report.score)
    trace = prints.trace(extremes(scores[: prints.recordable]), episodes.lengths)
    facts, rescaled = environment_facts(engine), players[0].rescaled
    episodes = replace(episodes, trace=trace, environment=facts, rescaled=rescaled)
    episodes = replace(episodes, nearest=_nearest(cell, players))
    engine.close()
    if not with_actions:
        return episodes
    lanes = stored_episodes(episodes, int(np.prod(engine.actions.shape[2:])), engine.horizon)
    content = packed(prints.actions(lanes, episodes.lengths))
    return replace(episodes, trace=replace(trace, actions=content))


def _nearest(cell: Cell, players: Sequence[Player]) -> dict[str, str]:
    """Return who has played the choices nearest to its actions, name -> "N choices"."""
    names = [cell.policy, *(player.label for player in players[1:])]
    return {n: player.nearest for n, player in zip(names, players, strict=True) if player.nearest}


class Keyed(NamedTuple):
    """A policy whose random numbers follow from a key, and not from seeds that it might know."""

    policy: PolicyLike
    key: tuple[int, ...]


def play_again(
    protocol: Protocol,
    cell: Cell,
    actor: PolicyLike | Keyed | Actions,
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
    elif not isinstance(actor, Actions):
        players.insert(0, Player(actor, Game.of(engine)))
    else:
        joint, last = actor.joint, actor.joint.shape[1] - 1
        players.insert(0, Script(lambda step: joint[:, min(step, last)].copy()))
        prints = Fingerprints(engine, seats == OWN)
    match = Match(engine, players, seats)
    states = instance_state(task, engine.constants, count) or {}
    start = {name: np.asarray(values)[rows] for name, values in states.items()}
    match.begin(protocol.seeds_of(task)[rows], start)
    episodes = _watched(match, cell, prints, progress, longest)
    trace = prints.trace([rows.index(k) for k in recorded], episodes.lengths)
    played = None
    if isinstance(actor, Actions):
        played = prints.actions(np.arange(len(rows)), episodes.lengths)
        played = played._replace(episodes=actor.episodes)
    engine.close()
    return replace(episodes, trace=trace), played


def _watched(
    match: Match,
    cell: Cell,
    prints: Fingerprints,
    progress: Tell | None,
    longest: int | None = None,
) -> Episodes:
    """Play a match that has begun, up to ``longest`` steps; return its results without a trace."""
    engine, control = match.engine, match.engine.control
    seeds = control.seed.copy()
    recorder = Recorder(engine)
    recorder.note()
    course = [control.measures.mean(axis=0)]
    game, own, outside = Game.of(engine), match.seats == OWN, 0
    for actions in itertools.islice(match.steps(), longest):
        outside += int((_beyond(game, actions) & own & control.moved[:, None]).sum())
        recorder.note()
        prints.note()
        course.append(control.measures.mean(axis=0))
        if progress is not None:
            progress(float(max(control.done.mean(), (len(course) - 1) / engine.horizon)))
    curves = dict(zip(engine.spec.metrics, np.array(course).T.copy(), strict=True))
    if game.choices:
        outside = int(control.invalid[own].sum())
    episodes = outcome(engine, cell, seeds, match.seats, recorder)
    return replace(episodes, curves=curves, outside=outside)


def _beyond(game: Game, actions: np.ndarray) -> np.ndarray:
    """Return which actions lie beyond the bounds of a game, (lanes, agents), but for rounding."""
    if game.codec is not None or game.choices or not game.low.size:
        return np.zeros(actions.shape[:2], np.bool_)
    slack = 1e-6 * (game.high - game.low)
    beyond = (actions < game.low - slack) | (actions > game.high + slack)
    return np.asarray(beyond.any(axis=-1))


def outcome(
    engine: Lanes, cell: Cell, seeds: np.ndarray, seats: np.ndarray, recorder: Recorder
) -> Episodes:
    """Return the results of the episodes in an engine, without curves and trace."""
    control = engine.control
    return Episodes(
        cell=cell,
        agents=engine.agents,
        seeds=seeds,
        lengths=engine.state.time.copy(),
        terminated=control.ended.copy(),
        seats=seats == OWN,
        returns=control.returns.copy(),
        metrics={name: control.measures[:, k].copy() for k, name in enumerate(engine.spec.metrics)}
        | recorder.metrics(),
        curves={},
        agent_metrics=recorder.agent_metrics(),
        common_reward=engine.spec.common_reward,
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

    def __str__(self) -> str:
        run = "" if self.cell.run is None else f", run {self.cell.run},"
        return f"policy {self.cell.policy!r}{run} on task {self.cell.task!r}"


@dataclass(frozen=True, eq=False)
class PlayJob(CellJob):
    """The play of one cell, for a backend; its result is ``Played``."""

    policy: Model
    partners: Sequence[PolicyLike] | None = None
    with_actions: bool = False  # whether the results are to hold the actions of the policy

    @property
    def steps(self) -> int:
        """Steps of the cell's episodes and of its checkpoints' ones; 0 for a run that failed."""
        if isinstance(self.policy, Failed):
            return 0
        selection, episodes = self.protocol.seeds.selection, self.protocol.episodes(self.task)
        if isinstance(self.policy, Checkpoints) and selection is not None:
            episodes += selection.count * len(self.policy.policies)
        return self.steps_of(episodes)

    def __str__(self) -> str:
        names = ", ".join(repr(name_of(partner)) for partner in self.partners or ())
        return super().__str__() + (f" with partners {names}" if names else "")

    def __call__(self, tell: Tell | None) -> Played:
        """Play the cell; of a training run first its checkpoints, then the best of them."""
        start, policy, progress = time.perf_counter(), self.policy, None
        if isinstance(policy, Checkpoints):
            # The choice is made on the task that was trained on, also where another one is played.
            trained = self.task.trained_on or self.cell.task
            chosen = play_checkpoints(self.protocol, replace(self.cell, task=trained), policy, tell)
            place = self.protocol.chosen(chosen)
            policy, tell = policy.policies[int(chosen.steps[place])], None
            progress = chosen if chosen.cell == self.cell else None
        elif isinstance(policy, Trained):
            progress = policy.progress_on(self.cell.task)
            policy = policy.policy
        elif isinstance(policy, Failed):
            raise ValueError(f"There is nothing to play: {self} failed ({policy.reason}).")
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
    protocol: Protocol,
    cell: Cell,
    checkpoints: Checkpoints,
    tell: Tell | None = None,
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
