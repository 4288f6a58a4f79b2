"""Replay: the episode that an address names, played again, or read from its file.

FILE.npz                what ``coopbench.record`` wrote
FOLDER/TASK/POLICY/K    episode K (from 0) in a results folder; must come out as it did there
PROTOCOL/TASK/POLICY/K  episode K of a protocol: a name, a .toml file, or an environment
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.match import OWN
from coopbench.baselines.registry import make_policy
from coopbench.episodes.table import Cell, Episodes
from coopbench.errors import DamagedResultError, ProtocolError, ReplayError
from coopbench.files import write_bytes
from coopbench.playing import recording
from coopbench.playing.plan import game_of
from coopbench.playing.recording import Recording
from coopbench.protocol.instances import instance_state
from coopbench.protocol.loading import find_protocol
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Task
from coopbench.results import store
from coopbench_envs.engine import Engine
from coopbench_envs.parameters import named

__all__ = ["find_episode", "recorded_episode", "show"]


class _Address(NamedTuple):
    """The parts of TASK/POLICY/K behind the place that holds the task."""

    task: str
    policy: str  # may hold slashes: a file's name, or the run of a learned policy
    episode: str


def find_episode(address: str | Path) -> Recording:
    """Return the episode that ``address`` names, as the module describes.

    Raises:
        ReplayError: there is no such episode, or it does not come out as recorded.
        ValueError: a part of the address is not known; the message names the nearest.
        FileNotFoundError: there is no such file or folder.
    """
    text = str(address)
    if text.endswith(".npz"):
        return recording.load(text)
    parts = text.rstrip("/").split("/")
    if len(parts) < 4:
        raise _misspelt(text)
    for count in range(1, len(parts) + 1):
        place = Path("/".join(parts[:count]) or "/")
        if (place / "protocol.json").is_file():
            return _from_results(place, _parsed(text, parts[count:]))
        if place.suffix == ".toml":
            return _from_protocol(str(place), _parsed(text, parts[count:]))
    count = 2 if parts[0] == "coopbench" else 1  # the namespace of an environment
    name = "/".join(parts[:count])
    if Path(name or "/").is_dir():
        raise FileNotFoundError(f"{text} is in no results folder: there is no protocol.json above.")
    return _from_protocol(name, _parsed(text, parts[count:]))


def show(
    address: str,
    html: Path | None,
    gif: Path | None,
    save: Path | None,
    stride: int | None,
    fps: float,
    side: int,
) -> Iterator[str]:
    """Write the files that are asked for, by default a page; yield a line about each.

    Places and options are checked before the episode is played.
    """
    from coopbench.report.gif import as_gif, check_options

    asked = {".html": html, ".gif": gif, ".npz": save}
    files = {ending: path for ending, path in asked.items() if path is not None}
    files = files or {".html": Path("episode.html")}
    for ending, path in files.items():
        recording.check_place(path)
        if path.suffix != ending:
            raise ReplayError(f"{path} is to be a {ending} file; end its name in {ending}.")
    check_options(1, stride, fps, side)
    found = find_episode(address)
    yield f"{found.title}: {len(found)} steps, return {found.rewards.sum():.6g}"
    if save is not None:
        yield f"Episode: {found.save(save)}"
    if ".html" in files:
        yield f"Page: {found.to_html(html or Path(f'{found.name}.html'))}"
    if gif is not None:
        drawn = as_gif(found, stride=stride, fps=fps, side=side)
        write_bytes(gif, drawn.content)
        size = f"{len(drawn.content) / 1e6:.1f} MB"
        yield f"GIF: {gif}, {drawn.pictures} pictures, stride {drawn.stride}, {size}"


def _parsed(text: str, parts: list[str]) -> _Address:
    if len(parts) < 3:
        raise _misspelt(text)
    return _Address(parts[0], "/".join(parts[1:-1]), parts[-1])


def _misspelt(text: str) -> ReplayError:
    return ReplayError(
        f"An episode is written FOLDER/TASK/POLICY/K or PROTOCOL/TASK/POLICY/K with K counted from "
        f"0, or is a file ending in .npz; given {text!r}."
    )


def _from_protocol(name: str, address: _Address) -> Recording:
    protocol = _protocol(name)
    task = protocol.task_of(address.task)
    make_policy(address.policy, game_of(task))
    k = _number(address.episode, protocol.episodes(task), task.id)
    seed = protocol.seeds_of(task)[k]
    return _played(protocol, Cell(task.id, address.policy), address.policy, task, k, seed)[0]


def _protocol(name: str) -> Protocol:
    try:
        return find_protocol(name)
    except ProtocolError as error:
        if name.endswith(".toml"):
            raise
        raise ReplayError(f"{error} There is no results folder {name} either.") from None


def _from_results(root: Path, address: _Address) -> Recording:
    protocol = store.read_protocol(root / "protocol.json")
    task = protocol.task_of(address.task)
    try:
        cells = [store.cell_of(file) for file in sorted((root / task.id).glob("**/meta.json"))]
        table = {cell.folder.removeprefix(f"{task.id}/"): cell for cell in cells}
        names = {cell.policy if cell.run is None else place: cell for place, cell in table.items()}
        known = table if address.policy in table else names
        cell = named("policy", address.policy, known, str(root / task.id))
        found = store.read(root, protocol, cell)
    except DamagedResultError as error:
        raise ReplayError(str(error)) from None
    if found is None:
        raise ReplayError(f"{root / cell.folder} holds no finished cell; evaluate it again.")
    if found.episodes is None:
        raise ReplayError(f"{root / cell.folder} is a training run that failed.")
    block, plays = found.episodes, found.policy or found.meta["plays"]
    k = _number(address.episode, len(block), f"{task.id} in {root}")
    if plays is None:
        return recorded_episode(protocol, block, k)
    _check_stored(plays, task)
    played, outcome = _played(protocol, cell, plays, task, k, block.seeds[k])
    _compare(block, k, outcome, str(root / cell.folder))
    return played


def recorded_episode(protocol: Protocol, block: Episodes, k: int) -> Recording:
    """Return episode k of a cell from its recorded actions.

    Raises ``ReplayError`` if they have not been recorded.
    """
    cell, recorded = block.cell, {} if block.trace is None else block.trace.recorded
    if k not in recorded:
        there = " and ".join(map(str, recorded)) or "none"
        raise ReplayError(
            f"Results do not keep the policy {cell.policy!r} itself, and of its episodes only the "
            f"actions of some; allowed: {there}. For others use coopbench.record."
        )
    task = protocol.task_of(cell.task)
    game = game_of(task)
    states = instance_state(task, game.constants, k + 1) or {}
    seats = task.seating(k + 1, game.agents)[k]
    actions, rewards = recorded[k]
    return Recording(
        title=_title(cell, k),
        env=game.env_id,
        parameters=game.parameters._asdict(),
        seed=int(block.seeds[k]),
        agents=game.agents,
        players=tuple(cell.policy if s == OWN else task.partner_names[s] for s in seats),
        start={name: np.asarray(values)[k] for name, values in states.items()},
        actions=actions,
        rewards=rewards,
        about={"protocol": protocol.name, "task": task.id, "episode": str(k)},
    )


def _title(cell: Cell, k: int) -> str:
    run = "" if cell.run is None else f" run {cell.run},"
    return f"{cell.task}, {cell.policy},{run} episode {k}"


def _number(text: str, episodes: int, where: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < episodes):
        raise ReplayError(
            f"Episode {text!r} of {where} does not exist; allowed: 0 to {episodes - 1}."
        )
    return int(text)


def _check_stored(plays: Any, task: Task) -> None:
    """Raise ``ReplayError`` if the policy is not there any more, or is another game's."""
    try:
        if isinstance(plays, str):
            make_policy(plays, game_of(task))
        else:
            plays.check(game_of(task))
    except ValueError as error:
        raise ReplayError(f"The policy {plays!r} cannot be made from its name. ({error})") from None


def _played(
    protocol: Protocol, cell: Cell, plays: Any, task: Task, k: int, seed: np.uint64
) -> tuple[Recording, Mapping[str, Any]]:
    """Play episode k of a cell alone: it depends on its seed, not on those beside it."""
    engine = Engine(task.env, **task.parameters)
    states = instance_state(task, engine.constants, k + 1) or {}
    played = recording.play(
        engine,
        [plays, *task.partner_names],
        task.seating(k + 1, engine.agents)[k:],
        int(seed),
        {name: np.asarray(values)[k] for name, values in states.items()},
        _title(cell, k),
        {"protocol": protocol.name, "task": task.id, "episode": str(k)},
    )
    outcome = {
        "returns": engine.control.returns[0].copy(),
        "lengths": engine.state.time[0],
        "terminated": engine.control.ended[0],
    }
    return played, outcome


def _compare(block: Episodes, k: int, outcome: Mapping[str, Any], where: str) -> None:
    """Raise ``ReplayError`` unless the episode came out as recorded, bit for bit."""
    for name, value in outcome.items():
        recorded = getattr(block, name)[k]
        if not np.array_equal(recorded, value, equal_nan=True):
            raise ReplayError(
                f"Episode {k} of {where} could not be reproduced: {name} were {recorded} there and "
                f"are {value} now. The policy or a version has changed since (meta.json names "
                f"them); evaluate again into another folder."
            )
