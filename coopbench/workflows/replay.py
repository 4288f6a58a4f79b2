"""Replay: the episode that an address names, played again or read from its file."""

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import coopbench_envs
from coopbench.baselines.game import Game
from coopbench.baselines.match import seating
from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.baselines.registry import make_policy, reads_file
from coopbench.episodes.actions import Actions, largest
from coopbench.episodes.table import Cell, Episodes
from coopbench.errors import DamagedResultError, ProtocolError, ReplayError
from coopbench.files import write_bytes
from coopbench.playing import recording
from coopbench.playing.contestants import PolicyLike, loaded_policy, name_of
from coopbench.playing.plan import game_of
from coopbench.playing.recording import Recording, check_place, play
from coopbench.playing.rollout import play_again
from coopbench.protocol.loading import find_protocol
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.gif import as_gif, check_options
from coopbench.report.player import as_html, chosen_options
from coopbench.results import store
from coopbench.results.folder import is_results_folder
from coopbench.results.manifest import cell_folders
from coopbench.results.protocol_file import read_protocol
from coopbench.workflows.episode_diff import differences
from coopbench_envs.engine import Engine
from coopbench_envs.foreign_names import is_foreign
from coopbench_envs.parameters import named
from coopbench_envs.shells.common import seed_of


class Episode(Recording):
    """A recording that draws itself.

    ``play`` goes through it, ``save`` writes it as data, ``to_html`` and ``to_gif`` show it.
    """

    @classmethod
    def of(cls, recorded: Recording) -> "Episode":
        """Return the same episode, so that it can be shown."""
        return cls(**vars(recorded))

    def _repr_html_(self) -> str:
        """Play the episode in a notebook, in a frame of its own."""
        page = escape(as_html(self))
        style = "border: 1px solid #d0d7de"  # a long page is scrolled in the frame
        return f'<iframe srcdoc="{page}" width="100%" height="560" style="{style}"></iframe>'

    def to_html(self, path: str | Path, *, sight: bool = False) -> Path:
        """Write the player of the episode, one HTML file that needs nothing else.

        With ``sight`` it begins by showing what agents see; ``ValueError`` for a game whose
        pictures do not show that.
        """
        write_bytes(Path(path), as_html(self, sight=sight).encode())
        return Path(path)

    def to_gif(self, path: str | Path, **options: Any) -> Path:
        """Write the episode as an animated GIF; ``options`` are those of ``as_gif``."""
        write_bytes(Path(path), as_gif(self, **options).content)
        return Path(path)


def play_episode(
    env_id: str,
    policy: PolicyLike,
    seed: int = 0,
    path: str | Path | None = None,
    **parameters: Any,
) -> Episode:
    """Play one episode with ``policy`` in every seat and return it; with ``path``, write it too.

    ``policy`` is a name, a callable on batches or an object with ``act``, as in ``evaluate``; the
    episode is the first one of the environment seeded ``seed``.
    """
    number = int(seed_of(seed)[0])
    if path is not None:
        check_place(Path(path))
        if Path(path).suffix != ".npz":
            raise ReplayError(f"{path} is to end in .npz, by which a recording is found again.")
    policy = loaded_policy(policy)
    if isinstance(policy, str):  # errors are raised before the environment is compiled
        make_policy(policy, Game.at(env_id, **parameters))
    engine = Engine(env_id, **parameters)
    seats = seating(1, len(engine.agents), 0)
    title = f"{engine.spec.name}, {name_of(policy)}, seed {seed}"
    episode = Episode.of(play(engine, [policy], seats, number, {}, title, {}))
    if path is not None:
        episode.save(path)
    return episode


class _Address(NamedTuple):
    """The last parts of an address, TASK/POLICY/K."""

    task: str
    policy: str  # may hold slashes: a file's name, or the run of a learned policy
    episode: str


def find_episode(address: str | Path) -> Episode:
    """Return the episode that ``address`` names.

    Addresses are:

    - ``FILE.npz``: a file that ``coopbench.play_episode`` wrote;
    - ``FOLDER/TASK/POLICY/K``: episode K (from 0) in a results folder, which must be reproduced
      exactly;
    - ``PROTOCOL/TASK/POLICY/K``: episode K of a protocol, given by its name, a .toml file or an
      environment; the policy may be code, ``FILE.py:NAME``, which is executed.

    Raises:
        ReplayError: there is no such episode, or it cannot be reproduced.
        ValueError: a part of the address does not exist; the message names the nearest.
        FileNotFoundError: there is no such file or folder.
    """
    return Episode.of(_recording(str(address)))


def _recording(text: str) -> Recording:
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
    spaces = {"coopbench", *(env_id.partition("/")[0] for env_id in coopbench_envs.ids())}
    count = 2 if parts[0] in spaces else 1  # the namespace of an environment
    name = "/".join(parts[:count])
    if Path(name or "/").is_dir():
        raise FileNotFoundError(f"{text} is in no results folder: there is no protocol.json above.")
    return _from_protocol(name, _parsed(text, parts[count:]))


def show(address: str, files: Sequence[Path], stride: int | None, sight: bool) -> Iterator[str]:
    """Write a page, a GIF or a recording of an episode, by the ending of a file; yield lines on it.

    Without ``files`` a page is written that is named like the episode: into the results folder that
    the address begins with, or else into the working directory. Paths and options are checked
    before the episode is played.
    """
    for path in files or (Path("episode.html"),):
        recording.check_place(path)
        if path.suffix not in (".html", ".gif", ".npz"):
            raise ReplayError(f"{path} is to end in .html, .gif or .npz, which says what to write.")
    if stride is not None and not any(path.suffix == ".gif" for path in files):
        raise ReplayError(
            "--stride is of animations; name one with --out FILE.gif, or leave it out."
        )
    check_options(1, stride)
    episode = find_episode(address)
    chosen_options(episode, sight)
    yield f"{episode.title}: {len(episode)} steps, return {episode.team_return:.6g}"
    for path in files or (_results_folder(address) / f"{episode.name}.html",):
        if path.suffix == ".npz":
            yield f"Episode: {episode.save(path)}"
        elif path.suffix == ".html":
            yield f"Page: {episode.to_html(path, sight=sight)}"
        else:
            drawn = as_gif(episode, stride=stride, sight=sight)
            write_bytes(path, drawn.content)
            size = f"{len(drawn.content) / 1e6:.1f} MB"
            yield f"GIF: {path}, {drawn.pictures} pictures, stride {drawn.stride}, {size}"


def _results_folder(text: str) -> Path:
    """Return the results folder that an address begins with, or else the working directory."""
    return next((p for p in reversed(Path(text).parents) if is_results_folder(p)), Path())


def _parsed(text: str, parts: list[str]) -> _Address:
    if len(parts) < 3:
        raise _misspelt(text)
    return _Address(parts[0], "/".join(parts[1:-1]), parts[-1])


def _misspelt(text: str) -> ReplayError:
    return ReplayError(
        f"An episode is named FOLDER/TASK/POLICY/K or PROTOCOL/TASK/POLICY/K with K counted from "
        f"0, or by a file ending in .npz; given {text!r}."
    )


def _drawn(task: Task) -> Task:
    """Return a task whose episodes can be shown; raise ``ReplayError`` for any other."""
    if is_foreign(task.env):
        raise ReplayError(
            f"Task {task.id!r} is played in {task.env}, an environment of another package, whose "
            f"episodes cannot be shown here; allowed: environments of this package and registered "
            f"ones."
        )
    return task


def _from_protocol(name: str, address: _Address) -> Recording:
    protocol = _protocol(name)
    task = _drawn(protocol.task_of(address.task))
    policy = loaded_policy(address.policy)
    if isinstance(policy, str):
        make_policy(policy, game_of(task.as_played_by(policy)))
    k = _number(address.episode, protocol.episodes(task), task.id)
    cell = Cell(task.id, name_of(policy))
    played, _ = play_again(protocol, cell, policy, [k], [k])
    return recording.episode_of(protocol, cell, k, *played.own_trace.recorded[0])


def _protocol(name: str) -> Protocol:
    try:
        return find_protocol(name)
    except ProtocolError as error:
        if name.endswith(".toml"):
            raise
        raise ReplayError(f"{error} There is no results folder {name} either.") from None


def _from_results(root: Path, address: _Address) -> Recording:
    protocol = read_protocol(root)
    task = _drawn(protocol.task_of(address.task))
    cell, stored = _stored(root, protocol, task, address.policy)
    task = task.as_played_by(cell.policy)
    if stored.episodes is None:
        raise ReplayError(f"{root / cell.folder} is a training run that failed.")
    block = stored.episodes
    k = _number(address.episode, len(block), f"{task.id} in {root}")
    policy = stored.policy or _named(stored)
    if policy is not None:
        _check_stored(policy, task)
    elif k in block.own_trace.recorded:
        return recording.episode_of(protocol, cell, k, *block.own_trace.recorded[k])
    actor = policy or _actions(stored, block, k, task)
    again, _ = play_again(protocol, cell, actor, [k], [k])
    columns = ("returns", "lengths", "terminated")
    stated = {name: getattr(block, name)[[k]] for name in columns}
    now = {name: getattr(again, name) for name in columns}
    for discrepancy in differences(stated, now, [k]):
        raise ReplayError(
            f"Episode {k} of {root / cell.folder} could not be reproduced: {discrepancy.text}. The "
            f"policy or a version has changed since (meta.json names them); evaluate again into "
            f"another folder."
        )
    return recording.episode_of(protocol, cell, k, *again.own_trace.recorded[0])


def _named(stored: store.Stored) -> str | None:
    """Return the name from which the policy of a cell is made; None if it is not made of one.

    A name with a file is not: the folder, which may be a stranger's, would choose what is read.
    """
    name: str | None = stored.meta["plays"]
    return None if name is None or reads_file(name) else name


def _stored(root: Path, protocol: Protocol, task: Task, policy: str) -> tuple[Cell, store.Stored]:
    """Return the cell of a task that was played by ``policy``: its name, or its folder's."""
    try:
        places = [place for place in cell_folders(root) if place.startswith(f"{task.id}/")]
        cells = [store.cell_of(root / place / "meta.json") for place in places]
        by_folder = {cell.folder.removeprefix(f"{task.id}/"): cell for cell in cells}
        by_name = {
            cell.policy if cell.run is None else folder: cell for folder, cell in by_folder.items()
        }
        names = by_folder if policy in by_folder else by_name
        cell = named("policy", policy, names, str(root / task.id))
        stored = store.read(root, protocol, cell)
    except DamagedResultError as error:
        raise ReplayError(str(error)) from None
    if stored is None:
        raise ReplayError(f"{root / cell.folder} holds no finished cell; evaluate it again.")
    return cell, stored


def _number(text: str, episodes: int, where: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < episodes):
        raise ReplayError(
            f"Episode {text!r} of {where} does not exist; allowed: 0 to {episodes - 1}."
        )
    return int(text)


def _actions(stored: store.Stored, block: Episodes, k: int, task: Task) -> Actions:
    """Return the stored actions of a policy in episode k; raise ``ReplayError`` without them."""
    game, longest = game_of(task), int(block.lengths.max())
    width = len(game.agents) * int(np.prod(game.action_space.shape or ()))
    try:
        actions = store.read_actions(stored, largest(len(block), longest, width))
    except DamagedResultError as error:
        raise ReplayError(str(error)) from None
    if actions is None or k not in actions.episodes:
        raise ReplayError(
            f"Results do not keep the policy {block.cell.policy!r} itself, and not the actions of "
            f"episode {k}. Use coopbench.play_episode."
        )
    place = int(np.searchsorted(actions.episodes, k))
    return Actions(actions.episodes[[place]], actions.joint[[place]])


def _check_stored(plays: str | TrainedPolicy, task: Task) -> None:
    """Raise ``ReplayError`` if a stored policy does not exist any more or is another game's."""
    try:
        if isinstance(plays, str):
            make_policy(plays, game_of(task))
        else:
            plays.check(game_of(task))
    except ValueError as error:
        raise ReplayError(f"The policy {plays!r} cannot be made from its name. ({error})") from None
