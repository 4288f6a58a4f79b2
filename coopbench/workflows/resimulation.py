"""Resimulation: the episodes of a stored cell are played again, as far as possible, and compared.

A policy that is known by name plays all of its episodes again. Of any other policy the recorded
episodes are played again from their seeds and actions. Nothing in the files is believed.
"""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import OWN, begin_players
from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.baselines.player import Player
from coopbench.baselines.registry import POLICY_FILE, entries, learners, make_policy
from coopbench.episodes.fingerprints import Fingerprints, extremes, recordable
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell, Episodes, Progress, Trace
from coopbench.episodes.trajectories import Recorder, agent_metrics, episode_metrics
from coopbench.playing.backends.jobs import Resources
from coopbench.playing.plan import game_of
from coopbench.playing.recording import recorded_episode
from coopbench.playing.rollout import cost, kind, play, title
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Task
from coopbench.provenance import machine, versions
from coopbench.results import store
from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.registration import spec

__all__ = [
    "CLOSE",
    "DIFFERENT",
    "FAILED",
    "IDENTICAL",
    "MISSING",
    "RECORDED",
    "RERUN",
    "Check",
    "CheckJob",
    "Finding",
    "concluded",
    "differences",
    "elsewhere",
    "printable",
]

# Verdicts.
IDENTICAL = "identical"
CLOSE = "equal within tolerance"  # made on another platform, where numbers are rounded otherwise
DIFFERENT = "different"
MISSING = "missing"
FAILED = "failed run"  # of training: there is nothing to play

# How a cell was checked.
RERUN = "all episodes played again"
RECORDED = "recorded episodes played again"

RELATIVE, ABSOLUTE = 1e-6, 1e-9  # differences that another platform may make
_SHOWN = 8  # reasons and episodes that are named
_LONGEST = 400  # characters of a reason


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be."""

    text: str
    close: bool = False  # whether it is within what another platform may do
    step: int | None = None  # first step that differs, from 1
    episodes: tuple[int, ...] = ()  # that differ


@dataclass(frozen=True)
class Check:
    """What became of checking one part of a results folder."""

    what: str  # folder of a cell, or name of a file
    verdict: str
    reasons: tuple[str, ...] = ()
    how: str = ""  # RERUN or RECORDED; empty where nothing was played
    episodes: int = 0  # of the cell
    played: int = 0  # of these, played again
    step: int | None = None  # first step that differs, from 1
    differing: tuple[int, ...] = ()  # first episodes that differ

    @property
    def holds(self) -> bool:
        """Whether nothing differs and nothing is missing."""
        return self.verdict not in (DIFFERENT, MISSING)


def concluded(what: str, findings: Sequence[Finding], elsewhere: str = "", **facts: Any) -> Check:
    """Return the verdict on findings; ``elsewhere`` says in what the platform is another one.

    What differs within tolerance is only excused on another platform.
    """
    reasons = [printable(each.text) for each in findings[:_SHOWN]]
    close = all(each.close for each in findings)
    verdict = IDENTICAL if not findings else CLOSE if close and elsewhere else DIFFERENT
    if findings and elsewhere:
        reasons.append(printable(f"made elsewhere: {elsewhere}"))
    elif findings and close:
        reasons.append("made with these versions on a machine like this: every bit has to agree")
    steps = [each.step for each in findings if each.step is not None]
    episodes = sorted({episode for each in findings for episode in each.episodes})
    ends = min(steps, default=None), tuple(episodes[:_SHOWN])
    return Check(what, verdict, tuple(reasons), step=ends[0], differing=ends[1], **facts)


def printable(text: str) -> str:
    """Return text of strangers as one line that a terminal can show."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + " ..."


@dataclass(frozen=True)
class CheckJob:
    """The check of one stored cell as a value, for a backend; its result is a ``Check``."""

    protocol: Protocol
    stored: store.Stored  # with episodes

    @property
    def cell(self) -> Cell:
        """Which cell it is."""
        return self._block.cell

    @property
    def _block(self) -> Episodes:
        if self.stored.episodes is None:
            raise ValueError("A failed run has no episodes to check.")
        return self.stored.episodes

    @property
    def cost(self) -> float:
        """Like that of playing it."""
        return cost(self.protocol, self.cell)

    @property
    def kind(self) -> str:
        """Name the kernels that the task's environment compiles."""
        return kind(self.protocol, self.cell)

    @property
    def resources(self) -> Resources:
        """One core, as for playing it."""
        return Resources()

    def __str__(self) -> str:
        return title(self.cell)

    def __call__(self, tell: Callable[[float], None] | None) -> Check:
        """Check the cell."""
        try:
            return self._checked(tell)
        except Exception as error:  # whatever the content of a file may lead to
            what = f"cannot be played again: {type(error).__name__}: {error}"
            return concluded(self.cell.folder, [Finding(what)], episodes=len(self._block))

    def _checked(self, tell: Callable[[float], None] | None) -> Check:
        protocol, meta, block = self.protocol, self.stored.meta, self._block
        task = protocol.task_of(block.cell.task)
        findings = [*_declared(protocol, task, block), *_described(protocol, self.stored)]
        if findings:  # what is not of the protocol is not played: it could be of any size
            return concluded(block.cell.folder, findings, episodes=len(block))
        policy, notes = _player(self.stored, task)
        if policy is not None:
            again = play(protocol, block.cell, policy, tell)
            how, played = RERUN, len(block)
            findings = [*_chosen_again(protocol, self.stored), *_compared(block, again)]
        else:
            findings, how = list(_replayed(protocol, task, block)), RECORDED
            played = len(_trace(block).recorded)
        facts = {"how": how, "episodes": len(block), "played": played}
        return concluded(block.cell.folder, [*notes, *findings], elsewhere(meta), **facts)


def _trace(block: Episodes) -> Trace:
    if block.trace is None:
        raise ValueError(f"{block.cell} was not played here: it has no trace.")
    return block.trace


def elsewhere(meta: Mapping[str, Any]) -> str:
    """Return in what the platform of a cell is not this one; empty if in nothing that is known."""
    here = versions() | {"platform": platform.platform()}
    there = {name: meta["versions"].get(name) for name in versions()}
    there["platform"] = meta["platform"]
    if meta.get("machine"):
        here["cpu"], there["cpu"] = str(machine()["cpu"]), str(meta["machine"].get("cpu"))
    return ", ".join(f"{n} {there[n]} (here {v})" for n, v in here.items() if there[n] != v)


def _player(stored: store.Stored, task: Task) -> tuple[Any, list[Finding]]:
    """Policy that can play a cell again, by name or as it is kept, and what is wrong about it.

    A cell with the name of a policy of this package is to be played by that one.
    """
    if stored.episodes is None:
        raise ValueError("A failed run has no policy.")
    cell, plays, known = stored.episodes.cell, stored.meta["plays"], entries()
    if stored.policy is not None and cell.run is not None:
        return stored.policy, list(_alike(stored, stored.policy))
    if plays is None and cell.run is None and cell.policy.partition(":")[0] in known:
        plays = cell.policy
    if plays is None or plays.partition(":")[0] not in known:
        return None, []
    player, findings = stored.policy or plays, []
    if stored.policy is None:
        make_policy(plays, game_of(task))
    elif stored.policy.name != plays.partition(":")[0]:
        findings.append(Finding(f"{POLICY_FILE} was trained by {stored.policy.name!r}"))
    if cell.run is None and plays != cell.policy:
        text = f"meta.json says that {plays!r} plays, but the cell is that of {cell.policy!r}"
        findings.append(Finding(text))
    return player, findings


# --- what must hold without playing ---------------------------------------------------------------


def _alike(stored: store.Stored, policy: TrainedPolicy) -> Iterator[Finding]:
    """How a trained policy is not the one that the metadata describe."""
    meta = stored.meta
    told = {
        "run": (policy.facts["seed"], meta["run"]),
        "hyperparameters": (policy.hyperparameters, meta["hyperparameters"]),
    }
    for name, (found, stated) in told.items():
        if found != stated:
            yield Finding(f"{POLICY_FILE} has the {name} {found!r}; meta.json says {stated!r}")
    learner = str(meta["policy"]).partition(":")[0]
    if learner in learners() and policy.name != learner:
        yield Finding(f"{POLICY_FILE} was trained by {policy.name!r}")
    yield from _coursed(stored, policy)


def _coursed(stored: store.Stored, policy: TrainedPolicy) -> Iterator[Finding]:
    """How the training that the metadata tell of is not that of the policy and its checkpoints."""
    facts, progress = stored.meta["training"], stored.progress
    told = {name: facts.get(name) for name in ("steps", "interval", "chosen_step")}
    if not all(type(number) is int and number > 0 for number in told.values()):
        yield Finding(f"meta.json tells of a training with {told}; allowed: whole numbers > 0")
        return
    steps, interval, chosen = told.values()
    if steps % interval or chosen % interval or chosen > steps:
        yield Finding(f"meta.json tells of a training with {told}, which do not fit together")
    if not chosen - interval < policy.facts["steps"] <= chosen:
        had = policy.facts["steps"]
        yield Finding(
            f"{POLICY_FILE} was trained for {had!r} steps; meta.json chose that of {chosen}"
        )
    if progress is None:
        return
    marks = range(interval, steps + 1, interval)
    if len(progress.steps) != len(marks) or (progress.steps != np.array(marks)).any():
        yield Finding(f"the checkpoints are not every {interval} of {steps} steps")
    if chosen != stored.meta["chosen_step"]:
        yield Finding(f"meta.json names two checkpoints, {chosen} and {stored.meta['chosen_step']}")


def _chosen_again(protocol: Protocol, stored: store.Stored) -> Iterator[Finding]:
    """How the checkpoint that was chosen plays the selection episodes otherwise than it did.

    Of the other checkpoints the policies are not kept.
    """
    progress, selection = stored.progress, protocol.seeds.selection
    if stored.policy is None or progress is None or selection is None:
        return
    seeds = np.array(selection.seeds, np.uint64)
    again = play(protocol, progress.cell, stored.policy, seeds=seeds)
    for name, found in progress.metrics.items():
        same, near = _agreement(found[progress.best], values(again, name))
        if not same.all():
            what = f"{name} of the selection episodes is not what was kept"
            yield Finding(what, close=bool(near.all()))


def _declared(protocol: Protocol, task: Task, block: Episodes) -> Iterator[Finding]:
    """How episodes are not those of the protocol."""
    if len(block) != protocol.episodes(task):
        yield Finding(f"{len(block)} episodes; the protocol has {protocol.episodes(task)}")
        return
    game = game_of(task)
    if block.agents != game.agents:
        yield Finding(f"the agents are {block.agents}; those of the game are {game.agents}")
        return
    numbers = range(len(block))
    asked = {
        "seeds": protocol.seeds_of(task),
        "seats": task.seating(len(block), game.agents) == OWN,
    }
    yield from differences({name: getattr(block, name) for name in asked}, asked, numbers)
    horizon = int(game.constants.horizon)
    ends = block.lengths
    early = (ends < 1) | (ends > horizon) | (~block.terminated & (ends < horizon))
    if early.any():
        k = int(np.flatnonzero(early)[0])
        what = f"episode {k} has {ends[k]} steps and was {'' if block.terminated[k] else 'not '}"
        yield Finding(f"{what}terminated; the horizon is {horizon}", episodes=(k,))
        return
    yield from _shaped(task, block, int(ends.max()))


def _shaped(task: Task, block: Episodes, longest: int) -> Iterator[Finding]:
    """How arrays are not those of the game, or do not fit each other."""
    found, measured = spec(task.env), list(spec(task.env).metrics)
    names = {
        "metrics": (list(block.metrics), [*measured, *episode_metrics(found)]),
        "metrics of agents": (list(block.agent_metrics), list(agent_metrics(found))),
        "curves": (list(block.curves), measured),
    }
    for what, (given, asked) in names.items():
        if given != asked:
            yield Finding(f"the {what} are {given}; those of the game are {asked}")
            return
    steps = _trace(block).steps
    if steps.shape != (longest,) or steps.dtype != np.uint64:
        yield Finding(f"there are checksums of {steps.shape} steps; the longest has {longest}")
    for name, course in block.curves.items():
        if course.shape != (longest + 1,):
            yield Finding(f"the curve of {name} has {course.size} points; allowed: {longest + 1}")
        elif not np.isclose(course[-1], block.metrics[name].mean(), RELATIVE, ABSOLUTE, True):
            mean = block.metrics[name].mean()
            yield Finding(f"the curve of {name} ends at {course[-1]}; its mean is {mean}")


def _described(protocol: Protocol, stored: store.Stored) -> Iterator[Finding]:
    """How the metadata of a cell do not fit its protocol and its checkpoints."""
    meta, progress = stored.meta, stored.progress
    if meta["protocol"] != protocol.name:
        yield Finding(f"meta.json names the protocol {meta['protocol']!r}; it is {protocol.name!r}")
    if not isinstance(meta["platform"], str) or not isinstance(meta["versions"], dict):
        yield Finding("meta.json does not say on what platform, with what versions it was made")
    if meta["run"] is not None and stored.policy is None and POLICY_FILE in meta["sha256"]:
        yield Finding(f"there is a {POLICY_FILE}, but meta.json tells of no training")
    if progress is not None:
        yield from _progressed(protocol, progress, meta["chosen_step"])


def _progressed(protocol: Protocol, progress: Progress, chosen: Any) -> Iterator[Finding]:
    """How checkpoints are not those of the protocol, or the wrong one was chosen."""
    selection, steps = protocol.seeds.selection, progress.steps
    if selection is None or progress.cell.run is None:
        yield Finding("there are checkpoints, but no selection seeds or no training run")
        return
    task = protocol.task_of(progress.cell.task)
    wanted = list(dict.fromkeys(("return", *protocol.metrics_of(task))))
    if list(progress.metrics) != wanted:
        yield Finding(f"checkpoints have the metrics {list(progress.metrics)}; allowed: {wanted}")
    for name, found in progress.metrics.items():
        if found.shape != (len(steps), selection.count) or found.dtype != np.float64:
            yield Finding(f"{name} of checkpoints is {found.shape} of {found.dtype}")
            return
    if steps.dtype != np.int64 or not (np.diff(steps) > 0).all() or steps[0] < 0:
        yield Finding("the steps of the checkpoints do not rise")
    best = int(steps[progress.best])
    if type(chosen) is not int or chosen != best:
        yield Finding(f"the checkpoint of step {chosen} was chosen; the best is that of {best}")


# --- what can be played again ---------------------------------------------------------------------


def _compared(block: Episodes, again: Episodes) -> Iterator[Finding]:
    """Differences between all that is stored of a cell and the same played again."""
    one, two = _trace(block), _trace(again)
    yield from _hashes(one.episodes, two.episodes, range(len(block)))
    common = min(len(one.steps), len(two.steps))
    if len(one.steps) != len(two.steps) or (one.steps != two.steps).any():
        apart = np.flatnonzero(one.steps[:common] != two.steps[:common])
        step = int(apart[0]) + 1 if len(apart) else common + 1
        same = len(one.steps) == len(two.steps)
        yield Finding(f"the checksum of step {step} differs", close=same, step=step)
    yield from differences(_columns(block), _columns(again), range(len(block)))
    yield from differences(_others(block), _others(again), None)


def _hashes(one: Sequence[str], two: Sequence[str], episodes: Sequence[int]) -> Iterator[Finding]:
    apart = [k for k, a, b in zip(episodes, one, two, strict=True) if a != b]
    if apart:
        text = f"the trajectory of episode {apart[0]} is another one ({len(apart)} in all)"
        yield Finding(text, close=True, episodes=tuple(apart))


def _columns(block: Episodes) -> dict[str, np.ndarray]:
    """Everything that has a value for each episode."""
    names = ("seeds", "lengths", "terminated", "seats", "returns")
    own = {f"{name} of agents": found for name, found in block.agent_metrics.items()}
    return {name: getattr(block, name) for name in names} | block.metrics | own


def _others(block: Episodes) -> dict[str, np.ndarray]:
    """Curves, and the course of the recorded episodes."""
    found = {f"the curve of {name}": course for name, course in block.curves.items()}
    for k, (actions, rewards) in _trace(block).recorded.items():
        found |= {f"actions of episode {k}": actions, f"rewards of episode {k}": rewards}
    return found


def differences(
    stored: Mapping[str, np.ndarray],
    again: Mapping[str, np.ndarray],
    episodes: Sequence[int] | None,
) -> Iterator[Finding]:
    """Differences between arrays of the same names; ``episodes`` are the numbers along axis 0."""
    if set(stored) != set(again):
        odd = sorted(set(stored) ^ set(again))
        yield Finding(f"{', '.join(odd)}: not in both of what is stored and what was played")
    for name in (name for name in stored if name in again):
        one, two = stored[name], again[name]
        if one.shape != two.shape or one.dtype != two.dtype:
            yield Finding(f"{name}: {one.shape} of {one.dtype} instead of {two.shape}, {two.dtype}")
            continue
        same, near = _agreement(one, two)
        if not same.all():
            places = np.argwhere(~near if not near.all() else ~same)
            first = tuple(int(index) for index in places[0])
            rows = np.unique(np.argwhere(~same)[:, 0])
            apart = () if episodes is None else tuple(int(episodes[k]) for k in rows)
            where = apart[:1] + first[1:] if apart else first
            at = ", ".join(map(str, where))
            text = f"{name}[{at}] is {one[first]}; played again it is {two[first]}"
            yield Finding(text, close=bool(near.all()), episodes=apart)


def _agreement(one: np.ndarray, two: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where two arrays are the same, and where they are the same within tolerance."""
    if one.dtype.kind != "f":
        return one == two, one == two
    same = (one == two) & (np.signbit(one) == np.signbit(two)) | (np.isnan(one) & np.isnan(two))
    with np.errstate(over="ignore"):
        return same, same | np.isclose(one, two, RELATIVE, ABSOLUTE)


def _replayed(protocol: Protocol, task: Task, block: Episodes) -> Iterator[Finding]:
    """Differences between the recorded episodes and the same played again from their actions."""
    recorded = _trace(block).recorded
    numbers = list(recorded)
    if len(numbers) == 1 and len(block) > 1:
        numbers *= 2  # numpy adds up a single lane in another order: the last bits would differ
    engine = Engine(task.env, len(numbers), **task.parameters)
    width, agents = engine.actions.shape[1:], len(block.agents)
    asked = extremes(values(block, protocol.report.score)[: recordable(engine, len(block))])
    if tuple(recorded) != asked:
        yield Finding(f"the episodes {tuple(recorded)} are recorded; it should be {asked}")
        return
    for k in recorded:
        steps, actions, rewards = int(block.lengths[k]), *recorded[k]
        shapes = actions.shape == (steps, *width) and rewards.shape == (steps, agents)
        kinds = actions.dtype == engine.actions.dtype and rewards.dtype == np.float64
        if not (shapes and kinds):
            given = f"{actions.shape} of {actions.dtype}, {rewards.shape} of {rewards.dtype}"
            yield Finding(f"episode {k} is recorded as {given}", episodes=(k,))
            return
    starts = [recorded_episode(protocol, block, k).start for k in numbers]
    state = {name: np.stack([start[name] for start in starts]) for name in starts[0]}
    engine.reset(block.seeds[numbers], state=state)
    yield from _followed(task, block, engine, numbers)


def _followed(task: Task, block: Episodes, engine: Engine, numbers: list[int]) -> Iterator[Finding]:
    """Play recorded actions in an engine that has been reset; compare what comes of them."""
    recorded, control = _trace(block).recorded, engine.control
    recorder, prints = Recorder(engine), Fingerprints(engine)
    partners = _Partners(task, engine, numbers)
    recorder.note()
    for step in range(int(block.lengths[numbers].max())):
        lanes = [lane for lane, k in enumerate(numbers) if step < block.lengths[k]]
        joint = np.zeros_like(engine.actions)
        for lane in lanes:
            joint[lane] = recorded[numbers[lane]][0][step]
        yield from partners.compared(joint, lanes, step)
        engine.step(joint, DISABLED)
        recorder.note()
        prints.note()
        for lane in lanes:
            rewards = recorded[numbers[lane]][1][step]
            yield from _rewarded(numbers[lane], step, rewards, control.rewards[lane])
    over = control.done & (engine.state.time == block.lengths[numbers])
    if not over.all():
        k = numbers[int(np.flatnonzero(~over)[0])]
        yield Finding(f"episode {k} does not end with step {block.lengths[k]}", episodes=(k,))
        return
    again = _outcome(engine, recorder)
    stored = {name: found[numbers] for name, found in _columns(block).items() if name in again}
    yield from differences(stored, again, numbers)
    hashes = prints.trace(np.zeros(len(numbers)), block.lengths[numbers]).episodes
    yield from _hashes([_trace(block).episodes[k] for k in numbers], hashes, numbers)


def _outcome(engine: Engine, recorder: Recorder) -> dict[str, np.ndarray]:
    """What the episodes of an engine came to, under the names of ``_columns``."""
    control = engine.control
    return {
        "returns": control.returns,
        "terminated": control.ended,
        **dict(zip(engine.spec.metrics, control.measures.T, strict=True)),
        **recorder.metrics(),
        **{f"{name} of agents": found for name, found in recorder.agent_metrics().items()},
    }


class _Partners:
    """The partners of a task, who are known by name: what they do need not be believed either."""

    def __init__(self, task: Task, engine: Engine, numbers: list[int]) -> None:
        seats = task.seating(max(numbers) + 1, engine.agents)
        self._engine, self._numbers, self._seats = engine, numbers, seats[numbers]
        self._players = [Player(name, Game.of(engine)) for name in task.partner_names]
        begin_players(engine, self._players, first=1)  # stream 0 is the policy's

    def compared(self, joint: np.ndarray, lanes: list[int], step: int) -> Iterator[Finding]:
        """Compare what they do now with their part of recorded actions."""
        for number, player in enumerate(self._players):
            control = self._engine.control
            acts = player.act(control.obs, self._engine.view(), control.masks)
            for lane in lanes:
                theirs = self._seats[lane] == number
                same, near = _agreement(joint[lane][theirs], acts[lane][theirs])
                if not same.all():
                    k = self._numbers[lane]
                    text = (
                        f"partner {player.label} did not act so in step {step + 1} of episode {k}"
                    )
                    yield Finding(text, bool(near.all()), step + 1, (k,))


def _rewarded(k: int, step: int, stored: np.ndarray, again: np.ndarray) -> Iterator[Finding]:
    same, near = _agreement(stored, again)
    if not same.all():
        text = f"the rewards of step {step + 1} of episode {k} are {stored}; again {again}"
        yield Finding(text, close=bool(near.all()), step=step + 1, episodes=(k,))
