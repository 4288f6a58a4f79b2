"""Cross-play: every policy with every other one, or against it; a matrix per task."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from coopbench.analysis.estimates import estimate
from coopbench.analysis.meetings import SEATS, Meeting, Meetings, sides
from coopbench.baselines.match import OWN, seating
from coopbench.baselines.registry import granted
from coopbench.episodes.metrics import values
from coopbench.episodes.names import names_given
from coopbench.episodes.table import Cell, Episodes
from coopbench.episodes.trained import Trained
from coopbench.playing.contestants import Checkpoints, Failed, PolicyArguments, PolicyLike
from coopbench.playing.plan import game_of, plan
from coopbench.playing.rollout import PlayJob
from coopbench.playing.runner import Event, Runner
from coopbench.protocol.loading import find_protocol
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.crossplay import document, save
from coopbench.report.terminal import as_text
from coopbench.statistics import Grid, TwoWay, half_widths
from coopbench_envs.core import POLICY

ALIKE = "a seat always has the same return: a width of zero is not certainty"
TellTask = Callable[[str, float], None]  # task, done in [0, 1]


class CrossPlay(Meetings):
    """Result of ``coopbench.crossplay``; print it, or ``save`` it."""

    def __str__(self) -> str:
        return as_text(document(self))

    def save(self, folder: str | Path) -> dict[str, Path]:
        """Write the matrices below ``folder``; return the files by format.

        ``crossplay.md``, ``crossplay.csv``, ``crossplay.json`` and a heat map per task.
        """
        return save(self, Path(folder))


def crossplay(
    protocol: str | Path | Protocol,
    policies: "PolicyArguments | None" = None,
    tasks: Sequence[str] | None = None,
    progress: TellTask | None = None,
    backend: str = "auto",
    workers: int | None = None,
    against: bool = False,
) -> CrossPlay:
    """Play every policy with every other one, and with itself, on the games of a protocol.

    ``protocol``, ``policies``, ``backend`` and ``workers`` are as in ``evaluate``. By default the
    protocol's baselines play, except those that need parameters of their own, and all tasks are
    played. Partners and groups of tasks are ignored, and tasks that are identical without them are
    played once, under the name of the first one. In episode k of a game of n agents the policy has
    seat k mod n and the other policy has all other seats; the return of that seat counts.

    With ``against``, the policy has all seats and plays against the other policy, in environments
    whose parameter ``opponent`` takes a policy; the protocol's score of its team counts. All
    policies must then be given by name. Raises ``ValueError`` for tasks and policies for which this
    is not possible.
    """
    whole = find_protocol(protocol)
    chosen = [whole.task_of(name) for name in names_given(tasks)]
    games = _games(whole, chosen or whole.task)
    if against:
        _check_sides(games)
    reduced = whole.model_copy(update={"task": games})
    usual = [name for name in whole.report.fixed if not granted(name)]
    usual = [name for name in usual if all(whole.report.has_play(name, task) for task in games)]
    models = _policies(reduced, usual if policies is None else policies)
    names = tuple(dict.fromkeys(cell.policy for cell in models))
    places = [
        (task.id, policy, partner) for task in games for policy, partner in product(names, names)
    ]
    make = _job_against if against else _job
    jobs = [make(reduced, models, *place) for place in places]
    runner = Runner(backend, workers, _by_task(progress, len(names) ** 2))
    samples: dict[PlayJob, tuple[np.ndarray, int]] = {}  # with the number of seats in turn
    with runner.run(jobs) as finished:
        for job, played in finished:
            block = played.episodes
            team = values(block, whole.report.score)
            samples[job] = (team, 1) if against else (_own_returns(block), len(block.agents))
    meetings = tuple(
        _meeting(*place, *samples[job], whole.report.confidence)
        for place, job in zip(places, jobs, strict=True)
    )
    words = sides(whole.report.score) if against else SEATS
    return CrossPlay(whole, names, tuple(task.id for task in games), meetings, words)


def _by_task(
    progress: TellTask | None, jobs: int
) -> Callable[[PlayJob, float, Event], None] | None:
    """Adapt a callback (task, share) to tasks of so many ``jobs`` each."""
    if progress is None:
        return None
    done = Counter[str]()

    def tell(job: PlayJob, share: float, event: Event) -> None:
        if event == "done":
            done[job.cell.task] += 1
            progress(job.cell.task, done[job.cell.task] / jobs)

    return tell


def _policies(protocol: Protocol, arguments: PolicyArguments) -> dict[Cell, PolicyLike]:
    """Return the policy of every cell; ``ValueError`` for training runs."""
    policies: dict[Cell, PolicyLike] = {}
    for cell, contestant in plan(protocol, arguments):
        model = contestant.model
        if cell.run is not None or isinstance(model, Trained | Checkpoints | Failed | None):
            raise ValueError(f"{cell.policy} has several training runs; name the policy of one.")
        if contestant.granted:
            raise ValueError(
                f"{cell.policy} plays tasks with {dict(contestant.granted)}, which its partners "
                f"and opponents do not have: leave it out."
            )
        policies[cell] = model
    return policies


def _job(
    protocol: Protocol, models: Mapping[Cell, PolicyLike], task: str, policy: str, partner: str
) -> PlayJob:
    """Return the play of a policy in one seat, with its partner in all others."""
    cell = Cell(task, policy)
    partners = () if policy == partner else (models[Cell(task, partner)],)
    return PlayJob(protocol, cell, models[cell], partners)


def _check_sides(games: Sequence[Task]) -> None:
    """Raise ``ValueError`` unless policies can play against the agents of all games."""
    for task in games:
        if task.spec.opponent is None:
            raise ValueError(
                f"Task {task.id!r} plays {task.env}, in which no policy plays against the agents; "
                f"allowed: tasks of environments whose parameter 'opponent' takes one."
            )


def _job_against(
    protocol: Protocol, models: Mapping[Cell, PolicyLike], task: str, policy: str, opponent: str
) -> PlayJob:
    """Return the play of a policy in all seats against an opponent."""
    other, played = models[Cell(task, opponent)], protocol.task_of(task)
    if not isinstance(other, str):
        raise ValueError(
            f"{opponent} is no name of a policy of this package or of a training run, which alone "
            f"can play against agents here; an object can with the environment's set_opponent."
        )
    parameters = {**played.parameters, "opponent": f"{POLICY}{other}"}
    changed = protocol.model_copy(
        update={"task": (played.model_copy(update={"parameters": parameters}),)}
    )
    cell = Cell(task, policy)
    return PlayJob(changed, cell, models[cell])


def _games(protocol: Protocol, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return the tasks that differ in game, parameters, start positions or number of episodes."""
    games: dict[str, Task] = {}
    for task in tasks:
        played = (task.env, game_of(task).parameters, task.instances, protocol.episodes(task))
        games.setdefault(repr(played), task)
    return tuple(games.values())


def _own_returns(block: Episodes) -> np.ndarray:
    """Return the return of the policy's seat in every episode, (episodes,)."""
    episodes, agents = block.returns.shape
    returns: np.ndarray = block.returns[seating(episodes, agents, 1) == OWN]
    return returns


def _meeting(
    task: str, policy: str, partner: str, sample: np.ndarray, seats: int, confidence: float
) -> Meeting:
    """Return a mean with its interval, whose variance is that within seats, taken in turn."""
    row = estimate(task, policy, "own_return", sample, confidence)
    ends, flag = (row.low, row.high), row.flag
    if seats > 1 and len(sample) >= 2 * seats and np.isfinite(sample).all():
        grid = Grid(sample, strata=np.arange(len(sample)) % seats)
        half = float(half_widths(TwoWay([grid]).spread(np.ones(1)), confidence)[0])
        ends = row.mean - half, row.mean + half
        flag = flag or ("" if half else ALIKE)
    return Meeting(task, policy, partner, row.count, row.mean, row.std, *ends, flag)
